"""What a model that does more with few tools is given, what is kept from it, and how its turns may end."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lmtui.core.events import MessageAdded, ToolCallFinished, TurnReason
from lmtui.core.messages import Completion, Role, StreamChunk, ToolCall, ToolCallFormat
from lmtui.core.permissions.rules import Effect, Rule
from lmtui.tools.edit_file import with_members
from tests.engine.seen import ending, ran, seen
from tests.fakes import FakeProvider, Rig, answer
from tests.sets import for_each


def small(*answers: list[StreamChunk], files: dict[str, bytes], rules: tuple[Rule, ...] = (), tools: str = "lean") -> Rig:
    rig = Rig(FakeProvider(*answers), call_form=ToolCallFormat.TEXT, tools=tools, rules=rules)
    rig.sandbox.files.update(files)
    return rig


def attached(rig: Rig) -> str:
    return next(each.attached for each in seen(rig, MessageAdded) if each.role is Role.USER)


def call(tool: str, **arguments: object) -> list[StreamChunk]:
    return answer("", (tool, json.dumps(arguments)))


async def test_what_a_task_names_or_looks_for_comes_with_it() -> None:
    rig = small(answer("ready"), answer("ready"), files={"a.csv": b"name,amount\nbee,3\n", "b.txt": b"other\n"})
    await rig.run("Fix the heading of a.csv.")
    assert attached(rig) == '<file path="a.csv">\nname,amount\nbee,3\n</file>'
    rig = small(answer("b.txt"), answer("b.txt"), files={"a.txt": b"sea\n", "b.txt": b"and\nthe fjord\n"})
    await rig.run("Which file mentions fjord?")
    assert (attached(rig), len(rig.provider.requests)) == ("<search>\nfjord: b.txt, 1 line (2)\n</search>", 1)
    rig = await ran(small(answer("none"), answer("none"), files={"a.txt": b"sea\n"}), "Which file mentions fjord?")
    assert "a.txt" in attached(rig)
    assert "<folder" in attached(rig)
    rig = small(answer("2"), answer("2"), files={"a.txt": b"fjord\nsea\nfjord\n"})
    await rig.run("How many lines of a.txt contain the word fjord?")
    assert attached(rig).endswith("<search>\nfjord: a.txt, 2 lines (1, 3)\n</search>")
    assert ending(rig).reason is TurnReason.DONE


@pytest.mark.parametrize(
    ("tools", "rules", "size"), [("full", (), 1), ("lean", (Rule(Effect.DENY, "read", "a.csv"),), 1), ("lean", (), 1000)]
)
async def test_nothing_comes_for_other_models_or_against_a_rule_or_at_length(
    tools: str, rules: tuple[Rule, ...], size: int
) -> None:
    rig = small(answer("ready"), answer("ready"), files={"a.csv": b"secret,1\n" * size}, rules=rules, tools=tools)
    await rig.run("Fix the heading of a.csv.")
    assert attached(rig) == ""


CSV, JSON, SEA = {"a.csv": b"name,amount\nbee,3\nfly,4\n"}, {"a.json": b'{"port": 1}\n'}, {"a.txt": b"sea\n"}
READ, FAR = call("read", path="a.json"), "a/folder/of/this/kind/test.txt"


@for_each(("calls", "said", "files", "task", "missing"), [
    (call("ls"), "9", CSV, "What is the sum of the column amount in a.csv?", "no tool showed the number"),
    (call("ls"), "The file is number.txt", CSV, "Which file mentions umber?", "answer names number.txt, which is not there"),
    (call("ls"), "共有 9 行。", CSV, "a.csv 有多少行？请说。", "no tool showed the number"),
    (call("write", path="a.json", content="{}\n"), "Done.", JSON, "Could you empty a.json?", ""),
    (call("read", path=FAR), f"{FAR} does not exist", SEA, "Print what the test says.", "not finished"),
    (READ, "a.json is now set to 2.", JSON, "Setze port in a.json auf 2.", "the task names a.json, and nothing was"),
    (READ, "zq_tool.sh is executable now.", JSON, "Append the line x to the end of a.json.", "about the example"),
    (READ, "The function larger in a.json should return more.", JSON,
     "The function larger in a.json should return more. Fix it.", "repeats"),
    (call("shell", command="cat a.json"), "It says 1.", JSON, "Run `cat a.json`.", ""),
    (READ, "None of the 2 files mentions it.", JSON, "Which file mentions fjord?", ""),
    (READ, "It sets the port to 1.", JSON, "Explain what a.json sets.", ""),
    (call("grep", pattern="fjord"), "No line contains it.", SEA, "How many lines of a.txt contain fjord?", ""),
])  # fmt: skip
async def test_an_answer_that_nothing_bears_out_or_without_the_work_ends_unfinished_and_says_why(
    calls: list[StreamChunk], said: str, files: dict[str, bytes], task: str, missing: str
) -> None:
    rig = await ran(small(calls, *[answer(said)] * 5, files=files), task)
    assert ending(rig).reason is (TurnReason.UNFINISHED if missing else TurnReason.DONE)
    assert missing in ending(rig).error


async def test_an_edit_shows_what_it_made_and_one_that_would_break_a_file_is_refused() -> None:
    rig = small(call("edit", path="a.txt", search="two", replace="2"), answer("done"), files={"a.txt": b"one\ntwo\nthree\n"})
    await rig.run("Fix a.txt.")
    assert seen(rig, ToolCallFinished)[0].result == "ok\nNow it reads:\n    1  one\n    2  2\n    3  three"
    assert with_members('{"port": 1, "in": {"port": 1}}', "port", "2") == ""
    old = b"def larger(a, b):\n    return min(a, b)\n"
    rig = small(call("edit", path="a.py", search="larger", replace="larger and b"), *[answer("no")] * 4, files={"a.py": old})
    await rig.run("Fix a.py.")
    assert "a.py would not parse any more (line 1" in seen(rig, ToolCallFinished)[0].result
    assert rig.sandbox.files["a.py"] == old
    rig = small(call("write", path="a.log", content="\nthree\n"), *[answer("no")] * 4, files={"a.log": b"one\ntwo\nseven\n"})
    await rig.run("Append the line three to a.log.")
    assert rig.sandbox.files["a.log"] == b"one\ntwo\nseven\n"
    assert '"mode": "append"' in seen(rig, ToolCallFinished)[0].result


@pytest.mark.parametrize(
    ("old", "added", "new"), [("a\n", "\n b\n", "a\nb\n"), (" a\n", "\n b\n", " a\n b\n"), ("a", "\nb", "a\nb")]
)
async def test_what_is_appended_is_a_line_as_the_others(old: str, added: str, new: str) -> None:
    rig = small(call("write", path="a.log", content=added, mode="append"), answer("done"), files={"a.log": old.encode()})
    await rig.run("Append the line b to a.log.")
    assert rig.sandbox.files["a.log"].decode() == new


async def test_a_quoted_call_that_puts_a_failed_one_right_is_made() -> None:
    again = ToolCall("q", "write", json.dumps({"path": "a.log", "content": "three\n", "mode": "append"}))
    says = [replace(each, quoted=again) if isinstance(each, Completion) else each for each in answer("You can use write.")]
    failing = call("write", path="a.log", content="three\n")
    rig = small(failing, says, answer("done"), files={"a.log": b"one\ntwo\nseven\n"})
    await rig.run("Append the line three to a.log.")
    assert rig.sandbox.files["a.log"] == b"one\ntwo\nseven\nthree\n"


@for_each(("search", "instead", "new"), [
    ('{"port": 1}', '{"port": 2}', '{\n  "port": 2,\n  "on": true\n}\n'), ("port", "7", '{\n  "port": 7,\n  "on": true\n}\n'),
    ('"on"', "false", '{\n  "port": 1,\n  "on": false\n}\n'), ('{"port": 9}', '{"port": 2}', ""), ("gone", "7", ""),
    ("port", '"a"', ""), ('{"port": 1}', '{"other": 2}', ""), ("[1]", "[2]", ""),
])  # fmt: skip
def test_members_of_an_object_are_set_where_they_are_clear(search: str, instead: str, new: str) -> None:
    assert with_members('{\n  "port": 1,\n  "on": true\n}\n', search, instead) == new
