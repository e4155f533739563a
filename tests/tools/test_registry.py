from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest

from lmtui.core.errors import ToolError
from lmtui.core.messages import ToolSet
from lmtui.core.permissions.decide import decide
from lmtui.core.permissions.rules import TOOL_TRAITS, Access, Effect, FileEffect, Mode, Rule, Verdict, traits_of
from lmtui.core.subagents import ChildKind
from lmtui.engine.context import system_prompt
from lmtui.features.skills.values import PROMOTE_TOOL
from lmtui.models.parsing.call_shapes import parameters
from lmtui.models.request_encoding import wire_tool
from lmtui.models.tokens import counter_name
from lmtui.tools.registry import ALL_TOOLS, ToolRegistry, child_tools
from lmtui.tools.session_tools import REPORT_RESULT
from lmtui.tools.tool import Tool
from tests.sets import encodings, for_each, tokens

REGISTRY = ToolRegistry("/home/me/project")


@for_each(("tools", "most"), [("full", 2000), ("lean", 700), ("long", 1000)])
@for_each("encoding", encodings())
def test_system_prompt_and_tools_fit_their_budget(tools: str, most: int, encoding: str) -> None:
    specs = REGISTRY.specs(ToolSet(tools), sees=True)
    text = json.dumps([wire_tool(spec) for spec in specs], ensure_ascii=False)
    assert counter_name() in ("toktok", "tiktoken")
    assert [name for spec in specs for name, schema in parameters(spec).items() if not {"type", "anyOf"} & schema.keys()] == []
    for words in ("compute with `shell`", "the names, numbers or text asked for"):
        assert tools == "full" or words in system_prompt(tools), "a small model is told so"
    assert sum(tokens(encoding, text, system_prompt(tools))) <= most


def test_the_lean_tools_are_few_and_take_what_they_do_not_tell_of() -> None:
    specs = {spec.name: spec for spec in REGISTRY.specs(ToolSet.LEAN)}
    assert list(specs) == ["read", "write", "edit", "grep", "ls", "shell"]
    assert specs["shell"].parameters == {
        "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"],
    }  # fmt: skip
    assert REGISTRY.prepare("shell", '{"command": "ls", "timeout": 5}').arguments == {"command": "ls", "timeout": 5}
    assert REGISTRY.prepare("todo_list", "{}").tool == "todo_list"


@for_each(("alias", "name"), [
    ("read_file", "read"), ("list_directory", "ls"), ("list_files", "ls"), ("bash", "shell"), ("shell_exec", "shell"),
    ("str_replace", "edit"), ("file_write", "write"), ("Read", "read"), ("read-file", "read"), (" shell ", "shell"),
])  # fmt: skip
def test_names_of_other_programs_are_understood(alias: str, name: str) -> None:
    given = {"path": "a", "command": "a", "search": "a", "replace": "b", "content": "c"}
    taken = {"read": ["path"], "ls": ["path"], "shell": ["command"], "edit": ["path", "search", "replace"]}
    arguments = {key: given[key] for key in taken.get(name, ["path", "content"])}
    assert REGISTRY.prepare(alias, json.dumps(arguments)).tool == name


@for_each(("name", "given", "checked"), [
    ("read", {"file_path": "a.py", "limit": "20", "required": ["path"]}, {"path": "a.py", "limit": 20}),
    ("read", {"path": "/workspace/a.py"}, {"path": "a.py"}),
    ("read", {"path": "/home/me/project/src/../a.py"}, {"path": "a.py"}),
    ("read", {"path": "./a//b.py"}, {"path": "a/b.py"}),
    ("read", {"path": "../x"}, {"path": "../x"}),
    (
        "edit",
        {"file": "a", "old_string": "x", "new_string": "y", "replace_all": "true"},
        {"path": "a", "search": "x", "replace": "y", "all": True},
    ),
    ("shell", {"cmd": "ls", "timeout": None}, {"command": "ls"}),
    ("git_add", {"files": ["./a", "/workspace/b"]}, {"paths": ["a", "b"]}),
    ("todo_complete", {"id": "2"}, {"id": 2}),
])  # fmt: skip
def test_arguments_are_mended_where_that_is_safe(name: str, given: dict[str, object], checked: dict[str, object]) -> None:
    assert REGISTRY.prepare(name, json.dumps(given)).arguments == checked


@for_each(("name", "arguments", "words"), [
    ("read", '{"path": "a', "end too early"), ("read", "{'path': 'a'}", "are not JSON"), ("read", "[]", "one JSON object"),
    ("read", "{}", "path is missing"), ("read", '{"path": 3}', "path is wrong"),
    ("read", '{"path": "a", "limit": "all"}', "limit is wrong"), ("grep", '{"pattern": "a", "mode": "x"}', "mode is wrong"),
    ("reed", "{}", "did you mean read"), ("rm_rf", "{}", "no tool 'rm_rf'"),
])  # fmt: skip
def test_what_is_not_safe_is_refused_with_the_wanted_form(name: str, arguments: str, words: str) -> None:
    with pytest.raises(ToolError, match=words) as caught:
        REGISTRY.prepare(name, arguments)
    assert len(caught.value.full_text()) < 600


def reads(tool: Tool[Any]) -> bool:
    """Tell whether a call with the required arguments alone, or with all texts given, reads."""
    fields = tool.arguments.model_fields.items()
    texts = {name: "https://x.example/" for name, field in fields if field.annotation is str or field.is_required()}
    few = {name: text for name, text in texts.items() if tool.arguments.model_fields[name].is_required()}
    return Access.READ in {tool.access(tool.arguments.model_construct(**given)) for given in (few, texts)}


