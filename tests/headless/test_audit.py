from __future__ import annotations

import json

from lmtui.core.events import ApprovalRequested, Outcome
from lmtui.core.permissions.rules import Mode
from lmtui.core.sessions import Answer
from lmtui.headless.listings import as_audit_text, audit_rows
from tests.fakes import FakeCheckpoints, FakeProvider, FakeSandbox, Rig, answer

WRITE = ("write", json.dumps({"path": "a.txt", "content": "x\n"}))


async def rig_after(outcome: Outcome | None, mode: Mode) -> Rig:
    sandbox = FakeSandbox()
    provider = FakeProvider(answer("", WRITE), answer("done"))
    rig = Rig(provider, sandbox, mode=mode, checkpoints=FakeCheckpoints(sandbox))
    rig.session.submit("go")
    if outcome is not None:
        request = await rig.until(lambda event: isinstance(event, ApprovalRequested))
        assert isinstance(request, ApprovalRequested)
        rig.session.answer(request.approval_id, Answer(outcome, feedback="not there"))
    await rig.session.wait_idle()
    return rig


async def test_a_call_that_the_mode_let_run_has_one_row() -> None:
    rig = await rig_after(None, Mode.AUTO)
    rows = list(audit_rows(rig.session.history()))
    assert [(row.agent, row.text.partition(":")[0]) for row in rows] == [("root", "changed"), ("root", "tool")]
    assert rows[1].decided.startswith("mode, ")
    assert as_audit_text([]) == "nothing was run in this session"


async def test_who_answered_what_is_told_and_a_refused_call_did_not_run() -> None:
    rig = await rig_after(Outcome.ONCE, Mode.MANUAL)
    assert "once by user: not there" in [row.decided for row in audit_rows(rig.session.history())]
    rig = await rig_after(Outcome.NO, Mode.MANUAL)
    text = as_audit_text(rig.session.history())
    assert "tool: write a.txt ... failed" in text
    assert "no by user: not there" in text
    assert "changed:" not in text


async def test_what_the_user_did_between_is_in_it() -> None:
    rig = await rig_after(None, Mode.AUTO)
    changes = rig.session.changes
    assert changes is not None
    await changes.apply(await changes.plan_undo())
    rig.session.set_mode(Mode.MANUAL)
    texts = [row.text for row in audit_rows(rig.session.history())]
    assert [text[:8] for text in texts[-2:]] == ["undone: ", "mode: ma"]


async def test_a_host_that_a_command_asks_for_has_a_row_of_its_own() -> None:
    fetch = ("shell", json.dumps({"command": "fetch https://pypi.org"}))
    rig = Rig(FakeProvider(answer("", fetch), answer("done")), FakeSandbox(), mode=Mode.AUTO)
    rig.session.submit("go")
    request = await rig.until(lambda event: isinstance(event, ApprovalRequested))
    assert isinstance(request, ApprovalRequested)
    rig.session.answer(request.approval_id, Answer(Outcome.NO))
    await rig.session.wait_idle()
    rows = [(row.text, row.decided) for row in audit_rows(rig.session.history())]
    assert ("question: network pypi.org:443", "no by user") in rows
    assert any(text.startswith("connection: pypi.org, refused") for text, _ in rows)
