from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import ToolError
from lmtui.core.plan import (
    MAX_RESULT_CHARS,
    CommandRun,
    Plan,
    PlanStep,
    StepWork,
    Todo,
    TodoStatus,
    adopt_steps,
    blocked_by,
    check_order,
    complete_step,
    current_step,
    evidence,
    is_run_of,
    programs_of,
)
from lmtui.tools.session_tools import MAX_TEXT_CHARS, MAX_TODOS, TodoArguments, drop_todo, find_todo, put_todo, set_todos
from tests.sets import for_each

DONE, PENDING, BEGUN = TodoStatus.COMPLETED, TodoStatus.PENDING, TodoStatus.IN_PROGRESS


def plan_of(*todos: Todo) -> Plan:
    return Plan(todos=todos)


def add(plan: Plan, text: str = "t", **given: Any) -> Plan:
    return put_todo(plan, TodoArguments(id=0, description=text, **given))


def change(plan: Plan, todo: int, status: TodoStatus | None = None, **given: Any) -> Plan:
    return put_todo(plan, TodoArguments(id=todo, status=status, **given), find_todo(plan, todo))


def test_a_parent_is_completed_after_its_parts_and_dropping_takes_them_along() -> None:
    plan = add(add(add(Plan(), "all"), "part", parent=1), "other part", parent=1)
    with pytest.raises(ToolError, match=r"todo 1 has open parts: complete todo 2, 3 first"):
        change(plan, 1, DONE)
    for each in (2, 3, 1):
        plan = change(plan, each, DONE)
    assert plan.open_todos == ()
    plan = plan_of(Todo(1, "a"), Todo(2, "b", parent=1), Todo(3, "c", parent=2), Todo(4, "d", depends_on=(2,)))
    assert drop_todo(plan, 1).todos == (Todo(4, "d"),)


def test_completing_twice_or_before_what_waits_is_refused() -> None:
    with pytest.raises(ToolError, match="todo 1 is already completed"):
        change(change(add(Plan()), 1, DONE), 1, DONE)
    with pytest.raises(ToolError, match=r"no todo 9 \(there are: 1\)"):
        change(add(Plan()), 9, DONE)
    plan = plan_of(Todo(2, "b", DONE, depends_on=(1,)), Todo(1, "a", DONE))
    with pytest.raises(ToolError, match="todo 1 comes before todo 2"):
        change(plan, 1, PENDING)
    with pytest.raises(ToolError, match="todo 3 comes before todo 1"):
        add(plan, parent=1)
    assert change(change(plan, 2, PENDING), 1, PENDING).todos[1].status is PENDING
    plan = add(add(Plan(), "first"), "second", depends_on=(1,))
    for status in (BEGUN, DONE):
        with pytest.raises(ToolError, match="todo 2 waits for todo 1"):
            change(plan, 2, status)
        assert change(change(plan, 1, DONE), 2, status).todos[1].status is status


def test_unknown_ids_and_what_would_wait_for_itself_are_named() -> None:
    plan = plan_of(Todo(1, "a"), Todo(2, "b", depends_on=(1,)), Todo(3, "c", depends_on=(2,)), Todo(4, "d"), Todo(5, "e"))
    for todo, changes, said in (
        (4, {"parent": 9}, "4 refers to 9, which is unknown (known: 1, 2, 3, 4, 5)"),
        (4, {"depends_on": (1, 8)}, "4 refers to 8"),
        (4, {"parent": -1}, "4 refers to -1"),
        (1, {"depends_on": (1,)}, "wait for one another for ever: 1 → 1"),
        (1, {"depends_on": (3,)}, "1 → 3 → 2 → 1"),
        (1, {"parent": 1}, "1 → 1"),
        (4, {"depends_on": (5,), "parent": 5}, "4 → 5 → 4"),
    ):
        with pytest.raises(ToolError, match=re.escape(said)):
            change(plan, todo, **changes)


