from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.agent_events import Wait, checked_wait, read_wait
from lmtui.core.budgets import SessionBudget, read_budget
from lmtui.core.errors import UsageError
from tests.sets import for_each


@pytest.mark.parametrize(("text", "budget", "rest"), [
    ("3h 200 steps 1.5M tokens port the parser", SessionBudget(1_500_000, 200, 10_800), "port the parser"),
    ("90 min, 20k tokens", SessionBudget(20_000, 0, 5_400), ""),
    ("1h 30m fix 3 steps", SessionBudget(0, 0, 5_400), "fix 3 steps"), ("40 steps and go", SessionBudget(0, 40), "go"),
])  # fmt: skip
def test_budget_is_read_from_words(text: str, budget: SessionBudget, rest: str) -> None:
    assert read_budget(text) == (budget, rest)


@for_each("text", ["", "make it", "3 wishes", "h", "0 steps", f"{'9' * 400} steps"])
def test_words_without_a_budget_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="does not begin with a budget") as refused:
        read_budget(text)
    assert "3h 200 steps" in refused.value.full_text()


NOW = datetime(2026, 3, 14, 14, 2, tzinfo=UTC)
UNTIL = datetime(2026, 3, 15, 2, 0, tzinfo=UTC)


@for_each("text", [
    "WAIT: 2026-03-15T02:00:00Z: the build", "Nothing to do yet.\n\nWAIT: 2026-03-15T02:00Z: the build",
    "WAIT: 2026-03-15T04:00:00+02:00: the build\nSee you then.", "```\nx = 1\n```\n  WAIT: 2026-03-15 02:00Z - the build  ",
    f"WAIT: in {int((UNTIL - NOW).total_seconds())}s: the build",
])  # fmt: skip
def test_a_line_of_its_own_is_a_wait(text: str) -> None:
    assert read_wait(text, NOW) == Wait(UNTIL, "the build")


@for_each("text", [
    "I could say WAIT: 2026-03-15T02:00:00Z: the build", "`WAIT: 2026-03-15T02:00:00Z: the build`",
    "> WAIT: 2026-03-15T02:00:00Z: the build", '"WAIT: 2026-03-15T02:00:00Z: the build"',
    "```\nWAIT: 2026-03-15T02:00:00Z: the build\n```",
    "~~~text\nWAIT: 2026-03-15T02:00:00Z: x\n```\nWAIT: 2026-03-15T02:00:00Z: y", "    WAIT: 2026-03-15T02:00:00Z: the build",
    "# WAIT: 2026-03-15T02:00:00Z: the build", "WAIT: that is not what you asked for.", "WAIT: in 5 minutes you would see it.",
    "WAIT: in 5m you would see it.", "WAIT:", "wait: 2026-03-15T02:00:00Z: the build", "Done.",
])  # fmt: skip
def test_words_in_code_in_quotes_and_in_the_middle_of_a_line_are_none(text: str) -> None:
    assert read_wait(text, NOW) is None


@pytest.mark.parametrize("text", ["WAIT: tomorrow 09:00: x", "WAIT: 2026-02-30T09:00: x", "WAIT: 2027-03-16T00:00Z: x"])
def test_a_time_that_cannot_be_is_told(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_wait(text, NOW)
    assert caught.value.hint


@pytest.mark.parametrize("line", ["WAIT: 2024-01-01T09:00Z: x", "WAIT: in 0s: x", f"WAIT: {NOW.isoformat()}: x"])
def test_a_time_that_is_over_is_refused_with_the_time_that_it_is(line: str) -> None:
    with pytest.raises(UsageError, match="is over: it is") as caught:
        read_wait(line, NOW)
    assert NOW.astimezone().isoformat(timespec="seconds") in str(caught.value)


def test_a_wait_is_a_second_at_least_and_without_a_zone_a_time_of_this_machine() -> None:
    assert checked_wait(NOW + timedelta(milliseconds=1), "", NOW).until == NOW + timedelta(seconds=1)
    wall = (NOW + timedelta(hours=3)).astimezone().replace(tzinfo=None)
    assert read_wait(f"WAIT: {wall.isoformat()}", NOW) == Wait(NOW + timedelta(hours=3))


@given(st.text(), st.text(max_size=40))
def test_any_text_is_a_wait_or_none_or_an_error(before: str, rest: str) -> None:
    try:
        wait = read_wait(f"{before}\nWAIT: {rest}", NOW)
    except UsageError:
        return
    assert wait is None or wait.until.tzinfo is not None
