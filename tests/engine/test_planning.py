from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from lmtui.core.agent_events import PlanProposed
from lmtui.core.events import Envelope, MessageAdded, ModeChanged, PlanChanged, Rewound, ToolCallFinished, TurnReason
from lmtui.core.messages import Role, StreamChunk
from lmtui.core.model_events import Compacted, Reminder
from lmtui.core.permissions.rules import Effect, Mode, Rule
from lmtui.core.plan import PlanStep, TodoStatus
from lmtui.core.proposals import Proposal
from lmtui.engine.completion import TOPIC
from lmtui.engine.planning import CARRY_OUT
from tests.engine.seen import call, ending, ran, seen, shell
from tests.fakes import FakeCheckpoints, FakeProvider, FakeSandbox, Rig, answer
from tests.sets import depth, for_each

STEPS = [
    {"id": 1, "description": "Write it", "files": ["a.py"], "commands": ["make"], "verification": "make is quiet"},
    {"id": 2, "description": "Test it", "commands": ["rm -rf build"], "depends_on": [1]},
]
PLAN = {"title": "A module", "steps": STEPS}


def proposing(plan: object = PLAN) -> list[StreamChunk]:
    return answer("This is what I would do.", ("propose_plan", json.dumps(plan)))


def rig_with(*answers: Sequence[StreamChunk | Exception | float], mode: Mode = Mode.PLAN, **more: Any) -> Rig:
    return Rig(FakeProvider(*answers), FakeSandbox({"a.py": b"old\n"}), mode=mode, **more)


def asked(rig: Rig) -> PlanProposed:
    found = rig.session.plans.open
    assert found is not None
    return found


async def proposed(rig: Rig, task: str = "do it") -> PlanProposed:
    """Have a session plan that is in another mode."""
    rig.session.set_mode(Mode.PLAN)
    await rig.run(task)
    return asked(rig)


async def approve(rig: Rig, *edited: Proposal, rules: tuple[str, ...] = ()) -> None:
    rig.session.plans.approve(asked(rig).proposal_id, *edited, rules=rules)
    await rig.session.wait_idle()


async def test_a_proposed_plan_ends_the_turn_and_the_model_is_told_once_how_plan_mode_works() -> None:
    rig = await ran(rig_with(proposing(), answer("never asked for")), "make a module")
    assert (asked(rig).proposal.title, ending(rig).reason) == ("A module", TurnReason.WAITING)
    assert (rig.session.mode, len(rig.provider.requests)) == (Mode.PLAN, 1)
    alone = await ran(rig_with(proposing(), is_attended=False))
    assert (ending(alone).reason, ending(alone).exit_code) == (TurnReason.BLOCKED, 3)
    assert alone.session.plans.open is not None
    rig = await ran(rig_with(answer("", ("read", '{"path": "a.py"}')), proposing()), "make a module")
    first, second = (request.messages for request in rig.provider.requests)
    assert [message.role for message in first] == [Role.SYSTEM, Role.USER, Role.USER]
    assert "propose_plan" in first[-1].text
    assert (second[: len(first)], sum("Plan mode is on" in message.text for message in second)) == (first, 1)


@for_each(("tool", "arguments"), [
    ("write", {"path": "a.py", "content": "x"}), ("edit", {"path": "a.py", "search": "old", "replace": "new"}),
    ("mkdir", {"path": "folder"}), ("git_commit", {"message": "x"}), ("git_add", {"paths": ["a.py"]}),
    ("todo_add", {"description": "x"}), ("plan_complete_step", {"step_id": 1, "verification_notes": "x"}),
])  # fmt: skip
async def test_what_changes_something_is_refused_whatever_is_allowed(tool: str, arguments: dict[str, object]) -> None:
    rules = tuple(Rule(Effect.ALLOW, each) for each in ("write", "edit", "shell", "git_commit", "*"))
    rig = await ran(rig_with(answer("", (tool, json.dumps(arguments))), answer("I could not."), rules=rules))
    assert [(event.ok, event.summary) for event in seen(rig, ToolCallFinished)] == [(False, "refused")]
    assert "plan mode only reads" in seen(rig, ToolCallFinished)[0].result
    assert (rig.sandbox.ran, rig.sandbox.files, rig.of("approval_requested")) == ([], {"a.py": b"old\n"}, [])


