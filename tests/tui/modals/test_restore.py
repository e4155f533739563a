from __future__ import annotations

import pytest

from lmtui.core.errors import SandboxError
from lmtui.core.events import Rewound, TurnReason
from lmtui.core.workspace import Restoration
from lmtui.tui.screens.changes_screen import turns_of
from tests.tui.driving import SMALL, Driver, running
from tests.tui.fake_changes import FakeChanges
from tests.tui.fakes import FakeSession
from tests.tui.scenes import with_steps


async def at_question(driver: Driver, typed: str) -> None:
    await driver.type(typed)
    await driver.until_screen("RestoreQuestion")
    driver.host.clock.forward(1)
    await driver.settle()


async def test_an_undo_shows_what_it_would_do_and_does_it_on_a_yes() -> None:
    async with running() as driver:
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


@pytest.mark.parametrize("keys", [("enter",), ("space",), ("n",), ("escape",)])
async def test_nothing_but_a_yes_undoes(keys: tuple[str, ...]) -> None:
    async with running() as driver:
        changes = await with_steps(driver)
        await at_question(driver, "/undo")
        await driver.press(*keys)
        assert changes.applied == []


async def test_a_yes_in_the_first_moment_does_not_count() -> None:
    async with running() as driver:
        changes = await with_steps(driver)
        await driver.type("/undo")
        await driver.until_screen("RestoreQuestion")
        await driver.press("y")
        assert changes.applied == []


async def test_an_undo_with_conflicts_names_them_and_knows_no_yes() -> None:
    async with running(size=SMALL) as driver:
        changes = await with_steps(driver)
        changes.conflicts = ("parser/lexer.py", "evil\u202e.py")
        await at_question(driver, "/undo 3")
        assert "refused: changed in the meantime: parser/lexer.py, evil<U+202E>.py" in driver.text()
        assert "y yes" not in driver.text()
        await driver.press("y")
        assert changes.applied == []


async def test_what_is_left_out_is_named() -> None:
    async with running() as driver:
        changes = await with_steps(driver)
        changes.left_out = ("data/corpus.bin",)
        await at_question(driver, "/undo")
        assert "not covered, they stay as they are: data/corpus.bin" in driver.text()


async def test_a_redo_does_again_what_was_undone() -> None:
    async with running() as driver:
        changes = await with_steps(driver)
        await at_question(driver, "/undo")
        await driver.press("y")
        await at_question(driver, "/redo")
        await driver.press("y")
        assert [plan.action for plan, _ in changes.applied] == ["undo", "redo"]
        await driver.until(lambda: "done again: shell python -m build" in driver.text("#chat-pane"))


async def test_the_keys_ask_as_the_words_do() -> None:
    async with running() as driver:
        await with_steps(driver)
        await driver.press("alt+u")
        await driver.until_screen("RestoreQuestion")
        await driver.press("escape", "alt+r")
        await driver.until_screen("Picker")


async def test_nothing_to_undo_is_said() -> None:
    async with running() as driver:
        FakeChanges(driver.host.session)
        await driver.type("/undo")
        await driver.until(lambda: "there is nothing to undo" in driver.text("#say"))


async def test_a_number_that_is_none_is_said() -> None:
    async with running() as driver:
        changes = await with_steps(driver)
        for typed in ("/undo many", "/undo 0", "/undo -1", "/redo ²"):
            await driver.type(typed)
            assert "not a number of steps" in driver.text("#say")
        assert changes.applied == []


@pytest.mark.parametrize("typed", ["/undo", "/redo", "/rewind"])
async def test_without_checkpoints_it_is_said_that_undo_is_not_available(typed: str) -> None:
    async with running() as driver:
        await driver.type(typed)
        assert "undo is not available here" in driver.text("#say")


async def test_an_undo_that_fails_is_said() -> None:
    class Stubborn(FakeChanges):
        async def apply(self, plan: Restoration, *, with_files: bool = True) -> None:
            raise SandboxError("parser/lexer.py cannot be written")

    async with running() as driver:
        await with_steps(driver)
        stubborn = Stubborn(driver.host.session)
        driver.host.session.begin_turn("go")
        stubborn.add("x", "edit", "a.py")
        driver.host.session.end_turn()
        await at_question(driver, "/undo")
        await driver.press("y")
        await driver.until(lambda: "cannot be written" in driver.text("#say"))


@pytest.mark.parametrize(("key", "with_files"), [("y", True), ("c", False)])
async def test_a_rewind_goes_back_with_the_files_or_without(key: str, with_files: bool) -> None:
    async with running() as driver:
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


async def test_a_rewind_with_conflicts_leaves_the_conversation_alone_to_go_back() -> None:
    async with running() as driver:
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


async def test_where_nothing_was_said_there_is_nothing_to_rewind() -> None:
    async with running() as driver:
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


async def test_the_count_of_changed_files_follows_an_undo() -> None:
    async with running() as driver:
        await with_steps(driver)
        assert "4 changed" in driver.text("#files-title")
        await at_question(driver, "/undo 2")
        await driver.press("y")
        await driver.until(lambda: "1 changed" in driver.text("#files-title"))
        await at_question(driver, "/redo 2")
        await driver.press("y")
        await driver.until(lambda: "4 changed" in driver.text("#files-title"))
