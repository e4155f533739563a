from __future__ import annotations

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.permissions.rules import escape_glob, literal_of, matches_glob


@given(st.text("ab*?", max_size=6), st.text("ab", max_size=8))
def test_a_glob_matches_as_a_plain_reading_of_it(pattern: str, text: str) -> None:
    plain = "".join({"*": ".*", "?": "."}.get(char, char) for char in pattern)
    assert matches_glob(pattern, text) is (re.fullmatch(plain, text) is not None)


@given(st.text(max_size=12))
def test_an_escaped_text_matches_itself_alone(text: str) -> None:
    assert literal_of(escape_glob(text)) == text
    assert matches_glob(escape_glob(text), text)
    assert not matches_glob(escape_glob(text), text + "x")
    assert matches_glob(f"{escape_glob(text)}*", text + "x")


def test_a_glob_has_no_literal_text() -> None:
    assert [literal_of(pattern) for pattern in ("a*", "a?", "[a]", r"\*", r"\\*", "a")] == [None, None, None, "*", None, "a"]


def test_no_number_of_stars_takes_long() -> None:
    began = time.process_time()
    assert not matches_glob("*e" * 40 + "z", "e" * 50_000)
    assert not matches_glob("*" * 1000 + "z", "e" * 50_000)
    assert time.process_time() - began < 1
