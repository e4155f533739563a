from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.agent_events import AgentFinished
from lmtui.core.errors import SandboxError, UsageError
from lmtui.core.events import (
    ApprovalRequested,
    ApprovalResolved,
    Notice,
    Outcome,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnReason,
)
from lmtui.core.messages import StreamChunk
from lmtui.core.permissions.rules import Effect, GrantScope, Mode, parse_rule
from lmtui.core.ports import Limits
from lmtui.core.sessions import Answer
from lmtui.core.workspace import SandboxStatus
from lmtui.engine.subagent_runs import TeamParts
from lmtui.headless.listings import as_audit_text
from lmtui.tools.edit_file import accept
from lmtui.tools.registry import child_tools
from tests.engine.seen import call, finished, question, ran, reply, seen, shell
from tests.fakes import FakeProvider, FakeSandbox, MemoryLog, Rig, answer
from tests.sets import for_each

SHELL = ("shell", json.dumps({"command": "make all", "timeout": 60}))


async def test_a_request_says_what_would_run_and_names_what_cannot_be_seen() -> None:
    rig = Rig(FakeProvider(answer("", SHELL)), mode=Mode.NORMAL)
    request = await question(rig, "go")
    assert (request.text, request.cwd, request.limits) == ("make all", "/workspace", "up to 60 s, 2,048 MB")
    assert (request.uncovered, request.commands) == (("make all",), 1)
    assert request.offered_rules[0] == request.suggested_rule == "Shell(make all)"
    assert request.digest == hashlib.sha256(b"make all").hexdigest()
    await rig.session.close()
    command = "echo \u202egnp.exe\u200b; rm x"
    rig = Rig(FakeProvider(answer("", ("shell", json.dumps({"command": command})))), mode=Mode.NORMAL)
    request = await question(rig, "go")
    assert "\u202e" not in request.text
    assert "U+202E" in request.text
    assert "U+200B" in request.text
    assert request.digest == hashlib.sha256(command.encode()).hexdigest()
    await rig.session.close()


async def test_the_command_that_the_user_typed_runs_unless_a_rule_forbids_it_and_the_model_is_told() -> None:
    rig = Rig(FakeProvider(answer("", SHELL), answer("done")), mode=Mode.NORMAL)
    request = await question(rig, "go")
    await reply(rig, request, Answer(Outcome.ONCE, edited="make test"))
    assert rig.sandbox.ran == ["make test"]
    assert seen(rig, ToolCallFinished)[0].result.startswith("[the user changed the command to: make test]")
    resolved = seen(rig, ApprovalResolved)[0]
    assert resolved.edited == "make test"
    assert resolved.elapsed_ms >= 0
    deny = parse_rule("Shell(rm *)", Effect.DENY, "settings")
    rig = Rig(FakeProvider(answer("", SHELL), answer("done")), mode=Mode.NORMAL, rules=(deny,))
    request = await question(rig, "go")
    await reply(rig, request, Answer(Outcome.ONCE, edited="rm -rf src"))
    assert rig.sandbox.ran == []


_WRITE = ("write", json.dumps({"path": "a.txt", "content": "one"}))
_OUTSIDE = ("write", json.dumps({"path": "/etc/a.txt", "content": "one"}))


