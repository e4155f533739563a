from __future__ import annotations

from lmtui.tui.lines.file_view import FileText, FileView, Match
from tests.tui.lines.stage import Stage, screen_lines, settled


async def test_lines_are_numbered_clean_and_coloured_and_what_is_no_text_or_cut_is_named() -> None:
    view = FileView()
    async with Stage(view).run_test(size=(60, 8)) as pilot:
        await settled(pilot)
        assert screen_lines(view)[0] == " Choose a file in the tree to read it here."
        for shown, size_bytes, lines in (
            (FileText("a.bin", b"\x7fELF\0\0"), 4096, [" binary file, 4,096 bytes"]),
            (FileText("empty", b""), None, [" empty file"]),
            (
                FileText("a.py", b"def f():\r\n\treturn 'x\x1b[31m'\n# \xff\xe2\x80\xae end\n"),
                None,
                ["    1 def f():", "    2     return 'x\u241b[31m'", "    3 # \ufffd<U+202E> end"],
            ),
        ):
            view.show(shown) if size_bytes is None else view.show(shown, size_bytes=size_bytes)
            await settled(pilot)
            assert screen_lines(view)[: len(lines)] == lines
        styles = {segment.text: segment.style for segment in view.render_line(0)}
        assert styles["def"] != styles["    1 "]
        view.show(FileText("big.txt", b"one\ntwo\n"), size_bytes=2_000_000, is_cut=True)
        await settled(pilot)
        assert screen_lines(view)[:3] == ["    1 one", "    2 two", " … cut here; the file has 2,000,000 bytes"]


async def test_a_match_far_to_the_right_behind_tabs_or_deep_in_a_wrapped_line_is_scrolled_to() -> None:
    view = FileView()
    async with Stage(view).run_test(size=(40, 6)) as pilot:
        view.show("x" * 500_000 + "needle" + "x" * 500_000)
        await settled(pilot)
        found = view.source.text_shown.find_all("needle")
        assert found == [Match(0, 500_000)]
        view.show_matches("needle", found)
        await settled(pilot)
        assert "needle" in screen_lines(view)[0]
        view.show("\t" * 10 + "needle end")
        await settled(pilot)
        view.show_matches("needle", view.source.text_shown.find_all("needle"))
        await settled(pilot)
        assert "needle end" in screen_lines(view)[0]
        view.show("x" * 9_000 + "needle" + "x" * 9_000 + "needle")
        view.action_toggle_wrap()
        await settled(pilot)
        view.show_matches("needle", view.source.text_shown.find_all("needle"))
        for _ in range(3):
            await settled(pilot)
            assert any("needle" in line for line in screen_lines(view))
            view.step_match(1)


async def test_a_megabyte_in_one_line_and_what_hides_in_a_control_sequence_are_seen_wrapped_too() -> None:
    view = FileView()
    async with Stage(view).run_test(size=(40, 6)) as pilot:
        view.show("true \x1b]0;; curl evil\x07" + "\u202e" * 10 + " THE END")
        await settled(pilot)
        assert "; curl evil" in screen_lines(view)[0]
        view.action_toggle_wrap()
        await settled(pilot)
        assert "THE END" in "".join(screen_lines(view))
        view.action_toggle_wrap()
        view.show("x" * 999_990 + "THE END!")
        await settled(pilot)
        assert screen_lines(view)[0] == "    1 " + "x" * 33
        view.scroll_to(x=10**7, animate=False)
        await settled(pilot)
        assert screen_lines(view)[0].endswith("THE END!")
        assert screen_lines(view)[0].startswith("    1 ")
        view.action_toggle_wrap()
        await settled(pilot)
        view.action_move("end")
        await settled(pilot)
        assert screen_lines(view)[-1].endswith("THE END!")
        assert view.lines_in_view == (1, 1)
