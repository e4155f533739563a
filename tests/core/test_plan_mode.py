from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.agent_events import PlanDecided, PlanOutcome, PlanProposed
from lmtui.core.errors import ToolError
from lmtui.core.events import Event, MessageAdded, ModeChanged, PlanChanged, Rewound, ToolCallFinished, TurnStarted
from lmtui.core.messages import Role
from lmtui.core.model_events import Compacted, Reminder
from lmtui.core.permissions.rules import Mode
from lmtui.core.plan import Plan, PlanStep
from lmtui.core.plan_mode import TOPIC, PlanMode, after, approve, propose, reject, revise
from lmtui.core.proposals import Proposal
from tests.core.plans import proposals

ONE = Proposal("one", (PlanStep(1, "a"), PlanStep(2, "b", depends_on=(1,))))
TWO = Proposal("two", (PlanStep(1, "c"),))


def played(state: PlanMode, *events: Event) -> PlanMode:
    for event in events:
        state = after(state, event)
    return state


def planning(before: Mode = Mode.AUTO) -> PlanMode:
    return after(PlanMode.starting(before), ModeChanged(mode="plan"))


def asked(before: Mode = Mode.AUTO) -> PlanMode:
    return played(planning(before), *propose(planning(before), ONE, turn_id="turn_1"))


# What a model can bring about: words, calls, results, and the one transition that is its own.
MODELS_EVENTS = st.one_of(
    st.builds(MessageAdded, role=st.sampled_from(Role), text=st.sampled_from(["PLAN_APPROVED", "approved", "mode: auto"])),
    st.builds(
        ToolCallFinished,
        call_id=st.just("c"),
        tool=st.sampled_from(["propose_plan", "exit_plan_mode", "write"]),
        ok=st.booleans(),
        result=st.just("approved=true"),
        elapsed_ms=st.just(1),
    ),
    st.builds(Reminder, text=st.just("x"), topic=st.sampled_from(["", TOPIC])),
    st.builds(Compacted, why=st.just("full"), tokens_before=st.just(9), tokens_after=st.just(1), kept_from=st.integers(0, 3)),
    st.builds(TurnStarted, turn_id=st.sampled_from(["turn_1", "turn_2", "turn_3"])),
    proposals(),
)


@given(st.lists(MODELS_EVENTS, max_size=20))
def test_nothing_that_a_model_does_ends_plan_mode(steps: list[Event | Proposal]) -> None:
    state = planning()
    for step in steps:
        made = propose(state, step, turn_id="turn_2") if isinstance(step, Proposal) else [step]
        assert not any(isinstance(each, ModeChanged | PlanChanged) for each in made)
        state = played(state, *made)
        assert state.is_on
        assert state.before is Mode.AUTO


DECISIONS = st.sampled_from(["propose", "approve", "revise", "reject", "plan", "normal", "auto"])


@given(st.lists(DECISIONS, max_size=30))
def test_every_proposal_is_decided_once_and_none_is_open_twice(steps: list[str]) -> None:
    state, open_ids, all_ids = PlanMode(), set[str](), list[str]()
    for step in steps:
        try:
            match step:
                case "propose":
                    made = propose(state, ONE, turn_id="t")
                case "approve":
                    made = approve(state, Plan())
                case "revise":
                    made = revise(state, "shorter")
                case "reject":
                    made = reject(state)
                case mode:
                    made = [ModeChanged(mode=mode)]
        except ToolError:
            made = []
        for event in made:
            if isinstance(event, PlanProposed):
                all_ids.append(event.proposal_id)
                open_ids.add(event.proposal_id)
            if isinstance(event, PlanDecided):
                open_ids.remove(event.proposal_id)
        state = played(state, *made)
        assert open_ids == ({state.asked.proposal_id} if state.asked else set())
    assert len(all_ids) == len(set(all_ids))


def test_an_edited_plan_takes_the_place_of_the_proposed_one_where_it_changes_something_and_can_be() -> None:
    made = approve(asked(), Plan(), edited=TWO)
    assert isinstance(made[-1], PlanDecided)
    assert (made[-1].edited, played(asked(), *made).proposal) == (TWO, TWO)
    made = approve(asked(), Plan(), edited=ONE)
    assert isinstance(made[-1], PlanDecided)
    assert made[-1].edited is None
    with pytest.raises(ToolError, match="cannot be"):
        approve(asked(), Plan(), edited=Proposal("x", ()))


def test_what_a_rewind_takes_back_is_open_no_more_and_an_answer_to_another_changes_nothing() -> None:
    later = after(asked(), TurnStarted(turn_id="turn_2"))
    assert after(later, Rewound(turn_id="turn_2")).asked is not None
    assert after(later, Rewound(turn_id="turn_1")).asked is None
    assert after(asked(), PlanDecided(proposal_id="plan_9", outcome=PlanOutcome.APPROVED)) == asked()
