from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.globs import can_meet, escape, literal, matches

SHORT = ["".join(chars) for length in range(5) for chars in product("ab", repeat=length)]


@given(st.text("ab*?", max_size=4), st.text("ab*?", max_size=4))
def test_two_globs_can_meet_exactly_where_one_text_matches_both(one: str, other: str) -> None:
    long_enough = [text for text in SHORT if matches(one, text) and matches(other, text)]
    fits = can_meet(one, other)
    assert fits >= bool(long_enough)
    if len(one) + len(other) <= 4:  # then a common text of at most four characters exists, if any does
        assert fits == bool(long_enough)
    assert fits == can_meet(other, one)


@given(st.text(max_size=12))
def test_an_escaped_text_matches_itself_alone(text: str) -> None:
    assert literal(escape(text)) == text
    assert matches(escape(text), text)
    assert not matches(escape(text), text + "x")
    assert can_meet(escape(text), "*")


def test_a_glob_has_no_literal_text() -> None:
    assert [literal(pattern) for pattern in ("a*", "a?", "[a]", r"\*", r"\\*", "a")] == [None, None, None, "*", None, "a"]
