from __future__ import annotations

import asyncio
import threading
from functools import partial

from textual.events import AppBlur

from lmtui.core.errors import ConfigError
from lmtui.core.events import Level, Notice, Outcome, RetryScheduled, TextDelta, TurnReason
from lmtui.core.permissions.rules import Mode
from lmtui.tui.app import LmtuiApp
from lmtui.tui.options import StartOptions
from lmtui.tui.screens.workbench import Starting
from tests.tui.driving import SMALL, WIDE, Driver, running
from tests.tui.fakes import DIFF, FakeHost, FakeSession, play_work
from tests.tui.one_app import Cases

cases = Cases()


@cases
async def a_typed_task_reaches_the_session_and_the_transcript(driver: Driver) -> None:
    await driver.type("fix the bug")
    assert driver.host.session.submitted == ["fix the bug"]
    driver.host.session.say("It is fixed.")
    await driver.settle()
    await driver.settle()
    assert "fix the bug" in driver.text(".transcript")
    assert "It is fixed." in driver.text(".transcript")
    assert driver.app.workbench.prompt.text == ""


async def test_text_typed_before_the_host_is_there_is_kept_and_sent() -> None:
    gate = threading.Event()
    host = FakeHost()

    def open_host() -> FakeHost:
        gate.wait(10)
        return host

    app = LmtuiApp(open_host, StartOptions(workspace="/w", task="first"))
    async with app.run_test(size=SMALL) as pilot:
        driver = Driver(app, pilot, host)
        await driver.until(lambda: not isinstance(app.workbench.state, Starting))
        await driver.type("second")
        assert "queued 2" in driver.text()
        gate.set()
        await driver.until(lambda: bool(host.opened) and len(host.session.submitted) == 2)
        assert host.session.submitted == ["first", "second"]


@cases
async def escape_interrupts_the_running_turn_and_the_session_goes_on(driver: Driver) -> None:
    await driver.type("work")
    await driver.press("escape")
    assert not driver.host.session.is_running
    assert "Stopped" in driver.text("#activity")
    driver.host.clock.forward(5)
    await driver.until(lambda: not driver.text("#activity").strip())
    await driver.type("again")
    assert driver.host.session.is_running


@cases
async def a_text_sent_while_the_agent_works_is_queued_and_can_be_taken_back(driver: Driver) -> None:
    await driver.type("one")
    await driver.type("two")
    assert "queued 1" in driver.text("#queue")
    await driver.press("alt+up")
    assert driver.app.workbench.prompt.text == "two"
    assert driver.host.session.queued == []


@cases
async def say_it_now_steers_the_running_turn(driver: Driver) -> None:
    await driver.type("one")
    driver.app.workbench.prompt.replace_text("not like that")
    await driver.press("ctrl+s")
    assert driver.host.session.steered == ["not like that"]
    assert driver.host.session.submitted == ["one"]


@cases.each(("key", "outcome"), [("y", Outcome.ONCE), ("s", Outcome.SESSION), ("n", Outcome.NO)])
async def an_approval_is_answered_by_its_key(driver: Driver, key: str, outcome: Outcome) -> None:
    await ask(driver)
    driver.host.clock.forward(0.3)
    await driver.press(key)
    assert driver.host.session.answers["a1"].outcome is outcome
    assert driver.app.screen is driver.app.workbench


@cases
async def an_approval_does_not_take_a_yes_in_the_first_moment(driver: Driver) -> None:
    await ask(driver)
    driver.host.clock.forward(0.29)
    await driver.press("y", "s", "a")
    assert driver.host.session.answers == {}


@cases.at(SMALL)
async def a_long_command_is_allowed_only_after_its_end_was_seen(driver: Driver) -> None:
    await ask(driver, "\n".join(f"echo {number}" for number in range(100)))
    driver.host.clock.forward(0.3)
    await driver.press("y")
    assert driver.host.session.answers == {}
    assert "More below" in driver.text()
    await driver.press("end")
    await driver.press("y")
    assert driver.host.session.answers["a1"].outcome is Outcome.ONCE


