from __future__ import annotations

import asyncio

from lmtui.core.events import Event, MessageAdded, Rewound, ToolCallFinished, TurnEnded, TurnReason, TurnStarted
from lmtui.core.messages import Role
from lmtui.core.model_events import Compacted
from lmtui.core.skills import NoSkills, SkillEnded, SkillSource, SkillUse, SkillUsed
from lmtui.engine.inbox import UserInput, read_said
from lmtui.engine.skill_use import SkillControls, SkillTracker, _digest
from tests.engine.seen import ran, seen
from tests.fakes import FakeProvider, FakeSandbox, MemoryLog, Rig, answer

LOOK = SkillUse("look", "Look twice.", SkillSource.USER, ("Read",))
FREE = SkillUse("free", "As you like.", SkillSource.SHIPPED)


class Shelf(NoSkills):
    """Two skills: one that limits, one that does not."""

    async def use(self, name: str) -> SkillUse:
        return {"look": LOOK, "free": FREE}[name]


def finished(rig: Rig) -> list[tuple[str, bool]]:
    return [(event.tool, event.ok) for event in seen(rig, ToolCallFinished)]


def names(watch: SkillTracker) -> list[str]:
    return [scope.skill for scope in watch.scopes]


def used(*allowed: str, skill: str = "look", digest: str = "") -> SkillUsed:
    return SkillUsed(skill=skill, source="yours", is_limited=True, allowed=allowed, digest=digest)


LS, OFF = ("ls", "{}"), ("skill_clear", "{}")


def last_result(rig: Rig) -> str:
    return [event.result for event in seen(rig, ToolCallFinished)][-1]


async def test_from_the_call_on_only_named_tools_run_until_the_model_ends_it_in_a_later_turn() -> None:
    rig = Rig(
        FakeProvider(
            answer("", LS, ("skill", '{"name": "look"}'), ("ls", '{"path": "x"}')),
            answer("seen"),
            answer("", LS, OFF, LS),
            answer("seen again"),
        ),
        skills=Shelf(),
    )
    await rig.run()
    assert finished(rig) == [("ls", True), ("skill", True), ("ls", False)]
    assert "skill look is in use until you end it (skill, name: off)" in last_result(rig)
    assert list(rig.session.skills.in_use) == ["look"]
    await rig.run("more")
    assert (finished(rig)[3:], list(rig.session.skills.in_use)) == ([("ls", False), ("skill", True), ("ls", True)], [])


async def test_limits_that_the_model_ends_in_the_turn_that_began_them_hold_for_its_rest() -> None:
    calls = (("skill", '{"name": "look"}'), OFF, LS)
    rig = await ran(Rig(FakeProvider(answer("", *calls), answer("seen"), answer("", LS, OFF), answer("yes")), skills=Shelf()))
    assert finished(rig) == [("skill", True), ("skill", True), ("ls", False)]
    results = [event.result for event in seen(rig, ToolCallFinished)]
    assert results[1] == "Ended: look. Its tool limits hold until this turn ends."
    await rig.run("more")
    assert (finished(rig)[3:], last_result(rig)) == ([("ls", True), ("skill", True)], "No skill is in use.")


async def test_what_the_user_began_the_user_ends_and_the_model_is_told_once_at_the_end() -> None:
    log = MemoryLog()
    rig = Rig(
        FakeProvider(answer("", OFF, LS), answer("seen"), answer("", LS), answer("now"), answer("later")),
        log=log,
        skills=Shelf(),
    )
    rig.session.skills.begin(LOOK, "at the pond")
    await rig.session.wait_idle()
    results = [event.result for event in seen(rig, ToolCallFinished)]
    assert results[0] == "The user chose look: only they can end it, with /skill off."
    assert "until the user ends it (/skill off)" in results[1]
    await rig.session.close()
    rig = Rig(rig.provider, past=log.events, skills=Shelf())
    assert list(rig.session.skills.in_use) == ["look"]
    before = rig.provider.requests[-1].messages
    rig.session.skills.end()
    assert list(rig.session.skills.in_use) == []
    await rig.run("go on")
    after = rig.provider.requests[-2].messages
    assert after[: len(before)] == before
    assert [each.text for each in after if "ended the skill" in each.text] == [
        "[The user ended the skill look: do not follow it any longer; its tool limits are gone.]"
    ]
    assert after[-1].text.startswith("[The user ended the skill look")
    assert finished(rig) == [("ls", True)]
    await rig.run("again")
    assert sum("ended the skill" in each.text for each in rig.provider.requests[-1].messages) == 1


