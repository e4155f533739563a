from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from lmtui.core import events
from lmtui.core.agent_events import AgentFinished
from lmtui.core.model_events import Reminder
from lmtui.core.permissions.rules import Effect, Mode, Rule, Verdict
from lmtui.core.ports import Limits
from lmtui.core.prompt_text import PromptFile, fill
from lmtui.core.sessions import Answer
from lmtui.core.workspace import CommandEffect, FileChange, FileChangeKind
from lmtui.engine.agent import TurnPoints
from lmtui.engine.subagent_runs import TeamParts
from lmtui.features.hooks.service import HookPoints
from lmtui.features.hooks.values import HookCall, HookEvent, HookRan, HookVerdict
from lmtui.tools.registry import child_tools
from tests.engine.seen import ending, question, ran, reply, seen, shell
from tests.engine.test_trial import is_question
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer
from tests.sets import for_each
from tests.waiting import until

PRE, POST = HookEvent.PRE_TOOL_USE, HookEvent.POST_TOOL_USE
TOUCH = answer("", shell("touch a"))
DONE = answer("All is done.")


@dataclass
class PaperHooks:
    """Says what a test wants; `calls` is what it was asked."""

    says: Mapping[HookEvent, HookVerdict | Callable[[HookCall], HookVerdict]] = field(default_factory=dict)
    hangs: frozenset[HookEvent] = frozenset()
    calls: list[HookCall] = field(default_factory=list)

    async def run(self, call: HookCall) -> HookVerdict:
        self.calls.append(call)
        if call.event in self.hangs:
            await asyncio.Event().wait()
        said = self.says[call.event]
        return said if isinstance(said, HookVerdict) else said(call)

    def of(self, event: HookEvent) -> list[HookCall]:
        return [call for call in self.calls if call.event is event]


class Hooked(Rig):
    """A session with hooks, as it is opened."""

    def __init__(
        self,
        provider: FakeProvider,
        sandbox: FakeSandbox | None = None,
        *,
        hooks: PaperHooks,
        problems: tuple[str, ...] = (),
        **more: Any,
    ) -> None:
        points, turn_points = HookPoints({*hooks.says, *hooks.hangs}, hooks.run, problems), TurnPoints()
        points.register(turn_points)
        super().__init__(provider, sandbox, points=turn_points, **more)
        points.follow(self.session)


def verdict(permission: Verdict | None = None, reason: str = "", **fields: Any) -> HookVerdict:
    run = HookRan(event="", command="guard", decision=str(permission or ""), said=reason)
    return HookVerdict(permission, reason, runs=(run,), **fields)


def results(rig: Rig) -> list[tuple[str, str, str]]:
    return [(event.result, event.decision, event.summary) for event in seen(rig, events.ToolCallFinished)]


@pytest.mark.parametrize("reason", ["not here", "not here."])
async def test_what_a_hook_denies_does_not_run_and_the_model_is_told_why(reason: str) -> None:
    hooks = PaperHooks({PRE: verdict(Verdict.DENY, reason)})
    rig = await ran(Hooked(FakeProvider(TOUCH, DONE), hooks=hooks))
    assert (rig.sandbox.ran, results(rig)) == ([], [("Refused: a hook said no: not here.", "hook", "refused")])
    told = seen(rig, HookRan)[0]
    assert (told.event, told.command, told.decision, told.call_id) == ("PreToolUse", "guard", "deny", "call_0")
    assert (hooks.calls[0].subject, hooks.calls[0].arguments) == ("shell", {"command": "touch a"})
    hooks = PaperHooks({PRE: verdict(), POST: verdict()})
    await Hooked(FakeProvider(TOUCH, DONE), hooks=hooks).run()
    assert [(call.event, call.subjects) for call in hooks.calls] == [(PRE, ("touch a",)), (POST, ("touch a",))]


