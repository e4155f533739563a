from __future__ import annotations

from pathlib import Path

from lmtui.core.messages import ToolCallFormat
from lmtui.models.parsing.answer import AnswerParser, ParsedAnswer
from lmtui.models.parsing.answer_builder import RepetitionGuard
from tests.models.parsing.cases import J_READ, TOOLS
from tests.models.parsing.reading import calls_of, read
from tests.sets import for_each

ROOT = Path(__file__).parents[3]
SOURCES = [path for folder in ("lmtui", "tests", "docs") for path in sorted((ROOT / folder).rglob("*"))]


def stopped_at(text: str) -> tuple[int, ParsedAnswer]:
    """Return how many characters were read before the parser was over, all of them if it never was, and the answer."""
    parser = AnswerParser(TOOLS, ToolCallFormat.TEXT)
    for count, letter in enumerate(text):
        if parser.is_over:
            return count, parser.finish()[1]
        parser.feed(letter)
    return len(text), parser.finish()[1]


@for_each(("unit", "within"), [
    ("- `current_dir/`\n", 1300), ("\n", 600), (" \n", 700), ("the same line over and over again, word by word\n", 1300),
    ("third fourth fifth sixth seventh eighth ninth tenth " * 4, 2600), ("=", 2600), ("0, ", 2600),
])  # fmt: skip
def test_repetition_ends_the_answer_soon(unit: str, within: int) -> None:
    size, answer = stopped_at("It is so.\n" + unit * (5000 // len(unit)))
    assert size <= within
    assert answer.stopped == "it repeated itself"
    assert answer.text.startswith("It is so.")
    assert len(answer.text) <= 20 + 3 * len(unit)


def test_repetition_is_found_at_the_same_place_however_it_comes_and_keeps_calls_before_it() -> None:
    text = "Well.\n" + "the same line over and over again\n" * 200
    whole, _, _ = read([text], TOOLS)
    assert (stopped_at(text)[1], read([text[at : at + 7] for at in range(0, len(text), 7)], TOOLS)[0]) == (whole, whole)
    text = J_READ + '\n{"name": "write", "arguments": {"path": "a", "content": "' + "no end in sight, none at all " * 300
    size, answer = stopped_at(text)
    assert size < 3500
    assert (calls_of(answer), answer.stopped) == ([("read", {"path": "notes.txt"})], "it repeated itself")
    size, answer = stopped_at(f"```json\n{J_READ}\n```" + "\n" * 2000)
    assert size < 700
    assert calls_of(answer) == [("read", {"path": "notes.txt"})]


def test_thinking_that_repeats_itself_is_stopped() -> None:
    parser = AnswerParser(TOOLS)
    for _ in range(300):
        parser.feed_thinking("Wait, let me think again. ")
    assert parser.is_over
    assert parser.finish()[1].stopped == "it repeated itself in its thinking"


def test_the_same_calls_over_and_over_are_stopped_and_run_once() -> None:
    lines = [f'{{"name": "read", "arguments": {{"path": "{name}"}}}}\n' for name in "abc"]
    size, answer = stopped_at("".join(lines) * 40)
    assert size < 2.5 * len("".join(lines))
    assert [arguments["path"] for _, arguments in calls_of(answer)] == ["a", "b", "c"]
    assert answer.stopped == "it repeated the same calls"


def test_real_files_rulers_tables_and_drawings_are_no_repetition() -> None:
    texts = [path.read_text(encoding="utf-8") for path in SOURCES if path.suffix in (".py", ".md", ".tcss")]
    assert len(texts) > 300
    for text in texts:
        guard = RepetitionGuard()
        assert not any(guard.feed(part) for part in guard.parts(text))
    table = "".join(f"| {number} | {number * 7 % 13} | {'x' * (number % 5)} |\n" for number in range(300))
    drawing = "\n".join("#" * (40 - abs(20 - row) * 2) for row in range(40))
    answer, _, is_over = read(["-" * 300 + "\n" + table + drawing + "\n" + " " * 400 + "end"], TOOLS)
    assert not is_over
    assert answer.text.endswith("end")
