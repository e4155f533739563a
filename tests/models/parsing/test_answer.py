from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.messages import StreamChunk, TextChunk, ThinkingChunk, ToolCallChunk, ToolCallFormat, ToolSpec
from lmtui.models.parsing.answer import AnswerParser
from tests.models.parsing.cases import CASES, J_ECHO, J_LS, J_READ, TOOLS, Case, tagged
from tests.models.parsing.reading import calls_of, read
from tests.sets import depth, for_each


@for_each("case", CASES)
def test_a_message_gives_what_a_careful_reader_would_run(case: Case) -> None:
    answer, _, is_over = read([case.message], case.tools, case.form, is_cut=case.is_cut)
    assert (tuple(calls_of(answer)), answer.text, answer.thinking) == (case.calls, case.expected_text, case.thinking)
    assert case.problem in answer.problem
    assert bool(case.problem) == bool(answer.problem)
    assert is_over == case.is_over == bool(answer.stopped)


@for_each("case", CASES)
def test_a_message_cut_anywhere_gives_the_same_and_its_pieces_add_up_to_the_text(case: Case) -> None:
    whole = read([case.message], case.tools, case.form, is_cut=case.is_cut)
    letters = read(case.message, case.tools, case.form, is_cut=case.is_cut)
    assert (letters[0], letters[2]) == (whole[0], whole[2])
    text = text_of(letters[1])
    thinking = "".join(piece.text for piece in letters[1] if isinstance(piece, ThinkingChunk))
    if "closing tag" in case.name:
        assert text.endswith(whole[0].text)
    else:
        assert (text, thinking) == (whole[0].text, whole[0].thinking)
    for at in range(1 + len(case.message) % depth(12, 1), len(case.message), depth(12, 1)):
        parts = (case.message[:at], case.message[at:])
        found = read(parts, case.tools, case.form, is_cut=case.is_cut)
        assert (found[0], found[2]) == (whole[0], whole[2]), f"cut at {at}"


def test_there_are_cases_enough() -> None:
    assert len(CASES) >= 280
    assert len({(case.message, case.is_cut, case.form) for case in CASES}) >= len(CASES) - 2


FRAGMENTS = [
    *(
        "<tool_call>", "</tool_call>", "<think>", "</think>", "```json\n", "```", "`", "\n", " ", "{", "}", "[", "]", '"',
        "<", ",",
    ),
    *(
        "<function=read>", "<parameter=path>", "</parameter>", "</function>", "[TOOL_CALLS]", "read(", 'path="x")', "read",
        "ls()",
    ),
    *(
        "<|channel|>", "analysis<|message|>", "<|end|>", "<|im_end|>", "<tool_response>", "to=functions.ls<|message|>",
        "Observation:",
    ),
    *(
        '"name": "read", "arguments": {"path": "a"}', J_READ, J_LS, J_ECHO, "a < b", "Done. ", "?", "for example", "ß", "'",
        "\\", "<<",
    ),
    *(
        "<tool_call>read\n", "<arg_key>path</arg_key>", "<arg_value>x</arg_value>", "<invoke name=", '"read">', "[ARGS]",
        "<json>",
    ),
]  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=14), st.data(), st.booleans(), st.sampled_from(list(ToolCallFormat)))
def test_any_text_cut_anywhere_gives_the_same(
    parts: list[str], data: st.DataObject, is_cut: bool, form: ToolCallFormat
) -> None:
    text = "".join(parts)
    whole = read([text], TOOLS, form, is_cut=is_cut)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    for found in (read(pieces, TOOLS, form, is_cut=is_cut), read(text, TOOLS, form, is_cut=is_cut)):
        assert (found[0], found[2]) == (whole[0], whole[2])


@given(
    st.sampled_from(CASES), st.lists(st.tuples(st.integers(0, 300), st.integers(0, 6), st.sampled_from(FRAGMENTS)), max_size=4)
)
def test_a_spoilt_message_letter_by_letter_gives_the_same(case: Case, spoils: list[tuple[int, int, str]]) -> None:
    text = case.message
    for at, size, fragment in spoils:
        text = text[:at] + fragment + text[at + size :]
    whole = read([text], case.tools, case.form, is_cut=case.is_cut)
    letters = read(text, case.tools, case.form, is_cut=case.is_cut)
    assert (letters[0], letters[2]) == (whole[0], whole[2])


@given(st.text(alphabet=st.characters(exclude_characters="<[{`◁", exclude_categories=["Cs"]), max_size=200))
def test_text_without_marks_is_text(text: str) -> None:
    answer, _, is_over = read([text], (), ToolCallFormat.NATIVE)
    assert (answer.text, answer.calls, answer.thinking, is_over) == (text, (), "", False)


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=14))
def test_only_known_tools_are_called(parts: list[str]) -> None:
    answer, _, _ = read(["".join(parts)], TOOLS)
    assert {call.name for call in answer.calls} <= {spec.name for spec in TOOLS}
    assert read(["".join(parts)], ())[0].calls == ()


# What one model may send to keep the screen busy: each is read in a time that grows with its length only.
HOSTILE = {
    "braces": "{" * 1_000_000, "angles": "<" * 1_000_000, "ticks": "`" * 1_000_000, "brackets": "[" * 1_000_000,
    "objects": '{"name":' * 40_000, "tags": "<tool_call>" * 30_000, "functions": "<function=read><parameter=path>" * 10_000,
    "ends": "<function=read>\n<parameter=path>" + "</parameter>x" * 20_000, "fences": "```json\n" * 40_000,
    "lines of braces": "{\n" * 100_000, "calls": f"{J_READ}\n" * 5_000,
    "text": '{"name": "write", "arguments": {"path": "a", "content": "' + "\\n{}" * 100_000,
    "quotes": 'read(path="' + "'\"" * 100_000, "spaces": "{" + " " * 300_000, "headers": "<|channel|>" * 30_000,
    "lists": "[read(" * 50_000, "thoughts": "<think></think>\n" * 20_000,
}  # fmt: skip


