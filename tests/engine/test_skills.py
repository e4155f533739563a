from __future__ import annotations

from typing import Any

from lmtui.core import events
from lmtui.core.messages import Role
from lmtui.core.model_events import Compacted
from lmtui.core.permissions.rules import Effect, Mode, Rule
from lmtui.core.prompt_text import PromptFile, fill
from lmtui.core.servers import ServedModel
from lmtui.core.tool_scopes import SkillEnded, SkillTracker, SkillUsed, digest_of
from lmtui.core.workspace import ExecResult
from lmtui.engine.agent import TurnPoints
from lmtui.features.skills.service import SkillShelf, remind_of_skills
from lmtui.features.skills.values import SkillSource, SkillUse
from tests.engine.seen import ran, seen
from tests.fakes import FakeProvider, FakeSandbox, MemoryLog, Rig, answer
from tests.waiting import until

LOOK = SkillUse("look", "Look twice.", SkillSource.USER, ("Read",))
FREE = SkillUse("free", "As you like.", SkillSource.SHIPPED)


class Shelf(SkillShelf):
    """Two skills: one that limits, one that does not."""

    def __init__(self, *skills: SkillUse) -> None:
        self._used = {each.name: each for each in skills or (LOOK, FREE)}

    async def use(self, name: str) -> SkillUse:
        return self._used[name]


class Skilled(Rig):
    """A session with skills."""

    def __init__(
        self, provider: FakeProvider, sandbox: FakeSandbox | None = None, *, shelf: Shelf | None = None, **more: Any
    ) -> None:
        self.shelf = shelf or Shelf()
        super().__init__(provider, sandbox, skills=self.shelf, points=TurnPoints(before_request=[remind_of_skills]), **more)
        self.shelf.sessions = lambda: [self.session]

    def begin(self, name: str, words: str) -> None:
        self.shelf.begin(self.session.id, name, words)

    def end(self, name: str = "") -> None:
        self.shelf.end(self.session.id, name)


def finished(rig: Rig) -> list[tuple[str, bool]]:
    return [(event.tool, event.ok) for event in seen(rig, events.ToolCallFinished)]


def names(watch: SkillTracker) -> list[str]:
    return [scope.skill for scope in watch.scopes]


def used(*allowed: str, skill: str = "look", digest: str = "") -> SkillUsed:
    return SkillUsed(skill=skill, source="yours", is_limited=True, allowed=allowed, digest=digest)


LS, OFF = ("ls", "{}"), ("skill_clear", "{}")


def last_result(rig: Rig) -> str:
    return [event.result for event in seen(rig, events.ToolCallFinished)][-1]


async def test_from_the_call_on_only_named_tools_run_until_the_model_ends_it_in_a_later_turn() -> None:
    begins = answer("", LS, ("skill", '{"name": "look"}'), ("ls", '{"path": "x"}'))
    answers = begins, answer("seen"), answer("", LS, OFF, LS), answer("seen again")
    rig = await ran(Skilled(FakeProvider(*answers)))
    assert finished(rig) == [("ls", True), ("skill", True), ("ls", False)]
    assert "skill look is in use until you end it (skill, name: off)" in last_result(rig)
    assert list(rig.session.followed) == ["look"]
    await rig.run("more")
    assert (finished(rig)[3:], list(rig.session.followed)) == ([("ls", False), ("skill", True), ("ls", True)], [])


async def test_limits_that_the_model_ends_in_the_turn_that_began_them_hold_for_its_rest() -> None:
    calls = (("skill", '{"name": "look"}'), OFF, LS)
    rig = await ran(Skilled(FakeProvider(answer("", *calls), answer("seen"), answer("", LS, OFF), answer("yes"))))
    assert finished(rig) == [("skill", True), ("skill", True), ("ls", False)]
    results = [event.result for event in seen(rig, events.ToolCallFinished)]
    assert results[1] == "Ended: look. Its tool limits hold until this turn ends."
    await rig.run("more")
    assert (finished(rig)[3:], last_result(rig)) == ([("ls", True), ("skill", True)], "No skill is in use.")


async def test_what_the_user_began_the_user_ends_and_the_model_is_told_once_at_the_end() -> None:
    log = MemoryLog()
    answers = answer("", OFF, LS), answer("seen"), answer("", LS), answer("now"), answer("later")
    rig = Skilled(FakeProvider(*answers), log=log)
    rig.begin("look", "at the pond")
    await rig.session.wait_idle()
    results = [event.result for event in seen(rig, events.ToolCallFinished)]
    assert results[0] == "The user chose look: only they can end it, with /skill off."
    assert "until the user ends it (/skill off)" in results[1]
    await rig.session.close()
    rig = Skilled(rig.provider, past=log.events)
    assert list(rig.session.followed) == ["look"]
    before = rig.provider.requests[-1].messages
    rig.end()
    assert list(rig.session.followed) == []
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
    shelf = Shelf(SkillUse("look", "Look.", SkillSource.USER, ("Shell",)))
    answers = answer("", LS), answer("", ("shell", '{"command": "wait"}')), answer("done")
    rig = Skilled(FakeProvider(*answers), sandbox, shelf=shelf)
    rig.begin("look", "")
    await until(lambda: sandbox.ran)
    rig.end("another")
    assert list(rig.session.followed) == ["look"]
    rig.end("look")
    assert list(rig.session.followed) == []
    rig.session.interrupt()
    await rig.session.wait_idle()
    assert finished(rig)[0] == ("ls", False)