async def test_a_hook_allows_what_only_the_mode_would_ask_and_a_users_own_command_passes_it_too() -> None:
    rig = Hooked(
        FakeProvider(TOUCH, DONE), mode=Mode.MANUAL, hooks=PaperHooks({PRE: verdict(Verdict.ALLOW)}), is_attended=False
    )
    await rig.run()
    assert (rig.sandbox.ran, results(rig)[0][1]) == (["touch a"], "hook")
    rig = Hooked(FakeProvider(), hooks=PaperHooks({PRE: verdict(Verdict.DENY, "no")}))
    rig.session.waiting.run_command("touch a")
    await rig.session.wait_idle()
    assert rig.sandbox.ran == []


@for_each(("rules", "asks_each", "call", "mode"), [
    ((Rule(Effect.DENY, "shell", "touch *"),), False, ("shell", '{"command": "touch a"}'), Mode.AUTO),
    ((Rule(Effect.ASK, "shell", "touch *"),), False, ("shell", '{"command": "touch a"}'), Mode.AUTO),
    ((), True, ("shell", '{"command": "touch a"}'), Mode.NORMAL),
    ((Rule(Effect.ALLOW, "shell"),), True, ("shell", '{"command": "touch a"}'), Mode.NORMAL),
    ((), False, ("read", '{"path": ".env"}'), Mode.NORMAL),
    ((Rule(Effect.ALLOW, "read"),), False, ("read", '{"path": ".env"}'), Mode.NORMAL),
    ((), False, ("write", '{"path": "a", "content": "b"}'), Mode.PLAN),
])  # fmt: skip
async def test_allow_never_overrules_a_deny_or_skips_what_others_ask(
    rules: tuple[Rule, ...], asks_each: bool, call: tuple[str, str], mode: Mode
) -> None:
    sandbox = FakeSandbox(files={".env": b"KEY=1"}, asks_each_command=asks_each)
    hooks = PaperHooks({PRE: verdict(Verdict.ALLOW)})
    rig = await ran(
        Hooked(FakeProvider(answer("", call), DONE), sandbox, mode=mode, rules=rules, hooks=hooks, is_attended=False)
    )
    assert (sandbox.ran, sandbox.touched) == ([], [])
    assert "KEY=1" not in results(rig)[0][0]
    assert results(rig)[0][2] == "refused"


async def test_a_hook_can_ask_no_rule_is_offered_and_a_granted_one_does_not_answer_it() -> None:
    rig = Hooked(FakeProvider(TOUCH, DONE), mode=Mode.NORMAL, hooks=PaperHooks({PRE: verdict(Verdict.ASK, "sure?")}))
    rig.sandbox.effect = CommandEffect("a" * 40, "a" * 40)  # overlays do not go around a hook
    asked = await question(rig, "do it")
    assert ((asked.tool, rig.sandbox.ran), asked.why, asked.offered_rules) == (("shell", []), "hooks ask: sure?", ())
    await reply(rig, asked, events.Outcome.NO)
    hooks = PaperHooks({PRE: verdict(Verdict.ASK, "sure?")})
    rig = Hooked(FakeProvider(TOUCH, TOUCH, DONE), hooks=hooks, rules=(Rule(Effect.ALLOW, "shell"),))
    rig.session.submit("do it")
    for number in (1, 2):
        again = await rig.until(partial(is_question, number))
        assert isinstance(again, events.ApprovalRequested)
        assert (again.why, (again.suggested_rule, again.offered_rules)) == ("hooks ask: sure?", ("", ()))
        rig.session.answer(again.approval_id, Answer(events.Outcome.ONCE))
    await rig.session.wait_idle()
    assert rig.sandbox.ran == ["touch a", "touch a"]