def test_ids_count_on_texts_are_bounded_and_a_whole_list_replaces_the_old_one() -> None:
    plan = add(add(Plan(), " one "), "x" * 9_000, notes="n" * 9_000)
    assert ([todo.id for todo in plan.todos], plan.todos[0].text) == ([1, 2], "one")
    assert len(plan.todos[1].text) == len(plan.todos[1].notes) == MAX_TEXT_CHARS
    full = plan_of(*(Todo(number, "t") for number in range(1, MAX_TODOS + 1)))
    with pytest.raises(ToolError, match="200 todos already"):
        add(full)
    with pytest.raises(ToolError, match="needs a text"):
        add(Plan(), "  ")
    plan = set_todos(plan_of(Todo(7, "old")), [Todo(0, "a"), Todo(5, "b", DONE), Todo(0, "c")])
    assert [(todo.id, todo.text) for todo in plan.todos] == [(6, "a"), (5, "b"), (7, "c")]
    with pytest.raises(ToolError, match="todo 1 is there twice"):
        set_todos(plan, [Todo(1, "a"), Todo(1, "b")])
    with pytest.raises(ToolError, match="at most 1,000,000,000,000"):
        set_todos(plan, [Todo(10**4300, "a")])


IDS = st.integers(0, 8)
WAITS = st.lists(IDS, max_size=3).map(tuple)
CHANGES: st.SearchStrategy[Callable[[Plan], Plan]] = st.one_of(
    st.builds(lambda parent, waits: lambda plan: add(plan, parent=parent, depends_on=waits), IDS, WAITS),
    st.builds(
        lambda each, status, parent, waits: lambda plan: change(plan, each, status, parent=parent, depends_on=waits),
        IDS,
        st.none() | st.sampled_from(list(TodoStatus)),
        st.none() | IDS,
        st.none() | WAITS,
    ),
    st.builds(lambda each: lambda plan: drop_todo(plan, each), IDS),
)


@given(st.lists(CHANGES, max_size=40))
def test_whatever_is_asked_the_order_holds(changes: list[Callable[[Plan], Plan]]) -> None:
    plan = Plan()
    for change in changes:
        with contextlib.suppress(ToolError):
            plan = change(plan)
        check_order(plan.todos)
        by_id = {todo.id: todo for todo in plan.todos}
        for todo in plan.todos:
            before = [by_id[each] for each in todo.depends_on]
            parts = [each for each in plan.todos if each.parent == todo.id]
            if todo.status in (BEGUN, DONE):
                assert not any(each.is_open for each in before)
            if todo.status is DONE:
                assert not any(each.is_open for each in parts)


STEPS = (
    PlanStep(1, "look", result="left from before"),
    PlanStep(2, "change", depends_on=(1,), verification="pytest -q"), PlanStep(3, "docs"),
)  # fmt: skip


def test_steps_are_completed_in_their_order_once_checked_and_the_next_is_begun() -> None:
    plan = adopt_steps(Plan(), (STEPS[1], STEPS[0], STEPS[2]))
    assert [step.status for step in plan.steps] == [TodoStatus.PENDING, TodoStatus.IN_PROGRESS, TodoStatus.PENDING]
    assert plan.steps[1].result == ""
    work = StepWork((CommandRun("pytest -q"),))
    plan = complete_step(complete_step(adopt_steps(Plan(), STEPS), 1), 2, " 14 passed " + "x" * 5_000, work)
    assert plan.steps[1].result.startswith("14 passed")
    assert plan.steps[1].result.endswith("x [`pytest -q`: exit 0]")
    assert (len(plan.steps[1].result), current_step(plan)) == (MAX_RESULT_CHARS, plan.steps[2])
    assert complete_step(plan, 3).open_steps == ()
    for number, notes, said in (
        (2, "ok", "step 2 is not under way; step 1 is"),
        (3, "", "step 3 is not under way"),
        (9, "", r"no step 9 \(there are: 1, 2, 3\)"),
    ):
        with pytest.raises(ToolError, match=said):
            complete_step(adopt_steps(Plan(), STEPS), number, notes)
    plan = complete_step(adopt_steps(Plan(), STEPS), 1)
    with pytest.raises(ToolError, match="step 1 is already completed"):
        complete_step(plan, 1)
    with pytest.raises(ToolError, match="step 2 is to be checked: pytest -q"):
        complete_step(plan, 2, "  ")
    with pytest.raises(ToolError, match="no approved plan"):
        complete_step(Plan(), 1)


@pytest.mark.parametrize(("steps", "said"), [
    ((PlanStep(1, "a"), PlanStep(1, "b")), "step 1 is there twice"),
    ((PlanStep(1, "a", depends_on=(2,)),), "step 1 refers to 2"),
    ((PlanStep(1, "a", depends_on=(2,)), PlanStep(2, "b", depends_on=(1,))), "1 → 2 → 1"),
])  # fmt: skip
def test_a_plan_that_cannot_be_carried_out_is_not_adopted(steps: tuple[PlanStep, ...], said: str) -> None:
    with pytest.raises(ToolError, match=said):
        adopt_steps(Plan(), steps)