async def test_a_skill_that_is_ended_while_a_turn_runs_limits_it_no_longer() -> None:
    sandbox = FakeSandbox(commands={"wait": 60.0})
    rig = Rig(
        FakeProvider(answer("", LS), answer("", ("shell", '{"command": "wait"}')), answer("done")), sandbox, skills=Shelf()
    )
    rig.session.skills.begin(SkillUse("look", "Look.", SkillSource.USER, ("Shell",)), "")
    while not sandbox.ran:
        await asyncio.sleep(0)
    rig.session.skills.end("another")
    assert list(rig.session.skills.in_use) == ["look"]
    rig.session.skills.end("look")
    assert list(rig.session.skills.in_use) == []
    rig.session.interrupt()
    await rig.session.wait_idle()
    assert finished(rig)[0] == ("ls", False)


def test_a_turn_that_is_taken_back_takes_its_skills_with_it() -> None:
    watch = SkillTracker()
    for number, skill in enumerate(("one", "two", "three"), 1):
        watch = watch.apply(TurnStarted(turn_id=f"turn_{number}"))
        watch = watch.apply(SkillUsed(skill=skill, stays=True))
    assert [each.name for each in watch.apply(Rewound(turn_id="turn_2")).in_use] == ["one"]
    assert [each.name for each in watch.apply(Rewound(turn_id="turn_9")).in_use] == ["one", "two", "three"]


def test_a_log_cannot_end_as_the_model_what_the_user_began() -> None:
    watch = SkillTracker().apply(used("Read", digest=_digest("go"))).apply(MessageAdded(role=Role.USER, text="go"))
    assert names(watch.apply(SkillEnded(by="model"))) == ["look"]
    again = watch.apply(used("Read"))
    assert names(again.apply(SkillEnded(by="model"))) == ["look"]  # the model read it once more: it is still the user's
    assert names(again.apply(SkillEnded())) == []


async def test_after_a_compaction_the_model_is_told_what_is_in_use() -> None:
    rig = Rig(
        FakeProvider(answer("", ("skill", '{"name": "free"}')), answer("seen"), answer("yes"), answer("yes")), skills=Shelf()
    )
    await rig.run()
    rig.session.emit(Compacted(why="no room", tokens_before=900, tokens_after=90, kept_from=4, summary="much was said"))
    await rig.run("more")
    told = "[In use: the skill free. Read it again with `skill` if you need its text.]"
    assert [each.text for each in rig.provider.requests[-1].messages].count(told) == 1
    await rig.run("more")
    assert [each.text for each in rig.provider.requests[-1].messages].count(told) == 1


async def test_a_skill_without_a_list_limits_nothing() -> None:
    rig = await ran(Rig(FakeProvider(answer("", ("skill", '{"name": "free"}'), ("ls", "{}")), answer("seen")), skills=Shelf()))
    assert finished(rig) == [("skill", True), ("ls", True)]
    assert [event.is_limited for event in seen(rig, SkillUsed)] == [False]


def test_what_two_skills_leave_is_what_both_name_and_a_sub_agent_has_it_too() -> None:
    watch = SkillTracker()
    for event in (used("Read"), used("Read", "Write", skill="other"), used("Read")):
        watch = watch.apply(event)
    assert names(watch) == ["look", "other"]
    child = SkillTracker(watch.scopes)
    child = child.apply(TurnEnded(turn_id="t", reason=TurnReason.DONE, status="done"))
    assert names(child) == names(watch)
    watch = watch.apply(TurnEnded(turn_id="t", reason=TurnReason.DONE, status="done"))
    assert names(watch) == []  # an earlier lmtui wrote these, and a command's file still does: they end with the turn


def test_a_log_that_names_no_rules_leaves_nothing() -> None:
    watch = SkillTracker()
    watch = watch.apply(used("(((", ""))
    assert [scope.rules for scope in watch.scopes] == [()]


def test_what_the_user_begins_holds_with_their_message_and_not_before() -> None:
    events: list[Event] = []
    said: list[UserInput] = []
    by_hand = SkillControls("root", events.append, said.append)
    by_hand.begin(LOOK, "at the pond")
    by_hand.begin(FREE, "")
    assert [each.typed for each in said] == ["at the pond", "Follow the skill free."]
    watch = SkillTracker()
    watch = watch.apply(events[0])
    watch = watch.apply(MessageAdded(role=Role.USER, text="something else"))
    watch = watch.apply(TurnEnded(turn_id="t", reason=TurnReason.DONE, status="done"))
    assert names(watch) == []
    watch = watch.apply(MessageAdded(role=Role.USER, text=said[0].text))
    assert names(watch) == ["look"]


def test_what_the_user_wants_promoted_is_no_command_of_the_shell_after_a_crash() -> None:
    said: list[UserInput] = []
    SkillControls("root", lambda _: None, said.append).promote("a.py", "f", "g")
    assert (said[0].tool, said[0].is_told) == ("promote_skill", False)
    assert read_said(said[0].shown, said[0].kind) is None
