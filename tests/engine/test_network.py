from __future__ import annotations

import json

import pytest

from lmtui.core.events import ApprovalRequested, Outcome, ToolCallFinished
from lmtui.core.permissions.rules import Effect, Mode, parse_rule
from lmtui.core.sessions import Answer
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer

INSTALL = ("shell", json.dumps({"command": "npm ci", "network": True}))


def rig(*rules: str, mode: Mode = Mode.AUTO, call: tuple[str, str] = INSTALL, is_attended: bool = True) -> Rig:
    given = tuple(parse_rule(rule, Effect.ALLOW, "settings") for rule in rules)
    return Rig(FakeProvider(answer("", call), answer("done")), FakeSandbox(), mode=mode, rules=given, is_attended=is_attended)


def ended(rig: Rig) -> ToolCallFinished:
    return next(event for event in rig.events if isinstance(event, ToolCallFinished))


@pytest.mark.parametrize(("mode", "rules"), [(Mode.AUTO, ()), (Mode.AUTO, ("Shell(npm *)",)), (Mode.NORMAL, ("Shell(npm *)",))])
async def test_the_network_is_asked_about_in_every_mode(mode: Mode, rules: tuple[str, ...]) -> None:
    opened = rig(*rules, mode=mode)
    opened.session.submit("go")
    request = await opened.until(lambda event: isinstance(event, ApprovalRequested))
    assert isinstance(request, ApprovalRequested)
    assert (request.text, request.why, request.offered_rules) == ("npm ci", "it reaches the package indexes", ())
    assert request.limits.endswith("; reaches index.example and where it keeps its files")
    opened.session.answer(request.approval_id, Answer(Outcome.ONCE))
    await opened.session.wait_idle()
    assert opened.sandbox.with_packages
    assert ended(opened).ok
    assert len(opened.of("approval_requested")) == 1


async def test_a_rule_for_every_host_lets_an_allowed_command_through() -> None:
    opened = rig("Network(*)", "Shell(npm *)", mode=Mode.NORMAL, is_attended=False)
    await opened.run()
    assert (ended(opened).ok, opened.sandbox.with_packages) == (True, True)


@pytest.mark.parametrize("rules", [(), ("Shell",), ("Network(index.example)",)])
async def test_where_nobody_is_there_nothing_is_installed(rules: tuple[str, ...]) -> None:
    opened = rig(*rules, is_attended=False)
    await opened.run()
    assert not ended(opened).ok
    assert opened.sandbox.ran == []
    assert opened.session.unattended == ("Network(*)",)


async def test_with_a_rule_for_every_host_a_rule_for_the_command_is_enough() -> None:
    opened = rig("Network(*)", mode=Mode.NORMAL, is_attended=False)
    await opened.run()
    assert opened.session.unattended == ("Shell(npm ci)",)


async def test_a_background_command_has_no_network() -> None:
    call = ("shell", json.dumps({"command": "npm start", "network": True, "background": True}))
    opened = rig("Network(*)", call=call)
    await opened.run()
    assert "a background command has no network" in ended(opened).result


async def test_plan_mode_installs_nothing() -> None:
    opened = rig("Network(*)", "Shell(npm *)", mode=Mode.PLAN)
    await opened.run()
    assert not ended(opened).ok
    assert opened.sandbox.ran == []
