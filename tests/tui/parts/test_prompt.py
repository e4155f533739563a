from __future__ import annotations

import asyncio
import os
from pathlib import Path

from textual import events

from lmtui.core.events import InboxChanged
from lmtui.core.model_events import VisionChanged
from lmtui.tui.prompt_store import PromptStore, Typed
from tests.tui.driving import Driver, running
from tests.tui.fakes import FakeHost
from tests.tui.one_app import Cases

cases = Cases()

PNG = b"\x89PNG\r\n\x1a\nrest"
LONG = "\n".join(f"line {number}" for number in range(30))


def prompt_text(driver: Driver) -> str:
    return driver.app.workbench.prompt.text


async def paste(driver: Driver, text: str) -> None:
    driver.app.workbench.prompt.post_message(events.Paste(text))
    await driver.settle()


@cases
async def a_path_is_completed_by_tab_or_enter_and_sent_as_typed_and_a_folder_gone_into(driver: Driver) -> None:
    await driver.press(*"see @lex")
    await driver.until(lambda: "parser/lexer.py" in driver.text("#completions"))
    await driver.press("tab")
    assert prompt_text(driver) == "see @parser/lexer.py "
    await driver.press("enter")
    assert driver.host.session.submitted == ["see @parser/lexer.py"]
    await driver.press(*"@pars")
    await driver.until(lambda: "parser/" in driver.text("#completions"))
    await driver.press("tab")
    assert prompt_text(driver) == "@parser/"
    await driver.until(lambda: "parser/tests/" in driver.text("#completions"))
    driver.app.workbench.prompt.replace_text("")
    await driver.press(*"@READ")
    await driver.until(lambda: "README.md" in driver.text("#completions"))
    await driver.press("enter")
    assert prompt_text(driver) == "@README.md "
    assert len(driver.host.session.submitted) == 1


@cases.full()
async def an_argument_is_completed_and_run_and_models_are_offered_once_the_servers_have_answered(driver: Driver) -> None:
    await driver.press(*"/mode au")
    assert "auto" in driver.text("#completions")
    await driver.press("enter")
    assert driver.host.session.mode.value == "auto"
    await driver.press(*"/model lla")
    await driver.until(lambda: "models" in driver.app.workbench.prompt.completing.values)
    await driver.press("m")
    assert "llama3.2:3b" in driver.text("#completions")


@cases
async def the_history_is_searched_and_escape_leaves_what_was_typed(driver: Driver) -> None:
    for text in ("fix the lexer", "add tests", "fix the docs"):
        driver.app.workbench.prompt.history_texts.add(text)
    await driver.press(*"fix")
    await driver.press("ctrl+r")
    assert driver.text("#completions").split("\n")[0].strip(" ▌…") == "fix the docs"
    assert "add tests" not in driver.text("#completions")
    await driver.press(*" lex")
    await driver.press("escape")
    assert prompt_text(driver) == "fix"
    await driver.press("ctrl+r", "ctrl+r", "enter")
    assert prompt_text(driver) == "fix the lexer"
    await driver.press("ctrl+r", *"zzz", "enter")
    assert driver.host.session.submitted == []


@cases
async def a_large_paste_is_one_token_sent_whole_and_deleted_as_one(driver: Driver) -> None:
    await driver.press(*"see ")
    await paste(driver, LONG)
    assert prompt_text(driver) == "see [pasted 30 lines #1]"
    assert driver.host.session.submitted == []
    await driver.press("enter")
    assert driver.host.session.submitted == [f"see {LONG}"]
    await driver.press("up")
    assert prompt_text(driver) == "see [pasted 30 lines #1]"
    driver.app.workbench.prompt.replace_text("")
    await paste(driver, LONG)
    await driver.press("backspace")
    assert prompt_text(driver) == ""


