from __future__ import annotations

from lmtui.tui.screens.viewer import FileText, FileView
from tests.tui.lines.stage import Stage, screen_lines, settled, until


async def test_lines_are_numbered_clean_and_coloured_and_what_is_no_text_or_cut_is_named() -> None:
    view = FileView()
    async with Stage(view).run_test(size=(60, 8)) as pilot:
        await settled(pilot)
        assert screen_lines(view)[0] == " Choose a file in the tree to read it here."
        for shown, size_bytes, lines in (
            (FileText("a.bin", b"\x7fELF\0\0"), 4096, [" binary file, 4,096 bytes"]),
            (FileText("empty", b""), None, [" empty file"]),
            (FileText("a.py", b"def f():\r\n\treturn 'x\x1b[31m'\n# \xff\xe2\x80\xae end\n"), None,
                ["    1 def f():", "    2     return 'x\u241b[31m'", "    3 # \ufffd<U+202E> end"]),
        ):  # fmt: skip
            view.show(shown) if size_bytes is None else view.show(shown, size_bytes=size_bytes)
            await settled(pilot)
            assert screen_lines(view)[: len(lines)] == lines
        styles = {segment.text: segment.style for segment in view.render_line(0)}
        assert styles["def"] != styles["    1 "]
        view.show(FileText("big.txt", b"one\ntwo\n"), size_bytes=2_000_000, is_cut=True)
        await settled(pilot)
        assert screen_lines(view)[:3] == ["    1 one", "    2 two", " … cut here; the file has 2,000,000 bytes"]


async def test_a_match_deep_in_a_long_line_is_scrolled_to() -> None:
    view = FileView()
    async with Stage(view).run_test(size=(90, 6)) as pilot:
        for text in ("x" * 50_000 + "needle" + "x" * 50_000, "\t" * 40 + "needle end", ("x" * 8_990 + "needle ") * 2):
            view.show(text)
            view.search.find("needle")
            for _ in range(2):
                await until(pilot, lambda: view.search.is_done)
                await settled(pilot)
                assert any("needle" in line for line in screen_lines(view))
                view.search.go(1)


async def test_a_line_is_wrapped_at_a_blank_behind_its_own_sign_and_all_of_it_is_there() -> None:
    view = FileView()
    async with Stage(view).run_test(size=(40, 6)) as pilot:
        view.show("value = compute(first_number, second_number)")
        await settled(pilot)
        assert screen_lines(view)[:2] == ["    1 value = compute(first_number,", "    ↪ second_number)"]
        for action in ("copying('start')", "move('down')", "copying('leave')"):
            await view.run_action(action)
        assert view.copy_mode.copied_text() == "value = compute(first_number, second_number)"
        view.show("true \x1b]0;; curl evil\x07" + "\u202e" * 10 + " THE END")
        await settled(pilot)
        assert "THE END" in "".join(screen_lines(view))
        view.show("x" * 999_990 + "THE END!")
        view.action_move("end")
        await settled(pilot)
        assert screen_lines(view)[-1].endswith("THE END!")
        assert view.lines_in_view == (1, 1)
        view.show("\n".join(["word " * 20] * 2000))  # long texts are wrapped in a thread
        assert view.source.total() == 2000
        await until(pilot, lambda: view.source.total() == 8000)
        view.show("\n".join(["word " * 20] * 20_000))
        await pilot.pause()  # the thread begins
        view.show("another file")
        await view.workers.wait_for_complete()
        assert view.source.total() == 1
