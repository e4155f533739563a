from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lmtui.tui.wording import age_text, duration_text, folder_text, shorten_middle, tokens_text, window_text
from tests.sets import for_each
from tests.tui.fakes import START


@for_each(("count", "text"), [(0, "0"), (950, "950"), (3120, "3.1k"), (8000, "8k"), (32768, "33k")])
def test_tokens_are_short(count: int, text: str) -> None:
    assert tokens_text(count) == text


@for_each(("count", "text"), [(8192, "8k"), (32768, "32k"), (200000, "200k"), (131072, "128k")])
def test_windows_have_their_usual_names(count: int, text: str) -> None:
    assert window_text(count) == text


@for_each(("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (60, "1 min"), (3600, "1 h"), (90000, "1 d")])
def test_durations_use_their_largest_unit(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_what_happened_a_moment_ago_is_now() -> None:
    assert age_text(START, START + timedelta(seconds=4)) == "now"
    assert age_text(START, START + timedelta(seconds=120)) == "2 min"


def test_the_home_folder_is_a_tilde() -> None:
    assert folder_text(Path("/home/ada/src"), Path("/home/ada")) == "~/src"
    assert folder_text(Path("/srv"), Path("/home/ada")) == "/srv"


@given(st.text(), st.integers(0, 60))
def test_shortened_text_fits_and_keeps_its_end(text: str, width: int) -> None:
    short = shorten_middle(text, width)
    assert len(short) <= width
    if len(text) > width >= 4:
        assert text.endswith(short[-1])