async def test_changed_arguments_are_checked_and_decided_about_anew() -> None:
    hooks = PaperHooks({PRE: verdict(Verdict.ALLOW, changed={"command": "rm a"})})
    rules = (Rule(Effect.DENY, "shell", "rm *"),)
    rig = await ran(Hooked(FakeProvider(TOUCH, DONE), hooks=hooks, rules=rules))
    assert rig.sandbox.ran == []
    hooks = PaperHooks({PRE: verdict(changed={"command": "ls b"})})
    rig = await ran(Hooked(FakeProvider(TOUCH, DONE), hooks=hooks))
    assert rig.sandbox.ran == ["ls b"]
    assert "changed the arguments" in results(rig)[0][0]
    hooks = PaperHooks({PRE: verdict(changed={"command": 3.5, "timeout": "x"})})
    rig = await ran(Hooked(FakeProvider(TOUCH, DONE), hooks=hooks))
    assert (rig.sandbox.ran, results(rig)[0][2]) == ([], "failed")


async def test_after_a_call_that_ran_the_model_is_told_what_hooks_say() -> None:
    hooks = PaperHooks({POST: verdict(Verdict.DENY, "lint: E501", context="and more")})
    rig = await ran(Hooked(FakeProvider(TOUCH, DONE), hooks=hooks))
    assert rig.sandbox.ran == ["touch a"]
    assert results(rig)[0][0].endswith("[a hook of the user's says: lint: E501\nand more]")
    assert hooks.calls[0].facts["tool_response"]
    assert not hooks.of(PRE)
    hooks = PaperHooks({POST: verdict()})
    failing = answer("", ("read", '{"path": "gone"}'))
    await Hooked(FakeProvider(TOUCH, failing, DONE), hooks=hooks, rules=(Rule(Effect.DENY, "shell"),)).run()
    assert hooks.calls == []


async def test_a_hook_can_end_the_turn_and_refuses_no_command_of_the_users_own_after_it() -> None:
    two = answer("", ("shell", '{"command": "touch a"}'), ("shell", '{"command": "touch b"}'))
    rig = await ran(Hooked(FakeProvider(two, DONE), hooks=PaperHooks({POST: verdict(ends_turn=True, end_reason="enough")})))
    assert rig.sandbox.ran == ["touch a"]
    assert (ending(rig).reason, ending(rig).error) == (events.TurnReason.BLOCKED, "a hook ended the turn: enough")
    before = await ran(Hooked(FakeProvider(two, DONE), hooks=PaperHooks({PRE: verdict(ends_turn=True)})))
    assert before.sandbox.ran == []
    hooks = PaperHooks({PRE: verdict(), POST: verdict(ends_turn=True, end_reason="enough")})
    rig = await ran(Hooked(FakeProvider(TOUCH), hooks=hooks))
    rig.session.waiting.run_command("make")
    await rig.session.wait_idle()
    assert rig.sandbox.ran == ["touch a", "make"]


async def test_what_hooks_hold_back_reaches_nobody_and_what_they_add_the_model() -> None:
    provider = FakeProvider(DONE)
    hooks = PaperHooks({HookEvent.USER_PROMPT_SUBMIT: verdict(Verdict.DENY, "names a key")})
    rig = await ran(Hooked(provider, hooks=hooks), "the key is k")
    assert (provider.requests, hooks.calls[0].facts) == ([], {"prompt": "the key is k"})
    assert not seen(rig, events.MessageAdded)
    kept = seen(rig, events.InboxChanged)[-1]
    assert ((kept.queued, kept.is_paused), ending(rig).reason) == ((("the key is k",), True), events.TurnReason.BLOCKED)
    assert "names a key" in ending(rig).error
    assert rig.session.waiting.drop(0) == "the key is k"
    provider = FakeProvider(DONE)
    await Hooked(provider, hooks=PaperHooks({HookEvent.USER_PROMPT_SUBMIT: verdict(context="It is Monday.")})).run()
    assert [message.text for message in provider.requests[0].messages[-2:]] == [
        "do it", "From a hook of the user's: It is Monday.",
    ]  # fmt: skip


