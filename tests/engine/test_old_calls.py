from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import ToolError
from lmtui.core.events import ModelChanged, ToolCallFinished
from lmtui.core.messages import Role, ToolCall
from lmtui.core.model_events import Compacted
from lmtui.core.permissions.rules import Mode
from lmtui.engine.entries import LONG_ARGUMENT_CHARS, check_copied, in_short, is_bulky
from lmtui.models.request_encoding import worked_example
from lmtui.tools.registry import ToolRegistry
from tests.engine.seen import ran, seen
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer

MARK = "[left out by lmtui to save room: "


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall("c1", name, json.dumps(arguments))


def given_to(short: ToolCall) -> dict[str, object]:
    found = json.loads(short.arguments)
    assert isinstance(found, dict)
    return found


def test_a_written_file_is_told_by_its_name_and_how_many_lines_it_had() -> None:
    short = given_to(in_short(call("write", path="src/a.py", content="value = 1\n" * 500)))
    assert short["path"] == "src/a.py"
    assert str(short["content"]).startswith(f"{MARK}500 lines, 5,000 characters;")


def test_texts_within_lists_and_long_lists_become_short_and_short_ones_stay() -> None:
    edits = [{"old": "x" * 900, "new": "y"}]
    short = given_to(in_short(call("edit", path="a.py", edits=edits, names=[f"f{number}" for number in range(100)], flag=True)))
    assert short["edits"] == [{"old": f"{MARK}1 line, 900 characters; the tool got all of it. Never write this.]", "new": "y"}]
    names = short["names"]
    assert isinstance(names, list)
    assert names[:3] == ["f0", "f1", "f2"]
    assert str(names[3]).startswith(f"{MARK}97 items")
    assert short["flag"] is True


def test_a_call_with_little_in_it_stays_the_same_object() -> None:
    small = call("edit", path="a.py", old="x" * LONG_ARGUMENT_CHARS, new="y" * LONG_ARGUMENT_CHARS)
    assert in_short(small) is small
    assert not is_bulky((small,))
    assert is_bulky((call("write", content="x" * 1000),))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=600),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=9), inner, max_size=5),
    max_leaves=40,
)


@given(st.dictionaries(st.text(max_size=9), JSON, max_size=6))
def test_whatever_was_given_stays_an_object_with_the_same_names(arguments: dict[str, object]) -> None:
    before = ToolCall("c1", "any", json.dumps(arguments))
    short = in_short(before)
    assert (given_to(short).keys(), (short.id, short.name)) == (arguments.keys(), ("c1", "any"))
    assert max(map(len, re.findall(r'"(?:[^"\\]|\\.)*"', short.arguments)), default=0) < 6 * LONG_ARGUMENT_CHARS + 3
    assert short is before or given_to(short) != arguments


@pytest.mark.parametrize("arguments", ["{", "[" * 5000, '"' + "x" * 900 + '"', '{"a": "\\ud800' + "x" * 900 + '"}'])
def test_what_is_no_object_or_half_a_character_is_taken_too(arguments: str) -> None:
    assert isinstance(json.loads(in_short(ToolCall("c", "t", arguments)).sent_arguments), dict)
    in_short(ToolCall("c", "t", arguments)).arguments.encode()


def test_the_word_that_stands_for_a_text_is_refused_as_a_text() -> None:
    short = in_short(call("write", path="a.py", content="value = 1\n" * 500))
    with pytest.raises(ToolError, match="give the text itself"):
        check_copied(short)
    check_copied(call("write", path="a.py", content="[left out by lmtui to save room: {things}"))


async def test_a_model_that_writes_large_files_does_not_fill_its_window_with_them() -> None:
    texts = [f"row {number} of the table\n" * 300 for number in range(12)]
    writes = [answer("", ("write", json.dumps({"path": f"t{n}.txt", "content": text}))) for n, text in enumerate(texts)]
    rig = Rig(FakeProvider(*writes, answer("all are written")), FakeSandbox(), mode=Mode.AUTO)
    rig.session.emit(ModelChanged(model="model", url=rig.provider.url, window_tokens=8_192))
    await rig.run("write the tables")
    assert any(part.startswith("args_") for event in seen(rig, Compacted) for part in event.elided)
    assert [rig.sandbox.files[f"t{number}.txt"].decode() for number in range(12)] == texts
    for request in rig.provider.requests:
        given = [json.loads(each.arguments) for message in request.messages for each in message.tool_calls]
        assert all(each["path"].startswith("t") for each in given)
        whole = [each for each in given if each["content"] in texts]
        assert len(whole) <= 4
        assert not given or given[-1]["content"] in texts  # the last one is always whole


async def test_a_copied_word_never_becomes_a_file() -> None:
    copied = in_short(call("write", path="a.txt", content="line\n" * 500)).arguments
    rig = Rig(FakeProvider(answer("", ("write", copied)), answer("I will look again.")), FakeSandbox(), mode=Mode.AUTO)
    await rig.run()
    ended = seen(rig, ToolCallFinished)[0]
    assert not ended.ok
    assert "give the text itself" in ended.result
    assert not rig.sandbox.files
    assert [message.role for message in rig.provider.requests[-1].messages].count(Role.TOOL) == 1


async def test_a_call_with_a_file_of_the_worked_example_is_refused() -> None:
    shown = worked_example(ToolRegistry().specs())
    (path,) = {json.loads(each.arguments)["path"] for message in shown for each in message.tool_calls if each.name == "read"}
    command = next(each.arguments for message in shown for each in message.tool_calls if each.name == "shell")
    provider = FakeProvider(
        answer("", ("write", json.dumps({"path": path, "content": "x"})), ("shell", command)), answer("done")
    )
    rig = await ran(Rig(provider, FakeSandbox(), mode=Mode.AUTO))
    results = [event.result for event in seen(rig, ToolCallFinished)]
    assert [result.partition(" ")[2] for result in results] == [
        "is only in the example and does not exist. Look with ls for the files of this task."
    ] * 2
    assert rig.sandbox.files == {}
    check_copied(call("write", path="notes.md", content=f"{path} is the example"))
