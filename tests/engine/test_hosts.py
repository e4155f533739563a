from __future__ import annotations

import asyncio
import json

import pytest

from lmtui.core.events import ApprovalRequested, HostReached, Outcome, ToolCallFinished
from lmtui.core.permissions.rules import Effect, Mode, Rule, parse_rule
from lmtui.core.sessions import Answer
from lmtui.engine.call_permissions import CommandNetworkApproval
from tests.engine.seen import finished, question, ran, reply, seen
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer

FETCH = ("shell", json.dumps({"command": "fetch https://pypi.org"}))


def rig_with(*rules: Rule, is_attended: bool = True, mode: Mode = Mode.AUTO) -> Rig:
    return Rig(FakeProvider(answer("", FETCH), answer("done")), mode=mode, rules=rules, is_attended=is_attended)


def ok(rig: Rig) -> bool:
    return seen(rig, ToolCallFinished)[0].ok


async def test_an_unknown_host_is_asked_about_even_where_commands_run_unasked_and_a_refused_one_written_down() -> None:
    rig = rig_with()
    request = await question(rig, "go")
    assert ((request.tool, request.text), request.offered_rules) == (("network", "pypi.org:443"), ("Network(pypi.org)",))
    await reply(rig, request, Outcome.SESSION)
    assert ok(rig)
    assert [str(rule) for rule in rig.session.rules] == ["Network(pypi.org)"]
    rig = rig_with()
    request = await question(rig, "go")
    await reply(rig, request, Outcome.NO)
    assert not ok(rig)
    assert [(event.host, event.why_not) for event in seen(rig, HostReached)] == [("pypi.org", "refused")]
    rig = await ran(rig_with(is_attended=False))
    assert not ok(rig)


async def gate_of(*rules: Rule) -> tuple[Rig, CommandNetworkApproval]:
    """Return a session in which a command runs, and the command's gate."""
    sandbox = FakeSandbox(commands={"wait": 60.0})
    wait = ("shell", json.dumps({"command": "wait"}))
    rig = Rig(FakeProvider(answer("", wait), answer("done")), sandbox, rules=rules)
    rig.session.submit("go")
    while not sandbox.ran:
        await asyncio.sleep(0)
    assert isinstance(sandbox.gate, CommandNetworkApproval)
    return rig, sandbox.gate


async def test_a_rule_that_forbids_or_asks_about_a_host_comes_before_rules_and_settings_that_allow_it() -> None:
    rig, gate = await gate_of(parse_rule("Network(.org)", Effect.DENY, "settings"))
    assert not await gate.may_reach("pypi.org", is_listed=True)
    assert await gate.may_reach("example.com", is_listed=True)
    await rig.session.close()
    rules = [parse_rule("Network(pypi.org)", effect, "settings") for effect in (Effect.ASK, Effect.ALLOW)]
    rig, gate = await gate_of(*rules)
    waiting = asyncio.create_task(gate.may_reach("pypi.org", is_listed=True))
    request = await question(rig)
    rig.session.answer(request.approval_id, Answer(Outcome.SESSION))
    assert await waiting
    assert await gate.may_reach("pypi.org")  # granted in this session, to the letter
    assert len(rig.of("approval_requested")) == 1
    await rig.session.close()


async def test_the_question_about_lmtuis_own_request_shows_it_and_a_rule_answers_the_others() -> None:
    rig, gate = await gate_of()
    gates = [gate, CommandNetworkApproval(gate._agent, "call_2")]
    urls = [f"https://docs.example.com/{number}" for number in range(2)]
    waiting = [
        asyncio.create_task(each.may_reach("docs.example.com", what=f"GET {url}"))
        for each, url in zip(gates, urls, strict=True)
    ]
    while len(rig.of("approval_requested")) < 2:
        await asyncio.sleep(0)
    first, second = (event for event in seen(rig, ApprovalRequested))
    assert [each.text for each in (first, second)] == [f"docs.example.com:443\nGET {url}" for url in urls]
    assert first.sandbox == "sent by lmtui itself, not by a command"
    rig.session.answer(first.approval_id, Answer(Outcome.SESSION))
    assert await asyncio.gather(*waiting) == [True, True]
    await rig.session.close()


async def test_a_command_cannot_bury_the_user_in_questions_nor_the_log_in_lines() -> None:
    rig, gate = await gate_of()
    waiting = [asyncio.create_task(gate.may_reach(f"host{number}.org")) for number in range(100)]
    while not all(each.done() for each in waiting):
        await asyncio.sleep(0)
        for event in rig.events:
            if isinstance(event, ApprovalRequested):
                rig.session.answer(event.approval_id, Answer(Outcome.NO))
    assert len(rig.of("approval_requested")) == 20
    for _ in range(1000):
        gate.reached("host1.org", 0, 0, "host1.org is not allowed")
    assert len(rig.of("host_reached")) == 1
    for number in range(1000):
        gate.reached(f"host{number}.org", 1, 1, "")
    assert len(rig.of("host_reached")) == 201
    await rig.session.close()