async def test_commands_run_where_the_sandbox_holds_them_to_reading_and_nowhere_else() -> None:
    rules = tuple(Rule(Effect.ALLOW, each) for each in ("shell", "*"))
    for command in ("cat a.py", "touch b", "ls; rm -rf x", "find . -delete"):
        rig = await ran(rig_with(answer("", shell(command)), answer("Seen."), rules=rules))
        assert (rig.sandbox.ran, rig.sandbox.ran_read_only) == ([command], [command])
    rig = rig_with(answer("", ("shell", '{"command": "cat a.py"}')), answer("Not seen."))
    rig.sandbox.can_be_read_only = False
    await rig.run()
    assert rig.sandbox.ran == []
    assert "this sandbox cannot enforce that" in seen(rig, ToolCallFinished)[0].result


@pytest.mark.parametrize(
    "text", ["PLAN_APPROVED", "The plan is approved. mode: auto", '{"approved": true, "exit_plan_mode": true}']
)
async def test_no_words_of_the_model_end_plan_mode(text: str) -> None:
    calls = ("exit_plan_mode", '{"approved": true, "approved_plan": "all of it"}'), ("mode", '{"mode": "auto"}')
    rig = await ran(rig_with(answer(text, *calls), answer(text), answer(text), answer(text)))
    assert rig.session.mode is Mode.PLAN
    assert not any(isinstance(event, ModeChanged | PlanChanged) for event in rig.events)


async def test_a_plan_in_words_is_one_too_or_asked_for_as_a_value_and_a_malformed_one_answered_with_the_form() -> None:
    rig = await ran(rig_with(answer(f"My plan:\n```json\n{json.dumps(PLAN)}\n```")))
    assert (asked(rig).proposal.title, ending(rig).reason) == ("A module", TurnReason.WAITING)
    rig = rig_with(answer("\n" * 20_000 + "Hm."))
    assert ending(await ran(rig)).reason is TurnReason.DONE
    listed = "1. Write the module\n2. Test it\n3. Commit"
    rig = await ran(rig_with(answer(listed), answer(f"{listed} again"), answer(f"{listed} once more")))
    assert len([event for event in seen(rig, Reminder) if "as a value" in event.text]) == 2
    assert ending(rig).reason is TurnReason.DONE
    rig = await ran(rig_with(proposing({"title": "x", "steps": [{"id": 1, "text": "a", "depends_on": [8]}]}), proposing()))
    assert not seen(rig, ToolCallFinished)[0].ok
    assert "'8', which is not a step" in seen(rig, ToolCallFinished)[0].result
    assert '"depends_on"' in seen(rig, ToolCallFinished)[0].result
    assert rig.session.plans.open is not None


async def test_a_yes_carries_the_plan_out_in_the_mode_before() -> None:
    claim = ("plan_complete_step", '{"step_id": 1, "verification_notes": "make said nothing"}')
    done = answer("", ("shell", '{"command": "make"}'), claim)
    blocked = answer("Step two is left, BLOCKED: as rm is not allowed.")
    rig = rig_with(proposing(), done, blocked, mode=Mode.NORMAL, rules=(Rule(Effect.ALLOW, "shell", "make"),))
    await proposed(rig, "make a module")
    await approve(rig)
    assert rig.session.mode is Mode.NORMAL
    assert [event.text for event in seen(rig, MessageAdded) if event.role is Role.USER][-1] == CARRY_OUT
    note = next(event.text for event in seen(rig, Reminder) if "The user approved" in event.text)
    assert "1. Write it" in note
    plan = [event.plan for event in seen(rig, PlanChanged)][-1]
    assert [step.status for step in plan.steps] == [TodoStatus.COMPLETED, TodoStatus.IN_PROGRESS]
    assert plan.steps[0].result == "make said nothing [`make`: exit 0]"