@pytest.mark.full
@for_each("name", HOSTILE)
@for_each("size", [1_000_000, 7])
def test_a_hostile_answer_takes_time_by_its_length(name: str, size: int) -> None:
    text = HOSTILE[name][: len(HOSTILE[name]) // depth(32, 1)]
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    began = time.process_time()
    _unguarded(parts)
    assert time.process_time() - began < depth(1, 10)


def _unguarded(parts: list[str]) -> None:
    """Read parts as if repeating oneself were allowed: the guards would end all of these early."""
    parser = AnswerParser(TOOLS, ToolCallFormat.TEXT, is_guarded=False)
    for part in parts:
        parser.feed(part)
    parser.finish()


def test_nesting_without_end_is_text() -> None:
    text = '{"name": "read", "arguments": ' + "[" * 100_000
    answer, _, _ = read([text], TOOLS)
    assert answer.calls == ()


def text_of(pieces: list[StreamChunk]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextChunk))


def test_text_streams_at_once_that_of_a_schema_too_and_what_may_be_a_call_waits() -> None:
    parser = AnswerParser(TOOLS)
    assert (text_of(parser.feed("I will")), text_of(parser.feed(" read it."))) == ("I will", " read it.")
    assert parser.feed("\n<tool") == []
    assert parser.feed('_call>{"name": "read", "argu') == [ToolCallChunk("read", 22)]
    parser.feed('ments": {"path": "notes.txt"}}</tool_call>')
    last, answer = parser.finish()
    assert (text_of(last), answer.text) == ("", "I will read it.")
    parser = AnswerParser(TOOLS, ToolCallFormat.SCHEMA)
    assert text_of(parser.feed('{"name": "done", "arguments": {"answer": "It')) == "It"
    assert (text_of(parser.feed(" is \\")), text_of(parser.feed('"4\\u00'))) == (" is", ' "4')
    assert text_of(parser.feed('fc"}')) == "ü"


def test_native_calls_win() -> None:
    text = f"I look.\n{tagged(J_READ)}"
    answer, _, _ = read([text], TOOLS, is_native=True)
    assert (answer.calls, answer.text) == ((), text)
    bare, _, _ = read([J_LS], TOOLS, is_native=True)
    assert (bare.calls, bare.text) == ((), J_LS)


def test_the_field_for_thinking_is_thinking_and_a_call_at_its_end_counts_where_no_answer_follows() -> None:
    parser = AnswerParser(TOOLS)
    assert parser.feed_thinking("I look.\n") == [ThinkingChunk("I look.\n")]
    parser.feed_thinking(tagged(J_READ))
    assert calls_of(parser.finish()[1]) == [("read", {"path": "notes.txt"})]
    parser = AnswerParser(TOOLS)
    parser.feed_thinking(tagged(J_ECHO))
    parser.feed("It is 4.")
    answer = parser.finish()[1]
    assert (answer.calls, answer.text) == ((), "It is 4.")


@pytest.mark.parametrize("letter", ["I", "\u0130", "\u00df", "\U0001f600"])
def test_a_quotation_ends_at_its_tag_whatever_letters_stand_in_it(letter: str) -> None:
    text = f"<quote>{letter * 40}</QUOTE>\nI'll list the folder now:\n\n{tagged(J_LS)}"
    whole, parts = read([text], TOOLS, ToolCallFormat.TEXT), read(text, TOOLS, ToolCallFormat.TEXT)
    assert (len(calls_of(whole[0])), whole[0]) == (1, parts[0])


@for_each("text", [
    "```json\nls\n```", "```\nls\n```\n", '```json\n"get_time"\n```', '```json\n{"name": "ls"}\n```',
    "```tool_call\nlist_files\n```",
])  # fmt: skip
def test_an_answer_that_is_only_the_name_of_a_tool_without_arguments_is_a_call(text: str) -> None:
    whole, _, _ = read([text], TOOLS)
    assert calls_of(whole) in ([("ls", {})], [("get_time", {})])
    assert read(text, TOOLS)[0] == whole


@for_each("text", [
    "```json\nread\n```", "```bash\nls\n```", "ls", "```\nls\n```\nThis lists files.", "Type:\n```\nls\n```",
    "```\nls -l\n```", '{"name": "read"}',
])  # fmt: skip
def test_a_name_with_words_around_it_or_arguments_to_come_is_text(text: str) -> None:
    assert calls_of(read([text], TOOLS)[0]) == []


def test_of_tools_whose_names_differ_in_case_and_dashes_the_exact_one_is_called() -> None:
    names = ("get_item", "Get-Item", "GET_ITEM", "getitem")
    tools = tuple(ToolSpec(name, "", {"type": "object"}) for name in names)
    calls = [calls_of(read([f'{{"name": "{name}", "arguments": {{}}}}'], tools)[0]) for name in names]
    assert calls == [[(name, {})] for name in names]


def test_the_only_call_that_words_make_an_example_is_told_apart() -> None:
    text = f"To find the code, for example, I would read it like this:\n```json\n{J_READ}\n```\nand then look for the line."
    answer, _, _ = read([text], TOOLS)
    assert (answer.calls, answer.text) == ((), text)
    assert answer.quoted is not None
    assert (answer.quoted.name, answer.quoted.arguments) == ("read", '{"path": "notes.txt"}')
    several, _, _ = read([f"{text}\nOr like this, for example:\n```json\n{J_LS}\n```\nas you like."], TOOLS)
    assert several.quoted is None