@given(st.lists(st.lists(st.integers(1, 12), max_size=3), min_size=1, max_size=12))
def test_every_plan_without_a_cycle_can_be_carried_out_to_its_end(wanted: list[list[int]]) -> None:
    steps = [
        PlanStep(number, "s", depends_on=tuple(each for each in ids if each < number)) for number, ids in enumerate(wanted, 1)
    ]
    plan = adopt_steps(Plan(), steps[::-1])
    for _ in steps:
        under_way = current_step(plan)
        assert under_way is not None
        assert (sum(step.status is TodoStatus.IN_PROGRESS for step in plan.steps), blocked_by(plan, under_way)) == (1, [])
        plan = complete_step(plan, under_way.id, "ok")
    assert plan.open_steps == ()


def checked_step(check: str, *commands: str) -> PlanStep:
    return PlanStep(1, "do it", verification=check, commands=commands)


@for_each(("check", "commands", "named"), [
    ("pytest -q tests/test_lexer.py passes", (), {"pytest"}), ("`make check` is green", (), {"make"}),
    ("make sure it works", (), set()), ("`def greet(name)` is there", (), set()),
    ("./scripts/verify.sh says ok", ("./scripts/verify.sh --all",), {"verify.sh"}),
    ("python3 -m py_compile words.py says nothing", ("python3 -m py_compile words.py",), {"python3", "py_compile"}),
    ("the test passes", ("python3 -m unittest",), set()), ("go through it and look", (), set()), ("", ("pytest",), set()),
])  # fmt: skip
def test_the_programs_that_a_check_names(check: str, commands: tuple[str, ...], named: set[str]) -> None:
    assert programs_of(checked_step(check, *commands)) == named


@for_each("command", [
    "pytest -q", "cd lib && pytest", "python -m pytest tests", "/usr/bin/pytest x", "A=1 pytest", "pytest 'it' \"unclosed",
])  # fmt: skip
def test_a_program_is_found_wherever_a_command_runs_it(command: str) -> None:
    assert is_run_of(frozenset({"pytest"}), command)
    assert not is_run_of(frozenset({"pytest"}), command.replace("pytest", "pytests"))


@pytest.mark.parametrize(("work", "doubt", "kept"), [
    (StepWork(), "pytest was not run; the check of step 1 is: pytest -q", "not run: pytest"),
    (StepWork(has_changed=True, has_looked=True), "pytest was not run since the last change", "not run: pytest"),
    (StepWork((CommandRun("pytest -q", "exit 1"),)), "`pytest -q` ended with: exit 1", "`pytest -q`: exit 1"),
    (StepWork((CommandRun("pytest"), CommandRun("pytest -x", "timed out"))), "timed out", "`pytest -x`: timed out"),
])  # fmt: skip
def test_a_check_that_was_not_run_or_failed_is_doubted_once_and_kept_as_it_was(work: StepWork, doubt: str, kept: str) -> None:
    with pytest.raises(ToolError, match=doubt):
        evidence(checked_step("pytest -q"), work)
    assert evidence(checked_step("pytest -q"), StepWork(work.runs, work.has_changed, work.has_looked, is_doubted=True)) == kept


def test_what_was_run_well_or_refused_is_kept_and_a_check_in_words_wants_a_look() -> None:
    failed = CommandRun("pytest", "exit 1")
    assert evidence(checked_step("pytest"), StepWork((failed, CommandRun("pytest  -q\n")))) == "`pytest -q`: exit 0"
    assert evidence(checked_step("pytest"), StepWork((CommandRun("pytest", "refused"),))) == "`pytest`: refused"
    words = checked_step("the heading is right")
    with pytest.raises(ToolError, match="nothing was read or run since the last change"):
        evidence(words, StepWork(has_changed=True))
    assert evidence(words, StepWork(has_changed=True, is_doubted=True)) == "nothing was read or run since the last change"
    assert (evidence(words, StepWork(has_changed=True, has_looked=True)), evidence(words, StepWork())) == ("", "")
    assert evidence(checked_step(""), StepWork(has_changed=True)) == ""