async def test_what_the_plan_names_is_allowed_only_as_listed_and_until_it_is_revoked() -> None:
    rig = rig_with(proposing(), answer("Later."), mode=Mode.NORMAL)
    grants = rig.session.plans.grants((await proposed(rig)).proposal)
    assert grants.rules == ("Write(a.py)", "Edit(a.py)", "Shell(make)")
    assert [each.name for each in grants.left_out] == ["rm -rf build"]
    await approve(rig, rules=(*grants.rules[:1], "Shell(rm -rf build)", "Shell(*)", "Write(**)"))
    assert [str(rule) for rule in rig.session.rules] == ["Write(a.py)"]
    rig.session.revoke(rig.session.rules[0])
    assert rig.session.rules == ()


async def test_words_go_to_the_model_which_proposes_again_and_a_no_with_the_next() -> None:
    other = {"title": "Smaller", "steps": ["one thing"]}
    rig = await ran(rig_with(proposing(), proposing(other)))
    first = asked(rig)
    rig.session.plans.revise(first.proposal_id, "make it smaller")
    await rig.session.wait_idle()
    assert asked(rig).proposal.title == "Smaller"
    assert asked(rig).proposal_id != first.proposal_id
    told = [message.text for message in rig.provider.requests[1].messages]
    assert "make it smaller" in told[-2]
    assert "change the plan and propose all of it again" in told[-1]
    assert rig.session.mode is Mode.PLAN
    rig = await ran(rig_with(proposing(), answer("I see.")))
    rig.session.plans.reject(asked(rig).proposal_id, "too risky")
    assert rig.session.plans.open is None
    await rig.run("what else is there?")
    assert "rejected the plan: “too risky”" in rig.provider.requests[1].messages[-1].text
    assert rig.session.mode is Mode.PLAN


async def test_an_edited_plan_is_what_is_carried_out_and_an_answer_to_one_that_is_not_open_does_nothing() -> None:
    rig = rig_with(proposing(), answer("Done."), mode=Mode.AUTO)
    await proposed(rig)
    edited = Proposal("Another", (PlanStep(1, "Only this", files=("b.py",)),))
    await approve(rig, edited, rules=("Write(a.py)", "Write(b.py)"))
    assert [str(rule) for rule in rig.session.rules] == ["Write(b.py)"]
    assert "1. Only this" in rig.provider.requests[1].messages[-1].text
    assert "Write it" not in rig.provider.requests[1].messages[-1].text
    rig = await ran(rig_with(proposing()))
    before = len(rig.events)
    for give in (rig.session.plans.approve, rig.session.plans.reject):
        give("plan_9")
    rig.session.plans.revise("plan_9", "x")
    assert len(rig.events) == before


@for_each("cut", range(1, 40, depth(2, 1)))
async def test_killed_anywhere_the_plan_is_there_again_or_was_answered(cut: int) -> None:
    rig = rig_with(proposing(), answer("Carried out."), mode=Mode.NORMAL)
    await proposed(rig)
    await approve(rig, rules=("Write(a.py)",))
    past = rig.log.events[:cut]
    again = rig_with(answer("Going on."), mode=Mode.NORMAL, past=past)
    kinds = [envelope.event.kind for envelope in past]
    is_open = "plan_proposed" in kinds and "plan_decided" not in kinds
    assert (again.session.plans.open is not None) == is_open
    if is_open:
        assert again.session.rules == ()
        await approve(again)
        assert again.session.mode is Mode.NORMAL
    elif "plan_decided" in kinds:
        assert [str(rule) for rule in again.session.rules] == ["Write(a.py)"]
        await again.run("go on")
        told = [message.text for message in again.provider.requests[0].messages]
        assert any("1. Write it" in text for text in told)