async def begun_with_a_file(hooks: PaperHooks) -> Rig:
    """Return a session at a command file of which hooks hear."""
    rig = Hooked(FakeProvider(TOUCH, DONE), hooks=hooks)
    rig.session.waiting.begin(fill(PromptFile("look", "See !`ls`.", "look.md", allowed=("Read", "Shell(ls)")), ""), "/look")
    await until(lambda: hooks.calls)
    return rig


@pytest.mark.parametrize("is_interrupted", [False, True])
async def test_a_commands_file_that_waited_leaves_the_same_tools_when_it_is_sent_again(is_interrupted: bool) -> None:
    held = HookEvent.USER_PROMPT_SUBMIT
    hooks = PaperHooks({held: verdict(Verdict.DENY, "not now")}, hangs=frozenset({held} if is_interrupted else ()))
    rig = await begun_with_a_file(hooks)
    if is_interrupted:
        rig.session.interrupt()
    await rig.session.wait_idle()
    assert (rig.sandbox.ran, [event.queued for event in seen(rig, events.InboxChanged)][-1]) == (["ls"], ("/look",))
    hooks.says, hooks.hangs = {held: verdict()}, frozenset()
    rig.session.waiting.go_on()
    await rig.session.wait_idle()
    assert rig.sandbox.ran == ["ls", "ls"]
    assert "/look" in results(rig)[-1][0]


async def test_the_end_is_held_up_three_times_at_most() -> None:
    hooks = PaperHooks({HookEvent.STOP: verdict(Verdict.DENY, "run the tests")})
    ends = [answer(f"Finished, take {number}.") for number in range(6)]
    rig = await ran(Hooked(FakeProvider(*ends), hooks=hooks))
    assert [call.facts["stop_hook_active"] for call in hooks.calls] == [False, True, True]
    told = [event.text for event in seen(rig, Reminder)]
    assert told == ["The user's hook asks for more work: run the tests"] * 3
    assert ending(rig).reason is events.TurnReason.DONE
    assert any("3 times" in event.text for event in seen(rig, events.Notice))


async def test_a_sub_agents_calls_and_end_pass_the_hooks() -> None:
    team = TeamParts(toolbox=lambda kind, *, can_send: child_tools("", kind, can_send=can_send), max_depth=1)
    brief = answer("", ("delegate", json.dumps({"objective": "touch a file"})))
    hooks = PaperHooks({
        PRE: lambda call: verdict(Verdict.DENY, "no") if call.subject == "shell" else verdict(),
        HookEvent.SUBAGENT_STOP: verdict(), HookEvent.STOP: verdict(),
    })  # fmt: skip
    rig = await ran(Hooked(FakeProvider(brief, TOUCH, answer("The child has ended."), DONE), hooks=hooks, team=team))
    assert rig.sandbox.ran == []
    assert [(call.subject, call.agent) for call in hooks.of(PRE)] == [("delegate", "root"), ("shell", "agent_1")]
    assert [call.agent for call in hooks.of(HookEvent.SUBAGENT_STOP)] == ["agent_1"]
    assert [call.agent for call in hooks.of(HookEvent.STOP)] == ["root"]
    assert any(isinstance(event, AgentFinished) for event in rig.events)


async def test_the_start_is_waited_for_and_said_to_the_model_and_the_end_is_told() -> None:
    provider = FakeProvider(DONE)
    hooks = PaperHooks({HookEvent.SESSION_START: verdict(context="Tabs."), HookEvent.SESSION_END: verdict()})
    rig = Hooked(provider, hooks=hooks, problems=("x is broken",))
    await rig.run()
    await rig.session.close()
    assert [message.text for message in provider.requests[0].messages[1:]] == ["From a hook of the user's: Tabs.", "do it"]
    assert [(call.event, call.subject) for call in hooks.calls] == [
        (HookEvent.SESSION_START, "startup"), (HookEvent.SESSION_END, "other"),
    ]  # fmt: skip
    assert 0 < hooks.calls[-1].limit_s <= 5
    assert "Hooks: x is broken" in [event.text for event in seen(rig, events.Notice)]


