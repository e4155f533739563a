from __future__ import annotations

import pytest

from lmtui.core.errors import ToolError
from lmtui.core.task_state import done_words
from tests.sets import for_each
from tests.tools.test_files import Bench


@for_each("name", ["task_todo_set", "todo_write", "TodoWrite"])
async def test_other_programs_lists_replace_the_whole_list(name: str) -> None:
    bench = Bench()
    await bench.call("todo_add", description="old")
    items = [
        {"id": "1", "content": "a", "status": "completed"}, {"id": "x", "content": "b", "status": "in-progress"},
        {"content": "c", "status": "cancelled"}, {"task": "d", "status": "weird"},
    ]  # fmt: skip
    told = await bench.call(name, todos=items)
    assert told.text == "[x] 1 a\n[~] 2 b\n[-] 3 c\n[ ] 4 d\n2 open"
    assert (await bench.call("task_todo_get")).text == "[x] 1 a\n[~] 2 b\n[-] 3 c\n[ ] 4 d"


@for_each(("tool", "arguments"), [
    ("todo_update", {"id": 1, "status": "cancelled"}),
    ("manage_tasks", {"action": "cancel", "id": 1}),
    ("manage_tasks", {"action": "update", "id": 1, "status": "Canceled"}),
])  # fmt: skip
async def test_a_cancelled_todo_stays_in_the_list_with_its_parts_and_holds_nothing_up(
    tool: str, arguments: dict[str, object]
) -> None:
    bench = Bench()
    await bench.call("todo_add", description="a")
    await bench.call("todo_add", description="part of a", parent=1)
    await bench.call("todo_add", description="b", depends_on=[1])
    await bench.call(tool, **arguments)
    assert (await bench.call("todo_list")).text == "[-] 1 a\n  [-] 2 part of a\n[ ] 3 b (waits for 1)"
    assert [todo.id for todo in bench.plan.open_todos] == [3]
    assert (await bench.call("todo_complete", id=3)).text == "no open todos left: finish the task"
    assert done_words(bench.plan.todos) == "1 of 3 done, 2 cancelled"


async def test_parts_and_what_waits_are_added_listed_freed_and_cancelled_with_their_parent() -> None:
    bench = Bench()
    await bench.call("todo_add", description="parser")
    await bench.call("todo_add", description="lexer", parent_id="1")
    await bench.call("todo_add", description="docs", dependencies="[1]")
    assert (await bench.call("todo_list")).text == "[ ] 1 parser\n  [ ] 2 lexer\n[ ] 3 docs (waits for 1)"
    with pytest.raises(ToolError, match="todo 1 has open parts"):
        await bench.call("todo_complete", id=1)
    await bench.call("todo_complete", todo_id=2)
    assert (await bench.call("todo_complete", id=1)).text.startswith("1 todos open; todo 3 waited for it\n")
    assert (await bench.call("todo_complete", id=3)).text == "all todos are completed: finish the task"
    bench = Bench()
    await bench.call("todo_add", description="a")
    await bench.call("todo_add", description="part", parent=1)
    await bench.call("todo_complete", id=2)
    await bench.call("todo_update", id=1, status="cancelled")
    assert [str(todo.status) for todo in bench.plan.todos] == ["cancelled", "completed"]
    await bench.call("todo_update", id=1, status="in_progress")
    await bench.call("todo_complete", id=1)
    assert bench.plan.open_todos == ()
