from __future__ import annotations

import re
import time

import pytest

from lmtui.core.events import ApprovalRequested
from lmtui.core.look_alikes import approval_warning, look_alikes, warning
from tests.sets import for_each


def request(tool: str = "shell", text: str = "", path: str = "", diff: str = "") -> ApprovalRequested:
    return ApprovalRequested(agent="root", approval_id="a", call_id="c", tool=tool, text=text, path=path, diff=diff)


@for_each(("word", "look"), [
    ("\u0441\u043e\u0440\u0443", "copy"), ("\uff52\uff4d", "rm"), ("\uff46\uff0etxt", "f.txt"), ("\U0001d42b\U0001d426", "rm"),
    ("\U0001d5ff\U0001d5fa", "rm"), ("a\u2215b", "a/b"), ("a\u2044b", "a/b"), ("\u2013rf", "-rf"), ("\u2212rf", "-rf"),
    ("r\u0338m", "rm"), ("\ufb01le", "file"), ("\u2167", "VIII"), ("\u03bf", "o"), ("\u13a2\u13d2", "TR"),
    ("kap\u0131.txt", "kapi.txt"), ("a\u037eb", "a;b"), ("x\uff5cy", "x|y"), ("\u201c;", '";'), ("\u2019;", "';"),
])  # fmt: skip
def test_a_word_that_looks_like_another_is_told_with_its_look(word: str, look: str) -> None:
    assert list(look_alikes(f"run {word} now")) == [word]
    told = warning((f"run {word} now",))
    assert f"looks like {look}" in told
    assert all(f"U+{ord(char):04X}" in told for char in word if not char.isascii())


@for_each("text", [
    "git commit -m 'Исправить ошибку с путём а также тест'", "echo привет > документ.txt",
    "日本語/ノート.md 你好.txt ファイル", "café Straße naïve Łódź İstanbul", "αβγ.txt שלום مرحبا नमस्ते 한국어",
    "git commit -m 'don\u2019t wait \u2013 go on\u2026'", "echo 😀 ✓ → ±", "plain ascii --flag=1 a/b",
])  # fmt: skip
def test_words_of_other_languages_are_no_look_alikes(text: str) -> None:
    assert (list(look_alikes(text)), warning((text,))) == ([], "")


def test_a_decomposed_name_is_told_apart_from_a_composed_one() -> None:
    assert (list(look_alikes("cafe\u0301")), list(look_alikes("caf\u00e9"))) == (["cafe\u0301"], [])


def test_an_approval_tells_hidden_characters_and_look_alikes_in_one_line() -> None:
    told = approval_warning(request(text="\u0441\u043e\u0440\u0443 a<U+200D>b"))
    assert told.startswith("warning: hidden or look-alike characters are shown as codes like <U+202E>; look-alikes: \u0441")
    assert "\n" not in told
    assert approval_warning(request(text="cp a b")) == ""


def test_of_a_change_only_the_path_is_looked_at_for_look_alikes() -> None:
    diff = "@@ -1 +1 @@\n-a\n+\u0441\u043e\u0440\u0443\n"
    assert approval_warning(request("write", path="a.txt", diff=diff)) == ""
    assert "looks like copy" in approval_warning(request("write", path="\u0441\u043e\u0440\u0443", diff=diff))
    assert approval_warning(request("write", path="a.txt", diff="+a<U+200D>b")) != ""


def test_many_look_alikes_are_counted() -> None:
    text = " ".join("\u0430" * number for number in range(2, 10))
    assert re.search(r"and 4 more$", warning((text,)))


@pytest.mark.parametrize("text", ["\u0441\u043e\u0440\u0443 " * 20_000, " ".join(f"\u0434{n}\u0441" for n in range(12_000))])
def test_long_texts_take_little_time(text: str) -> None:
    began = time.process_time()
    warning((text,))
    assert time.process_time() - began < 0.5
