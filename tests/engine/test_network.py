from __future__ import annotations

import json

import pytest

from lmtui.core.events import Outcome, ToolCallFinished
from lmtui.core.permissions.rules import Effect, Mode, parse_rule
from tests.engine.seen import question, ran, reply, seen
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer

INSTALL = ("shell", json.dumps({"command": "npm ci", "network": True}))


def rig(*rules: str, mode: Mode = Mode.AUTO, call: tuple[str, str] = INSTALL, is_attended: bool = True) -> Rig:
    given = tuple(parse_rule(rule, Effect.ALLOW, "settings") for rule in rules)
    return Rig(FakeProvider(answer("", call), answer("done")), FakeSandbox(), mode=mode, rules=given, is_attended=is_attended)


def ended(rig: Rig) -> ToolCallFinished:
    return seen(rig, ToolCallFinished)[0]


@pytest.mark.parametrize(("mode", "rules"), [(Mode.AUTO, ()), (Mode.AUTO, ("Shell(npm *)",)), (Mode.NORMAL, ("Shell(npm *)",))])
async def test_the_network_is_asked_about_in_every_mode(mode: Mode, rules: tuple[str, ...]) -> None:
    opened = rig(*rules, mode=mode)
    request = await question(opened, "go")
    assert (request.text, request.why, request.offered_rules) == ("npm ci", "it reaches the package indexes", ())
    assert request.limits.endswith("; reaches index.example and where it keeps its files")
    await reply(opened, request, Outcome.ONCE)
    assert opened.sandbox.with_packages
    assert ended(opened).ok
    assert len(opened.of("approval_requested")) == 1


async def test_a_rule_for_every_host_lets_an_allowed_command_through() -> None:
    opened = await ran(rig("Network(*)", "Shell(npm *)", mode=Mode.NORMAL, is_attended=False))
    assert (ended(opened).ok, opened.sandbox.with_packages) == (True, True)


@pytest.mark.parametrize("rules", [(), ("Shell",), ("Network(index.example)",)])
async def test_where_nobody_is_there_nothing_is_installed(rules: tuple[str, ...]) -> None:
    opened = await ran(rig(*rules, is_attended=False))
    assert not ended(opened).ok
    assert (opened.sandbox.ran, opened.session.unattended) == ([], ("Network(*)",))


async def test_with_a_rule_for_every_host_a_rule_for_the_command_is_enough() -> None:
    opened = await ran(rig("Network(*)", mode=Mode.NORMAL, is_attended=False))
    assert opened.session.unattended == ("Shell(npm ci)",)


async def test_a_background_command_has_no_network() -> None:
    call = ("shell", json.dumps({"command": "npm start", "network": True, "background": True}))
    opened = await ran(rig("Network(*)", call=call))
    assert "a background command has no network" in ended(opened).result


async def test_plan_mode_installs_nothing() -> None:
    opened = await ran(rig("Network(*)", "Shell(npm *)", mode=Mode.PLAN))
    assert not ended(opened).ok
    assert opened.sandbox.ran == []
