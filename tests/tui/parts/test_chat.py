from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lmtui.tui.lines.transcript import Transcript
from tests.tui.driving import Driver, running
from tests.tui.fakes import play_work
from tests.tui.one_app import Cases

cases = Cases()


@pytest.fixture(autouse=True)
def only_the_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("TMUX", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22")
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))


async def with_talk(driver: Driver, turns: int = 30) -> Transcript:
    session = driver.host.session
    for number in range(turns):
        session.begin_turn(f"question {number}")
        session.say(f"answer {number} about the depth of comments", thinking=f"secret thought {number}", thinking_s=2)
        session.start_call(f"c{number}", "shell", f"run {number}")
        session.finish_call(f"c{number}", "shell", result=f"line one\nneedle {number}\nline three\nline four")
        session.end_turn()
    await driver.settle()
    return driver.transcript


@cases
async def a_search_finds_what_is_folded_and_counts_its_matches(driver: Driver) -> None:
    transcript = await with_talk(driver)
    await driver.type("/search secret thought 3")
    await driver.until(lambda: "secret thought 3" in driver.text() and "1 of 1" in driver.text())
    await driver.press("escape")
    assert "question 3" in driver.text()
    transcript.action_move("home")
    driver.app.workbench.prompt.focus()
    await driver.type("/search needle 1")
    await driver.until(lambda: "1 of 11" in driver.text())
    await driver.press("n")
    await driver.until(lambda: "2 of 11" in driver.text())
    await driver.press("N", "N")
    await driver.until(lambda: "11 of 11" in driver.text())


@cases
async def the_copy_mode_copies_the_lines_that_the_keys_went_over(driver: Driver) -> None:
    transcript = await with_talk(driver)
    transcript.focus()
    await driver.press("v")
    assert "copy mode" in driver.text()
    before = transcript.scroll_offset
    driver.host.session.begin_turn("more\n" * 20)
    await driver.settle()
    assert transcript.scroll_offset == before
    await driver.press("up", "up", "y")
    assert not transcript.copy_mode.is_on
    assert driver.app.clipboard.count("\n") == 2
    assert "line three" in driver.app.clipboard
    assert not driver.app.clipboard.startswith(" ")
    await driver.press("v", "home", "escape")
    assert not transcript.copy_mode.is_on
    assert transcript.scroll_offset.y == 0


@cases
async def ctrl_c_copies_a_selection_once_and_then_interrupts(driver: Driver) -> None:
    play_work(driver.host.session)
    await driver.settle()
    transcript = driver.transcript
    await driver.pilot.mouse_down(transcript, offset=(1, 0))
    await driver.pilot.hover(transcript, offset=(40, 1))
    await driver.pilot.mouse_up(transcript, offset=(40, 1))
    await driver.press("ctrl+c")
    await driver.until(lambda: "Copied" in driver.text())
    assert driver.app.clipboard.strip().startswith("Make the tokenizer")
    assert driver.host.session.is_running
    await driver.press("ctrl+c")
    assert not driver.host.session.is_running


async def test_what_is_too_large_for_the_terminal_goes_to_a_file_of_the_users_own(tmp_path: Path) -> None:
    async with running() as driver:
        driver.app.copy_to_clipboard("x" * 100_000)
        await driver.until(lambda: "Too large" in driver.text())
        (path,) = (tmp_path / "state" / "copied").iterdir()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text() == "x" * 100_000
