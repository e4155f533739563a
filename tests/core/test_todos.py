from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import ToolError
from lmtui.core.plan import Plan, Todo, TodoStatus, check_order, cycle_of, needs
from lmtui.tools.todo_tools import MAX_TEXT_CHARS, MAX_TODOS, TodoChange, add_todo, change_todo, drop_todo, set_todos

DONE, PENDING, BEGUN = TodoStatus.COMPLETED, TodoStatus.PENDING, TodoStatus.IN_PROGRESS


def plan_of(*todos: Todo) -> Plan:
    return Plan(todos=todos)


def test_ids_count_on_and_texts_are_bounded() -> None:
    plan = add_todo(add_todo(Plan(), " one "), "x" * 9_000, "n" * 9_000)
    assert ([todo.id for todo in plan.todos], plan.todos[0].text) == ([1, 2], "one")
    assert len(plan.todos[1].text) == len(plan.todos[1].notes) == MAX_TEXT_CHARS


def test_a_list_has_an_end_and_a_todo_a_text() -> None:
    full = plan_of(*(Todo(number, "t") for number in range(1, MAX_TODOS + 1)))
    with pytest.raises(ToolError, match="200 todos already"):
        add_todo(full, "one more")
    with pytest.raises(ToolError, match="needs a text"):
        add_todo(Plan(), "  ")


def test_completing_twice_says_so() -> None:
    plan = change_todo(add_todo(Plan(), "a"), 1, TodoChange(DONE))
    with pytest.raises(ToolError, match="todo 1 is already completed"):
        change_todo(plan, 1, TodoChange(DONE))


def test_a_parent_is_completed_after_its_parts() -> None:
    plan = add_todo(add_todo(add_todo(Plan(), "all"), "part", parent=1), "other part", parent=1)
    with pytest.raises(ToolError, match=r"todo 1 has open parts: complete todo 2, 3 first"):
        change_todo(plan, 1, TodoChange(DONE))
    for each in (2, 3, 1):
        plan = change_todo(plan, each, TodoChange(DONE))
    assert plan.open_todos == ()


@pytest.mark.parametrize("status", [BEGUN, DONE])
def test_what_waits_is_neither_begun_nor_completed_before(status: TodoStatus) -> None:
    plan = add_todo(add_todo(Plan(), "first"), "second", depends_on=(1,))
    with pytest.raises(ToolError, match="todo 2 waits for todo 1"):
        change_todo(plan, 2, TodoChange(status))
    assert change_todo(change_todo(plan, 1, TodoChange(DONE)), 2, TodoChange(status)).todos[1].status is status


@pytest.mark.parametrize(("parent", "depends_on"), [(9, ()), (0, (1, 8)), (-1, ())])
def test_unknown_ids_are_named(parent: int, depends_on: tuple[int, ...]) -> None:
    with pytest.raises(ToolError, match=r"refers to (9|8|-1), which there is not \(there are: 1, 2\)"):
        add_todo(add_todo(Plan(), "a"), "b", parent=parent, depends_on=depends_on)


@pytest.mark.parametrize(("todo", "change", "cycle"), [
    (1, TodoChange(depends_on=(1,)), "1 → 1"), (1, TodoChange(depends_on=(3,)), "1 → 3 → 2 → 1"),
    (1, TodoChange(parent=1), "1 → 1"), (4, TodoChange(depends_on=(5,), parent=5), "4 → 5 → 4"),
])  # fmt: skip
def test_what_would_wait_for_itself_is_refused_with_its_ids(todo: int, change: TodoChange, cycle: str) -> None:
    plan = plan_of(Todo(1, "a"), Todo(2, "b", depends_on=(1,)), Todo(3, "c", depends_on=(2,)), Todo(4, "d"), Todo(5, "e"))
    with pytest.raises(ToolError, match="wait for one another") as found:
        change_todo(plan, todo, change)
    assert cycle in str(found.value)


def test_an_open_todo_does_not_stand_before_one_that_is_done() -> None:
    plan = plan_of(Todo(1, "a", DONE), Todo(2, "b", DONE, depends_on=(1,)))
    with pytest.raises(ToolError, match="todo 1 comes before todo 2"):
        change_todo(plan, 1, TodoChange(PENDING))
    with pytest.raises(ToolError, match="todo 3 comes before todo 1"):
        add_todo(plan, "c", parent=1)
    assert change_todo(change_todo(plan, 2, TodoChange(PENDING)), 1, TodoChange(PENDING)).todos[0].status is PENDING


def test_dropping_takes_the_parts_along_and_frees_what_waited() -> None:
    plan = plan_of(Todo(1, "a"), Todo(2, "b", parent=1), Todo(3, "c", parent=2), Todo(4, "d", depends_on=(2,)))
    assert drop_todo(plan, 1).todos == (Todo(4, "d"),)


def test_a_whole_list_replaces_the_old_one_and_gets_ids() -> None:
    plan = set_todos(plan_of(Todo(7, "old")), [Todo(0, "a"), Todo(5, "b", DONE), Todo(0, "c")])
    assert [(todo.id, todo.text) for todo in plan.todos] == [(6, "a"), (5, "b"), (7, "c")]
    with pytest.raises(ToolError, match="todo 1 is there twice"):
        set_todos(plan, [Todo(1, "a"), Todo(1, "b")])
    with pytest.raises(ToolError, match="at most 1,000,000,000,000"):
        set_todos(plan, [Todo(10**4300, "a")])


IDS = st.integers(0, 8)
STATUSES = st.sampled_from(list(TodoStatus))
CHANGES: st.SearchStrategy[Callable[[Plan], Plan]] = st.one_of(
    st.builds(
        lambda parent, waits: lambda plan: add_todo(plan, "t", parent=parent, depends_on=waits), IDS, st.lists(IDS, max_size=3)
    ),
    st.builds(
        lambda each, status, parent, waits: lambda plan: change_todo(plan, each, TodoChange(status, None, None, parent, waits)),
        IDS,
        st.none() | STATUSES,
        st.none() | IDS,
        st.none() | st.lists(IDS, max_size=3).map(tuple),
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


@given(st.dictionaries(st.integers(1, 7), st.lists(st.integers(1, 7), max_size=4), max_size=7))
def test_a_cycle_is_found_where_there_is_one_and_is_one(wanted: dict[int, list[int]]) -> None:
    reach = {each: set(ids) for each, ids in wanted.items()}
    for _ in range(8):
        reach = {each: ids | {far for near in ids for far in reach.get(near, ())} for each, ids in reach.items()}
    cycle = cycle_of(wanted)
    assert bool(cycle) is any(each in ids for each, ids in reach.items())
    assert all(after in wanted[before] for before, after in itertools.pairwise(cycle))
    assert not cycle or cycle[0] == cycle[-1]


def test_a_parent_needs_its_parts() -> None:
    assert needs([Todo(1, "a", depends_on=(3,)), Todo(2, "b", parent=1), Todo(3, "c")]) == {1: (3, 2), 2: (), 3: ()}
