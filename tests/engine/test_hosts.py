from __future__ import annotations

import json

from lmtui.core.events import ApprovalRequested, HostReached, Outcome, ToolCallFinished
from lmtui.core.permissions import Effect, Mode, Rule, parse_rule
from lmtui.core.sessions import Answer
from tests.fakes import FakeProvider, Rig, answer

FETCH = ("shell", json.dumps({"command": "fetch https://pypi.org"}))


def rig_with(*rules: Rule, is_attended: bool = True, mode: Mode = Mode.AUTO) -> Rig:
    return Rig(FakeProvider(answer("", FETCH), answer("done")), mode=mode, rules=rules, is_attended=is_attended)


def ok(rig: Rig) -> bool:
    return next(event for event in rig.events if isinstance(event, ToolCallFinished)).ok


async def test_an_unknown_host_is_asked_about_even_where_commands_run_unasked() -> None:
    rig = rig_with()
    rig.session.submit("go")
    request = await rig.until(lambda event: isinstance(event, ApprovalRequested))
    assert isinstance(request, ApprovalRequested)
    assert (request.tool, request.text) == ("network", "pypi.org:443")
    assert request.offered_rules == ("Network(pypi.org)",)
    rig.session.answer(request.approval_id, Answer(Outcome.SESSION))
    await rig.session.wait_idle()
    assert ok(rig)
    assert [str(rule) for rule in rig.session.rules] == ["Network(pypi.org)"]


async def test_a_refused_host_is_written_down() -> None:
    rig = rig_with()
    rig.session.submit("go")
    request = await rig.until(lambda event: isinstance(event, ApprovalRequested))
    assert isinstance(request, ApprovalRequested)
    rig.session.answer(request.approval_id, Answer(Outcome.NO))
    await rig.session.wait_idle()
    assert not ok(rig)
    assert [(event.host, event.why_not) for event in rig.events if isinstance(event, HostReached)] == [("pypi.org", "refused")]


async def test_rules_about_hosts_decide_without_asking() -> None:
    for pattern, effect, is_allowed in (
        ("pypi.org", Effect.ALLOW, True),
        ("*", Effect.ALLOW, True),
        (".org", Effect.DENY, False),
        ("pypi.org", Effect.DENY, False),
    ):
        rig = rig_with(parse_rule(f"Network({pattern})", effect, "settings"))
        await rig.run()
        assert ok(rig) is is_allowed, pattern
        assert rig.of("approval_requested") == []


async def test_where_nobody_is_there_the_answer_is_no() -> None:
    rig = rig_with(is_attended=False)
    await rig.run()
    assert not ok(rig)
