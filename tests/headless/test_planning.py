from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest

from lmtui.app.archive import as_html, as_markdown, as_text
from lmtui.core.agent_events import PlanDecided, PlanOutcome, PlanProposed
from lmtui.core.events import Envelope, SessionOpened
from lmtui.core.plan import PlanStep
from lmtui.core.proposals import Proposal
from lmtui.headless.listings import as_audit_text
from lmtui.headless.run import show_open
from tests.fakes import FakeProvider, Rig

HOSTILE = "do <b>it</b>\u202e\x1b[2J"
PROPOSAL = Proposal("A plan", (PlanStep(1, HOSTILE, files=("a\u200bb",), commands=("make\nrm",)),), risks=("```",))
ASKED = PlanProposed(proposal_id="plan_1", proposal=PROPOSAL)
YES = PlanDecided(proposal_id="plan_1", outcome=PlanOutcome.APPROVED, rules=("Write(a)", "Shell(make)"), by="flag")
EVENTS = [
    Envelope(number, datetime(2026, 1, 2, tzinfo=UTC), "s", event)
    for number, event in enumerate((SessionOpened(workspace="/w", version="1"), ASKED, YES), 1)
]


@pytest.mark.parametrize("told", [as_text(EVENTS), as_markdown(EVENTS), as_html(EVENTS)], ids=["text", "markdown", "html"])
def test_a_session_that_is_read_later_shows_the_plan_and_what_became_of_it(told: str) -> None:
    assert "plan: A plan" in told
    assert "the plan was approved by --approve; allowed in this session: 2 rules" in told
    assert not {"\x1b", "\u202e", "\u200b"} & set(told)
    assert "U+202E" in told


def test_a_page_holds_no_markup_of_the_plan_and_the_audit_says_who_approved_it() -> None:
    assert "<b>" not in as_html(EVENTS)
    told = as_audit_text(EVENTS)
    assert "the plan was approved" in told
    assert "decided: by flag, Write(a), Shell(make)" in told


async def test_a_plan_that_waits_is_printed_without_what_hides_in_it() -> None:
    out, err = io.StringIO(), io.StringIO()
    assert show_open(Rig(FakeProvider()).session, ASKED, out, err) == 3
    assert out.getvalue().splitlines()[0] == "plan: A plan"
    assert "runs: make⏎rm" in out.getvalue()
    assert not {"\x1b", "\u202e", "\u200b"} & set(out.getvalue())
