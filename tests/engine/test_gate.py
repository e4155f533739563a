from __future__ import annotations

import pytest

from lmtui.core.events import Event, MessageAdded, PlanChanged, ToolCallFinished, TurnReason, TurnStarted
from lmtui.core.messages import Completion, FinishReason, Message, Role, ToolCall
from lmtui.core.permissions.rules import Mode
from lmtui.core.plan import Plan, PlanStep, TaskState, TodoStatus, adopt_steps
from lmtui.engine.stop_policy import Continue, Done, Stop, StopPolicy
from lmtui.engine.turn_outcome import goes_on, reason_of, without_token
from tests.engine.seen import call, ending, nudges, ran, seen, shell
from tests.fakes import FakeCheckpoints, FakeProvider, FakeSandbox, Rig, answer
from tests.sets import for_each

ADD = answer("", ("todo_add", call(description="write it")), ("todo_add", call(description="test it")))


async def test_open_todos_and_steps_of_an_approved_plan_are_named_once_also_after_a_resume() -> None:
    rig = await ran(Rig(FakeProvider(ADD, answer("All is done."), answer("Really, all is done."))))
    assert len(nudges(rig)) == 1
    assert "2 todos open (1 write it, 2 test it)" in nudges(rig)[0]
    assert (ending(rig).reason, ending(rig).exit_code) == (TurnReason.UNFINISHED, 2)
    assert ending(rig).error == "not finished: 2 todos open (1 write it, 2 test it)"
    assert ending(rig).text == "Really, all is done."
    rig = await ran(Rig(FakeProvider(ADD, answer("Done."), answer("Done."))))
    resumed = await ran(Rig(FakeProvider(answer("It is."), answer("It is.")), past=rig.log.events), "go on")
    assert "2 todos open" in ending(resumed).error
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


async def test_a_count_that_is_not_at_its_end_is_refused_and_a_file_that_was_taken_away_is_not_missed() -> None:
    update = answer("", ("task_state_update", call(total_count=5, processed_count=3, objective="move five")))
    rig = await ran(Rig(FakeProvider(update, answer("TASK_COMPLETE"), answer("TASK_COMPLETE"))))
    assert "3 of 5 processed" in nudges(rig)[0]
    assert ending(rig).error == "not finished: 3 of 5 processed"
    rest = answer("", ("task_state_update", call(processed_count=5)))
    rig.provider.answers[:] = [rest, answer("All five moved.\nTASK_COMPLETE")]
    await rig.run("go on")
    assert (ending(rig).reason, ending(rig).text) == (TurnReason.DONE, "All five moved.")
    sandbox = FakeSandbox()
    rig = Rig(FakeProvider(answer("", WRITE, shell("rm a.txt")), answer("Tried.")), sandbox)
    rig.session.subscribe(lambda each: sandbox.files.clear() if sandbox.ran else None)
    await rig.run()
    assert (sandbox.files, ending(rig).reason) == ({}, TurnReason.DONE)
    claim = answer("", ("task_state_update", call(objective="rename", rename_map={"a.md": "b.md", "c.md": "d.md"})))
    rig = await ran(Rig(FakeProvider(claim, answer("Renamed."), answer("Renamed.")), FakeSandbox({"b.md": b"x", "c.md": b"x"})))
    assert ending(rig).error == "not finished: written, but not on the disk: d.md"


@for_each("path", ["trailing ", " leading", "sub/tab\t", "new\nline "])
async def test_a_file_with_blanks_at_the_ends_of_its_name_is_found(path: str) -> None:
    rig = await ran(Rig(FakeProvider(answer("", ("write", call(path=path, content="x\n"))), answer("Done.")), FakeSandbox()))
    assert ending(rig).reason is TurnReason.DONE, ending(rig).error


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
    assert (reason_of("\n" * 80_000), reason_of("I tried.\n\n \t BLOCKED: no key")) == (TurnReason.DONE, TurnReason.BLOCKED)


@for_each(("words", "is_it"), [
    ("go on", True), ("Continue.", True), ("please go on with the rest", True), ("weiter", True), ("ok", False),
    ("go over the docs", False), ("continue " + "x" * 60, False), ("why did you not continue?", False), ("", False),
])  # fmt: skip
def test_words_that_ask_to_go_on(words: str, is_it: bool) -> None:
    assert goes_on(words) is is_it


def completion(text: str = "", calls: int = 0, *, problem: str = "", reason: FinishReason = FinishReason.STOP) -> Completion:
    made = tuple(ToolCall(f"c{number}", "read", "{}") for number in range(calls))
    return Completion(Message(Role.ASSISTANT, text, tool_calls=made), reason, None, problem=problem)


CUT = FinishReason.LENGTH