async def test_one_host_is_asked_about_once_and_not_after_its_command_has_ended() -> None:
    rig, gate = await gate_of()
    waiting = [asyncio.create_task(gate.may_reach("pypi.org")) for _ in range(5)]
    request = await question(rig)
    rig.session.answer(request.approval_id, Answer(Outcome.ONCE))
    assert (await asyncio.gather(*waiting), len(rig.of("approval_requested"))) == ([True] * 5, 1)
    await rig.session.close()
    rig, gate = await gate_of()
    late = asyncio.create_task(gate.may_reach("pypi.org"))
    await rig.until(lambda event: isinstance(event, ApprovalRequested))
    rig.session.interrupt()
    await rig.session.wait_idle()
    assert not await late
    kinds = [event.kind for event in rig.events]
    assert kinds.index("approval_resolved") < kinds.index("tool_call_finished")
    gate.reached("pypi.org", 0, 0, "late")
    assert kinds[-1] == rig.events[-1].kind == "turn_ended"


async def test_a_folder_of_tools_is_asked_about_once_and_the_rule_that_is_offered_covers_it() -> None:
    rig, gate = await gate_of()
    waiting = [asyncio.create_task(gate.may_show("/srv/tools", "cc is at /srv/tools/bin/cc")) for _ in range(2)]
    request = await question(rig)
    assert (request.tool, request.text, request.why) == ("tools", "/srv/tools", "cc is at /srv/tools/bin/cc")
    rig.session.answer(request.approval_id, Answer(Outcome.SESSION))
    assert await asyncio.gather(*waiting) == [True] * 2
    assert ([str(rule) for rule in rig.session.rules], len(rig.of("approval_requested"))) == (["Tools(/srv/tools)"], 1)
    await rig.session.close()


async def test_rules_about_hosts_and_about_folders_of_tools_decide_without_asking() -> None:
    for pattern, effect, is_allowed in (
        ("pypi.org", Effect.ALLOW, True), ("*", Effect.ALLOW, True), (".org", Effect.DENY, False),
    ):  # fmt: skip
        rig = await ran(rig_with(parse_rule(f"Network({pattern})", effect, "settings")))
        assert ok(rig) is is_allowed, pattern
        assert rig.of("approval_requested") == []
    for rules, folder, is_shown in (
        ([("Tools(/srv/tools)", Effect.ALLOW)], "/srv/tools", True),
        ([("Tools", Effect.ALLOW)], "/srv/tools", True),
        ([("Tools(/srv/tools)", Effect.DENY), ("Tools", Effect.ALLOW)], "/srv/tools", False),
    ):
        rig, gate = await gate_of(*[parse_rule(text, effect, "settings") for text, effect in rules])
        assert await gate.may_show(folder, "") is is_shown, rules
        assert rig.of("approval_requested") == []
        await rig.session.close()


INSTALL = ("shell", json.dumps({"command": "npm ci", "network": True}))


def rig_installing(*rules: str, mode: Mode = Mode.AUTO, call: tuple[str, str] = INSTALL, is_attended: bool = True) -> Rig:
    given = tuple(parse_rule(rule, Effect.ALLOW, "settings") for rule in rules)
    return Rig(FakeProvider(answer("", call), answer("done")), FakeSandbox(), mode=mode, rules=given, is_attended=is_attended)


@pytest.mark.parametrize(("mode", "rules"), [(Mode.AUTO, ()), (Mode.AUTO, ("Shell(npm *)",)), (Mode.NORMAL, ("Shell(npm *)",))])
async def test_the_network_is_asked_about_in_every_mode(mode: Mode, rules: tuple[str, ...]) -> None:
    opened = rig_installing(*rules, mode=mode)
    request = await question(opened, "go")
    assert (request.text, request.why, request.offered_rules) == ("npm ci", "it reaches the package indexes", ())
    assert request.limits.endswith("; reaches index.example and where it keeps its files")
    await reply(opened, request, Outcome.ONCE)
    assert opened.sandbox.with_packages
    assert finished(opened).ok
    assert len(opened.of("approval_requested")) == 1


async def test_with_a_rule_for_every_host_an_allowed_command_passes_and_another_needs_its_own_rule() -> None:
    opened = await ran(rig_installing("Network(*)", "Shell(npm *)", mode=Mode.NORMAL, is_attended=False))
    assert (finished(opened).ok, opened.sandbox.with_packages) == (True, True)
    opened = await ran(rig_installing("Network(*)", mode=Mode.NORMAL, is_attended=False))
    assert opened.session.unattended == ("Shell(npm ci)",)


@pytest.mark.parametrize(("mode", "rules", "lacking"), [
    *((Mode.AUTO, rules, ("Network(*)",)) for rules in ((), ("Shell",), ("Network(index.example)",))),
    (Mode.NORMAL, (), ("Shell(npm ci)", "Network(*)")), (Mode.NORMAL, ("Shell(npm *)",), ("Network(*)",)),
])  # fmt: skip
async def test_where_nobody_is_there_nothing_is_installed_and_all_that_lacks_is_named(
    mode: Mode, rules: tuple[str, ...], lacking: tuple[str, ...]
) -> None:
    opened = await ran(rig_installing(*rules, mode=mode, is_attended=False))
    assert not finished(opened).ok
    assert (opened.sandbox.ran, opened.session.unattended) == ([], lacking)


async def test_neither_a_background_command_nor_plan_mode_has_the_network() -> None:
    call = ("shell", json.dumps({"command": "npm start", "network": True, "background": True}))
    opened = await ran(rig_installing("Network(*)", call=call))
    assert "a background command has no network" in finished(opened).result
    opened = await ran(rig_installing("Network(*)", "Shell(npm *)", mode=Mode.PLAN))
    assert not finished(opened).ok
    assert opened.sandbox.ran == []