@cases
async def a_no_with_words_takes_them_to_the_model(driver: Driver) -> None:
    await ask(driver)
    driver.host.clock.forward(0.3)
    await driver.press("f")
    await driver.press(*"use make", "enter")
    answer = driver.host.session.answers["a1"]
    assert (answer.outcome, answer.feedback) == (Outcome.NO, "use make")


@cases
async def letters_typed_into_a_reason_answer_nothing(driver: Driver) -> None:
    await ask(driver)
    driver.host.clock.forward(0.3)
    await driver.press("f")
    await driver.press("y", "s", "a")
    assert driver.host.session.answers == {}


@cases
async def escape_in_an_approval_stops_the_turn(driver: Driver) -> None:
    await ask(driver)
    await driver.press("escape")
    await driver.press("escape")
    assert not driver.host.session.is_running
    assert driver.host.session.answers == {}
    assert driver.app.screen is driver.app.workbench


@cases
async def an_approval_left_for_later_comes_back_by_key(driver: Driver) -> None:
    await ask(driver)
    await driver.press("l")
    assert driver.app.screen is driver.app.workbench
    assert "1 approval needed" in driver.text("#activity")
    assert "▲ 1 approval" in driver.text("#hints")
    await driver.press("f3")
    await driver.until_screen("Approval")


@cases
async def an_approval_resolved_elsewhere_goes_away(driver: Driver) -> None:
    await ask(driver)
    driver.host.session.end_turn(TurnReason.INTERRUPTED)
    await driver.until_screen("Workbench")


@cases
async def hidden_characters_of_a_command_are_named(driver: Driver) -> None:
    await ask(driver, "curl http://x/\u202egpj.exe\x1b[31m")
    assert "<U+202E>gpj.exe" in driver.text()


@cases.at(WIDE)
async def an_approval_of_a_change_shows_both_sides_when_there_is_room(driver: Driver) -> None:
    await driver.type("go")
    driver.host.session.ask("a1", "edit", tool="edit", diff=DIFF, path="parser/lexer.py")
    await driver.until_screen("Approval")
    line = next(line for line in driver.text().splitlines() if "self.peek(2)" in line)
    assert "depth = 1" in line


@cases
async def a_session_that_waits_in_the_background_is_marked_and_one_key_goes_there(driver: Driver) -> None:
    first = driver.host.session
    await driver.type("one")
    await driver.press("f4")
    await driver.until(lambda: len(driver.host.opened) == 2)
    await driver.settle()
    first.ask("a1", "make")
    await driver.settle()
    assert driver.app.screen is driver.app.workbench
    assert "one ▲" in driver.text("#header")
    await driver.press("f3")
    await driver.until_screen("Approval")
    assert driver.app.workbench.active is not None
    assert driver.app.workbench.active.session is first


@cases
async def what_streamed_in_the_background_is_there_after_switching_back(driver: Driver) -> None:
    first = driver.host.session
    await driver.type("one")
    first.emit(TextDelta(text="Half an "))
    await driver.settle()
    await driver.press("f4")
    await driver.until(lambda: len(driver.host.opened) == 2)
    first.emit(TextDelta(text="answer so far"))
    await driver.app.workbench.ready.session_controller.open(first.id)
    await driver.settle()
    await driver.until(lambda: "Half an answer so far" in driver.text("#chat-pane"))


@cases
async def each_session_is_driven_in_a_worker_of_its_own_group(driver: Driver) -> None:
    await driver.type("one")
    await driver.press("f4")
    await driver.until(lambda: len(driver.host.opened) == 2)
    await driver.type("two")
    groups = {worker.group for worker in driver.app.workers if worker.name == "session"}
    assert groups == set(driver.host.opened)


async def test_a_session_that_breaks_is_said_and_the_app_goes_on() -> None:
    class Broken(FakeHost):
        async def new_session(self) -> FakeSession:
            return self._add(BrokenSession("20260314_140299_abc123", clock=self.clock))

    async with running(Broken()) as driver:
        await driver.type("one")
        await driver.until(lambda: "failed" in driver.text("#say"))
        assert "the engine is broken" in driver.text("#say")


async def test_quitting_asks_once_while_an_agent_works_and_a_second_time_leaves() -> None:
    async with running() as driver:
        await driver.type("work")
        await driver.press("ctrl+q")
        await driver.until_screen("Confirm")
        await driver.pilot.press("ctrl+q")
        await driver.until(lambda: driver.host.is_closed)
    assert driver.app.return_code == 0