async def test_a_foreign_log_grants_nothing_and_leads_to_no_mode_of_its_own() -> None:
    rig = rig_with(proposing(), mode=Mode.NORMAL)
    rig.session.set_mode(Mode.AUTO)
    await proposed(rig)
    again = rig_with(answer("Done."), mode=Mode.MANUAL, past=rig.log.events, is_ours=False)
    await approve(again)
    assert again.session.mode is Mode.MANUAL


def todo(text: str) -> list[StreamChunk]:
    return answer("", ("todo_add", json.dumps({"description": text})))


def complete(number: int) -> list[StreamChunk]:
    return answer("", ("todo_complete", json.dumps({"id": number})))


def texts(rig: Rig) -> list[str]:
    changes = seen(rig, PlanChanged)
    return [f"{each.text} {each.status}" for each in changes[-1].plan.todos]


def rig_of(*answers: list[StreamChunk]) -> Rig:
    sandbox = FakeSandbox()
    return Rig(FakeProvider(*answers), sandbox, checkpoints=FakeCheckpoints(sandbox))


async def rewind(rig: Rig, turn_id: str) -> None:
    changes = rig.session.changes
    assert changes is not None
    await changes.apply(await changes.plan_rewind(turn_id))


WORK = (
    *(todo("write it"), todo("test it"), answer("BLOCKED: not yet")),
    *(complete(1), todo("ship it"), answer("BLOCKED: not yet")),
    *(complete(2), answer("BLOCKED: not yet")),
)


async def test_todos_are_as_they_were_when_the_turn_began() -> None:
    rig = rig_of(*WORK, answer("BLOCKED: later"))
    for number in range(3):
        await rig.run(f"task {number}")
    assert texts(rig) == ["write it completed", "test it completed", "ship it pending"]
    await rewind(rig, "turn_2")
    assert texts(rig) == ["write it pending", "test it pending"]
    await rig.run("and now?")
    told = rig.provider.requests[-1].messages[-1].text
    assert "The state of your work" in told
    assert "2 test it" in told
    assert "ship it" not in told
    again = rig_of(answer("it is four"))
    again = await ran(
        Rig(again.provider, again.sandbox, past=rig.log.events, checkpoints=FakeCheckpoints(again.sandbox)), "2 + 2?"
    )
    assert (ending(again).reason, ending(again).iterations) == (TurnReason.DONE, 1)  # what is open holds up no other turn
    await rewind(again, "turn_1")
    assert texts(again) == []


def notes(rig: Rig) -> list[str]:
    return [event.text for event in seen(rig, Reminder) if event.topic == TOPIC]


async def test_after_a_compaction_a_rewind_and_a_crash_it_is_told_and_to_look_at_the_disk() -> None:
    queued = answer("", ("task_state_update", call(remaining_queue=["a", "b"]))), answer("Which first?")
    for event in (Compacted(why="full", tokens_before=9, tokens_after=1), Rewound(turn_id="turn_9")):
        rig = await ran(Rig(FakeProvider(*queued)))
        assert notes(rig) == []
        rig.session.emit(event)
        rig.provider.answers[:] = [answer("Which?")]
        await rig.run("the first")
        assert len(notes(rig)) == 1
        assert "do not repeat" in notes(rig)[0]
    rig = await ran(Rig(FakeProvider(*queued)))
    until = next(place for place, each in enumerate(rig.log.events) if each.event.kind == "plan_changed")
    past: list[Envelope] = rig.log.events[: until + 2]
    resumed = await ran(Rig(FakeProvider(answer("Which?")), past=past), "go on")
    assert "next in the queue: a, b" in notes(resumed)[0]
    assert "look at the disk" in notes(resumed)[0]
