from __future__ import annotations

import time
from typing import Any

import pytest

from lmtui.core.events import MessageAdded, PlanChanged, TurnReason
from lmtui.core.messages import Role
from lmtui.core.model_events import Reminder
from lmtui.core.permissions.rules import Mode
from lmtui.core.plan import Plan, PlanStep, TaskState, TodoStatus
from lmtui.core.workspace import ExecResult
from lmtui.engine.stop_policy import _first_sentences
from lmtui.engine.turn_outcome import goes_on, reason_of, without_token
from tests.engine.seen import call, ending, ran, seen
from tests.fakes import FakeCheckpoints, FakeProvider, FakeSandbox, Rig, answer
from tests.sets import for_each


def nudges(rig: Rig) -> list[str]:
    return [event.text for event in seen(rig, Reminder) if event.text.startswith("Not finished yet")]


ADD = answer("", ("todo_add", call(description="write it")), ("todo_add", call(description="test it")))


async def test_open_todos_are_named_once_and_then_the_turn_is_not_finished() -> None:
    rig = await ran(Rig(FakeProvider(ADD, answer("All is done."), answer("Really, all is done."))))
    assert len(nudges(rig)) == 1
    assert "2 todos open (1 write it, 2 test it)" in nudges(rig)[0]
    assert (ending(rig).reason, ending(rig).exit_code) == (TurnReason.UNFINISHED, 2)
    assert ending(rig).error == "not finished: 2 todos open (1 write it, 2 test it)"
    assert ending(rig).text == "Really, all is done."


async def test_what_the_nudge_brings_about_is_done() -> None:
    complete = answer("", ("todo_complete", call(id=1)), ("todo_complete", call(id=2)))
    rig = await ran(Rig(FakeProvider(ADD, answer("Done."), complete, answer("Now it is."))))
    assert (len(nudges(rig)), ending(rig).reason) == (1, TurnReason.DONE)


async def test_one_that_does_some_of_it_is_told_again_until_it_stops_doing_any() -> None:
    some = answer("", ("todo_complete", call(id=1)))
    rig = await ran(Rig(FakeProvider(ADD, answer("Done."), some, answer("Done?!"), answer("Done."))))
    assert len(nudges(rig)) == 2
    assert "1 todo open (2 test it)" in ending(rig).error


async def test_what_an_earlier_task_left_open_holds_up_no_other_question() -> None:
    rig = await ran(Rig(FakeProvider(ADD, answer("Done."), answer("Done."))))
    rig.provider.answers[:] = [answer("", ("ls", "{}")), answer("There is nothing here.")]
    await rig.run("what is in this folder?")
    assert (ending(rig).reason, len(nudges(rig))) == (TurnReason.DONE, 1)


async def test_a_later_list_does_not_count_the_one_before_and_touching_it_does() -> None:
    rig = await ran(Rig(FakeProvider(ADD, answer("Done."), answer("Done."))))
    other = answer("", ("todo_add", call(description="another")), ("todo_complete", call(id=3)))
    rig.provider.answers[:] = [other, answer("That is done.")]
    await rig.run("do another thing")
    assert ending(rig).reason is TurnReason.DONE
    rig.provider.answers[:] = [answer("", ("todo_complete", call(id=1))), answer("ok"), answer("ok")]
    await rig.run("and the first of the old ones")
    assert ending(rig).error == "not finished: 1 todo open (2 test it)"


async def test_going_on_is_about_all_that_is_open_also_after_a_resume() -> None:
    rig = await ran(Rig(FakeProvider(ADD, answer("Done."), answer("Done."))))
    resumed = await ran(Rig(FakeProvider(answer("It is."), answer("It is.")), past=rig.log.events), "go on")
    assert "2 todos open" in ending(resumed).error