@for_each(("call", "wrong"), [
    *((SHELL, Answer(outcome, rule=rule)) for outcome in (Outcome.SESSION, Outcome.ALWAYS) for rule in (-1, 2, 99)),
    *((SHELL, Answer(outcome, edited="make test")) for outcome in (Outcome.SESSION, Outcome.ALWAYS)),
    *((_OUTSIDE, Answer(outcome)) for outcome in (Outcome.SESSION, Outcome.ALWAYS)),
    (SHELL, Answer(Outcome.ALWAYS, scope=GrantScope.SESSION)),
    (SHELL, Answer(Outcome.TRY)),
    (SHELL, Answer(Outcome.ONCE, hunks=(0,))),
    (_WRITE, Answer(Outcome.TRY)),
    (_WRITE, Answer(Outcome.ONCE, edited="rm -rf ~")),
    *((_WRITE, Answer(Outcome.ONCE, hunks=hunks)) for hunks in ((7,), (-1,), (0, 9))),
])  # fmt: skip
async def test_what_a_question_does_not_offer_is_refused_and_it_stays_open(call: tuple[str, str], wrong: Answer) -> None:
    rig = Rig(FakeProvider(answer("", call), answer("done")), mode=Mode.NORMAL)
    request = await question(rig, "go")
    with pytest.raises(UsageError):
        rig.session.answer(request.approval_id, wrong)
    assert not seen(rig, ApprovalResolved)
    await reply(rig, request, Outcome.NO)
    assert (rig.session.rules, rig.sandbox.ran, rig.sandbox.files) == ((), [], {})


async def test_a_rule_that_is_taken_back_holds_no_more_and_not_after_a_resume_but_no_log_takes_one_that_forbids() -> None:
    log = MemoryLog()
    rig = Rig(FakeProvider(answer("", SHELL), answer("done")), mode=Mode.NORMAL, log=log)
    request = await question(rig, "go")
    await reply(rig, request, Outcome.SESSION)
    (granted,) = rig.session.rules
    assert str(granted) == "Shell(make all)"
    rig.session.revoke(granted)
    assert (rig.session.rules, Rig(FakeProvider(), log=MemoryLog(), past=log.events).session.rules) == ((), ())
    log = MemoryLog()
    rig = Rig(FakeProvider(answer("", SHELL), answer("done")), mode=Mode.NORMAL, log=log)
    request = await question(rig, "go")
    await reply(rig, request, Answer(Outcome.ALWAYS, scope=GrantScope.USER))
    assert seen(rig, ApprovalResolved)[0].scope == "user"
    kept = parse_rule("Shell(make all)", Effect.ALLOW, "always, everywhere")
    assert Rig(FakeProvider(), log=MemoryLog(), past=log.events).session.rules == ()
    assert kept in Rig(FakeProvider(), log=MemoryLog(), past=log.events, rules=(kept,)).session.rules
    log = MemoryLog()
    rule = parse_rule("Shell(make all)", Effect.ALLOW, "settings")
    rig = Rig(FakeProvider(), mode=Mode.NORMAL, rules=(rule,), log=log)
    rig.session.revoke(rule)
    assert Rig(FakeProvider(), log=MemoryLog(), past=log.events, rules=(rule,)).session.rules == ()
    log = MemoryLog()
    allow, deny = (parse_rule("Shell(make all)", effect, "settings") for effect in (Effect.ALLOW, Effect.DENY))
    rig = Rig(FakeProvider(), mode=Mode.NORMAL, rules=(allow, deny), log=log)
    rig.session.revoke(deny)
    assert rig.session.rules == (allow,)
    assert Rig(FakeProvider(), log=MemoryLog(), past=log.events, rules=(allow, deny)).session.rules == (allow, deny)


async def test_a_link_leads_past_no_rule_and_to_a_secret_it_asks() -> None:
    deny = parse_rule("Read(secrets/**)", Effect.DENY, "settings")
    sandbox = FakeSandbox(files={"notes.md": b"x"}, links={"notes.md": "secrets/key"})
    rig = await ran(Rig(FakeProvider(answer("", ("read", '{"path": "notes.md"}'))), sandbox, rules=(deny,)))
    result = seen(rig, ToolCallFinished)[0]
    assert not result.ok
    assert "forbids" in result.result
    sandbox = FakeSandbox(files={"notes.md": b"x"}, links={"notes.md": ".env"})
    rig = Rig(FakeProvider(answer("", ("read", '{"path": "notes.md"}'))), sandbox, mode=Mode.NORMAL)
    assert ".env" in (await question(rig, "go")).why
    await rig.session.close()