async def test_after_a_compaction_the_model_is_told_what_is_in_use() -> None:
    rig = Skilled(FakeProvider(answer("", ("skill", '{"name": "free"}')), answer("seen"), answer("yes"), answer("yes")))
    await rig.run()
    rig.session.emit(Compacted(why="no room", tokens_before=900, tokens_after=90, kept_from=4, summary="much was said"))
    await rig.run("more")
    told = "[In use: the skill free. Read it again with `skill` if you need its text.]"
    assert [each.text for each in rig.provider.requests[-1].messages].count(told) == 1
    await rig.run("more")
    assert [each.text for each in rig.provider.requests[-1].messages].count(told) == 1


def test_limits_hold_until_who_began_them_ends_them_or_takes_their_turn_back() -> None:
    watch = SkillTracker()
    for number, skill in enumerate(("one", "two", "three"), 1):
        watch = watch.apply(events.TurnStarted(turn_id=f"turn_{number}"))
        watch = watch.apply(SkillUsed(skill=skill, stays=True))
    assert [each.name for each in watch.apply(events.Rewound(turn_id="turn_2")).in_use] == ["one"]
    assert [each.name for each in watch.apply(events.Rewound(turn_id="turn_9")).in_use] == ["one", "two", "three"]
    watch = SkillTracker().apply(used("Read", digest=digest_of("go"))).apply(events.MessageAdded(role=Role.USER, text="go"))
    assert names(watch.apply(SkillEnded(by="model"))) == ["look"]
    again = watch.apply(used("Read"))
    assert names(again.apply(SkillEnded(by="model"))) == ["look"]  # the model read it once more: it is still the user's
    assert names(again.apply(SkillEnded())) == []
    watch = SkillTracker()
    watch = watch.apply(used("(((", ""))
    assert [scope.rules for scope in watch.scopes] == [()]
    watch = SkillTracker()
    for event in (used("Read"), used("Read", "Write", skill="other"), used("Read")):
        watch = watch.apply(event)
    assert names(watch) == ["look", "other"]
    child = SkillTracker(watch.scopes)
    child = child.apply(events.TurnEnded(turn_id="t", reason=events.TurnReason.DONE, status="done"))
    assert names(child) == names(watch)
    watch = watch.apply(events.TurnEnded(turn_id="t", reason=events.TurnReason.DONE, status="done"))
    assert names(watch) == []  # an earlier lmtui wrote these, and a command's file still does: they end with the turn


async def test_what_the_user_begins_holds_with_their_message_alone() -> None:
    rig = Skilled(FakeProvider(answer("seen"), answer("free")))
    rig.begin("look", "at the pond")
    rig.begin("free", "")
    await rig.session.wait_idle()
    said = [event.text.partition("\n")[0] for event in seen(rig, events.MessageAdded) if event.role is Role.USER]
    assert said == ["at the pond", "Follow the skill free."]
    begun, text = seen(rig, SkillUsed)[0], seen(rig, events.MessageAdded)[0].text
    watch = SkillTracker().apply(begun).apply(events.MessageAdded(role=Role.USER, text="something else"))
    watch = watch.apply(events.TurnEnded(turn_id="t", reason=events.TurnReason.DONE, status="done"))
    assert names(watch) == []
    watch = watch.apply(events.MessageAdded(role=Role.USER, text=text))
    assert names(watch) == ["look"]


DONE = answer("All is done.")


class Serving(FakeProvider):
    """A server with models."""

    models = ("model", "big", "huge")

    async def served(self, model: str) -> ServedModel | None:
        return ServedModel(model or "model") if (model or "model") in self.models else None


async def begin(rig: Rig, file: PromptFile, arguments: str = "") -> str:
    rig.session.waiting.begin(fill(file, arguments), f"/{file.name} {arguments}".strip())
    await rig.session.wait_idle()
    return next(event.text for event in seen(rig, events.MessageAdded) if event.role is Role.USER)


def listing() -> FakeSandbox:
    return FakeSandbox({"a.txt": b"text of a"}, {"ls": ExecResult(0, "@a.txt !`id` $1\n", 16, 1)})


async def test_a_commands_output_takes_its_place_and_is_not_looked_through() -> None:
    rig = Rig(FakeProvider(DONE), listing())
    assert await begin(rig, PromptFile("look", "See !`ls` and $1.", "look.md"), "here") == "See @a.txt !`id` $1 and here."
    assert rig.sandbox.ran == ["ls"]
    added = seen(rig, events.MessageAdded)[0]
    assert added.attached == ""
    assert added.is_from_file
    await rig.run("typed")
    assert not [event for event in seen(rig, events.MessageAdded) if event.role is Role.USER][-1].is_from_file
    rig = Rig(FakeProvider(DONE), listing())
    assert await begin(rig, PromptFile("look", "!`ls`", "look.md")) == "@a.txt !`id` $1"
    assert seen(rig, events.MessageAdded)[0].attached == ""


