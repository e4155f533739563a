from __future__ import annotations

from lmtui.core.errors import SandboxError
from lmtui.core.events import Rewound, TurnReason
from lmtui.core.workspace import Restoration
from lmtui.tui.screens.changes_screen import turns_of
from tests.tui.driving import SMALL, Driver
from tests.tui.fake_changes import FakeChanges
from tests.tui.fakes import FakeSession
from tests.tui.one_app import Cases
from tests.tui.scenes import with_steps

cases = Cases()


async def at_question(driver: Driver, typed: str) -> None:
    await driver.type(typed)
    await driver.until_screen("RestoreQuestion")
    driver.host.clock.forward(1)
    await driver.settle()


@cases
async def an_undo_shows_what_it_would_do_and_does_it_on_a_yes(driver: Driver) -> None:
    changes = await with_steps(driver)
    await at_question(driver, "/undo 2")
    assert "Undo: the last 2 steps" in driver.text()
    assert "parser/tests/test_lexer.py  deleted" in driver.text()
    last = driver.text().splitlines()[-1]
    assert all(words in last for words in ("y apply", "n cancel", "Esc close"))
    assert "send" not in last
    assert changes.applied == []
    await driver.press("y")
    await driver.until_screen("Workbench")
    assert [(plan.action, plan.calls) for plan, _ in changes.applied] == [
        ("undo", tuple(step.id for step in changes.steps()[1:]))
    ]
    await driver.until(lambda: "undone: shell python tools/scaffold.py" in driver.text("#chat-pane"))


@cases.each("keys", [("enter",), ("space",), ("n",), ("escape",)])
async def nothing_but_a_yes_undoes(driver: Driver, keys: tuple[str, ...]) -> None:
    changes = await with_steps(driver)
    await at_question(driver, "/undo")
    await driver.press(*keys)
    assert changes.applied == []


@cases
async def a_yes_in_the_first_moment_does_not_count(driver: Driver) -> None:
    changes = await with_steps(driver)
    await driver.type("/undo")
    await driver.until_screen("RestoreQuestion")
    await driver.press("y")
    assert changes.applied == []


@cases.at(SMALL)
async def an_undo_with_conflicts_names_them_and_knows_no_yes(driver: Driver) -> None:
    changes = await with_steps(driver)
    changes.conflicts = ("parser/lexer.py", "evil\u202e.py")
    await at_question(driver, "/undo 3")
    assert "refused: changed in the meantime: parser/lexer.py, evil<U+202E>.py" in driver.text()
    assert "y yes" not in driver.text()
    await driver.press("y")
    assert changes.applied == []


@cases
async def what_is_left_out_is_named(driver: Driver) -> None:
    changes = await with_steps(driver)
    changes.left_out = ("data/corpus.bin",)
    await at_question(driver, "/undo")
    assert "not covered, they stay as they are: data/corpus.bin" in driver.text()


@cases
async def a_redo_does_again_what_was_undone(driver: Driver) -> None:
    changes = await with_steps(driver)
    await at_question(driver, "/undo")
    await driver.press("y")
    await at_question(driver, "/redo")
    await driver.press("y")
    assert [plan.action for plan, _ in changes.applied] == ["undo", "redo"]
    await driver.until(lambda: "done again: shell python -m build" in driver.text("#chat-pane"))


@cases
async def the_keys_ask_as_the_words_do(driver: Driver) -> None:
    await with_steps(driver)
    await driver.press("alt+u")
    await driver.until_screen("RestoreQuestion")
    await driver.press("escape", "alt+r")
    await driver.until_screen("Picker")


@cases
async def nothing_to_undo_is_said(driver: Driver) -> None:
    FakeChanges(driver.host.session)
    await driver.type("/undo")
    await driver.until(lambda: "there is nothing to undo" in driver.text("#say"))


@cases
async def a_number_that_is_none_is_said(driver: Driver) -> None:
    changes = await with_steps(driver)
    for typed in ("/undo many", "/undo 0", "/undo -1", "/redo ²"):
        await driver.type(typed)
        assert "not a number of steps" in driver.text("#say")
    assert changes.applied == []


@cases.each("typed", ["/undo", "/redo", "/rewind"])
async def without_checkpoints_it_is_said_that_undo_is_not_available(driver: Driver, typed: str) -> None:
    await driver.type(typed)
    assert "undo is not available here" in driver.text("#say")


@cases
async def an_undo_that_fails_is_said(driver: Driver) -> None:
    class Stubborn(FakeChanges):
        async def apply(self, plan: Restoration, *, with_files: bool = True) -> None:
            raise SandboxError("parser/lexer.py cannot be written")

    await with_steps(driver)
    stubborn = Stubborn(driver.host.session)
    driver.host.session.begin_turn("go")
    stubborn.add("x", "edit", "a.py")
    driver.host.session.end_turn()
    await at_question(driver, "/undo")
    await driver.press("y")
    await driver.until(lambda: "cannot be written" in driver.text("#say"))


@cases.each(("key", "with_files"), [("y", True), ("c", False)])
async def a_rewind_goes_back_with_the_files_or_without(driver: Driver, key: str, with_files: bool) -> None:
    changes = await with_steps(driver)
    driver.host.session.begin_turn("and the docs")
    driver.host.session.end_turn(TurnReason.DONE)
    await driver.type("/rewind")
    await driver.until_screen("Picker")
    await driver.press("down", "enter")
    await driver.until_screen("RestoreQuestion")
    driver.host.clock.forward(1)
    await driver.press(key)
    await driver.until_screen("Workbench")
    assert [(plan.turn_id, files) for plan, files in changes.applied] == [("turn-1", with_files)]
    await driver.until(lambda: "the conversation continues from here" in driver.text("#chat-pane"))


@cases
async def a_rewind_with_conflicts_leaves_the_conversation_alone_to_go_back(driver: Driver) -> None:
    changes = await with_steps(driver)
    changes.conflicts = ("parser/lexer.py",)
    await driver.type("/rewind")
    await driver.press("enter")
    await driver.until_screen("RestoreQuestion")
    driver.host.clock.forward(1)
    await driver.press("y")
    assert changes.applied == []
    await driver.press("c")
    await driver.until(lambda: bool(changes.applied))
    assert [files for _, files in changes.applied] == [False]


@cases
async def where_nothing_was_said_there_is_nothing_to_rewind(driver: Driver) -> None:
    FakeChanges(driver.host.session)
    await driver.type("/rewind")
    await driver.until(lambda: "nothing to rewind to" in driver.text("#say"))


async def test_what_was_rewound_is_not_offered_again() -> None:
    session = FakeSession()
    for text in ("one", "two", "three"):
        session.begin_turn(text)
        session.end_turn()
    session.emit(Rewound(turn_id="turn-2"))
    session.begin_turn("four")
    assert [turn.text for turn in turns_of(session.history())] == ["one", "four"]


@cases
async def the_count_of_changed_files_follows_an_undo(driver: Driver) -> None:
    await with_steps(driver)
    assert "4 changed" in driver.text("#files-title")
    await at_question(driver, "/undo 2")
    await driver.press("y")
    await driver.until(lambda: "1 changed" in driver.text("#files-title"))
    await at_question(driver, "/redo 2")
    await driver.press("y")
    await driver.until(lambda: "4 changed" in driver.text("#files-title"))


async def test_the_cases() -> None:
    await cases.run()