async def test_a_yes_that_cannot_be_written_down_or_to_a_mode_stricter_by_then_is_a_no() -> None:
    log = MemoryLog()
    rig = Rig(FakeProvider(answer("", SHELL), answer("done")), mode=Mode.NORMAL, log=log)
    request = await question(rig, "go")
    log.room = len(log.events)
    await reply(rig, request, Outcome.ONCE)
    assert rig.sandbox.ran == []
    assert any(isinstance(event, Notice) and "No space left" in event.text for event in rig.events)
    rig = Rig(FakeProvider(answer("", _WRITE), answer("done")), mode=Mode.NORMAL)
    request = await question(rig, "go")
    rig.session.set_mode(Mode.PLAN)
    await reply(rig, request, Answer(Outcome.ONCE))
    assert "a.txt" not in rig.sandbox.files
    assert "plan mode only reads" in seen(rig, ToolCallFinished)[0].result


async def rig_asking(count: int, *calls: tuple[str, str], sandbox: FakeSandbox | None = None) -> Rig:
    rig = Rig(FakeProvider(answer("", *calls), answer("done")), sandbox, mode=Mode.NORMAL)
    rig.session.submit("go")
    await rig.until(lambda _: len(seen(rig, ApprovalRequested)) >= count)
    return rig


async def test_calls_of_one_message_are_asked_about_at_once_and_a_grant_or_an_interrupt_answers_those_it_covers() -> None:
    rig = await rig_asking(3, ("write", call(path="x", content="1")), shell("make a"), shell("make b"))
    assert ([request.text for request in seen(rig, ApprovalRequested)][1:], rig.sandbox.ran) == (["make a", "make b"], [])
    for request, outcome in zip(reversed(seen(rig, ApprovalRequested)), (Outcome.ONCE, Outcome.NO, Outcome.ONCE), strict=True):
        rig.session.answer(request.approval_id, Answer(outcome))
    await rig.session.wait_idle()
    assert (rig.sandbox.ran, rig.sandbox.files) == (["make b"], {"x": b"1"})
    assert [event.call_id for event in seen(rig, ToolCallFinished)] == ["call_0", "call_1", "call_2"]
    rig = await rig_asking(3, shell("make a"), shell("make a"), shell("make b"))
    rig.session.answer(seen(rig, ApprovalRequested)[0].approval_id, Answer(Outcome.SESSION))
    await rig.until(lambda event: isinstance(event, ToolCallFinished) and event.call_id == "call_1")
    resolved = [(event.outcome, event.by) for event in seen(rig, ApprovalResolved)]
    assert resolved == [(Outcome.SESSION, "user"), (Outcome.ONCE, "rule")]
    rig.session.answer(seen(rig, ApprovalRequested)[2].approval_id, Answer(Outcome.NO))
    await rig.session.wait_idle()
    assert rig.sandbox.ran == ["make a", "make a"]
    rig = await rig_asking(3, shell("make a"), shell("make b"), shell("make c"))
    rig.session.interrupt()
    await rig.session.wait_idle()
    assert (rig.sandbox.ran, [event.outcome for event in seen(rig, ApprovalResolved)]) == ([], [Outcome.NO] * 3)
    begun, ended = seen(rig, ToolCallStarted), seen(rig, ToolCallFinished)
    assert sorted(each.call_id for each in begun) == sorted(each.call_id for each in ended) == ["call_0", "call_1", "call_2"]


async def test_a_change_that_depends_on_an_earlier_one_is_asked_about_when_its_turn_comes() -> None:
    sandbox = FakeSandbox(files={"x": b"one\n"})
    edit = ("edit", json.dumps({"path": "x", "old_text": "two", "new_text": "three"}))
    rig = await rig_asking(2, ("write", call(path="x", content="two\n")), shell("make"), edit, sandbox=sandbox)
    assert len(seen(rig, ApprovalRequested)) == 2
    for request in seen(rig, ApprovalRequested):
        rig.session.answer(request.approval_id, Answer(Outcome.ONCE))
    await rig.until(lambda _: len(seen(rig, ApprovalRequested)) == 3)
    rig.session.answer(seen(rig, ApprovalRequested)[2].approval_id, Answer(Outcome.ONCE))
    await rig.session.wait_idle()
    assert sandbox.files == {"x": b"three\n"}


