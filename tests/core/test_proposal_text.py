from __future__ import annotations

import pytest
from hypothesis import given

from lmtui.core.errors import UsageError
from lmtui.core.plan import PlanStep
from lmtui.core.proposals import Proposal, from_text, to_text
from tests.core.plans import proposals
from tests.sets import for_each

TEXT = """\
title: Nested comments
goal: The lexer accepts them,
  | and says where one is left open.
risk: positions may move

step 1: Count the depth
  file: lexer.py
  risk: medium

step 2: Test it
  run: pytest -q
  check: it passes
  after: 1
"""


@given(proposals())
def test_a_plan_as_text_is_read_back(proposal: Proposal) -> None:
    assert (from_text(to_text(proposal)), from_text(to_text(proposal).replace("\n", "\r\n"))) == (proposal, proposal)


def test_a_plan_reads_as_a_person_would_write_it() -> None:
    found = from_text(TEXT)
    assert to_text(found, with_help=False) == TEXT
    assert found.goal == "The lexer accepts them,\nand says where one is left open."
    assert found.steps[1] == PlanStep(2, "Test it", depends_on=(1,), verification="it passes", commands=("pytest -q",))


def test_a_step_without_a_number_gets_the_next() -> None:
    assert [step.id for step in from_text(f"{TEXT}\nstep: Write it down\n").steps] == [1, 2, 3]


@for_each(("old", "new", "words"), [
    ("  check: it passes", "  it passes", "line 12: 'it passes' begins with none of the names"),
    ("  check:", "  checks:", "line 12: 'checks' is not allowed here"),
    ("after: 1", "after: 1, 9", "line 13: after names '9', which is not a step"),
    ("after: 1", "after: one", "line 13: after names 'one'"),
    ("step 2:", "step 1:", "line 10: there is a step 1 already"),
    ("risk: medium", "risk: huge", "line 8: a risk is one of low, medium, high"),
    ("step 2: Test it", "step 2:", "line 10: step 2 has no description"),
    ("  risk: medium", "  after: 2", "line 6: steps 1 → 2 → 1 wait for each other"),
    ("title: Nested comments", "", "line 1: it has no title"),
    ("title: Nested comments", "  | more", "line 1: nothing before it could continue"),
])  # fmt: skip
def test_a_mistake_is_named_with_its_line(old: str, new: str, words: str) -> None:
    assert TEXT.count(old) == 1
    with pytest.raises(UsageError) as caught:
        from_text(TEXT.replace(old, new))
    assert words in str(caught.value)
