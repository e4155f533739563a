from __future__ import annotations

import json

import pytest

from lmtui.core.errors import ToolError
from lmtui.core.ports import PreparedCall
from lmtui.tools.registry import ToolRegistry, check
from lmtui.tools.tool import Arguments, argument, path_argument
from tests.sets import for_each
from tests.tools.test_files import Bench


class Sample(Arguments):
    path: str = path_argument()
    count: int = argument(1)
    is_all: bool = argument(default=False)
    items: list[str] = argument(())


@for_each(("given", "wanted"), [
    ({"path": "a", "count": "5"}, {"path": "a", "count": 5}), ({"path": "a", "is_all": "true"}, {"path": "a", "is_all": True}),
    ({"path": "a", "items": '["x", "y"]'}, {"path": "a", "items": ["x", "y"]}),
    ({"path": "a", "required": ["path"], "content": ""}, {"path": "a"}), ({"file_path": "a", "count": None}, {"path": "a"}),
])  # fmt: skip
def test_what_only_has_the_wrong_type_is_put_right(given: dict[str, object], wanted: dict[str, object]) -> None:
    assert check("sample", Sample, given).model_dump(exclude_unset=True) == wanted


@for_each(("given", "said"), [
    ({"count": 1}, "path is missing"), ({"path": "a", "items": "x, y"}, "items is wrong"),
    ({"path": "a", "items": '{"x": 1}'}, "items is wrong"), ({"path": 42}, "path is wrong"), ({"path": ["a"]}, "path is wrong"),
    ({"path": "a", "count": "five"}, "count is wrong"), ({"path": "a", "items": ["x", 1]}, "items is wrong"),
])  # fmt: skip
def test_what_has_two_readings_is_refused_in_words(given: dict[str, object], said: str) -> None:
    with pytest.raises(ToolError, match=said):
        check("sample", Sample, given)


@for_each("depth", [65, 300, 500, 700, 900, 5_000, 100_000])
@for_each(("tool", "before", "one", "after"), [
    ("read", '{"path": "a", "x":', "[]", "}"), ("decompose", '{"manifest":', "[]", "}"),
    ("propose_plan", '{"plan":', "[]", "}"), ("manage_tasks", '{"action": "list", "depends_on": "', "[]", '"}'),
])  # fmt: skip
def test_arguments_that_are_nested_too_deep_are_refused_in_words(
    depth: int, tool: str, before: str, one: str, after: str
) -> None:
    text = before + one[0] * depth + one[1] * depth + after
    with pytest.raises(ToolError, match=f"{tool} was not run"):
        ToolRegistry().prepare(tool, text)


def test_a_plan_loses_halves_of_characters_that_no_log_takes() -> None:
    call = ToolRegistry().prepare("propose_plan", '{"plan": {"title": "a\\ud800"}}')
    assert call.arguments == {"plan": {"title": "a\ufffd"}}


def prepared(tool: str, **arguments: object) -> PreparedCall:
    return ToolRegistry().prepare(tool, json.dumps(arguments))


@for_each(("tool", "given", "named"), [
    ("write", {"path": "a", "content": "b", "encoding": "latin-1"}, "encoding"),
    ("write", {"path": "a", "content": "b", "file": "c"}, "file"),
    ("edit", {"path": "a", "search": "b", "replace": "c", "occurrence": 2}, "occurrence"),
    ("shell", {"command": "ls", "env": {"A": "b"}}, "env"),
    ("shell", {"command": "python", "arguments": ["a.py"]}, "arguments"),
    ("mkdir", {"path": "a", "mode": "0700"}, "mode"),
    ("git_commit", {"message": "a", "files": ["b"]}, "files"),
    ("git_branch", {"name": "a", "create": True, "base": "main"}, "base"),
    ("python", {"code": "1", "packages": ["numpy"]}, "packages"),
])  # fmt: skip
def test_an_unknown_argument_of_a_call_that_changes_something_is_refused(
    tool: str, given: dict[str, object], named: str
) -> None:
    with pytest.raises(ToolError, match=f"{tool} was not run: unknown argument {named}") as refused:
        prepared(tool, **given)
    assert refused.value.hint.startswith("It takes: ")


@for_each("given", [
    {"description": "list"}, {"Reason": "to see"}, {"required": ["command"]}, {"env": {}, "stdin": "", "detach": False},
    {"env": None}, {"cmd": "ls"},
])  # fmt: skip
def test_words_about_a_call_and_empty_arguments_do_not_stop_it(given: dict[str, object]) -> None:
    assert prepared("shell", command="ls", **given).arguments == {"command": "ls"}


@for_each(("tool", "given", "note"), [
    ("read", {"path": "a", "view_range": [1, 2]}, "\n[ignored unknown argument: view_range]"),
    ("ls", {"path": "", "all": True, "sort": "size"}, "\n[ignored unknown arguments: all, sort]"),
    ("write", {"path": "b", "content": "c", "reason": "d"}, "\n[ignored unknown argument: reason]"),
    ("task_todo_set", {"items": [{"content": "a", "priority": "high"}]}, "\n[ignored unknown argument: items.priority]"),
    ("task_todo_set", {"items": '[{"content": "a", "due": "now"}]'}, "\n[ignored unknown argument: items.due]"),
    ("todo_add", {"description": "a", "text": "b"}, "\n[ignored unknown argument: text]"),
    ("read", {"path": "a", "file_path": "a", "limit": None}, ""),
])  # fmt: skip
async def test_an_unknown_argument_of_another_call_is_told_with_its_result(
    tool: str, given: dict[str, object], note: str
) -> None:
    bench = Bench(a=b"x\n")
    result = await bench.call(tool, **given)
    assert result.text.endswith(note)
    assert ("ignored" in result.text) == bool(note)