async def test_a_count_that_is_not_at_its_end_is_refused() -> None:
    update = answer("", ("task_state_update", call(total_count=5, processed_count=3, objective="move five")))
    rig = await ran(Rig(FakeProvider(update, answer("TASK_COMPLETE"), answer("TASK_COMPLETE"))))
    assert "3 of 5 processed" in nudges(rig)[0]
    assert ending(rig).error == "not finished: 3 of 5 processed"
    rest = answer("", ("task_state_update", call(processed_count=5)))
    rig.provider.answers[:] = [rest, answer("All five moved.\nTASK_COMPLETE")]
    await rig.run("go on")
    assert (ending(rig).reason, ending(rig).text) == (TurnReason.DONE, "All five moved.")


async def test_steps_of_a_plan_that_was_approved_are_to_be_completed() -> None:
    rig = Rig(FakeProvider(answer("Done."), answer("Done.")))
    steps = (PlanStep(1, "look", TodoStatus.IN_PROGRESS), PlanStep(2, "change"))
    rig.session.emit(PlanChanged(plan=Plan(steps=steps)))
    await rig.run("carry it out")
    assert ending(rig).error == "not finished: 2 plan steps open (1 look, 2 change)"
    rig.provider.answers[:] = [answer("Because of the tests.")]
    await rig.run("why two steps?")
    assert ending(rig).reason is TurnReason.DONE


WRITE = ("write", call(path="a.txt", content="text\n"))


TODO = ("todo_list", "{}")


@for_each("has_checkpoints", [False, True])
@for_each("later", [("ls", "{}"), ("git_status", "{}"), TODO])
async def test_a_file_that_a_call_wrote_and_that_is_gone_is_named(has_checkpoints: bool, later: tuple[str, str]) -> None:
    sandbox = FakeSandbox()
    rig = Rig(
        FakeProvider(answer("", WRITE), answer("", later), answer("Written."), answer("Written.")),
        sandbox,
        checkpoints=FakeCheckpoints(sandbox) if has_checkpoints else None,
    )
    rig.session.subscribe(lambda each: sandbox.files.clear() if each.event.kind == "files_changed" else None)
    await rig.run()
    assert "a.txt" not in sandbox.files
    assert ending(rig).error == "not finished: written, but not on the disk: a.txt"


async def test_a_file_that_was_taken_away_on_purpose_is_not_missed() -> None:
    sandbox = FakeSandbox()
    rig = Rig(FakeProvider(answer("", WRITE, ("shell", call(command="rm a.txt"))), answer("Tried.")), sandbox)
    rig.session.subscribe(lambda each: sandbox.files.clear() if sandbox.ran else None)
    await rig.run()
    assert (sandbox.files, ending(rig).reason) == ({}, TurnReason.DONE)


async def test_a_rename_that_is_claimed_is_looked_for() -> None:
    claim = answer("", ("task_state_update", call(objective="rename", rename_map={"a.md": "b.md", "c.md": "d.md"})))
    rig = await ran(Rig(FakeProvider(claim, answer("Renamed."), answer("Renamed.")), FakeSandbox({"b.md": b"x", "c.md": b"x"})))
    assert ending(rig).error == "not finished: written, but not on the disk: d.md"


@pytest.mark.parametrize(("text", "is_attended", "mode", "reason"), [
    ("Which of the two?", True, Mode.AUTO, TurnReason.DONE), ("Which of the two?", False, Mode.AUTO, TurnReason.UNFINISHED),
    ("BLOCKED: no key", True, Mode.AUTO, TurnReason.BLOCKED), ("That is how it stands.", True, Mode.PLAN, TurnReason.DONE),
])  # fmt: skip
async def test_a_question_a_blocked_line_and_plan_mode_are_no_end_of_the_work(
    text: str, is_attended: bool, mode: Mode, reason: TurnReason
) -> None:
    rig = Rig(FakeProvider(answer(text), answer(text), answer(text)), is_attended=is_attended, mode=mode)
    rig.session.emit(PlanChanged(plan=Plan(task=TaskState("x", total_count=3))))
    await rig.run()
    assert ending(rig).reason is reason


async def test_a_turn_that_began_nothing_costs_no_look_at_the_disk() -> None:
    sandbox = FakeSandbox({"a": b"x"})
    rig = await ran(Rig(FakeProvider(answer("", ("ls", "{}")), answer("One file.")), sandbox))
    assert (ending(rig).reason, ending(rig).iterations) == (TurnReason.DONE, 2)


