from __future__ import annotations

import pytest

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


def test_most_used_part_counts() -> None:
    budget = SessionBudget(1000, 10, 100)
    assert budget.used(SessionBudget(100, 8, 50)) == pytest.approx(0.8)
    assert SessionBudget().used(SessionBudget(10**9, 10**9, 10**9)) == 0
    assert str(budget) == "1 min 40 s, 10 steps, 1,000 tokens"


def test_one_of_a_thing_is_said_as_one() -> None:
    assert str(SessionBudget(tokens=1, steps=1)) == "1 step, 1 token"
