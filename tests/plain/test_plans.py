from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from lmtui.core.agent_events import PlanDecided, PlanProposed
from lmtui.core.events import TurnReason
from lmtui.core.messages import Image
from lmtui.core.permissions.rules import Mode
from lmtui.plain.console import Editor, ask_plan
from lmtui.plain.plain_session import LoopThread, PlainSession
from tests.plain.test_console import Paper, talk
from tests.sets import for_each
from tests.tui.fakes import FakeHost, FakeSession
from tests.tui.scenes_plan import PROPOSAL


class Planning(FakeSession):
    """A session that proposes a plan in every turn."""

    def submit(self, text: str, *, typed: str = "", images: Sequence[Image] = ()) -> None:
        super().submit(text, typed=typed, images=images)
        number = len(self.submitted)
        self.emit(PlanProposed(proposal_id=f"plan_{number}", proposal=PROPOSAL, turn_id=self.turn_id))
        self.end_turn(TurnReason.WAITING)


def planned(*typed: str) -> tuple[Paper, FakeSession]:
    host = FakeHost(kind=Planning)
    paper, _ = talk("/plan nest the comments", *typed, host=host)
    return paper, host.session


def host_with_plan() -> FakeHost:
    host = FakeHost()
    session = FakeSession("20260314_140200_abc123", clock=host.clock)
    session.emit(PlanProposed(proposal_id="plan_1", proposal=PROPOSAL))
    host.opened[session.id] = session
    return host


def decided(session: FakeSession) -> list[PlanDecided]:
    return [each.event for each in session.history() if isinstance(each.event, PlanDecided)]


def test_the_whole_plan_is_read_out_with_the_choices() -> None:
    paper, session = planned("l")
    said = "\n".join(paper.said)
    for words in (
        "plan: Nested comments in the lexer",
        "2. Test nesting",
        "(after 1)",
        "runs: rm -rf .pytest_cache",
        "check: the new tests fail",
        "y or yes: approve",
        "plan left pending; /plan asks again",
    ):
        assert words in said
    assert (session.mode, session.plans.answers) == (Mode.PLAN, [])


@for_each(("typed", "answer"), [
    (["y"], ("approve", ())), (["YES"], ("approve", ())), (["what?", "yes"], ("approve", ())),
    (["f make it smaller"], ("revise", "make it smaller")), (["change", "make it smaller"], ("revise", "make it smaller")),
    (["f", "", "f smaller"], ("revise", "smaller")), (["n"], ("reject", "")), (["y please", "g", "no", "n"], ("reject", "")),
])  # fmt: skip
def test_a_plan_is_answered_by_a_letter_or_a_word(typed: list[str], answer: tuple[str, object]) -> None:
    _, session = planned(*typed)
    given = [each for each in session.plans.answers if each != ("revise", "")]
    assert given == [answer]


def test_what_it_names_is_listed_before_it_is_allowed() -> None:
    paper, session = planned("g", "yes")
    said = "\n".join(paper.said)
    assert said.index("allow Shell(pytest -q)") < said.index("approve it with these rules")
    assert "not allowed: rm -rf .pytest_cache" in said
    (kind, rules), *_ = session.plans.answers
    assert kind == "approve"
    assert isinstance(rules, tuple)
    assert "Write(parser/lexer.py)" in rules


def test_a_plan_that_was_left_is_asked_about_again_on_request_and_by_a_resumed_session() -> None:
    paper, session = planned("later", "", "/status", "/plan", "y")
    assert sum("a plan is waiting for your approval" in line for line in paper.said) == 2
    assert session.plans.answers == [("approve", ())]
    host = host_with_plan()
    talk("y", host=host, session_id=host.session.id)
    assert host.session.plans.answers == [("approve", ())]


def edited_with(edit: Editor | None, *typed: str) -> tuple[Paper, FakeSession]:
    loop, paper, host = LoopThread(), Paper(*typed), host_with_plan()
    plain = PlainSession(loop, host, paper)
    try:
        plain.open(host.session.id)
        assert ask_plan(plain, edit)
    finally:
        loop.close()
    return paper, host.session


def test_an_edited_plan_is_read_out_again_and_approved_as_it_was_changed() -> None:
    paper, session = edited_with(lambda text: text.replace("title: Nested", "title: Deeply nested"), "e", "y")
    assert "  plan: Deeply nested comments in the lexer" in paper.said
    assert decided(session)[0].edited == replace(PROPOSAL, title="Deeply nested comments in the lexer")


def test_an_edit_that_is_no_plan_says_why_and_is_opened_again() -> None:
    seen: list[str] = []

    def edit(text: str) -> str:
        seen.append(text)
        return text.replace("title:", "titel:") if len(seen) == 1 else text.replace("titel:", "title:")

    paper, session = edited_with(edit, "e", "e", "y")
    assert any("'titel' is not allowed here" in line for line in paper.said)
    assert "titel:" in seen[1]
    assert decided(session)[0].edited is None


@for_each("editor", ["", "'broken", "/nowhere/vi", "/bin/false"])
def test_without_an_editor_that_ends_well_the_plan_stays(editor: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("EDITOR", ""), ("VISUAL", editor), ("PATH", "/nowhere")):
            patch.setenv(name, value)
        paper, session = edited_with(None, "e", "y")
    assert any("Set VISUAL or EDITOR" in line for line in paper.said)
    assert decided(session)[0].edited is None
