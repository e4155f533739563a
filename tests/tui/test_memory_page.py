from __future__ import annotations

from dataclasses import replace

from lmtui.features.memory.notes import MemoryScope, Note
from lmtui.features.memory.values import ProposalsChanged, SearchHit, SearchSource
from tests.tui.driving import SMALL, Driver
from tests.tui.fake_memory import FakeMemory, some_notes, some_proposals
from tests.tui.one_app import Cases

cases = Cases()

RULE = "Run tests with pytest -q tests, not make test"


def memory_of(driver: Driver) -> FakeMemory:
    return driver.host.extensions.memory


async def show(driver: Driver, *keys: str) -> None:
    memory_of(driver).kept, memory_of(driver).proposed = some_notes(), some_proposals()
    await driver.type("/memory", "MemoryList")
    await driver.until(lambda: "3 proposed" in driver.text())
    await driver.press(*keys)


@cases.at(SMALL)
async def a_proposal_is_shown_with_why_and_kept_with_a_key_or_discarded(driver: Driver) -> None:
    await show(driver)
    for words in (RULE, "use pytest directly", "turn 2", "from a web page", ".lmagent/memory.md"):
        assert words in driver.text()
    await driver.press("y")
    await driver.until(lambda: "2 proposed" in driver.text())
    assert memory_of(driver).done == [("keep", "p1", "", MemoryScope.PROJECT)]
    await driver.press("n")
    await driver.until(lambda: "1 proposed" in driver.text())
    assert memory_of(driver).done[1:] == [("discard", "p2")]
    assert "60 nested" not in driver.text()


@cases
async def nothing_is_kept_by_enter_or_a_click_nor_where_that_fails_and_what_changes_meanwhile_appears(driver: Driver) -> None:
    await show(driver, "enter")
    await driver.until_screen("Reading")
    assert "make test also builds the docs" in driver.text()
    await driver.press("escape", "down", to="MemoryList")
    _ = await driver.pilot.click("#memory-box Table", offset=(5, 1))
    await driver.until_screen("Reading")
    await driver.press("escape", to="MemoryList")
    assert not memory_of(driver).done
    assert "again: pytest -q tests" in driver.text("#memory-state")
    await driver.press("/", *"zebra")
    assert 'No note matches "zebra"' in driver.text()
    await driver.press("escape", "home")
    assert RULE in driver.text()
    memory_of(driver).problem = "the disk is full"
    await driver.press("y")
    await driver.until_shown("the disk is full", "#memory-state")
    assert "3 proposed" in driver.text()
    memory_of(driver).proposed = some_proposals()[:2]
    await driver.until(lambda: "2 proposed" in driver.text())
    assert "Skill" not in driver.text()


@cases
async def how_many_wait_is_in_the_key_row_and_what_was_edited_and_moved_is_kept_so(driver: Driver) -> None:
    driver.host.session.emit(ProposalsChanged(waiting=2))
    await driver.until(lambda: "2 notes proposed" in driver.text())
    await show(driver, "e")
    await driver.until_screen("AskText")
    await driver.press("end", "!", "enter", to="MemoryList")
    assert f"{RULE}!" in driver.text("#memory-state")
    await driver.press("space")
    await driver.until(lambda: "all folders" in driver.text("#memory-state"))
    assert not memory_of(driver).done
    await driver.press("y")
    await driver.until(lambda: "2 proposed" in driver.text())
    assert memory_of(driver).done == [("keep", "p1", f"{RULE}!", MemoryScope.USER)]
    await driver.press("home", "down", "space", "y", to="Reading")
    assert len(memory_of(driver).done) == 1


@cases.each(("key", "verb", "ids"), [("Y", "keep", ("p1", "p2")), ("N", "discard", ("p1", "p2", "p3"))])
async def all_that_is_listed_is_decided_after_a_question_but_skills_one_by_one(
    driver: Driver, key: str, verb: str, ids: tuple[str, ...]
) -> None:
    await show(driver, "/", *"pytest", "enter", key)
    await driver.until_screen("Confirm")
    assert "1 proposal?" in driver.text()
    await driver.press("n", to="MemoryList")
    assert not memory_of(driver).done
    await driver.press("escape", "end", key, to="Confirm")
    assert f"{len(ids)} proposals?" in driver.text()
    await driver.press("y")
    await driver.until(lambda: f"{3 - len(ids)} proposed" in driver.text())
    assert [each[:2] for each in memory_of(driver).done] == [(verb, each) for each in ids]


@cases
async def notes_are_edited_moved_added_and_forgotten(driver: Driver) -> None:
    first, second, *_ = some_notes()
    await show(driver, *3 * ("down",), "e")
    await driver.until_screen("AskText")
    await driver.press("end", "!", "enter", to="MemoryList")
    changed = replace(first, text=f"{first.text}!")
    await driver.until(lambda: memory_of(driver).done == [("change", first, changed)])
    await driver.press("space")
    moved = replace(changed, scope=MemoryScope.USER)
    await driver.until(lambda: memory_of(driver).done[-1] == ("change", changed, moved))
    await driver.press("/", *"make docs", "enter")
    await driver.press("d", to="Confirm")
    await driver.press("y", to="MemoryList")
    await driver.until(lambda: memory_of(driver).done[-1] == ("remove", second))
    await driver.press("escape", "end", "a", to="AskText")
    await driver.press(*"tabs", "enter")
    await driver.until(lambda: memory_of(driver).done[-1] == ("add", Note("tabs", MemoryScope.USER, "you")))
    await driver.until(lambda: "3 proposed, 4 notes" in driver.text())


@cases
async def what_is_found_is_opened_by_enter(driver: Driver) -> None:
    host = driver.host
    host.extensions.memory.hits = [
        SearchHit(SearchSource.CODE, "parser/lexer.py:10-42", "def read_token(text):\n    return text\n", title="read_token"),
        SearchHit(SearchSource.MEMORY, "project", "Tests need Python 3.12 or newer [red]\x1b[2J"),
    ]
    await driver.type("/find token", "Picker")
    await driver.until_shown("parser/lexer.py:10-42")
    assert "[red]" in driver.text()
    assert "\x1b" not in driver.text()
    await driver.press("home", "enter", to="Workbench")
    await driver.until_shown("@parser/lexer.py:10-42")
    host.extensions.memory.hits = ()
    await driver.type("/find xylophone")
    await driver.until_shown("Nothing was found.")


@cases.full()
async def what_is_found_late_does_not_open_over_another_page(driver: Driver) -> None:
    memory = memory_of(driver)
    memory.hits = [SearchHit(SearchSource.CODE, "parser/lexer.py:10-42", "def read_token(text)", title="read_token")]
    memory.may_answer.clear()
    await driver.type("/find token")
    await driver.press("f1", to="Help")
    memory.may_answer.set()
    await driver.until(lambda: bool(driver.app.workbench.say_line._said))
    assert driver.screen_name == "Help"
    await driver.press("escape", to="Workbench")
    await driver.until_shown("/find token: 1 hit; search again to see them.")
