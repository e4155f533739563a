from __future__ import annotations

import hashlib
import json

import pytest

from lmtui.core.errors import UsageError
from lmtui.core.events import ApprovalResolved, Notice, Outcome, ToolCallFinished
from lmtui.core.permissions.rules import Effect, GrantScope, Mode, parse_rule
from lmtui.core.sessions import Answer
from tests.engine.seen import question, ran, reply, seen
from tests.fakes import FakeProvider, FakeSandbox, MemoryLog, Rig, answer
from tests.sets import for_each

SHELL = ("shell", json.dumps({"command": "make all", "timeout": 60}))


async def test_a_request_says_what_would_run_and_under_which_conditions() -> None:
    rig = Rig(FakeProvider(answer("", SHELL)), mode=Mode.NORMAL)
    request = await question(rig, "go")
    assert (request.text, request.cwd, request.limits) == ("make all", "/workspace", "up to 60 s, 2,048 MB")
    assert (request.uncovered, request.commands) == (("make all",), 1)
    assert request.offered_rules[0] == request.suggested_rule == "Shell(make all)"
    assert request.digest == hashlib.sha256(b"make all").hexdigest()
    await rig.session.close()


async def test_what_cannot_be_seen_is_named_in_what_is_shown() -> None:
    command = "echo \u202egnp.exe\u200b; rm x"
    rig = Rig(FakeProvider(answer("", ("shell", json.dumps({"command": command})))), mode=Mode.NORMAL)
    request = await question(rig, "go")
    assert "\u202e" not in request.text
    assert "U+202E" in request.text
    assert "U+200B" in request.text
    assert request.digest == hashlib.sha256(command.encode()).hexdigest()
    await rig.session.close()


async def test_the_command_that_the_user_typed_runs_and_the_model_is_told() -> None:
    rig = Rig(FakeProvider(answer("", SHELL), answer("done")), mode=Mode.NORMAL)
    request = await question(rig, "go")
    await reply(rig, request, Answer(Outcome.ONCE, edited="make test"))
    assert rig.sandbox.ran == ["make test"]
    assert seen(rig, ToolCallFinished)[0].result.startswith("[the user changed the command to: make test]")
    resolved = seen(rig, ApprovalResolved)[0]
    assert resolved.edited == "make test"
    assert resolved.elapsed_ms >= 0


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


async def test_an_edited_command_that_a_rule_forbids_does_not_run() -> None:
    deny = parse_rule("Shell(rm *)", Effect.DENY, "settings")
    rig = Rig(FakeProvider(answer("", SHELL), answer("done")), mode=Mode.NORMAL, rules=(deny,))
    request = await question(rig, "go")
    await reply(rig, request, Answer(Outcome.ONCE, edited="rm -rf src"))
    assert rig.sandbox.ran == []


async def test_a_reduced_sandbox_asks_for_each_command_whatever_the_mode() -> None:
    rig = Rig(FakeProvider(answer("", SHELL)), FakeSandbox(asks_each_command=True), mode=Mode.AUTO)
    assert (await question(rig, "go")).text == "make all"
    await rig.session.close()


async def test_a_rule_that_is_taken_back_does_not_hold_any_more_and_not_after_a_resume() -> None:
    log = MemoryLog()
    rig = Rig(FakeProvider(answer("", SHELL), answer("done")), mode=Mode.NORMAL, log=log)
    request = await question(rig, "go")
    await reply(rig, request, Outcome.SESSION)
    (granted,) = rig.session.rules
    assert str(granted) == "Shell(make all)"
    rig.session.revoke(granted)
    assert (rig.session.rules, Rig(FakeProvider(), log=MemoryLog(), past=log.events).session.rules) == ((), ())


async def test_what_was_granted_for_always_and_revoked_since_elsewhere_is_gone_on_resume() -> None:
    log = MemoryLog()
    rig = Rig(FakeProvider(answer("", SHELL), answer("done")), mode=Mode.NORMAL, log=log)
    request = await question(rig, "go")
    await reply(rig, request, Answer(Outcome.ALWAYS, scope=GrantScope.USER))
    assert seen(rig, ApprovalResolved)[0].scope == "user"
    kept = parse_rule("Shell(make all)", Effect.ALLOW, "always, everywhere")
    assert Rig(FakeProvider(), log=MemoryLog(), past=log.events).session.rules == ()
    assert kept in Rig(FakeProvider(), log=MemoryLog(), past=log.events, rules=(kept,)).session.rules


