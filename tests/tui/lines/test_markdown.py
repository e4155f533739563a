from __future__ import annotations

import random
import time

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lmtui.tui.lines.blocks import BLOCK_CHARS, CURSOR, AnswerStream, answer_blocks, split
from lmtui.tui.lines.document import Block
from lmtui.tui.lines.styled_text import Line, plain, width_of
from tests.sets import for_each

FRAGMENTS = st.sampled_from(
    [
        "# Head\n", "text **bold** and `code` ", "a [link](http://x.y/z) here", "\n", "\n\n", "- item one\n",
        "- item two\n\n", "  continued\n", "   - nested\n", "1. first\n", "2. second\n", "> quoted\n", "```py\n",
        "x = 'a'\n", "```\n", "~~~\n", "    indented\n", "| a | b |\n", "|---|:-:|\n", "| c | d |\n", "---\n", "***\n",
        "\x1b[31mred\x1b[0m", "\x9b5", "&#x202E;", "漢字かな", "\r\n", "\r", "\t", "  ", "<b>html</b>", "![pic](a.png)",
        "title\n===\n", "*", "`", "[1]: http://x\n", "  ```\n", "\\", "e\u0301 \u202e",
    ]
)  # fmt: skip
TEXTS = st.lists(FRAGMENTS, max_size=25).map("".join)
EVERYTHING = (
    "# T\n\nSome `code`.\n\n- a\n- b\n\n  ```sh\n  ls\n  ```\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n```py\nx = 1\n```\nend"
)


def lines_of(blocks: list[Block], width: int = 60) -> list[Line]:
    return [line for block in blocks for line in block.lines(width)]


def shown(text: str, width: int = 60) -> list[str]:
    return [plain(line).rstrip() for line in lines_of(answer_blocks(text), width)]


def streamed(text: str, cuts: list[int], width: int) -> AnswerStream:
    stream = AnswerStream()
    at = 0
    for cut in [*sorted(cuts), len(text)]:
        stream.feed(text[at:cut])
        at = max(at, cut)
        lines_of([*stream.blocks], width)
    return stream


@settings(deadline=None)
@given(TEXTS, st.lists(st.integers(0, 400), max_size=12), st.integers(20, 90))
@example("a\r\nb\n\n```py\nx\n```", [1, 2, 3, 4, 5, 6], 40)
@example(EVERYTHING, [*range(len(EVERYTHING))], 40)
def test_a_stream_cut_anywhere_gives_the_lines_of_the_whole(text: str, cuts: list[int], width: int) -> None:
    stream = streamed(text, cuts, width)
    open_lines = lines_of([*stream.blocks], width)
    if open_lines and open_lines[-1][-1:] == (CURSOR,):
        open_lines[-1] = open_lines[-1][:-1]
    stream.finish()
    assert stream.text == text
    if text.strip():
        assert lines_of([*stream.blocks], width) == open_lines == lines_of(answer_blocks(text), width)


def test_a_long_answer_gives_the_same_lines_streamed_and_whole() -> None:
    parts = [
        "Words of a paragraph. " * 30,
        "```py\n" + "value = 'text'\n" * 130 + "```",
        "| a | b |\n|---|---|\n" + "| 1 | two |\n" * 120,
    ]
    text = "\n\n".join(parts * 2 + ["no newline at all, " * 700])
    source = random.Random(5)
    stream = streamed(text, [source.randrange(len(text)) for _ in range(60)], 72)
    stream.finish()
    assert lines_of([*stream.blocks], 72) == lines_of(answer_blocks(text), 72)
    assert len(stream.blocks) > 5
    assert all(block.size_chars < 3 * BLOCK_CHARS for block in stream.blocks)


@settings(deadline=None)
@given(TEXTS, st.integers(16, 80))
@example("```py\n\ttext **bold** and `code` a [link](http://x.y/z) here\t", 29)
def test_lines_fit_the_width_and_hold_no_control_characters(text: str, width: int) -> None:
    for line in lines_of(answer_blocks(text), width):
        assert width_of(line) <= width
        assert all(char.isprintable() for char in plain(line))


@for_each(
    ("text", "lines"),
    [
        ("see [docs](https://x.y/z) or <https://a.b>", ["see docs (https://x.y/z) or https://a.b"]),
        ("[red]x[/red] <b>y</b> [@click=app.quit]z[/]", ["[red]x[/red] <b>y</b> [@click=app.quit]z[/]"]),
        ("a\u202eb &#x202E; \x1b]0;title\x07c", ["a<U+202E>b <U+202E> c"]),
        ("- [x] read\n- [ ] write\n- [link](x)", ["☑ read", "☐ write", "• link (x)"]),
    ],
)
def test_links_show_their_target_and_markup_is_only_text(text: str, lines: list[str]) -> None:
    assert shown(text) == lines


def test_copying_a_part_gives_the_whole_answer() -> None:
    text = "\n\n".join(["a paragraph of words " * 20] * 12)
    assert {block.copy_text() for block in split(text).blocks} == {text}


def test_a_line_that_is_nearly_the_rule_of_a_table_is_told_from_one_at_once() -> None:
    began = time.process_time()
    for _ in range(10):
        split("a | b\n-" + " " * 4000 + "x\n")
    assert time.process_time() - began < 1.0


def test_a_paragraph_that_takes_long_to_parse_is_drawn_as_it_was_written() -> None:
    began = time.process_time()
    lines = shown("\n".join("[" * 2000 for _ in range(100)))
    assert time.process_time() - began < 2
    assert "".join(lines) == "[" * 200_000
    assert shown("\n".join(["**a** b"] * 10)) == shown(" ".join(["**a** b"] * 10)), "a usual one is not"
