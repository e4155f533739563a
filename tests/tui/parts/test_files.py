from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lmtui.core.workspace import GitState
from lmtui.tui.lines.file_tree import FileTree
from lmtui.tui.lines.file_view import FileView
from tests.tui.driving import SMALL, Driver, running
from tests.tui.fakes import FakeHost
from tests.tui.one_app import Cases

cases = Cases()

ODD = {
    "a\nb\x1b[31m.txt": b"newline\n",
    "\u202egnp.exe": b"right to left\n",
    "漢字🙂.md": b"wide\n",
    "n" * 250 + ".py": b"long\n",
}


def tree_of(driver: Driver) -> FileTree:
    assert driver.app.workbench.panes is not None
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


@cases
async def escape_clears_the_filter_and_the_tree_is_as_it_was(driver: Driver) -> None:
    await driver.press("f6", "slash", "x")
    await driver.until(lambda: "parser/lexer.py" in driver.text("#files"))
    await driver.press("down", "escape")
    assert rows(driver) == ["▸ parser/", "README.md", "pyproject.toml"]
    assert tree_of(driver).has_focus
    assert "of 5" not in driver.text("#files-title")


@cases.at((120, 30))
async def the_files_float_over_the_chat_while_one_is_looked_for(driver: Driver) -> None:
    panes = driver.app.workbench.panes
    await driver.press("f6")
    width, chat = panes.files_pane.outer_size.width, panes.chat_pane.region
    await driver.press("slash", "x")
    assert (panes.files_pane.outer_size.width, panes.chat_pane.region) == (60, chat)
    await driver.press("escape")
    assert (panes.files_pane.outer_size.width, panes.chat_pane.region) == (width, chat)


@cases.at(SMALL)
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
    await driver.until(lambda: files.watched == {""})
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


@cases
async def a_commit_elsewhere_changes_the_marks_and_lists_nothing(driver: Driver) -> None:
    await driver.press("f6")
    driver.host.files.git["README.md"] = GitState.MODIFIED
    driver.host.files.tell(has_git_changed=True)
    await driver.until(lambda: any(row.split() == ["README.md", "M"] for row in rows(driver)))
    driver.host.files.asked.clear()
    driver.host.files.git.clear()
    driver.host.files.tell(has_git_changed=True)
    await driver.until(lambda: not any(row.endswith(" M") for row in rows(driver)))
    assert driver.host.files.asked == ["git"]


@cases
async def folders_that_cannot_be_watched_are_said_once_and_looked_at_after_each_step(driver: Driver) -> None:
    driver.host.files.tell(problem="the limit of watched folders is reached")
    await driver.until(lambda: "the limit of watched folders" in driver.text("#say"))
    driver.app.workbench.say("")
    driver.host.files.tell(problem="the limit of watched folders is reached")
    await driver.settle()
    assert "the limit" not in driver.text("#say")
    driver.host.files.contents["late.txt"] = b""
    driver.host.session.begin_turn("go")
    driver.host.session.end_turn()
    await driver.until(lambda: "late.txt" in driver.text("#files"))


async def test_ignored_files_come_and_go_by_key() -> None:
    host = FakeHost()
    host.files.contents["build/out.o"] = b""
    host.files.git["build"] = GitState.IGNORED
    async with running(host) as driver:
        await driver.press("f6")
        await driver.until(lambda: rows(driver) == ["▸ parser/", "README.md", "pyproject.toml"])
        await driver.press("full_stop")
        assert rows(driver)[0] == "▸ build/"
        await driver.press("alt+h")
        assert rows(driver)[0] == "▸ parser/"


async def test_a_file_and_a_folder_are_mentioned_in_the_prompt() -> None:
    async with running() as driver:
        driver.app.workbench.prompt.replace_text("look at")
        driver.app.workbench.prompt.move_cursor(driver.app.workbench.prompt.document.end)
        await driver.press("f6", "m", "end", "m")
        assert driver.app.workbench.prompt.text == "look at @parser/ @pyproject.toml "


@pytest.mark.parametrize("name", list(ODD), ids=["controls", "right to left", "wide", "long"])
async def test_odd_names_are_shown_on_one_line_and_opened_by_their_own_name(name: str) -> None:
    host = FakeHost()
    host.files.contents = {name: ODD[name]}
    async with running(host) as driver:
        await driver.press("f6")
        await driver.until(lambda: len(rows(driver)) == 1)
        assert "\x1b" not in driver.text("#files")
        assert "\u202e" not in driver.text("#files")
        await driver.press("enter", to="Viewer")
        await driver.until(lambda: ODD[name].decode().strip() in driver.text())
        assert host.files.asked[-1] == f"read {name}"


@cases
async def a_file_opens_at_a_line_for_whoever_names_one(driver: Driver) -> None:
    host = driver.host
    host.files.contents["long.txt"] = "\n".join(f"line {number}" for number in range(1, 1000)).encode()
    part = driver.app.workbench.ready.files
    assert part is not None
    part.open_file("long.txt", 500)
    await driver.until_screen("Viewer")
    await driver.until(lambda: "line 500" in driver.text())
    assert driver.app.screen.query_one(FileView).current_line == 500


async def test_the_editor_gets_the_real_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "ed"
    editor.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/said\n')
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VISUAL", str(editor))
    async with running(FakeHost(workspace=tmp_path / "work")) as driver:
        await driver.press("f6", "end", "e")
        await driver.until(lambda: "cannot be opened here" in driver.text("#say"))


async def test_a_missing_editor_is_said_with_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    async with running() as driver:
        await driver.press("f6", "end", "e")
        await driver.until(lambda: "set VISUAL or EDITOR" in driver.text("#say"))
