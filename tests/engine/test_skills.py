from __future__ import annotations

from lmtui.core.events import Event, MessageAdded, ToolCallFinished, TurnEnded, TurnReason
from lmtui.core.messages import Role
from lmtui.core.skills import NoSkills, SkillSource, SkillUse, SkillUsed
from lmtui.engine.inbox import UserInput, read_said
from lmtui.engine.skill_use import SkillControls, SkillTracker
from tests.fakes import FakeProvider, Rig, answer

LOOK = SkillUse("look", "Look twice.", SkillSource.USER, ("Read",))
FREE = SkillUse("free", "As you like.", SkillSource.SHIPPED)


class Shelf(NoSkills):
    """Two skills: one that limits, one that does not."""

    async def use(self, name: str) -> SkillUse:
        return {"look": LOOK, "free": FREE}[name]


def finished(rig: Rig) -> list[tuple[str, bool]]:
    return [(event.tool, event.ok) for event in rig.events if isinstance(event, ToolCallFinished)]


def names(watch: SkillTracker) -> list[str]:
    return [scope.skill for scope in watch.scopes]


def used(*allowed: str, skill: str = "look", digest: str = "") -> SkillUsed:
    return SkillUsed(skill=skill, source="yours", is_limited=True, allowed=allowed, digest=digest)


async def test_from_the_call_to_the_end_of_the_turn_only_named_tools_run() -> None:
    rig = Rig(
        FakeProvider(
            answer("", ("ls", "{}"), ("skill", '{"name": "look"}'), ("ls", '{"path": "x"}')),
            answer("seen"),
            answer("", ("ls", "{}")),
            answer("seen again"),
        ),
        skills=Shelf(),
    )
    await rig.run()
    assert finished(rig) == [("ls", True), ("skill", True), ("ls", False)]
    await rig.run("more")
    assert finished(rig)[3:] == [("ls", True)]


async def test_a_skill_without_a_list_limits_nothing() -> None:
    rig = Rig(
        FakeProvider(answer("", ("skill", '{"name": "free"}'), ("ls", "{}")), answer("seen")),
        skills=Shelf(),
    )
    await rig.run()
    assert finished(rig) == [("skill", True), ("ls", True)]
    assert [event.is_limited for event in rig.events if isinstance(event, SkillUsed)] == [False]


def test_what_two_skills_leave_is_what_both_name_and_a_sub_agent_has_it_too() -> None:
    watch = SkillTracker()
    for event in (used("Read"), used("Read", "Write", skill="other"), used("Read")):
        watch = watch.apply(event)
    assert names(watch) == ["look", "other"]
    child = SkillTracker(watch.scopes)
    child = child.apply(TurnEnded(turn_id="t", reason=TurnReason.DONE, status="done"))
    assert names(child) == names(watch)
    watch = watch.apply(TurnEnded(turn_id="t", reason=TurnReason.DONE, status="done"))
    assert names(watch) == []


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
