from __future__ import annotations

import pytest

from lmtui.core.events import ApprovalResolved, Outcome
from lmtui.core.sessions import answer_words, refusal_words
from tests.sets import for_each


@for_each(("by", "outcome", "feedback", "part", "told"), [
    ("user", Outcome.NO, "use make", "", "no by user: use make"), ("user", Outcome.SESSION, "", "", "session by user"),
    ("user", Outcome.ONCE, "", "2 of 3 hunks by", "2 of 3 hunks by user"),
    ("headless", Outcome.NO, "nobody is there to approve it", "", "no: nobody was there to ask"),
    ("interrupt", Outcome.NO, "", "", "no by interrupt"),
])  # fmt: skip
def test_an_answer_says_whose_it_is(by: str, outcome: Outcome, feedback: str, part: str, told: str) -> None:
    event = ApprovalResolved(approval_id="a", outcome=outcome, by=by, feedback=feedback)
    assert answer_words(event, part) == told


@pytest.mark.parametrize(("by", "told"), [("user", "you: use make"), ("headless", "nobody was there to ask")])
def test_a_refusal_is_yours_only_where_you_were_there(by: str, told: str) -> None:
    assert refusal_words(ApprovalResolved(approval_id="a", outcome=Outcome.NO, by=by, feedback="use make")) == told
