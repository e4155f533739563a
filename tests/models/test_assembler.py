from __future__ import annotations

import json
import re

import pytest

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.messages import (
    Completion,
    FinishReason,
    Message,
    ModelRequest,
    PrefillChunk,
    Role,
    TextChunk,
    ToolCall,
    ToolCallFormat,
    ToolSpec,
)
from lmtui.models.demo_scripts import Scenario, ScriptedTurn
from lmtui.models.openai_client import OpenAICompatible
from lmtui.models.request_encoding import wire_messages
from lmtui.models.scripted_server import ScriptedServer
from lmtui.models.stream_accumulator import StreamAccumulator
from tests.models.parsing.cases import J_READ, TOOLS, tagged
from tests.sets import for_each


def assembler(tools: tuple[ToolSpec, ...] = TOOLS, form: ToolCallFormat = ToolCallFormat.NATIVE) -> StreamAccumulator:
    numbers = iter(range(100))
    return StreamAccumulator(lambda: f"made_{next(numbers)}", lambda: 0.0, tools, form)


def chunk(finish: str | None = None, **delta: object) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "model": "m"})


def native(name: str, arguments: object, index: int = 0, call_id: str = "") -> dict[str, object]:
    return {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def whole(*chunks: str, finish: str = "stop") -> Completion:
    taken = assembler()
    for each in chunks:
        taken.feed(each)
    taken.feed(chunk(finish))
    return taken.finish()[1]


@for_each(("name", "sent", "wanted"), [
    ("read", '{"path": "a",}', {"path": "a"}), ("read", '{"path": "a"}}', {"path": "a"}),
    ("read", '{"path": "a"', {"path": "a"}), ("read", '"{\\"path\\": \\"a\\"}"', {"path": "a"}),
    ("read", "{'path': 'a'}", {"path": "a"}), ("write", '{"path": "a", "content": "x\ny"}', {"path": "a", "content": "x\ny"}),
    ("functions.read", '{"path": "a"}', {"path": "a"}), ("Read", '{"path": "a"}', {"path": "a"}),
    ("read", {"path": "a"}, {"path": "a"}), ("get_time", "", {}), ("get_time", "null", {}),
])  # fmt: skip
def test_slips_of_native_calls_are_mended(name: str, sent: object, wanted: dict[str, object]) -> None:
    (call,) = whole(chunk(tool_calls=[native(name, sent)])).message.tool_calls
    assert (call.name, json.loads(call.arguments)) == (name.lower().removeprefix("functions."), wanted)


@pytest.mark.parametrize("sent", ['{"path": "a", "content": "say "hi""}', '{"path": "a" + b}', '{"path": "a", "path": "b'])
def test_what_has_no_reading_stays_as_it_was_sent(sent: str) -> None:
    (call,) = whole(chunk(tool_calls=[native("write", sent)])).message.tool_calls
    assert call.arguments == sent


def test_a_call_in_the_text_says_its_form_and_a_native_one_counts_once_and_is_not_closed() -> None:
    done = whole(chunk(content=f"I look.\n{tagged(J_READ)}"))
    assert [(call.id, call.name, call.form) for call in done.message.tool_calls] == [("made_0", "read", "tag")]
    assert (json.loads(done.message.tool_calls[0].arguments), done.message.text) == ({"path": "notes.txt"}, "I look.")
    assert done.finish_reason is FinishReason.TOOL_CALLS
    done = whole(chunk(tool_calls=[native("read", '{"path": "a"')]), finish="length")
    assert done.message.tool_calls[0].arguments == '{"path": "a"'
    done = whole(chunk(tool_calls=[native("ls", "{}", 0, "a"), native("ls", "{}", 1, "b"), native("get_time", "{}", 2, "c")]))
    assert [call.id for call in done.message.tool_calls] == ["a", "c"]


def piece(**parts: object) -> dict[str, object]:
    """Return a chunk of a call: `index`, `id`, `name`, `arguments`, as far as they are given."""
    function = {key: parts.pop(key) for key in ("name", "arguments") if key in parts}
    return {"type": "function", **parts, "function": function}


READ_A, READ_B = '{"path": "a"}', '{"path": "b"}'
A, B = ("read", READ_A), ("read", READ_B)


@for_each(("pieces", "wanted"), [
    ([piece(name="read", arguments=READ_A), piece(name="read", arguments=READ_B)], [A, B]),
    ([piece(index=0, name="read", arguments=READ_A), piece(index=0, name="read", arguments=READ_B)], [A, B]),
    ([piece(id="K", name="read", arguments=READ_A), piece(id="K", name="read", arguments=READ_B)], [A, B]),
    ([piece(name="read"), piece(arguments='{"pa'), piece(arguments='th": "a"}'),
      piece(name="ls", arguments="{}")], [A, ("ls", "{}")]),
    ([piece(index=0, id="a", name="read", arguments=""), piece(index=1, arguments='{"path"'),
      piece(id="z", arguments=': "a"}')], [A]),
    ([piece(index=0, id="a", arguments=READ_A), piece(index=0, id="a", name="read"), piece(index=1, id="b", arguments=READ_B),
      piece(index=1, id="b", name="read")], [A, B]), ([piece(id="functions.read:0", arguments=READ_A)], [A]),
    ([piece(index=0, id="a", name="read"), piece(index=1, id="b", name="read"), piece(index=1, arguments=READ_B),
      piece(index=0, arguments=READ_A)], [A, B]),
    ([piece(id="a", name="read"), piece(id="b", name="read"), piece(id="a", arguments=READ_A),
      piece(id="b", arguments=READ_B)], [A, B]),
    ([piece(index=0, name="re"), piece(index=0, name="ad", arguments=READ_A)], [A]),
    ([piece(index=0, name="re"), piece(index=0, name="read", arguments=READ_A)], [A]),
    ([piece(index=0, name="read", arguments='{"pa'), piece(index=0, name="read", arguments='th": "a"}')], [A]),
    ([piece(index=0, id="1", name="read", arguments='{"pa'), piece(index=0, id="2", name="read", arguments='th": "a"}')], [A]),
    ([piece(name="read", arguments='{"path'), piece(arguments='{"path": "a'), piece(arguments=READ_A),
      piece(arguments="{}")], [A]),
    ([piece(name="read", arguments="{}"), piece(arguments="null"), piece(arguments=READ_A), piece(arguments="null")], [A]),
    ([piece(name="ls"), piece(name="get_time")], [("ls", "{}"), ("get_time", "{}")]),
    ([piece(index=0, id="x"), piece(index=0, name="read"), piece(index=0, arguments=READ_A)], [A]),
    ([{"index": 0, "id": "x", "name": "read", "arguments": READ_A}], [A]),
    ([piece(index=0, id=""), piece(name="", arguments="")], []),
    ([piece(index=0, id="x", name=None, arguments=READ_A)], []), ([{}, {"function": None}], []),
    ([piece(name="read", arguments={"path": "a"}), piece(name="read", arguments={"path": "b"})], [A, B]),
    ([piece(name="read"), piece(arguments=READ_A), piece(name="read"), piece(arguments=READ_B)], [A, B]),
    ([piece(arguments=READ_A), piece(name="read")], [A]), ([piece(arguments=READ_A), piece(id="x", name="read")], [A]),
    ([piece(index=0, arguments='{"path"'), piece(index=0, arguments=': "a"}'), piece(index=0, id="x", name="read")], [A]),
    ([{"function": "read", "arguments": READ_A}], [A]), ([{"name": "read", "parameters": {"path": "a"}}], [A]),
    ([{"function": {"name": "read"}, "arguments": {"path": "a"}}], [A]),
    ([{"index": 0, "function": "read"}, {"index": 0, "arguments": READ_A}], [A]),
    ([piece(index=0, id="functions.read:0"), piece(index=0, name="re"), piece(index=0, name="ad", arguments=READ_A)], [A]),
    ([piece(index=0, id="functions.ls:0"), piece(index=0, name="read", arguments=READ_A)], [A]),
    ([piece(id="functions.read:0", arguments=READ_A), piece(id="functions.read:1", arguments=READ_B)], [A, B]),
    ([piece(index=0, id="1", name="read", arguments='{"pa'), piece(index=1, id="2", arguments='th": "a"}')], [A]),
])  # fmt: skip
def test_calls_in_pieces_are_put_together_whatever_a_piece_lacks(
    pieces: list[dict[str, object]], wanted: list[tuple[str, str]]
) -> None:
    done = whole(*(chunk(tool_calls=[each]) for each in pieces), finish="tool_calls")
    alone = whole(*(chunk(tool_calls=each) for each in pieces), finish="tool_calls")  # as some servers send it, without a list
    for each in (done, alone):
        assert [(call.name, call.arguments) for call in each.message.tool_calls] == wanted
    assert len({call.id for call in done.message.tool_calls if call.id}) in (1, len(wanted))
    assert bool(done.problem) == (not wanted and READ_A in str(pieces))


@for_each("name", ["read<arg_key>path</arg_key>", "a b", "x" * 300, "léger", "<|tool|>", " "])
def test_an_odd_name_never_goes_back_to_the_server_as_it_came(name: str) -> None:
    for form in (ToolCallFormat.NATIVE, ToolCallFormat.TEXT):
        request = ModelRequest(
            (Message(Role.ASSISTANT, "", tool_calls=(ToolCall("1", name, "{"),)),), TOOLS, "m", call_form=form
        )
        (message,) = wire_messages(request.messages, request)
        sent = re.findall(r"""["']name["']: ["']([^"']*)["']""", str(message))
        assert [each for each in sent if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", each)] == [] != sent


def test_progress_and_timings_of_llama_cpp() -> None:
    taken = assembler()
    begun = json.dumps({"choices": [], "prompt_progress": {"total": 400, "cache": 100, "processed": 200, "time_ms": 5}})
    assert taken.feed(begun) == [PrefillChunk(0.5, 400)]
    assert not taken.has_output
    timings = {"cache_n": 225, "prompt_n": 15, "prompt_ms": 500.0, "predicted_n": 26, "predicted_ms": 2000.0}
    taken.feed(json.dumps({"choices": [], "usage": {"prompt_tokens": 240, "completion_tokens": 26}, "timings": timings}))
    taken.feed(chunk("stop", content="ok"))
    told = taken.finish()[1].timings
    assert told is not None
    assert (told.read_tokens, told.read_s, told.cached_tokens, told.written_tokens, told.written_s) == (15, 0.5, 225, 26, 2.0)


def test_a_stream_that_breaks_off_is_a_fault_unless_it_was_over() -> None:
    broken = assembler()
    broken.feed(chunk(content="half a sen"))
    with pytest.raises(ProviderError) as caught:
        broken.finish()
    assert caught.value.fault is Fault.CUT
    over = assembler()
    over.feed(chunk(content=f"{J_READ}\n<tool_response>\nabc"))
    assert over.is_over
    assert over.finish()[1].stopped == "it began to write a tool's answer itself"


def test_done_is_an_end_without_a_reason_but_closes_no_call() -> None:
    said, called = assembler(), assembler()
    for taken, event in ((said, chunk(content="It is so.")), (called, chunk(tool_calls=[native("read", '{"path": "a"')]))):
        taken.feed(event)
        taken.feed("[DONE] ")
    assert (said.finish()[1].message.text, said.finish()[1].finish_reason) == ("It is so.", FinishReason.STOP)
    assert called.finish()[1].message.tool_calls[0].sent_arguments == "{}"


@pytest.mark.parametrize("data", ["{}{}", "{", "[]", '{"choices": []} x'])
def test_what_is_no_chunk_is_garbage(data: str) -> None:
    with pytest.raises(ProviderError) as caught:
        assembler().feed(data)
    assert caught.value.fault is Fault.GARBAGE


async def test_the_server_is_left_as_soon_as_the_answer_is_over() -> None:
    endless = ScriptedTurn("It is so.\n" + "the same line over and over again\n" * 3000)
    async with ScriptedServer(Scenario((endless,))) as server:
        provider = OpenAICompatible(server.url)
        pieces = [piece async for piece in provider.stream(ModelRequest((Message(Role.USER, "hi"),), TOOLS, "scripted"))]
        await provider.close()
    done = pieces[-1]
    assert isinstance(done, Completion)
    assert (done.stopped, done.message.text) == ("it repeated itself", "It is so.\nthe same line over and over again")
    assert sum(len(piece.text) for piece in pieces if isinstance(piece, TextChunk)) < 3000


@for_each("number", ["9" * 400, "-1", "Infinity", "NaN", '"8"'])
def test_counts_and_times_that_cannot_be_are_not_told(number: str) -> None:
    parts = assembler()
    parts.feed(chunk("stop", content="hi"))
    parts.feed(f'  {{"usage": {{"prompt_tokens": {number}}}, "timings": {{"prompt_ms": {number}, "predicted_n": {number}}}}}  ')
    _, completion = parts.finish()
    assert completion.usage is not None
    assert completion.timings is not None
    told = (completion.usage.prompt_tokens, completion.timings.read_s, completion.timings.written_tokens)
    assert told == (0, 0.0, 0)


@for_each(("pieces", "wanted"), [
    (["smile \ud83d", "\ude00 end"], "smile 😀 end"),
    (["smile \ud83d\ude00", " end"], "smile 😀 end"),
    (["lone \ud83d end"], "lone \ufffd end"),
    (["lone \ude00", " end"], "lone \ufffd end"),
    (["lone \ud83d", "\ud83d", "\ude00"], "lone \ufffd😀"),
    (["half at the end \ud83d"], "half at the end"),
])  # fmt: skip
@for_each("key", ["content", "reasoning_content"])
def test_half_a_character_waits_for_the_other_half(key: str, pieces: list[str], wanted: str) -> None:
    message = whole(*(chunk(**{key: piece}) for piece in pieces)).message
    assert f"{message.text}{message.thinking}".strip() == wanted


TEXT = {"type": "text", "text": "It is "}
THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": True}


@for_each(("delta", "text", "thinking"), [
    ({"content": [TEXT, {"type": "output_text", "text": "42."}]}, "It is 42.", ""),
    ({"role": "assistant", "content": [THOUGHT, TEXT]}, "It is", "hm"), ({"content": ["It is ", "42."]}, "It is 42.", ""),
    ({"content": TEXT}, "It is", ""),
    ({"content": [{"type": "image_url", "image_url": {"url": "x"}}, TEXT, None, 5]}, "It is", ""),
    ({"content": None, "refusal": "I cannot."}, "I cannot.", ""),
    ({"content": [{"type": "refusal", "refusal": "I cannot."}]}, "I cannot.", ""),
    ({"reasoning": [{"type": "reasoning", "text": "hm"}], "content": "4"}, "4", "hm"), ({"content": []}, "", ""),
    ({"content": {}}, "", ""),
])  # fmt: skip
@for_each("key", ["delta", "message"])
def test_content_in_parts_is_the_answer(key: str, delta: dict[str, object], text: str, thinking: str) -> None:
    done = whole(json.dumps({"choices": [{"index": 0, key: delta}]}))
    assert (done.message.text.strip(), done.message.thinking) == (text, thinking)


def test_several_calls_in_one_chunk_the_older_form_and_parts_inside_of_parts_are_read() -> None:
    both = [piece(name="read"), piece(name="read")]
    done = whole(chunk(tool_calls=both), chunk(tool_calls=[piece(arguments=READ_A), piece(arguments=READ_B)]))
    older = whole(chunk(function_call={"name": "read", "arguments": '{"path":'}), chunk(function_call={"arguments": ' "a"}'}))
    assert [(call.name, call.arguments) for call in (*done.message.tool_calls, *older.message.tool_calls)] == [A, B, A]
    nested: object = "x"
    for _ in range(200):
        nested = [nested]
    assert whole(chunk(content=nested)).message.text == ""
