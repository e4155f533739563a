from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.providers.thinking import ThinkSplitter


def split(pieces: list[str]) -> tuple[str, str]:
    splitter = ThinkSplitter()
    parts = [splitter.feed(piece) for piece in pieces] + [splitter.finish()]
    return "".join(part[0] for part in parts), "".join(part[1] for part in parts)


@pytest.mark.parametrize(
    ("text", "thinking", "answer"),
    [
        ("plain answer", "", "plain answer"),
        ("<think>hm\n</think>\n\nyes", "hm\n", "yes"),
        ("\n<thinking>a<b</thinking>c", "a<b", "c"),
        ("<think>never closed", "never closed", ""),
        ("a < b <think>not at the start</think>", "", "a < b <think>not at the start</think>"),
        ("<thin", "", "<thin"),
        ("", "", ""),
    ],
)
def test_split_at_every_place_gives_the_same(text: str, thinking: str, answer: str) -> None:
    assert split([text]) == (thinking, answer)
    assert split(list(text)) == (thinking, answer)
    for cut in range(len(text)):
        assert split([text[:cut], text[cut:]]) == (thinking, answer)


@given(st.lists(st.sampled_from(["<think>", "</think>", "<", "/", "a", "\n", " ", "think>"]), max_size=12), st.data())
def test_any_text_split_anywhere_gives_the_same(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    cut = data.draw(st.integers(0, len(text)))
    assert split([text[:cut], text[cut:]]) == split([text])
