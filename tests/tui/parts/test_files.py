from __future__ import annotations

import pytest

from lmtui.core.workspace import GitState
from lmtui.tui.lines.file_tree import FileTree
from tests.tui.driving import SMALL, Driver, running
from tests.tui.fakes import FakeHost
from tests.tui.one_app import Cases

cases = Cases()


def tree_of(driver: Driver) -> FileTree:
    return driver.app.workbench.panes.files


def rows(driver: Driver) -> list[str]:
    return [row for line in driver.text("#files").splitlines() if (row := line.strip("▌ "))]


@cases
async def the_filter_narrows_over_all_files_and_enter_opens(driver: Driver) -> None:
    await driver.press("f6", "slash", *"tlex")
    await driver.until(lambda: len(rows(driver)) == 1 and "est_lexer.py" in rows(driver)[0])
    assert "1 of 5" in driver.text("#files-title")
    await driver.press("enter", to="Viewer")
    await driver.until(lambda: "test_nested" in driver.text())


@cases.full()
async def escape_clears_the_filter_and_a_commit_or_a_turns_end_changes_the_marks_and_lists_nothing(driver: Driver) -> None:
    await driver.press("f6", "slash", "x")
    await driver.until(lambda: "parser/lexer.py" in driver.text("#files"))
    await driver.press("down", "escape")
    assert rows(driver) == ["▸ parser/", "README.md", "pyproject.toml"]
    assert tree_of(driver).has_focus
    assert "of 5" not in driver.text("#files-title")
    files = driver.host.files
    files.git["README.md"] = GitState.MODIFIED
    files.tell(has_git_changed=True)
    await driver.until(lambda: any(row.split() == ["README.md", "M"] for row in rows(driver)))
    files.asked, files.git = [], {}
    driver.host.session.start_call("c1", "shell", "make")
    driver.host.session.end_turn()
    await driver.until(lambda: not any(row.endswith(" M") for row in rows(driver)))
    assert files.asked == ["git"]


@cases.full(SMALL)
async def the_filter_opens_from_anywhere_in_a_small_terminal(driver: Driver) -> None:
    await driver.press("alt+l", *"toml")
    await driver.until(lambda: rows(driver) == ["pyproject.toml"])
    await driver.press("escape", "escape")
    await driver.type("/find-file lexer")
    await driver.until(lambda: "2 of 5" in driver.text("#files-title"))
    assert rows(driver)[0] == "parser/lexer.py"


@cases
async def what_other_programs_change_shows_by_itself_and_the_cursor_stays(driver: Driver) -> None:
    files = driver.host.files
    await driver.until(lambda: files.watched == {""} and "▸ parser/" in rows(driver))
    await driver.press("f6", "enter")
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
        await driver.press("full_stop")
        assert rows(driver)[0] == "▸ build/"
        await driver.press("alt+h")
        assert rows(driver)[0] == "▸ parser/"
        await driver.press("home", "m", "end", "m")
        assert driver.app.workbench.prompt.text == "look at @parser/ @pyproject.toml "


async def test_a_missing_editor_is_said_with_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    async with running() as driver:
        await driver.press("f6", "end", "e")
        await driver.until(lambda: "set VISUAL or EDITOR" in driver.text("#say"))