async def test_a_command_that_is_denied_asked_about_or_not_trusted_does_not_run_though_the_user_typed_the_name() -> None:
    provider = FakeProvider(DONE)
    rig = Rig(provider, listing(), rules=(Rule(Effect.DENY, "shell", "ls *"), Rule(Effect.DENY, "shell", "ls")))
    text = await begin(rig, PromptFile("look", "See !`ls`.", "look.md"))
    assert (rig.sandbox.ran, text) == ([], "See [a command was here; it was not run: refused].")
    assert "ls" not in provider.requests[0].messages[-1].text
    rig = Rig(FakeProvider(DONE), listing(), mode=Mode.MANUAL, is_attended=False)
    assert "not run" in await begin(rig, PromptFile("look", "See !`ls`.", "look.md"))
    assert rig.sandbox.ran == []
    rig = Rig(FakeProvider(DONE), listing())
    file = PromptFile("look", "See !`ls` now.", ".claude/commands/look.md", is_own=False, may_run=False)
    assert await begin(rig, file) == "See [a command was here; it was not run] now."
    assert rig.sandbox.ran == []
    assert any("not trusted" in event.text for event in seen(rig, events.Notice))


async def test_an_interrupt_while_its_commands_run_keeps_the_words() -> None:
    sandbox = FakeSandbox(commands={"sleep": 60.0})
    rig = Rig(FakeProvider(DONE), sandbox)
    rig.session.waiting.begin(fill(PromptFile("look", "See !`sleep`.", "look.md"), ""), "/look")
    _ = await rig.until(lambda event: isinstance(event, events.ToolCallStarted))
    await until(lambda: sandbox.ran)
    rig.session.interrupt()
    await rig.session.wait_idle()
    assert (sandbox.stopped, rig.session.waiting.drop(0)) == (["sleep"], "/look")


async def test_allowed_tools_refuse_the_others_in_that_turn_and_grant_nothing() -> None:
    touch = answer("", ("shell", '{"command": "touch a"}'))
    rig = Rig(FakeProvider(touch, DONE, touch, DONE), listing())
    _ = await begin(rig, PromptFile("look", "See.", "look.md", allowed=("Read", "Shell(ls *)")))
    assert rig.sandbox.ran == []
    assert "/look" in seen(rig, events.ToolCallFinished)[0].result
    await rig.run("touch it")
    assert rig.sandbox.ran == ["touch a"]
    touch = answer("", ("shell", '{"command": "touch a"}'))
    rig = Rig(FakeProvider(touch, DONE), listing(), mode=Mode.MANUAL, is_attended=False)
    _ = await begin(rig, PromptFile("look", "See.", "look.md", allowed=("Shell",)))
    assert rig.sandbox.ran == []


async def test_a_session_that_is_killed_with_a_borrowed_model_has_its_own_again() -> None:
    provider = Serving(answer("", ("shell", '{"command": "touch a"}')), DONE)
    rig = Rig(provider, listing())
    rig.session.emit(events.ModelChanged(model="model", url=provider.url))
    _ = await begin(rig, PromptFile("look", "See.", "look.md", model="big"))
    past = list(rig.log.events)
    cuts = [
        number
        for number, each in enumerate(past, 1)
        if isinstance(each.event, events.ModelChanged | events.MessageAdded | events.ToolCallStarted)
    ]
    assert any(isinstance(each.event, events.ModelChanged) and each.event.is_for_turn for each in past)
    for cut in cuts:
        again = await ran(Rig(Serving(DONE), listing(), past=tuple(past[:cut])), "go on then")
        assert [request.model for request in again.provider.requests] == ["model"], cut
        changes = [each.event for each in (*past[:cut], *again.log.events) if isinstance(each.event, events.ModelChanged)]
        assert not changes[-1].is_for_turn


async def test_of_two_borrowed_models_the_sessions_own_comes_back_and_one_that_is_not_served_is_said() -> None:
    provider = Serving(answer("", ("shell", '{"command": "touch a"}')), DONE, answer("And done again."))
    rig = Rig(provider, listing())
    rig.session.waiting.begin(fill(PromptFile("look", "See.", "look.md", model="big"), ""), "/look")
    _ = await begin(rig, PromptFile("see", "Look.", "see.md", model="huge"))
    await rig.run("go on then")
    assert provider.requests[-1].model == "model"
    provider = Serving(DONE)
    rig = Rig(provider, listing())
    _ = await begin(rig, PromptFile("look", "See.", "look.md", model="sonnet"))
    assert [request.model for request in provider.requests] == ["model"]
    assert any("sonnet" in event.text for event in seen(rig, events.Notice))
