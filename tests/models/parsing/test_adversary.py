from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.messages import ToolCallFormat, ToolSet
from lmtui.models.parsing.answer import AnswerParser, ParsedAnswer
from lmtui.tools.registry import ToolRegistry
from tests.models.parsing.cases import CASES, ECHO, HELLO, J_ECHO, J_HELLO, J_READ, READ, TOOLS, tagged
from tests.models.parsing.reading import calls_of, read
from tests.sets import depth, for_each

CORPUS = Path(__file__).parents[2] / "corpus" / "adversary.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]


def parsed(row: dict[str, Any], size: int = 0) -> ParsedAnswer:
    """Return the answer of a message that comes whole, or in pieces of a size."""
    parser = AnswerParser(TOOLS, ToolCallFormat.TEXT)
    if "thinking" in row:
        parser.feed_thinking(row["thinking"])
    text = row["message"]
    for at in range(0, len(text), size or len(text)):
        parser.feed(text[at : at + (size or len(text))])
    return parser.finish(is_cut=row.get("cut", False))[1]


@for_each("row", ROWS)
def test_what_a_careful_reader_would_run_of_a_hard_message(row: dict[str, Any]) -> None:
    assert [list(call) for call in calls_of(parsed(row))] == row["calls"]


@for_each("row", ROWS)
def test_a_hard_message_in_pieces_gives_the_same(row: dict[str, Any]) -> None:
    whole = parsed(row)
    for size in depth((1, 7), (1, 2, 3, 7, 20)):
        assert parsed(row, size) == whole, size
    text = row["message"]
    if "thinking" not in row:
        for at in range(1 + len(text) % 5, len(text), depth(80, 5)):
            assert read((text[:at], text[at:]), TOOLS, is_cut=row.get("cut", False))[0] == whole, f"cut at {at}"


@for_each("filler", depth(range(255, 310, 9), range(255, 310)))
@for_each("gap", ["\n", "\n\n\n", " "])
def test_words_behind_a_call_count_up_to_the_same_place_however_they_come(filler: int, gap: str) -> None:
    text = (
        f"{tagged(J_ECHO)}{gap}{'A b ' * (filler // 4)}{'c' * (filler % 4)} I did not run it. That is all there is to say here."
    )
    whole, _, _ = read([text], TOOLS)
    for size in (1, 3, 11, 64):
        parts = [text[at : at + size] for at in range(0, len(text), size)]
        assert read(parts, TOOLS)[0] == whole, size


def test_no_call_of_a_hidden_tool_is_seen_in_a_hard_message() -> None:
    tools = (*TOOLS, *ToolRegistry().specs(ToolSet.HIDDEN))
    for row in (row for row in ROWS if "thinking" not in row):
        found, _, _ = read([row["message"]], tools, is_cut=row.get("cut", False))
        assert [list(call) for call in calls_of(found)] == row["calls"], row["id"]


CALLS = [J_ECHO, tagged(J_ECHO), f"```json\n{J_ECHO}\n```", "shell(command='echo hi')", "[TOOL_CALLS]" + f"[{J_ECHO}]"]
QUOTES = [
    ("<example>\n", "\n</example>"), ("<!-- ", " -->"), ("<pre>\n", "\n</pre>"), ("~~~\n", "\n~~~"),
    ("````markdown\n", "\n````"), ("```diff\n+", "\n```"), ("For example:\n\n", "\n"), ("The log says:\n", "\nThat is all."),
    ("The previous call was:\n", "\nIt failed."), ("You could call:\n", "\nif you like."), ("cat > x <<'EOF'\n", "\nEOF"),
    ("If you agree, I run:\n", "\n"), ("Should I run this?\n\n", "\n"),
]  # fmt: skip
WORDS = st.lists(st.sampled_from(["The brown fox is here.", "It jumps", "over", "a", "lazy dog", "and sleeps"]), max_size=6)


@given(st.sampled_from(CALLS), st.sampled_from(QUOTES), WORDS, WORDS)
def test_a_quoted_call_is_never_run(call: str, quote: tuple[str, str], before: list[str], behind: list[str]) -> None:
    message = f"{' '.join(before)}\n\n{quote[0]}{call}{quote[1]}\n\n{' '.join(behind)}"
    assert calls_of(read([message], TOOLS)[0]) == []


@for_each("call", CALLS)
def test_the_same_call_by_itself_is_run(call: str) -> None:
    assert (calls_of(read([call], TOOLS)[0]), calls_of(read([f"I will say hi:\n\n{call}"], TOOLS)[0])) == ([ECHO], [ECHO])


MARKUP = [case.message for case in CASES if case.calls and not case.is_cut]
IN_JSON = [
    "{}", "<tool_call>\n{}\n</tool_call>", "```json\n{}\n```", "[TOOL_CALLS][{}]", "<|python_tag|>{}", "Let me write it:\n\n{}",
]  # fmt: skip


@given(st.sampled_from(MARKUP), st.sampled_from(MARKUP), st.sampled_from(IN_JSON))
def test_markup_of_calls_in_what_is_written_stays_content(first: str, second: str, form: str) -> None:
    content = f"{first}\n{second}"
    call = json.dumps({"name": "write", "arguments": {"path": "a", "content": content}})
    assert calls_of(read([form.replace("{}", call)], TOOLS)[0]) == [("write", {"path": "a", "content": content})]


NAMES = re.compile("|".join(re.escape(name) for spec in TOOLS for name in (spec.name, *spec.aliases)), re.IGNORECASE)
STRANGE = [NAMES.sub("fly", message).replace("get-time", "fly") for message in MARKUP]
SCRAPS = st.text(alphabet="{}[]()<>\"'`=:,/| \nfly", max_size=20)


@given(st.lists(st.sampled_from(STRANGE) | SCRAPS, max_size=5))
def test_calls_of_tools_that_there_are_not_are_never_run(parts: list[str]) -> None:
    assert calls_of(read(["\n".join(parts)], TOOLS)[0]) == []


def test_a_result_that_the_model_made_up_ends_the_message_and_a_heading_behind_a_quoted_call_does_not() -> None:
    answer, _, is_over = read([f"{tagged(J_READ)}\n\n**Result:**\n\nabc\n\n{tagged(J_HELLO)}"], TOOLS)
    assert calls_of(answer) == [READ]
    assert is_over
    assert "abc" not in answer.text
    answer, _, is_over = read([f"The log says:\n{J_READ}\n\nResult: none.\n\nSo I write.\n\n{tagged(J_HELLO)}"], TOOLS)
    assert calls_of(answer) == [HELLO]
    assert not is_over