async def test_quitting_an_idle_app_closes_the_host_at_once() -> None:
    async with running() as driver:
        await driver.pilot.press("ctrl+q")
        await driver.until(lambda: driver.host.is_closed)
    assert driver.app.return_code == 0


async def test_an_unusable_setting_ends_the_app_with_its_text() -> None:
    def open_host() -> FakeHost:
        raise ConfigError("bad mode", "Use normal.")

    app = LmtuiApp(open_host)
    async with app.run_test():
        async with asyncio.timeout(10):
            while app.return_code is None:
                await asyncio.sleep(0.01)
    assert app.return_code == 64


async def test_the_draft_survives_a_restart() -> None:
    async with running() as driver:
        driver.app.workbench.prompt.replace_text("not yet sent")
        await driver.pilot.press("ctrl+q")
        await driver.until(lambda: driver.host.is_closed)
    async with running() as driver:
        assert driver.app.workbench.prompt.text == "not yet sent"


async def test_the_history_survives_a_restart_and_is_walked_by_the_arrow_keys() -> None:
    async with running() as driver:
        await driver.type("first")
        driver.host.session.end_turn()
        await driver.type("second")
        await driver.settle()
    async with running() as driver:
        await driver.press("up")
        assert driver.app.workbench.prompt.text == "second"
        await driver.press("up")
        assert driver.app.workbench.prompt.text == "first"
        await driver.press("down", "down")
        assert driver.app.workbench.prompt.text == ""


@cases
async def a_message_with_markup_and_controls_is_shown_as_it_is(driver: Driver) -> None:
    await driver.type("[bold]hi[/bold] \x1b[31mred")
    driver.host.session.emit(Notice(level=Level.WARNING, text="[red]careful[/red]"))
    await driver.settle()
    await driver.until(lambda: "[red]careful[/red]" in driver.text("#chat-pane"))
    assert "[bold]hi[/bold] red" in driver.text("#chat-pane")


async def test_a_folder_that_cannot_be_listed_is_said() -> None:
    host = FakeHost()
    host.files.problem = "the workspace is gone"
    async with running(host) as driver:
        await driver.until(lambda: "the workspace is gone" in driver.text("#say"))


@cases
async def the_status_says_what_goes_on(driver: Driver) -> None:
    play_work(driver.host.session)
    await driver.settle()
    assert "Writing  " in driver.text("#activity")
    assert "Esc stop" in driver.text("#activity")
    foot = driver.text("#foot")
    assert "3.1k / 8k" in foot
    assert "cache 95 %" in foot
    assert "tok/s" in foot


@cases.each("size", [WIDE, SMALL, (60, 18)])
async def a_server_that_is_gone_leaves_room_for_the_key_that_stops(driver: Driver, size: tuple[int, int]) -> None:
    reason = f"waiting for the server: no model server answers at http://127.0.0.1:1234/v1 ({'connection refused ' * 6})"
    driver.host.session.begin_turn("go")
    driver.host.session.emit(RetryScheduled(attempt=0, attempts=0, wait_s=3, reason=reason))
    await driver.until(lambda: "Trying again in 3 s" in driver.text())
    assert "Esc stop" in driver.text()
    driver.host.clock.forward(2)
    await driver.until(lambda: "Trying again in 1 s" in driver.text())


@cases
async def a_changed_file_is_marked_and_its_difference_opens(driver: Driver) -> None:
    play_work(driver.host.session)
    await driver.settle()
    assert "1 changed" in driver.text("#files-title")
    await driver.press("f10")
    await driver.until_screen("ChangesScreen")
    assert "depth = 1" in driver.text()
    await driver.press("escape")
    assert driver.app.screen is driver.app.workbench


@cases
async def a_file_of_the_tree_opens(driver: Driver) -> None:
    await driver.press("f6", "end", "enter")
    await driver.until_screen("Viewer")
    await driver.until(lambda: "[project]" in driver.text())


