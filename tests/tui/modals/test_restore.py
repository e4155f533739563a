from __future__ import annotations

from lmtui.core.errors import SandboxError
from lmtui.core.events import Rewound, TurnReason
from lmtui.tui.screens.changes_screen import turns_of
from tests.tui.driving import SMALL, Driver
from tests.tui.fake_changes import FakeChanges
from tests.tui.fakes import FakeSession
from tests.tui.one_app import Cases
from tests.tui.scenes import with_steps

cases = Cases()


async def at_question(driver: Driver, typed: str) -> None:
    await driver.type(typed, "RestoreQuestion")
    driver.host.clock.forward(1)
    await driver.settle()


@cases
async def an_undo_shows_what_it_would_do_and_does_it_on_a_yes(driver: Driver) -> None:
    changes = await with_steps(driver)
    await at_question(driver, "/undo 2")
    assert "Undo last 2 steps?" in driver.text()
    assert "parser/tests/test_lexer.py  deleted" in driver.text()
    assert ("y Undo" in driver.text(), "Esc back" in driver.text(), changes.applied) == (True, True, [])
    await driver.press("enter", to="Workbench")
    assert "Undone · /redo" in driver.text("#say")
    assert [(plan.action, plan.calls) for plan, _ in changes.applied] == [
        ("undo", tuple(step.id for step in changes.steps()[1:]))
    ]
    await driver.until(lambda: "undone: " in driver.text("#chat-pane"))


@cases
async def nothing_but_a_yes_undoes_and_none_of_the_first_moment(driver: Driver) -> None:
    changes = await with_steps(driver)
    await driver.type("/undo", "RestoreQuestion")
    await driver.press("y", "enter", "space", "n", "escape", to="Workbench")
    assert changes.applied == []


@cases.at(SMALL)
async def an_undo_with_conflicts_names_them_and_knows_no_yes(driver: Driver) -> None:
    changes = await with_steps(driver)
    changes.conflicts, changes.left_out = ("parser/lexer.py", "evil\u202e.py"), ("data/corpus.bin",)
    await at_question(driver, "/undo 3")
    assert "Refused: changed in the meantime: parser/lexer.py, evil<U+202E>.py" in driver.text()
    assert "Left alone: data/corpus.bin (not tracked)" in driver.text()
    assert "y yes" not in driver.text()
    await driver.press("y")
    assert changes.applied == []


@cases.full()
async def a_redo_does_again_what_was_undone(driver: Driver) -> None:
    changes = await with_steps(driver)
    assert "4 changed" in driver.text("#files-title")
    await at_question(driver, "/undo")
    await driver.press("y")
    await driver.until(lambda: "3 changed" in driver.text("#files-title"))
    await at_question(driver, "/redo")
    await driver.press("y")
    assert [plan.action for plan, _ in changes.applied] == ["undo", "redo"]
    await driver.until(lambda: "4 changed" in driver.text("#files-title"))
    await driver.until(lambda: "done again: " in driver.text("#chat-pane"))


@cases.full()
async def where_nothing_can_be_taken_back_or_a_number_is_none_it_is_said(driver: Driver) -> None:
    async def said(typed: str, words: str) -> None:
        await driver.type(typed)
        await driver.until(lambda: words in driver.text("#say"))

    await said(f"/undo {'9' * 5000}", "undo is not available here")
    await said("/redo", "undo is not available here")
    changes = FakeChanges(driver.host.session)
    await said("/undo", "there is nothing to undo")
    await said("/rewind", "nothing to rewind to")
    for typed in ("/undo many", "/undo 0", "/undo -1", "/redo ²"):
        await said(typed, f"not a number of steps: {typed.split()[1]!r}")
    driver.host.session.begin_turn("go")
    changes.add("x", "edit", "a.py")
    changes.failure = SandboxError("parser/lexer.py cannot be written")
    driver.host.session.end_turn()
    await at_question(driver, "/undo")
    await driver.press("y")
    await driver.until(lambda: "cannot be written" in driver.text("#say"))


@cases.each(("key", "with_files"), [("y", True), ("c", False)])
async def a_rewind_goes_back_with_the_files_or_without(driver: Driver, key: str, with_files: bool) -> None:
    changes = await with_steps(driver)
    driver.host.session.begin_turn("and the docs")
    driver.host.session.end_turn(TurnReason.DONE)
    await driver.type("/rewind", "Picker")
    await driver.press("down", "enter", to="RestoreQuestion")
    driver.host.clock.forward(1)
    await driver.press(key, to="Workbench")
    assert [(plan.turn_id, files) for plan, files in changes.applied] == [("turn-1", with_files)]
    await driver.until(lambda: "the conversation continues from here" in driver.text("#chat-pane"))


@cases
async def a_rewind_with_conflicts_leaves_the_conversation_alone_to_go_back(driver: Driver) -> None:
    changes = await with_steps(driver)
    changes.conflicts = ("parser/lexer.py",)
    await driver.type("/rewind")
    await driver.press("enter", to="RestoreQuestion")
    driver.host.clock.forward(1)
    await driver.press("y")
    assert changes.applied == []
    await driver.press("c")
    await driver.until(lambda: bool(changes.applied))
    assert [files for _, files in changes.applied] == [False]


async def test_what_was_rewound_is_not_offered_again() -> None:
    session = FakeSession()
    for text in ("one", "two", "three"):
        session.begin_turn(text)
        session.end_turn()
    session.emit(Rewound(turn_id="turn-2"))
    session.begin_turn("four")
    assert [turn.text for turn in turns_of(session.history())] == ["one", "four"]