@pytest.mark.parametrize(("text", "shown"), [
    ("It is done.\nTASK_COMPLETE", "It is done."), ("**TASK_COMPLETE**\nIt is done.", "It is done."),
    ("I will say TASK_COMPLETE after the tests pass.", "I will say TASK_COMPLETE after the tests pass."),
    ("TASK_COMPLETE", "TASK_COMPLETE"),
])  # fmt: skip
async def test_the_token_counts_as_a_whole_line_and_is_not_shown(text: str, shown: str) -> None:
    assert without_token(text) == shown
    rig = await ran(Rig(FakeProvider(answer(text))), "say hi")
    assert ending(rig).text == shown
    said = [event.text for event in seen(rig, MessageAdded) if event.role is Role.ASSISTANT]
    assert (said, reason_of(text)) == ([shown], TurnReason.DONE)


def test_a_line_that_says_blocked_is_found_behind_blanks_and_no_number_of_empty_lines_takes_long() -> None:
    begun = time.process_time()
    assert (reason_of("\n" * 80_000), reason_of("I tried.\n\n \t BLOCKED: no key")) == (TurnReason.DONE, TurnReason.BLOCKED)
    assert time.process_time() - begun < 3.0


@for_each(("words", "is_it"), [
    ("go on", True), ("Continue.", True), ("please go on with the rest", True), ("weiter", True), ("ok", False),
    ("go over the docs", False), ("continue " + "x" * 60, False), ("why did you not continue?", False), ("", False),
])  # fmt: skip
def test_words_that_ask_to_go_on(words: str, is_it: bool) -> None:
    assert goes_on(words) is is_it


@pytest.mark.parametrize(("path", "error"), [("a.txt", "not finished: 1 plan step open (1 look)"), ("b.txt", "")])
async def test_a_later_turn_that_changes_files_of_a_plan_is_about_its_steps_and_another_is_not(path: str, error: str) -> None:
    rig = Rig(FakeProvider(answer("Which one first?")))
    rig.session.emit(PlanChanged(plan=Plan(steps=(PlanStep(1, "look", TodoStatus.IN_PROGRESS, files=(path,)),))))
    await rig.run("carry it out")
    rig.provider.answers[:] = [answer("", WRITE), answer("Written."), answer("Written.")]
    await rig.run("the first")
    assert ending(rig).error == error


class Removing(FakeSandbox):
    """A workspace in which `rm` removes."""

    async def run_command(self, command: str, **options: Any) -> ExecResult:
        self.files.pop(command.removeprefix("rm "), None)
        return await super().run_command(command, **options)


@pytest.mark.parametrize(("is_removed", "reason"), [(True, TurnReason.DONE), (False, TurnReason.UNFINISHED)])
async def test_files_of_a_completed_step_are_there_or_were_taken_away_by_it(is_removed: bool, reason: TurnReason) -> None:
    sandbox = Removing({"old.py": b"x\n", "new.py": b"y\n"} if is_removed else {"new.py": b"y\n"})
    steps = (PlanStep(1, "drop the old one", TodoStatus.IN_PROGRESS, files=("old.py", "new.py", "docs/*.md")),)
    complete = answer("", ("shell", call(command="rm old.py")), ("plan_complete_step", call(step_id=1)))
    provider = FakeProvider(complete, answer("Done."), answer("Done."))
    rig = Rig(provider, sandbox, checkpoints=FakeCheckpoints(sandbox))
    rig.session.emit(PlanChanged(plan=Plan(steps=steps)))
    await rig.run("carry it out")
    assert ending(rig).reason is reason
    assert ("old.py" in ending(rig).error) is not is_removed


def test_a_failure_is_cut_at_the_end_of_a_sentence() -> None:
    text = "old_string was not found in a.py. It begins like line 3. Use edit for a change, or " + "write " * 20
    assert _first_sentences(text) == "old_string was not found in a.py. It begins like line 3."
    assert (_first_sentences("short one"), _first_sentences("x" * 200)) == ("short one", "x" * 120 + "…")