async def test_a_dropped_file_becomes_a_mention_and_a_picture_a_token_for_models_that_see(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.py").write_text("x")
    (tmp_path / "shot.png").write_bytes(PNG)
    async with running(FakeHost(workspace=tmp_path)) as driver:
        await paste(driver, f"{tmp_path}/a.py")
        await driver.until(lambda: prompt_text(driver) == "@a.py ")
        await paste(driver, f"file://{tmp_path}/shot.png")
        await driver.until(lambda: prompt_text(driver) == "@a.py [image #1 shot.png] ")
        await driver.press("enter")
        assert [image.data for image in driver.host.session.waiting.images] == [PNG]
        submitted = len(driver.host.session.submitted)
        driver.host.session.emit(VisionChanged(sees=False))
        await paste(driver, str(tmp_path / "shot.png"))
        await driver.until(lambda: "cannot read images" in driver.text("#say"))
        await driver.press("enter")
        assert len(driver.host.session.submitted) == submitted
        assert prompt_text(driver).startswith("[image #2 shot.png]")


@cases
async def a_command_of_the_users_own_goes_to_the_session(driver: Driver) -> None:
    await driver.type("!make all")
    await driver.type("!!make all")
    assert driver.host.session.waiting.commands == [("make all", True), ("make all", False)]
    assert driver.host.session.submitted == []


@cases
async def after_an_interrupt_the_queue_waits_for_an_empty_enter(driver: Driver) -> None:
    await driver.type("now")
    await driver.type("later")
    await driver.press("escape", "escape")
    assert "paused:" in driver.text("#queue")
    assert "Enter to send" in driver.text("#queue")
    await driver.press("enter")
    assert not driver.app.screen.query_one("#queue").display
    assert driver.host.session.is_running


async def test_a_draft_is_written_once_typing_stops_and_comes_back() -> None:
    store = PromptStore(Path(os.environ["LMTUI_HOME"]) / "state" / "history", FakeHost().workspace)
    async with running() as driver:
        await paste(driver, LONG)
        await driver.press(*" and this")
        session_id = driver.host.session.id
        await driver.until(lambda: store.draft(session_id).text.endswith("and this"))
        assert store.draft(session_id).pastes == {"[pasted 30 lines #1]": LONG}
    async with running() as driver:
        assert prompt_text(driver).endswith("and this")
        await driver.press("enter")
        assert driver.host.session.submitted == [f"{LONG} and this"]


async def test_a_draft_that_comes_when_typing_has_begun_is_in_the_history() -> None:
    store = PromptStore(Path(os.environ["LMTUI_HOME"]) / "state" / "history", FakeHost().workspace)
    store.save_draft("another", Typed("not sent yet"))
    async with running(is_ready=False) as driver:
        driver.app.workbench.prompt.replace_text("typed at once")
        await driver.until(lambda: store.history() != [])
        assert prompt_text(driver) == "typed at once"
        assert [each.text for each in store.history()] == ["not sent yet"]
        await driver.press("up")
        assert prompt_text(driver) == "not sent yet"


@cases
async def each_session_keeps_its_own_draft_and_one_that_is_read_late_does_not_come_to_another(driver: Driver) -> None:
    first = driver.host.session.id
    await driver.press(*"for the first")
    await driver.press("f4")
    await driver.until(lambda: len(driver.host.opened) == 2 and prompt_text(driver) == "")
    await driver.press(*"second")
    drafts = driver.app.workbench.ready.prompts.drafts
    await asyncio.gather(drafts.show(first), drafts.show(driver.host.session.id))
    assert prompt_text(driver) == "second"
    feeds = driver.app.sessions.views
    assert driver.app.sessions.router is not None
    driver.app.sessions.router.show(feeds[first])
    await driver.until(lambda: prompt_text(driver) == "for the first")


@cases
async def what_goes_before_the_next_step_and_what_after_the_turn_are_listed_apart(driver: Driver) -> None:
    driver.host.session.begin_turn("go")
    driver.host.session.emit(InboxChanged(queued=("later", "now"), next_step=(1,)))
    await driver.settle()
    rows = [" ".join(row.split()) for row in driver.text("#queue").splitlines()]
    assert rows == ["▌ next step: now", "▌ after this turn: later", "▌ Alt+↑ edit"]
