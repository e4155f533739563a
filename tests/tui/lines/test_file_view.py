from __future__ import annotations

from lmtui.tui.lines.file_view import FileView
from tests.tui.lines.stage import Stage, screen_lines, settled


async def test_lines_are_numbered_clean_and_coloured() -> None:
    view = FileView()
    async with Stage(view).run_test(size=(40, 8)) as pilot:
        view.show("a.py", b"def f():\r\n\treturn 'x\x1b[31m'\n# \xff\xe2\x80\xae end\n")
        await settled(pilot)
        assert screen_lines(view)[:3] == ["    1 def f():", "    2     return 'x'", "    3 # \ufffd<U+202E> end"]
        styles = {segment.text: segment.style for segment in view.render_line(0)}
        assert styles["def"] != styles["    1 "]


async def test_binary_empty_and_cut_files_are_named() -> None:
    view = FileView()
    async with Stage(view).run_test(size=(60, 5)) as pilot:
        view.show("a.bin", b"\x7fELF\0\0", total_bytes=4096)
        await settled(pilot)
        assert screen_lines(view)[0] == " binary file, 4,096 bytes"
        view.show("empty", b"")
        await settled(pilot)
        assert screen_lines(view)[0] == " empty file"
        view.show("big.txt", b"one\ntwo\n", total_bytes=2_000_000)
        await settled(pilot)
        assert screen_lines(view)[:3] == ["    1 one", "    2 two", " … cut here; the file has 2,000,000 bytes"]


async def test_search_goes_from_match_to_match_and_around() -> None:
    view = FileView()
    async with Stage(view).run_test(size=(40, 6)) as pilot:
        view.show("x.txt", "\n".join(f"line {number}" + (" needle" if number % 30 == 7 else "") for number in range(100)))
        await settled(pilot)
        assert view.search("NEEDLE")
        for wanted in ("line 7 ", "line 37 ", "line 67 ", "line 97 ", "line 7 "):
            await settled(pilot)
            assert any(wanted in line for line in screen_lines(view))
            view.action_search_next()
        view.action_search_previous()
        assert not view.search("nothing like it")


async def test_a_very_long_line_is_cut_to_the_pane_and_can_be_scrolled() -> None:
    view = FileView()
    async with Stage(view).run_test(size=(40, 6)) as pilot:
        view.show("one.json", "x" * 999_990 + "THE END!")
        await settled(pilot)
        assert screen_lines(view)[0] == "    1 " + "x" * 33
        view.scroll_to(x=10**7, animate=False)
        await settled(pilot)
        assert screen_lines(view)[0].endswith("THE END!")
        assert screen_lines(view)[0].startswith("    1 ")


async def test_go_to_line_puts_it_in_view() -> None:
    view = FileView()
    async with Stage(view).run_test(size=(40, 6)) as pilot:
        view.show("x.txt", "\n".join(map(str, range(1, 100_001))))
        await settled(pilot)
        view.go_to_line(54321)
        await settled(pilot)
        assert "  54321 54321" in screen_lines(view)


async def test_an_empty_pane_says_what_it_is_for() -> None:
    view = FileView()
    async with Stage(view).run_test(size=(50, 6)) as pilot:
        await settled(pilot)
        assert screen_lines(view)[0] == " Choose a file in the tree to read it here."
