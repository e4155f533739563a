from __future__ import annotations

from lmtui.core.workspace import DirEntry, GitState
from lmtui.tui.lines.file_tree import FileTree
from tests.tui.lines.stage import Stage, screen_lines, settled

FOLDERS = {
    "": ["parser/", "tests/", "README.md", "pyproject.toml"],
    "parser": ["parser/deep/", "parser/lexer.py", "parser/tokens.py"],
    "parser/deep": ["parser/deep/x.py"],
    "tests": ["tests/test_lexer.py"],
}


def entries(names: list[str]) -> list[DirEntry]:
    return [DirEntry(name.rstrip("/"), "dir" if name.endswith("/") else "file") for name in names]


class TreeStage(Stage):
    def __init__(self, tree: FileTree) -> None:
        super().__init__(tree)
        self.files = tree
        self.folders = dict(FOLDERS)
        self.asked: list[str] = []
        self.chosen: list[str] = []

    def on_file_tree_listing_wanted(self, message: FileTree.ListingWanted) -> None:
        self.asked.append(message.path)
        self.files.set_listing(message.path, entries(self.folders[message.path]))

    def on_file_tree_file_chosen(self, message: FileTree.FileChosen) -> None:
        self.chosen.append(message.path)


async def test_folders_open_and_close_and_files_are_chosen_by_key_and_click() -> None:
    tree = FileTree()
    stage = TreeStage(tree)
    async with stage.run_test(size=(30, 10)) as pilot:
        await settled(pilot)
        assert screen_lines(tree)[:4] == [" ▸ parser/", " ▸ tests/", "   README.md", "   pyproject.toml"]
        await pilot.press("enter")
        assert screen_lines(tree)[:4] == [" ▾ parser/", "   ▸ deep/", "     lexer.py", "     tokens.py"]
        await pilot.press("down", "down", "enter")
        assert stage.chosen == ["parser/lexer.py"]
        await pilot.press("left", "left")
        assert screen_lines(tree)[:2] == [" ▸ parser/", " ▸ tests/"]
        assert stage.asked == ["", "parser"]
        await pilot.click(FileTree, offset=(4, 1))
        assert screen_lines(tree)[1:3] == [" ▾ tests/", "     test_lexer.py"]
        await pilot.click(FileTree, offset=(8, 2))
        assert stage.chosen == ["parser/lexer.py", "tests/test_lexer.py"]


async def test_ignored_files_are_hidden_until_they_are_asked_for() -> None:
    tree = FileTree()
    stage = TreeStage(tree)
    async with stage.run_test(size=(30, 10)) as pilot:
        await settled(pilot)
        tree.set_git({"tests": GitState.IGNORED, "parser/tokens.py": GitState.IGNORED})
        await settled(pilot)
        assert screen_lines(tree)[:3] == [" ▸ parser/", "   README.md", "   pyproject.toml"]
        tree.toggle_hidden()
        tree.cursor.put(1)
        tree.action_folder("open")
        await settled(pilot)
        assert screen_lines(tree)[1:3] == [" ▾ tests/", "     test_lexer.py"]
        assert tree.source.line(2)[1] == ("test_lexer.py", "muted")
        tree.toggle_hidden()
        await settled(pilot)
        assert screen_lines(tree)[1] == "   README.md"


async def test_a_listing_that_grows_above_the_view_does_not_move_it() -> None:
    tree = FileTree()
    stage = TreeStage(tree)
    stage.folders[""] = [f"file{number:03}.py" for number in range(100)]
    async with stage.run_test(size=(30, 10)) as pilot:
        await settled(pilot)
        await pilot.press("end", "up")
        before = screen_lines(tree)
        tree.set_listing("", entries(["aaa.py", "aab.py", *stage.folders[""]]))
        await settled(pilot)
        assert screen_lines(tree) == before
        assert tree.current_path == "file098.py"


async def test_a_folder_that_is_gone_takes_its_rows_with_it_and_a_new_listing_keeps_the_cursor_on_its_file() -> None:
    tree = FileTree()
    stage = TreeStage(tree)
    async with stage.run_test(size=(30, 10)) as pilot:
        await settled(pilot)
        await pilot.press("enter")
        tree.set_listing("parser", None)
        await settled(pilot)
        assert screen_lines(tree)[:2] == [" ▸ parser/", " ▸ tests/"]
        assert tree.source.tree.open_folders == [""]
        await pilot.press("end")
        tree.set_listing("", entries(["a/", "b/", *FOLDERS[""]]))
        await settled(pilot)
        assert tree.current_path == "pyproject.toml"
        assert screen_lines(tree)[5] == "   pyproject.toml"


async def test_hostile_wide_and_long_names_stay_in_their_row() -> None:
    tree = FileTree()
    stage = TreeStage(tree)
    stage.folders[""] = ["a\nb\x1b[2J\u202e.py", "漢字" * 30, "n" * 300 + ".py", "e\u0301🙂.txt"]
    async with stage.run_test(size=(30, 10)) as pilot:
        await settled(pilot)
        lines = screen_lines(tree)
        assert lines[0] == "   a⏎b<U+202E>.py"
        assert lines[1].startswith("   漢字")
        assert lines[2].endswith(".py")
        assert "…" in lines[1]
        assert lines[3] == "   e\u0301🙂.txt"
