"""A file or the changes at the right of the conversation, which goes on."""

from __future__ import annotations

from textual.events import Paste

from lmtui.core import events
from lmtui.core.agent_events import PlanDecided, PlanOutcome, PlanProposed
from lmtui.core.events import TextDelta
from lmtui.core.workspace import FileChange, FileChangeKind
from tests.tui.driving import WIDE, Driver
from tests.tui.fake_changes import FakeChanges
from tests.tui.fakes import play_work
from tests.tui.one_app import Cases, Size
from tests.tui.scenes_plan import PROPOSAL
from tests.tui.screens.test_viewer import host, viewing


def seen(driver: Driver) -> str:
    """Return what the whole terminal shows, the screens below the top one too."""
    app = driver.app
    lines = driver.strips()
    below = app.workbench._compositor.render_strips(app.size)
    left = app.size.width - getattr(app.screen, "columns", app.size.width)
    rows = zip(below, lines, strict=True)
    return "\n".join(under.crop(0, left).text + over.crop(left, app.size.width).text for under, over in rows)


cases = Cases()
host_cases = Cases(host)


@host_cases.at(WIDE)
async def a_file_is_read_beside_a_conversation_that_goes_on(driver: Driver) -> None:
    await driver.type("read the long file")
    await viewing(driver)
    chat = driver.app.workbench.panes.chat_pane
    assert (chat.outer_size.width, driver.app.screen.query_one("#viewer-file").region.x) == (58, 86)
    driver.host.session.emit(TextDelta(text="It counts its lines."))
    await driver.until(lambda: "It counts its lines." in seen(driver))
    assert "line 3" in seen(driver)
    assert "read the long file" in seen(driver)
    await driver.press("alt+z")
    assert driver.app.screen.query_one("#viewer-file").region.x == 0
    await driver.press("alt+z")
    for width, x in ((100, 0), (WIDE[0], 86)):  # no room for both, and again
        await driver.pilot.resize_terminal(width, 40)
        await driver.settle()
        assert driver.app.screen.query_one("#viewer-file").region.x == x
    await driver.press("escape")
    await driver.until(lambda: chat.outer_size.width > 60)


async def at_work(driver: Driver) -> None:
    play_work(driver.host.session)
    await driver.settle()


@cases.at(WIDE)
async def a_call_of_the_conversation_or_the_log_opens_its_output_and_an_edit_its_change(driver: Driver) -> None:
    await at_work(driver)
    await driver.press("f9", "up", "up", "enter", to="OutputScreen")
    assert "2 failed, 14 passed in" in driver.text("#output-page")
    await driver.press("escape", "f8", "home", "down", "enter", to="OutputScreen")
    assert "while depth:" in driver.text("#output-diff")
    await driver.press("shift+tab")
    assert "Read  parser/lexer.py" in driver.text("#output-title")
    assert "1  class Lexer:" in driver.text("#output-page")
    await driver.press("tab", "tab", "tab")
    assert "pytest -q" in driver.text("#output-title")


@cases.full(WIDE)
async def the_output_of_a_call_that_runs_grows(driver: Driver) -> None:
    await at_work(driver)
    driver.host.session.start_call("c9", "shell", "make")
    await driver.press("f8", "end", "enter", to="OutputScreen")
    assert "No output yet." in driver.text("#output-page")
    driver.host.session.emit(events.ToolOutputDelta(call_id="c9", text="linking\n"))
    await driver.until(lambda: "linking" in driver.text("#output-page"))
    driver.host.session.finish_call("c9", "shell", result="all of it is linked")
    await driver.until(lambda: "all of it is linked" in driver.text("#output-page"))
    await driver.until(lambda: "running" not in driver.text("#output-title"))


@cases.each("size", [WIDE, (60, 18)])
async def the_key_row_says_what_the_keys_do_here_and_other_letters_go_to_the_prompt(driver: Driver, size: Size) -> None:
    await at_work(driver)
    await driver.press("f8", "end", "enter")
    assert "Tab next call" in driver.text("#side-keys")
    await driver.press("escape", "f10", to="ChangesScreen")
    assert "u side by side" in driver.text("#side-keys")
    assert ("Alt+Z full screen" in driver.text("#side-keys")) == (size == WIDE)
    assert driver.app.screen.query_one("#side-keys").region.width == size[0]
    assert driver.app.screen.query_one("#changes-head").region.x == (86 if size == WIDE else 0)
    await driver.press("u")
    await driver.type_fast("hurry")
    assert driver.screen_name == "Workbench"
    assert driver.app.workbench.prompt.text == "hurry"
    await driver.press("f10", to="ChangesScreen")
    driver.app.post_message(Paste(" up"))
    await driver.until(lambda: driver.screen_name == "Workbench" and driver.app.workbench.prompt.text == "hurry up")
    assert driver.app.workbench.focused is driver.app.workbench.prompt
    await driver.press("f6")
    driver.app.post_message(Paste(" now"))
    await driver.until(lambda: driver.app.workbench.prompt.text == "hurry up now")


@cases.full(WIDE)
async def the_changes_follow_what_is_written_until_the_reader_scrolls(driver: Driver) -> None:
    added = "@@ -0,0 +1,60 @@\n" + "".join(f"+{{0}} {number}\n" for number in range(60))
    session = driver.host.session
    session.begin_turn("Write three files.")
    changes = FakeChanges(session)

    def write(name: str) -> None:
        diff = added.replace("{0}", name)
        changes.add(name, "write", f"{name}.py", FileChange(f"{name}.py", FileChangeKind.ADDED, 60, 0, diff))

    write("one")
    await driver.press("f10")
    await driver.until(lambda: "one 3" in driver.text("#changes-diff"))
    assert "This turn  one.py  +60" in driver.text("#changes-head")
    assert "live" in driver.text("#side-tabs")
    write("two")
    await driver.until(lambda: "two 3" in driver.text("#changes-diff"))
    assert "This turn  2 files" in driver.text("#changes-head")
    await driver.press("up")
    write("three")
    await driver.until(lambda: "3 files" in driver.text("#changes-head"))
    assert "two 3" in driver.text("#changes-diff")
    assert "live" not in driver.text("#side-tabs")


@cases.full(WIDE)
async def a_plan_that_was_decided_on_can_be_read_again(driver: Driver) -> None:
    driver.host.session.emit(PlanProposed(proposal_id="p1", proposal=PROPOSAL))
    await driver.until_screen("PlanQuestion")
    driver.host.session.emit(PlanDecided(proposal_id="p1", outcome=PlanOutcome.APPROVED))
    await driver.until_screen("Workbench")
    await driver.type("/plan", "OutputScreen")
    await driver.press("right")
    assert PROPOSAL.title in driver.text("#output-title")


@cases.at(WIDE)
async def a_question_is_asked_while_the_side_pane_is_open(driver: Driver) -> None:
    await at_work(driver)
    await driver.press("f10", to="ChangesScreen")
    driver.host.session.ask("a1", "rm -r build")
    await driver.until_screen("Approval")
    driver.host.clock.forward(1)
    await driver.press("y", to="ChangesScreen")
    assert driver.host.session.answers
    driver.host.session.ask("a2", "rm -r build")
    await driver.until_screen("Approval")
    driver.host.clock.forward(1)
    await driver.type_fast("why")
    await driver.until_screen("Workbench")
    assert driver.app.workbench.prompt.text == "why"
