from __future__ import annotations

from lmtui.tui.modals.picker import Picker
from lmtui.tui.modals.results import Choice
from lmtui.tui.summary import KeyPlace, hint_parts
from tests.sets import for_each
from tests.tui.driving import SMALL, WIDE, Driver
from tests.tui.fakes import play_work
from tests.tui.one_app import Cases, Size

cases = Cases()


def words(place: KeyPlace) -> str:
    return "  ".join(part.content.plain for part in hint_parts(place)[0])


def test_a_question_comes_first_in_the_key_row_and_says_how_to_reply() -> None:
    assert words(KeyPlace(is_asked=True, waiting=1)) == " ▲ 1 approval   Keys answer the question · Tab to reply"
    assert words(KeyPlace(is_asked=True, waiting=3)).startswith(" ▲ 3 approvals ")


@for_each("pane", ["", "files", "chat", "log"])
def test_a_low_screen_shows_four_verbs_and_where_the_others_are(pane: str) -> None:
    low, high = words(KeyPlace(pane, rows=24)), words(KeyPlace(pane))
    assert len(low.split("  ")) == (5 if "? more" in low else 4)
    assert ("? more" in low) == (pane in ("files", "chat"))
    assert len(high) > len(low) or pane == "log"


async def waits(driver: Driver, text: str) -> None:
    play_work(driver.host.session)
    driver.host.session.ask("a1", text)
    await driver.until_screen("Approval")


def ground(driver: Driver, word: str) -> object:
    region = driver.app.workbench.query_one("#hints").region
    strip = driver.strips()[region.y]
    return next(segment.style.bgcolor for segment in strip if word in segment.text and segment.style)


@cases.each("size", [WIDE, (60, 18)])
async def the_key_row_stays_below_a_question(driver: Driver, size: Size) -> None:
    await waits(driver, "make all")
    last = driver.text().splitlines()[-1]
    assert "▲ 1 approval" in last
    assert "Keys answer the question" in last
    amber = ground(driver, "1 approval")
    driver.host.session.end_turn()
    await driver.until_screen("Workbench")
    await waits(driver, "rm -rf / --no-preserve-root")
    assert ground(driver, "1 approval") != amber


@cases
async def the_prompt_is_muted_and_without_a_cursor_while_a_dialog_has_the_keys(driver: Driver) -> None:
    prompt = driver.app.workbench.prompt
    prompt.replace_text("unsent")
    await driver.settle()
    before = prompt.rich_style.color
    await driver.press("f2")
    await driver.until(lambda: not driver.app.workbench.is_active)
    await driver.settle()
    assert prompt.rich_style.color != before
    cursor, text = (prompt.get_component_rich_style("text-area--cursor"), prompt.rich_style)
    assert (cursor.color, cursor.bgcolor, cursor.reverse) == (text.color, text.bgcolor, None)
    await driver.press("escape")
    await driver.until(lambda: driver.app.workbench.is_active)
    await driver.settle()
    assert prompt.rich_style.color == before


@cases.at((60, 18))
async def on_a_low_screen_the_key_row_says_what_runs(driver: Driver) -> None:
    assert "Enter send" in driver.text("#hints")
    play_work(driver.host.session)
    await driver.settle()
    assert not driver.app.screen.query_one("#activity-row").display
    assert "Writing" in driver.text("#hints")
    assert "Esc stop" in driver.text("#hints")
    await driver.press("f2")
    await driver.until(lambda: "Esc close" in driver.text().splitlines()[-1])
    await driver.press("escape")
    await driver.until(lambda: "Esc stop" in driver.text().splitlines()[-1])
    driver.host.session.end_turn()
    await driver.until(lambda: "Enter send" in driver.text("#hints"))
    chat, dock = (driver.app.screen.query_one(each).region for each in ("#chat-pane", "#dock"))
    assert chat.bottom == dock.y


@cases.at((60, 18))
async def help_cuts_nothing_on_a_small_screen(driver: Driver) -> None:
    await driver.press("f1")
    await driver.until(lambda: "Toggle plan mode" in driver.text())
    await driver.settle()
    assert "❯" in driver.text("#help-box")
    rows = [row for row in driver.text("#help-box").splitlines() if "…" in row]
    assert not rows
    assert "Send the message, or queue it until the current turn ends." in driver.text("#help-box")
    assert "Shift+Tab" in driver.text("#help-box")


@cases.at((60, 18))
async def a_list_without_room_for_notes_tells_the_marked_ones_below_and_cuts_a_text_once(driver: Driver) -> None:
    _ = driver.app.push_screen(Picker("Rewind to before …", [Choice("a", f"{'x' * 55}…", "14:02")]))
    await driver.until_shown("14:02")
    assert "……" not in driver.text()


@cases.each("size", [SMALL, (60, 18)])
async def a_dialog_over_another_has_the_key_row_and_hides_the_other_on_a_low_screen(driver: Driver, size: Size) -> None:
    await driver.press("f2", to="Switcher")
    await driver.until(lambda: "n new" in driver.text().splitlines()[-1])
    await driver.app.push_screen(Picker("Theme", [Choice("a", "dusk")]))
    await driver.until_screen("Picker")
    await driver.until(lambda: "Enter choose" in driver.text()[-size[0] :])
    assert "n new" not in driver.text().splitlines()[-1]
    if size != SMALL:
        assert "n new" not in driver.text()
    await driver.press("escape")
    await driver.until(lambda: "n new" in driver.text().splitlines()[-1])
