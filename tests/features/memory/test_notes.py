from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import UsageError
from lmtui.core.offers import Offers
from lmtui.features.memory.notes import (
    MAX_NOTE_CHARS,
    MemoryScope,
    Note,
    NoteKind,
    check_note,
    mistake_text,
    note_key,
    note_line,
    parse_note,
    parse_notes,
)
from lmtui.features.memory.tools import MEMORY_APPEND
from lmtui.tools.registry import ToolRegistry
from tests.tools.test_files import Bench

PROJECT = MemoryScope.PROJECT


async def test_a_question_shows_a_note_without_the_session() -> None:
    call = ToolRegistry(tools=(MEMORY_APPEND,)).prepare("memory_append", '{"fact": "use uv"}')
    asked = await call.preview(replace(Bench().context(), features=Offers("20261129_095636_75b8a0")))
    assert asked.diff.endswith("\n+- use uv\n")


def test_a_line_says_what_when_and_from_where_and_only_bullets_and_plain_lines_are_notes() -> None:
    note = Note("Run the tests with `make check`.", PROJECT, "20261120_101010_ab12cd", "2026-11-20", NoteKind.MISTAKE)
    assert note_line(note) == "- Run the tests with `make check`. _(mistake, 20261120_101010_ab12cd, 2026-11-20)_"
    assert parse_note(note_line(note), PROJECT) == note
    text = "# Notes\n\n- one\n* two _(you)_\n<!-- no -->\n```\n- code\n```\nthree\n- ONE.\n"
    assert [note.text for note in parse_notes(text, PROJECT)] == ["one", "two", "three"]
    assert mistake_text("the build fails", "run make clean.", "stale objects") == (
        "When the build fails: run make clean. (cause: stale objects)"
    )
    assert note_key("Run the tests, with  MAKE check!") == note_key("run the tests with make check")
    assert check_note("- make check -- -k foo") == "make check -- -k foo"
    assert check_note("Use uv - not pip") == parse_note("Use uv - not pip", PROJECT).text == "Use uv - not pip"
    assert parse_note("- a\x1b[31mb\u202ec", PROJECT).text == "ab<U+202E>c"


def test_a_note_has_words_and_an_end_and_a_long_line_is_read_at_once() -> None:
    for text in ("", "  ", "- ", "...", "\n"):
        with pytest.raises(UsageError, match="is empty"):
            check_note(text)
    with pytest.raises(UsageError, match="501 characters; the limit is 500"):
        check_note("x" * 501)
    assert len(parse_note("- " + "x" * 10_000, PROJECT).text) == MAX_NOTE_CHARS
    began_s = time.process_time()
    assert len(parse_notes("a" + " " * 250_000 + "b", PROJECT)) == 1
    assert time.process_time() - began_s < 5


texts = st.text(min_size=1, max_size=80)


@given(texts, st.sampled_from(["", "you", "20261120_101010_ab12cd"]), st.sampled_from(["", "2026-11-20"]))
def test_what_is_written_is_read_as_the_same_note(text: str, source: str, date: str) -> None:
    try:
        note = Note(check_note(text), PROJECT, source, date)
    except UsageError:
        return
    (read,) = parse_notes(note_line(note) + "\n", PROJECT) or (None,)
    assert read is not None
    assert read.key == note.key or not source


@given(st.text(max_size=400))
def test_any_file_is_read_and_no_note_is_said_twice(text: str) -> None:
    keys = [note.key for note in parse_notes(text, PROJECT)]
    assert len(keys) == len(set(keys))
    assert all(keys)
    assert all("\n" not in note.text for note in parse_notes(text, PROJECT))
