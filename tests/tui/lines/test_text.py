from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from lmtui.tui.lines.styled_text import Line, crop, fit, fit_middle, fold, plain, restyle, slice_line, width_of, wrap

WORDS = st.text(alphabet="ab c—漢字🙂é \t", max_size=60)
LINES = st.lists(st.tuples(WORDS, st.sampled_from(["", "strong", "code"])), max_size=5).map(tuple)


@settings(deadline=None)
@given(LINES, st.integers(4, 40))
def test_what_is_laid_out_keeps_its_words_or_every_character_and_stays_within_the_width(line: Line, width: int) -> None:
    wrapped, folded = wrap(line, width), fold(line, width)
    assert "".join("".join(map(plain, wrapped)).split()) == "".join(plain(line).split())
    assert all(cell_len(plain(part).rstrip()) <= width for part in wrapped)
    assert "".join(map(plain, folded)) == plain(line)
    assert all(width_of(part) <= width for part in folded)


@settings(deadline=None)
@given(LINES, WORDS, st.integers(0, 40))
def test_what_is_cut_is_never_wider_than_asked(line: Line, text: str, width: int) -> None:
    assert width_of(crop(line, width)) <= width
    assert cell_len(fit(text, width)) <= width
    assert cell_len(fit_middle(text, width)) <= width


@settings(deadline=None)
@given(LINES, st.integers(0, 70), st.integers(0, 70))
def test_restyle_changes_no_character(line: Line, start: int, end: int) -> None:
    start, end = sorted((start, end))
    styled = restyle(line, start, end, "match")
    assert plain(styled) == plain(line)
    assert "".join(text for text, role in styled if "match" in role) == plain(line)[start:end]
    assert plain(slice_line(line, start, end)) == plain(line)[start:end]