async def test_replay_runs_no_hooks_and_a_resumed_session_says_so_at_its_start() -> None:
    says = {PRE: verdict(), POST: verdict(), HookEvent.SESSION_START: verdict(), HookEvent.NOTIFICATION: verdict()}
    first = await ran(Hooked(FakeProvider(TOUCH, DONE), hooks=PaperHooks(says)))
    hooks = PaperHooks(says)
    again = Hooked(FakeProvider(), hooks=hooks, past=first.session.history())
    assert hooks.calls == []
    _ = await again.until(lambda event: isinstance(event, HookRan))
    await again.session.close()
    assert [call.subject for call in hooks.calls] == ["resume"]
    kept = [envelope.event for envelope in first.session.history() if isinstance(envelope.event, HookRan)]
    assert len(kept) == 3


async def test_hooks_that_hang_hold_nothing_up_and_an_interrupt_ends_them() -> None:
    hooks = PaperHooks(hangs=frozenset({HookEvent.NOTIFICATION}))
    rig = Hooked(FakeProvider(TOUCH, DONE), mode=Mode.MANUAL, hooks=hooks)
    asked = await question(rig, "do it")
    await reply(rig, asked, events.Outcome.ONCE)
    assert (rig.sandbox.ran, hooks.calls[0].facts["notification_type"]) == (["touch a"], "permission_prompt")
    await rig.session.close()
    hooks = PaperHooks(hangs=frozenset({PRE}))
    rig = Hooked(FakeProvider(TOUCH, DONE), hooks=hooks, limits=Limits())
    rig.session.submit("do it")
    await until(lambda: hooks.calls)
    rig.session.interrupt()
    await rig.session.wait_idle()
    assert (rig.sandbox.ran, ending(rig).reason) == ([], events.TurnReason.INTERRUPTED)


async def test_before_room_is_made_hooks_are_told_with_what_asked_for_it() -> None:
    hooks = PaperHooks({HookEvent.PRE_COMPACT: verdict(Verdict.DENY, "no")})
    rig = Hooked(FakeProvider(DONE), hooks=hooks)
    rig.session.waiting.make_room("the names")
    await rig.session.wait_idle()
    assert [(call.subject, call.facts) for call in hooks.calls] == [
        ("manual", {"trigger": "manual", "custom_instructions": "the names"})
    ]


async def test_what_a_hook_makes_of_the_command_that_the_user_typed_is_what_runs() -> None:
    def says(call: HookCall) -> HookVerdict:
        is_typed = call.arguments == {"command": "make test"}
        return verdict(changed={"command": "make -n test"}) if is_typed else verdict()

    rig = Hooked(FakeProvider(TOUCH, DONE), mode=Mode.MANUAL, hooks=PaperHooks({PRE: says}))
    asked = await question(rig, "go")
    await reply(rig, asked, Answer(events.Outcome.ONCE, edited="make test"))
    assert rig.sandbox.ran == ["make -n test"]


@pytest.mark.parametrize(("effect", "kept"), [(Effect.ALLOW, ["a", "closed"]), (Effect.DENY, ["closed"])])
async def test_hooks_look_once_at_a_command_that_ran_in_an_overlay(effect: Effect, kept: list[str]) -> None:
    hooks = PaperHooks({POST: verdict()})
    rig = Hooked(FakeProvider(TOUCH, DONE), mode=Mode.NORMAL, hooks=hooks, rules=(Rule(effect, "write"),))
    change = FileChange("a", FileChangeKind.ADDED, 1, 0)
    rig.sandbox.effect = CommandEffect("a" * 40, "b" * 40, (change,))
    await rig.run("do it")
    assert ([call.subject for call in hooks.of(POST)], rig.sandbox.kept) == (["shell"], kept)