@for_each("tool", [tool.name for tool in ALL_TOOLS if reads(tool)])
def test_a_tool_that_reads_heeds_what_must_not_be_read_or_tells_names_only(tool: str) -> None:
    forbidden = decide(tool, Access.READ, "keys/a.txt", Mode.AUTO, (Rule(Effect.DENY, "read", "keys/*"),))
    secret = decide(tool, Access.READ, ".env", Mode.NORMAL, ())
    assert (forbidden.verdict, secret.verdict) in {(Verdict.DENY, Verdict.ASK), (Verdict.ALLOW, Verdict.ALLOW)}


@for_each("tool", [*ALL_TOOLS, REPORT_RESULT])
def test_the_traits_of_a_tool_are_what_its_calls_do(tool: Tool[Any]) -> None:
    facts = traits_of(tool.name)
    values = {"name": "x", "path": "x", "paths": ("x",), "command": "x", "pattern": "x", "url": "https://x.example/"}
    given = {name: value for name, value in values.items() if name in tool.arguments.model_fields}
    access = tool.access(tool.arguments.model_construct(**given))
    allowed = {
        FileEffect.NOTHING: {Access.NONE, Access.WEB} | ({Access.WRITE} if tool.name.startswith("memory_") else set()),
        FileEffect.SHOWS: {Access.READ} | ({Access.WRITE} if tool.name == PROMOTE_TOOL else set()),
        FileEffect.LISTS: {Access.READ}, FileEffect.CHANGES: {Access.WRITE}, FileEffect.GIT: {Access.WRITE},
        FileEffect.RUNS: {Access.EXECUTE}, FileEffect.UNKNOWN: {Access.NONE},
    }  # fmt: skip
    assert access in allowed[facts.file_effect], (access, facts)


def test_raw_line_breaks_and_wrapped_arguments_are_taken_and_a_named_branch_is_written() -> None:
    assert REGISTRY.prepare("write", '{"path": "a", "content": "x\ny"}').arguments["content"] == "x\ny"
    assert REGISTRY.prepare("ls", json.dumps(json.dumps({"path": "src"}))).arguments == {"path": "src"}
    assert REGISTRY.prepare("ls", "").arguments == {}
    assert REGISTRY.prepare("git_branch", "{}").access is Access.READ
    assert REGISTRY.prepare("git_branch", '{"name": "x", "create": true}').access is Access.WRITE


def test_every_tool_has_a_row_of_facts_and_those_that_read_are_found() -> None:
    assert {tool.name for tool in (*ALL_TOOLS, REPORT_RESULT)} == set(TOOL_TRAITS)
    found = [tool.name for tool in ALL_TOOLS if reads(tool)]
    assert found == [
        "read", "glob", "grep", "ls", "git_status", "git_diff", "git_branch", "task_state_update",
        "data_view", "find_relevant_files", "look",
    ]  # fmt: skip


@for_each(("name", "arguments", "tool", "subject"), [
    ("rename", {"path": "old.txt", "new": "new.txt"}, "shell", "mv old.txt new.txt"),
    ("rename_file", {"old_name": "docs/a b.txt", "new_name": "c.txt"}, "shell", "mv 'docs/a b.txt' docs/c.txt"),
    ("move", {"source": "/home/me/project/a", "destination": "sub/"}, "shell", "mv a sub/"),
    ("copy", {"from": "-a", "to": "b"}, "shell", "cp -r ./-a b"),
    ("delete_file", {"file": "a; rm -rf ."}, "shell", "rm 'a; rm -rf .'"), ("rmdir", {"path": "d"}, "shell", "rmdir d"),
    ("run", {"command": "make test"}, "shell", "make test"),
    ("run_file", {"path": "t.py", "args": ["-v", "a b"]}, "shell", "python3 t.py -v 'a b'"),
    ("append", {"path": "log.txt", "text": "x"}, "write", "log.txt"), ("mkdir", {"path": "d"}, "mkdir", "d"),
])  # fmt: skip
def test_tools_that_models_invent_become_calls_of_those_that_are(
    name: str, arguments: dict[str, object], tool: str, subject: str
) -> None:
    call = ToolRegistry("/home/me/project").prepare(name, json.dumps(arguments))
    assert (call.tool, call.subjects) == (tool, (subject,))


def test_an_invented_tool_is_none_where_the_real_one_is_not_there() -> None:
    reader = child_tools("", ChildKind.EXPLORE, can_send=False)
    with pytest.raises(ToolError, match="no tool 'delete'"):
        reader.prepare("delete", '{"path": "a"}')
    assert "delete" not in [spec.name for spec in reader.specs(ToolSet.HIDDEN)]


@for_each(("tool", "given", "is_placeholder"), [
    ("write", {"path": "a.txt", "content": "..."}, True), ("write", {"path": "a.txt", "content": " … \n"}, True),
    ("write", {"path": "a.txt", "content": "<new content>"}, True), ("write", {"path": "path", "content": "x"}, True),
    ("read", {"path": "…"}, True), ("shell", {"command": "<command>"}, True),
    ("write", {"path": "a.html", "content": "<br>"}, False), ("write", {"path": "a.pyi", "content": "def f(): ...\n"}, False),
    ("read", {"path": "path"}, False), ("grep", {"pattern": "..."}, False), ("shell", {"command": "cat <file.txt >b"}, False),
    ("edit", {"path": "a", "search": "...", "replace": "pass"}, False),
])  # fmt: skip
def test_what_only_says_that_something_belongs_there_is_refused(
    tool: str, given: dict[str, object], *, is_placeholder: bool
) -> None:
    words = pytest.raises(ToolError, match="is a placeholder") if is_placeholder else nullcontext()
    with words:
        REGISTRY.prepare(tool, json.dumps(given))