class DeadSandbox(FakeSandbox):
    """A sandbox that does not start."""

    async def status(self) -> SandboxStatus:
        raise SandboxError("the image is missing", "Build it.")


async def test_a_sandbox_that_does_not_start_is_told_with_each_call_and_ends_no_turn() -> None:
    rig = Rig(FakeProvider(answer("", shell("make a"), shell("make b")), answer("done")), DeadSandbox(), mode=Mode.NORMAL)
    await rig.run()
    finished = seen(rig, ToolCallFinished)
    assert [(event.ok, event.result) for event in finished] == [(False, "the image is missing. Build it.")] * 2
    assert [event.reason for event in seen(rig, TurnEnded)] == [TurnReason.DONE]


Pieces = Sequence[StreamChunk | Exception | float]

TEAM = TeamParts(partial(child_tools, ""), Limits(), lambda: 1, 3)


def calling(tool: str, **arguments: object) -> tuple[str, str]:
    return tool, json.dumps(arguments)


WRITE = answer("", calling("write", path="a.txt", content="x"))
SEND = answer("", calling("delegate", objective="think"))


def rig_unattended(*answers: Pieces) -> Rig:
    return Rig(FakeProvider(*answers), mode=Mode.NORMAL, is_attended=False, team=TEAM)


def reasons(rig: Rig) -> list[TurnReason]:
    return [event.reason for event in seen(rig, TurnEnded)]


async def test_a_refusal_blocks_its_own_turn_and_no_later_one_nor_one_that_somebody_comes_to() -> None:
    rig = rig_unattended(WRITE, answer("I could not."), answer("It is a text."), WRITE, answer("I could not."))
    for text in ("write it", "what is it?", "write it again"):
        await rig.run(text)
    assert reasons(rig) == [TurnReason.BLOCKED, TurnReason.DONE, TurnReason.BLOCKED]
    assert rig.session.unattended == ("Write(a.txt)", "Write(a.txt)")
    assert (seen(rig, ApprovalResolved)[0].by, seen(rig, TurnEnded)[0].exit_code) == ("headless", 3)
    rig = rig_unattended(WRITE, [0.05, *answer("It is a text.")])
    rig.session.submit("write it")
    await rig.until(lambda event: event.kind == "tool_call_finished")
    rig.session.sleep.attend()
    await rig.session.wait_idle()
    assert reasons(rig) == [TurnReason.DONE]


@pytest.mark.parametrize(("answers", "outcome", "reason"), [
    ((WRITE, SEND, answer("42"), answer("I could not.")), "done", TurnReason.BLOCKED),
    ((SEND, WRITE, answer("I could not."), answer("Then it is 42.")), "blocked", TurnReason.DONE),
])  # fmt: skip
async def test_a_refusal_blocks_the_agent_that_it_was_told_and_no_other(
    answers: tuple[Pieces, ...], outcome: str, reason: TurnReason
) -> None:
    rig = await ran(rig_unattended(*answers))
    assert ([event.outcome for event in seen(rig, AgentFinished)], reasons(rig)) == ([outcome], [reason])


OLD = "".join(f"line {number}\r\n" for number in range(60)) + "the end"
NEW = OLD.replace("line 5\r", "LINE 5\r").replace("line 30\r\n", "").replace("the end", "The End")


def rig_asking_about(*calls: tuple[str, dict[str, object]], files: dict[str, bytes] | None = None) -> Rig:
    sandbox = FakeSandbox(files={"a.txt": OLD.encode()} if files is None else files)
    answers = [answer("", *((tool, json.dumps(arguments)) for tool, arguments in calls)), answer("done")]
    return Rig(FakeProvider(*answers), sandbox, mode=Mode.NORMAL)


