from __future__ import annotations

import pytest

from lmtui.core.events import FilesChanged
from lmtui.core.workspace import FileChange, FileChangeKind, GitState
from lmtui.tui.lines.file_tree import FileTree
from tests.tui.driving import Driver, running
from tests.tui.fakes import FakeHost
from tests.tui.one_app import Cases

cases = Cases()


def tree_of(driver: Driver) -> FileTree:
    return driver.app.workbench.panes.files


def rows(driver: Driver) -> list[str]:
    return [row for line in driver.text("#files").splitlines() if (row := line.strip("▌ "))]


def found(driver: Driver) -> list[str]:
    return [" ".join(row.split()) for line in driver.text("#picker-box Table").splitlines() if (row := line.strip("▌ "))]


@cases
async def a_file_is_found_from_anywhere_by_a_few_characters_and_nothing_moves(driver: Driver) -> None:
    await driver.press("f6")
    before = driver.app.workbench.query_one("#chat-pane").region
    await driver.press("slash", *"tlex")
    await driver.until(lambda: found(driver) == ["test_lexer.py parser/tests/"])
    assert "1 of 5" in driver.text("#picker-title")
    assert driver.app.workbench.query_one("#chat-pane").region == before
    await driver.press("enter", to="Viewer")
    await driver.until(lambda: "test_nested" in driver.text())
    await driver.press("escape", "escape")
    await driver.type("/find-file lexer", "FileFinder")
    await driver.until(lambda: "2 of 5" in driver.text("#picker-title"))
    assert found(driver)[0] == "lexer.py parser/"


@cases
async def letters_go_with_a_commit(driver: Driver) -> None:
    session, files = driver.host.session, driver.host.files
    files.git["README.md"] = GitState.MODIFIED
    await driver.press("f6")
    change = FileChange("README.md", FileChangeKind.MODIFIED, 1, 1, "")
    session.emit(FilesChanged(call_id="c1", files=("README.md",), changes=(change,)))
    await driver.until(lambda: any(row.split() == ["README.md", "M"] for row in rows(driver)))
    tree_of(driver).set_git({}, has_git=True)
    assert tree_of(driver).source.marks.sign("README.md") == ()


@cases
async def what_other_programs_change_shows_by_itself_and_the_cursor_stays(driver: Driver) -> None:
    files = driver.host.files
    await driver.press("f6")
    await driver.until(lambda: files.watched == {""} and "▸ parser/" in rows(driver))
    await driver.press("enter")
    await driver.until(lambda: files.watched == {"", "parser"})
    await driver.press("end")
    files.contents["parser/aaa.py"] = b""
    files.contents["new/x.py"] = b""
    files.git["parser/aaa.py"] = GitState.UNTRACKED
    files.asked.clear()
    files.tell("parser")
    await driver.until(lambda: any(row.endswith("?") and "aaa.py" in row for row in rows(driver)))
    assert files.asked == ["list parser", "git"]
    assert tree_of(driver).current_path == "pyproject.toml"
    files.tell("", "never/opened")
    await driver.until(lambda: any("new/" in row for row in rows(driver)))


async def test_ignored_files_come_and_go_by_key_and_files_are_mentioned_in_the_prompt() -> None:
    host = FakeHost()
    host.files.contents["build/out.o"] = b""
    host.files.git["build"] = GitState.IGNORED
    async with running(host) as driver:
        driver.app.workbench.prompt.replace_text("look at")
        driver.app.workbench.prompt.move_cursor(driver.app.workbench.prompt.document.end)
        await driver.press("f6")
        await driver.until(lambda: rows(driver) == ["▸ parser/", "README.md", "pyproject.toml"])
        await driver.press("s")
        assert rows(driver)[0] == "▸ build/"
        await driver.press("s")
        assert rows(driver)[0] == "▸ parser/"
        await driver.press("home", "a", "end", "a")
        assert driver.app.workbench.prompt.text == "look at @parser/ @pyproject.toml "


async def test_a_missing_editor_is_said_with_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    async with running() as driver:
        await driver.press("f6", "end", "e")
        await driver.until(lambda: "set VISUAL or EDITOR" in driver.text("#say"))