async def test_a_rule_of_the_settings_that_was_taken_back_stays_back_after_a_resume() -> None:
    log = MemoryLog()
    rule = parse_rule("Shell(make all)", Effect.ALLOW, "settings")
    rig = Rig(FakeProvider(), mode=Mode.NORMAL, rules=(rule,), log=log)
    rig.session.revoke(rule)
    assert Rig(FakeProvider(), log=MemoryLog(), past=log.events, rules=(rule,)).session.rules == ()


async def test_taking_back_what_forbids_leaves_what_allows_and_no_log_takes_back_what_forbids() -> None:
    log = MemoryLog()
    allow, deny = (parse_rule("Shell(make all)", effect, "settings") for effect in (Effect.ALLOW, Effect.DENY))
    rig = Rig(FakeProvider(), mode=Mode.NORMAL, rules=(allow, deny), log=log)
    rig.session.revoke(deny)
    assert rig.session.rules == (allow,)
    assert Rig(FakeProvider(), log=MemoryLog(), past=log.events, rules=(allow, deny)).session.rules == (allow, deny)


async def test_a_yes_that_cannot_be_written_down_is_a_no_and_is_told() -> None:
    log = MemoryLog()
    rig = Rig(FakeProvider(answer("", SHELL), answer("done")), mode=Mode.NORMAL, log=log)
    request = await question(rig, "go")
    log.room = len(log.events)
    await reply(rig, request, Outcome.ONCE)
    assert rig.sandbox.ran == []
    assert any(isinstance(event, Notice) and "No space left" in event.text for event in rig.events)


async def test_a_link_leads_past_no_rule() -> None:
    deny = parse_rule("Read(secrets/**)", Effect.DENY, "settings")
    sandbox = FakeSandbox(files={"notes.md": b"x"}, links={"notes.md": "secrets/key"})
    rig = await ran(Rig(FakeProvider(answer("", ("read", '{"path": "notes.md"}'))), sandbox, rules=(deny,)))
    result = seen(rig, ToolCallFinished)[0]
    assert not result.ok
    assert "forbids" in result.result


async def test_a_link_to_a_file_that_may_hold_secrets_asks() -> None:
    sandbox = FakeSandbox(files={"notes.md": b"x"}, links={"notes.md": ".env"})
    rig = Rig(FakeProvider(answer("", ("read", '{"path": "notes.md"}'))), sandbox, mode=Mode.NORMAL)
    assert ".env" in (await question(rig, "go")).why
    await rig.session.close()


async def test_a_change_of_an_added_folder_is_asked_about_with_its_whole_path_and_says_that_undo_leaves_it() -> None:
    write = ("write", json.dumps({"path": "../lib/a.py", "content": "x"}))
    rules = (parse_rule("Write(**)", Effect.ALLOW, "settings"),)
    sandbox = FakeSandbox(links={"../lib/a.py": "/srv/lib/a.py"})
    rig = Rig(FakeProvider(answer("", write)), sandbox, mode=Mode.NORMAL, rules=rules)
    request = await question(rig, "go")
    assert "undo does not cover /srv/lib/a.py" in request.why
    assert request.offered_rules == ()
    await rig.session.close()


async def test_a_change_in_the_workspace_says_nothing_of_undo() -> None:
    rig = Rig(FakeProvider(answer("", ("write", json.dumps({"path": "a.py", "content": "x"})))), mode=Mode.NORMAL)
    assert "undo" not in (await question(rig, "go")).why
    await rig.session.close()


async def test_a_mode_that_is_stricter_by_the_answer_refuses_the_call() -> None:
    rig = Rig(FakeProvider(answer("", _WRITE), answer("done")), mode=Mode.NORMAL)
    request = await question(rig, "go")
    rig.session.set_mode(Mode.PLAN)
    await reply(rig, request, Answer(Outcome.ONCE))
    assert "a.txt" not in rig.sandbox.files
    assert "plan mode only reads" in seen(rig, ToolCallFinished)[0].result
