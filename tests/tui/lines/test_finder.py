from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.events import Level
from lmtui.tui.lines.blocks import NoticeBlock
from lmtui.tui.lines.document import Finder
from lmtui.tui.lines.styled_text import Line

TEXTS = st.lists(st.text("ab", max_size=6), min_size=1, max_size=20)


def blocks(texts: list[str]) -> list[NoticeBlock]:
    return [NoticeBlock(Level.INFO, text) for text in texts]


@given(TEXTS, st.integers(0, 19), st.integers(0, 25))
def test_the_matches_are_the_same_wherever_one_begins_and_whatever_changed(texts: list[str], start: int, cut: int) -> None:
    made = blocks(texts)
    finder = Finder(made, "A", min(start, len(made) - 1))
    assert finder.work(1)
    finder.forget_from(min(cut, len(made)))
    assert finder.work(1)
    assert finder.total == sum(text.count("a") for text in texts)
    wanted = [index for index, text in enumerate(texts) if "a" in text]
    walked: list[int] = []
    index: int | None = -1
    for _ in wanted:
        assert index is not None
        index = finder.step(index, 1)
        assert index is not None
        walked.append(index)
    assert walked == wanted
    assert [finder.count_before(at) for at in wanted] == [sum(text.count("a") for text in texts[:at]) for at in wanted]


def test_a_slice_ends_in_time() -> None:
    finder = Finder(blocks(["some words"] * 100_000), "words")
    assert not finder.work(0.001)
    assert 0 < finder.total < 100_000


def test_words_are_found_across_the_end_of_a_line() -> None:
    finder = Finder(blocks(["one two\nthree"]), "TWO  three")
    finder.work(1)
    assert finder.total == 1
    lines: list[Line] = [(("· one two", ""),), (("│ three four", "muted"),)]
    assert finder.matches(lines) == [[(0, 6, 9), (1, 0, 7)]]