def written(rig: Rig, path: str = "a.txt") -> str:
    return rig.sandbox.files[path].decode()


async def test_only_the_accepted_hunks_are_written_none_of_them_is_a_no_and_none_grants_anything() -> None:
    rig = rig_asking_about(("write", {"path": "a.txt", "content": NEW}))
    request = await question(rig, "go")
    assert request.hunks == 3
    await reply(rig, request, Answer(Outcome.ONCE, hunks=(0, 2)))
    assert written(rig) == OLD.replace("line 5\r", "LINE 5\r").replace("the end", "The End")
    told = finished(rig)
    assert told.ok
    assert told.result.startswith("the user accepted 2 of 3 hunks")
    assert "-line 30" in told.result
    assert "LINE 5" not in told.result
    assert told.summary == "+2 −2"
    resolved = seen(rig, ApprovalResolved)[0]
    assert (resolved.outcome, resolved.hunks) == (Outcome.ONCE, (0, 2))
    assert "2 of 3 hunks by user" in as_audit_text(rig.session.history())
    for hunks, outcome in (((), Outcome.NO), ((2, 1, 0), Outcome.ONCE)):
        rig = rig_asking_about(("write", {"path": "a.txt", "content": NEW}))
        request = await question(rig, "go")
        await reply(rig, request, Answer(Outcome.ONCE, hunks=hunks))
        resolved = seen(rig, ApprovalResolved)[0]
        assert (resolved.outcome, resolved.hunks) == (outcome, None)
        assert written(rig) == (OLD if outcome is Outcome.NO else NEW)
    rig = rig_asking_about(("write", {"path": "a.txt", "content": NEW}))
    request = await question(rig, "go")
    await reply(rig, request, Answer(Outcome.ALWAYS, hunks=(0,)))
    assert (rig.session.rules, finished(rig).decision) == ((), "once")


@for_each("tool", ["write", "edit"])
@for_each("hunks", [(0,), None])
async def test_a_file_that_changed_while_the_question_was_open_stays_as_it_is(tool: str, hunks: tuple[int, ...] | None) -> None:
    files = {"a.txt": ("x\n" + "-\n" * 20 + "x\n").encode()}
    arguments = {"search": "x", "replace": "y", "all": True} if tool == "edit" else {"content": "y\n" + "-\n" * 20 + "y\n"}
    rig = rig_asking_about((tool, {"path": "a.txt", **arguments}), files=files)
    request = await question(rig, "go")
    assert request.hunks == 2
    mine = files["a.txt"] + b"mine\n"
    rig.sandbox.files["a.txt"] = mine
    await reply(rig, request, Answer(Outcome.ONCE, hunks=hunks))
    assert rig.sandbox.files["a.txt"] == mine
    assert "changed since" in finished(rig).result


async def test_bytes_of_another_encoding_and_the_byte_order_mark_stay() -> None:
    old = "\ufeff" + "".join(f"ä{number}\n" for number in range(40))
    new = "".join(f"{'B' if number in (3, 30) else 'ä'}{number}\n" for number in range(40))
    rig = rig_asking_about(("write", {"path": "a.txt", "content": new}), files={"a.txt": old.encode("utf-16-le")})
    request = await question(rig, "go")
    await reply(rig, request, Answer(Outcome.ONCE, hunks=(1,)))
    assert rig.sandbox.files["a.txt"] == old.replace("ä30", "B30").encode("utf-16-le")


LINES = st.lists(st.sampled_from(["a", "b\r", "\x1b[2J", "", "\u202e"]), max_size=60).map("\n".join)


@given(LINES, LINES, st.sets(st.integers(0, 5)))
def test_what_the_model_is_told_is_bounded_and_clean(old: str, new: str, chosen: set[int]) -> None:
    words = accept("a.txt", old, new + "\nx" * 500, chosen)[1]
    assert len(words) < 4000
    assert not {"\x1b", "\r", "\u202e"} & set(words)