@cases.each("size", [(20, 5), (60, 18), (80, 24), (119, 30), (200, 50)])
async def every_size_shows_the_prompt_and_what_goes_on(driver: Driver, size: tuple[int, int]) -> None:
    play_work(driver.host.session)
    await driver.settle()
    assert "Writing"[: size[0] - 4] in driver.text("#hints" if size[1] in range(13, 24) else "#activity")
    assert driver.app.workbench.prompt.region.height >= 1
    driver.host.session.ask("a1", "make all")
    await driver.until_screen("Approval")
    assert "make all" in driver.text()


@cases
async def a_storm_of_sizes_leaves_the_app_whole(driver: Driver) -> None:
    play_work(driver.host.session)
    for width, height in [(20, 5), (200, 60), (1, 1), (79, 15), (121, 9), (80, 24)]:
        await driver.pilot.resize_terminal(width, height)
    await driver.settle()
    assert "Two cases end" in driver.text("#chat-pane")


@cases.at((70, 20))
async def side_panes_share_a_narrow_screen_by_key(driver: Driver) -> None:
    play_work(driver.host.session)
    await driver.press("f8")
    assert driver.app.workbench.panes.is_over("log")
    assert driver.app.workbench.panes.side_pane.region.width == 70
    assert "run" in driver.text("#log-pane")
    await driver.press("escape")
    assert not driver.app.workbench.panes.is_over("log")
    assert driver.host.session.is_running


@cases
async def a_mode_set_by_slash_reaches_the_session_and_never_the_model(driver: Driver) -> None:
    await driver.type("/mode auto")
    assert driver.host.session.mode is Mode.AUTO
    assert driver.host.session.submitted == []
    assert "auto" in driver.text("#foot")


async def ask(driver: Driver, text: str = "rm -rf build") -> None:
    await driver.type("go")
    driver.host.session.ask("a1", text)
    await driver.until_screen("Approval")


class BrokenSession(FakeSession):
    async def wait_idle(self) -> None:
        raise RuntimeError("the engine is broken")


@cases.at(SMALL)
async def a_text_that_fits_needs_no_scrolling(driver: Driver) -> None:
    await ask(driver, "\n".join(f"echo {number}" for number in range(8)))
    driver.host.clock.forward(0.3)
    await driver.press("y")
    assert driver.host.session.answers["a1"].outcome is Outcome.ONCE


@cases.each("diff", ["", DIFF])
async def keys_struck_while_a_question_opens_and_closes_break_nothing(driver: Driver, diff: str) -> None:
    await driver.type("go")
    for number in range(5):
        driver.host.session.ask(f"a{number}", "make", diff=diff, path="a.py")
        driver.app.workbench.ready.approvals.sync()
        driver.app.simulate_key("y")
        await driver.until_screen("Approval")
        driver.host.clock.forward(1)
        driver.app.simulate_key("y")
        driver.app.simulate_key("y")
        await driver.pilot.resize_terminal(100 + number, 30)
        await driver.until(partial(driver.host.session.answers.__contains__, f"a{number}"))
        await driver.until_screen("Workbench")
    await driver.settle()
    assert len(driver.host.session.answers) == 5


@cases.each("key", ["f1", "f2", "f5", "f10", "ctrl+p"])
async def keys_struck_while_a_screen_opens_break_nothing(driver: Driver, key: str) -> None:
    play_work(driver.host.session)
    for _ in range(3):
        for struck in (key, "down", "x", "escape", "escape"):
            driver.app.simulate_key(struck)
        await driver.settle()
    assert driver.app.return_code is None


@cases
async def keys_reach_the_prompt_though_the_terminal_said_that_it_is_not_in_front(driver: Driver) -> None:
    driver.app.post_message(AppBlur())
    await driver.settle()
    assert driver.app.focused is None
    await driver.press("h", "e", "y")
    assert driver.app.workbench.prompt.text == "hey"


@cases
async def keys_go_to_the_prompt_where_nothing_has_the_focus(driver: Driver) -> None:
    driver.app.screen.set_focus(None)
    await driver.press("e", "G", "k")
    assert driver.app.workbench.prompt.text == "eGk"


@cases
async def an_action_of_the_widget_in_focus_does_nothing_where_none_has_it(driver: Driver) -> None:
    driver.app.screen.set_focus(None)
    assert not await driver.app.run_action("focused.jump('error', 1)", driver.app.screen)


async def test_the_cases() -> None:
    await cases.run()