def test_empty_answers_are_asked_about_until_there_are_too_many() -> None:
    watch = StopPolicy()
    first, *others, last = (watch.judge(completion(text)) for text in ("", "  \n", "", "", ""))
    assert isinstance(first, Continue)
    assert "empty" in first.reminder
    assert all(isinstance(other, Continue) for other in others)
    assert isinstance(last, Stop)
    assert last.reason is TurnReason.ERROR
    assert "5 times" in last.error


@for_each(("given", "count", "reason", "words"), [
    (completion("{", problem="like this: …"), 4, TurnReason.ERROR, "/calls"),
    (completion("a long story", reason=CUT), 1, TurnReason.LIMIT, "go on"),
    (completion("", 1, reason=CUT), 2, TurnReason.LIMIT, "LLM_MAX_TOKENS"),
    (completion("no", reason=FinishReason.CONTENT_FILTER), 1, TurnReason.ERROR, "content filter"),
])  # fmt: skip
def test_what_comes_too_often_ends_the_turn_with_the_way_out(
    given: Completion, count: int, reason: TurnReason, words: str
) -> None:
    watch = StopPolicy()
    *before, last = [watch.judge(given) for _ in range(count)]
    assert before == [Continue(given.problem)] * (count - 1)
    assert isinstance(last, Stop)
    assert last.reason is reason
    assert words in last.error


def test_words_without_a_call_are_doubted_once_where_the_task_names_files_and_the_model_may_not_be_able_to_call() -> None:
    watch = StopPolicy("Change a.py.")
    first = watch.judge(completion("It is changed."), is_unsure=True)
    assert isinstance(first, Continue)
    assert first.needs_call
    assert "No tool was called" in first.reminder
    again = watch.judge(completion("It is changed."), is_unsure=True)
    assert isinstance(again, Done)
    assert "No tool ran" in again.note
    watch = StopPolicy("Change a.py.")
    _ = watch.judge(completion("", 1), is_unsure=True)
    assert watch.judge(completion("It is changed."), is_unsure=True) == Done()
    assert isinstance(StopPolicy("Was steht in a.py?").judge(completion("Code."), is_unsure=True), Continue)


@for_each(("task", "has_files", "is_unsure"), [
    ("Which editor do you like?", False, True), ("Hello", False, True), ("Change a.py.", False, False),
    ("Was steht in a.py?", True, True), ("a.py 是什么？", True, True), ("How do I read a file in Python?", False, True),
])  # fmt: skip
def test_other_words_are_believed(task: str, *, has_files: bool, is_unsure: bool) -> None:
    assert StopPolicy(task, has_files=has_files).judge(completion("See b.py."), is_unsure=is_unsure) == Done()


WRITE_CODE = ("write", call(path="a.py", content="x = 1\n"))
CHECK = shell("pytest -q")
CLAIM = ("plan_complete_step", call(step_id=1, verification_notes="3 passed"))


async def played(*calls: tuple[str, str]) -> Rig:
    sandbox = FakeSandbox({"b.py": b"y\n"})
    provider = FakeProvider(*[answer("", each) for each in calls], answer("Done."))
    rig = Rig(provider, sandbox, checkpoints=FakeCheckpoints(sandbox))
    step = PlanStep(1, "write a.py", verification="pytest -q passes")
    rig.session.emit(PlanChanged(plan=adopt_steps(Plan(), (step,))))
    await rig.run("carry it out")
    return rig


def claims(rig: Rig) -> list[ToolCallFinished]:
    return [event for event in seen(rig, ToolCallFinished) if event.tool == "plan_complete_step"]


def result(rig: Rig) -> str:
    plans = [event.plan for event in seen(rig, PlanChanged)]
    return plans[-1].steps[0].result


async def test_who_insists_is_believed_and_only_a_check_since_the_last_change_counts() -> None:
    rig = await played(WRITE_CODE, CLAIM, CLAIM)
    assert ([each.ok for each in claims(rig)], result(rig)) == ([False, True], "3 passed [not run: pytest]")
    rig = await played(WRITE_CODE, CLAIM, ("read", call(path="b.py")), CLAIM)
    assert [each.ok for each in claims(rig)] == [False, True]
    rig = await played(CHECK, WRITE_CODE, CLAIM, ("write", call(path="c.py", content="z = 1\n")), CLAIM, CHECK, CLAIM)
    assert [each.ok for each in claims(rig)] == [False, False, True]
    assert "pytest was not run since the last change" in claims(rig)[0].result
    assert result(rig) == "3 passed [`pytest -q`: exit 0]"


def begun(text: str) -> list[Event]:
    return [TurnStarted(turn_id="t"), MessageAdded(role=Role.USER, text=text)]
