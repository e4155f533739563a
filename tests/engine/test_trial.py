"""A command that only the normal mode asks about runs in an overlay; the question is about what it did."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from lmtui.app.archive import as_text
from lmtui.core.events import ApprovalRequested, CheckpointCreated, Event, Notice, Outcome
from lmtui.core.permissions.rules import Effect, Mode, Rule
from lmtui.core.sessions import Answer
from lmtui.core.workspace import EFFECT_TOOL, CommandEffect, ExecResult, FileChange, FileChangeKind
from lmtui.engine.trial import NO_OVERLAYS
from lmtui.headless.listings import as_audit_text
from tests.engine.seen import finished, question, ran, reply, seen, shell
from tests.fakes import FakeCheckpoints, FakeProvider, FakeSandbox, Rig, answer
from tests.sets import for_each

BUILD = "make all"
NONE = CommandEffect("a" * 40, "a" * 40)
SOME = CommandEffect("a" * 40, "b" * 40, (
    FileChange("new.txt", FileChangeKind.ADDED, 1, 0, "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n"),
    FileChange("old.txt", FileChangeKind.DELETED, 0, 1, "--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n"),
))  # fmt: skip


def trial(effect: CommandEffect | None, command: str = BUILD, *, mode: Mode = Mode.NORMAL, **more: Any) -> Rig:
    rig = Rig(FakeProvider(answer("", shell(command)), answer("ready")), mode=mode, **more)
    rig.sandbox.commands[command] = ExecResult(0, "built\n", 0, 1)
    rig.sandbox.effect = effect
    return rig


async def answered(rig: Rig, outcome: Outcome, feedback: str = "") -> None:
    await reply(rig, await question(rig, "build it"), Answer(outcome, feedback))


async def test_what_changed_nothing_or_rules_decide_is_not_asked_about() -> None:
    rig = await ran(trial(NONE), "build it")
    assert not seen(rig, ApprovalRequested)
    assert (finished(rig).ok, finished(rig).result[:5], finished(rig).why) == (True, "built", "it changed nothing")
    assert rig.sandbox.kept == ["closed"]
    rig = await ran(trial(SOME, rules=(Rule(Effect.ALLOW, "write", "*.txt"),)), "build it")
    assert not seen(rig, ApprovalRequested)
    assert rig.sandbox.kept == ["old.txt", "new.txt", "closed"]
    rig = await ran(trial(SOME, rules=(Rule(Effect.DENY, "write", "old.*"),)), "build it")
    assert not seen(rig, ApprovalRequested)
    assert rig.sandbox.kept == ["closed"]
    assert "your rule Write(old.*) forbids it, so none of this was kept" in finished(rig).result
    rig = await ran(trial(SOME, is_attended=False), "build it")
    assert rig.sandbox.kept == ["closed"]
    assert "running unattended" in finished(rig).result
    assert rig.session.unattended == ("Shell(make all)",)


@for_each(("outputs", "asked"), [(("old.txt", "new.txt"), []), (("new.txt",), ["old.txt"])])
async def test_outputs_are_kept_without_a_question_and_are_no_change(outputs: tuple[str, ...], asked: list[str]) -> None:
    rig = trial(SOME, is_attended=False)
    rig.sandbox.outputs, rig.sandbox.notes = outputs, ("[a note]",)
    await ran(rig, "build it")
    assert [part.path for request in seen(rig, ApprovalRequested) for part in request.parts] == asked
    assert (set(rig.sandbox.kept), rig.of("files_changed")) == ({*outputs, "closed"}, [])
    assert (finished(rig).ok, "[a note]" in finished(rig).result) == (not asked, True)
    assert ("only outputs" in finished(rig).why) is (not asked)


@for_each(("mode", "allowed"), [(Mode.AUTO, None), (Mode.NORMAL, BUILD), (Mode.NORMAL, "make *"), (Mode.MANUAL, BUILD)])
@for_each(("denied", "kept"), [("keep/**", True), ("old.txt", False)])
async def test_with_a_rule_that_keeps_paths_an_allowed_command_runs_in_an_overlay_and_is_kept_unasked(
    mode: Mode, allowed: str | None, denied: str, *, kept: bool
) -> None:
    allowing = () if allowed is None else (Rule(Effect.ALLOW, "shell", allowed),)
    rig = await ran(trial(SOME, mode=mode, rules=(*allowing, Rule(Effect.DENY, "write", denied))), "build it")
    assert not seen(rig, ApprovalRequested)
    assert rig.sandbox.kept == (["old.txt", "new.txt", "closed"] if kept else ["closed"])
    assert (finished(rig).ok, "your rule Write(old.txt) forbids it" in finished(rig).result) == (kept, not kept)
    assert finished(rig).decision == ("mode" if kept and allowed is None else "rule")


@pytest.mark.parametrize(("effect", "command", "mode", "rules"), [
    (None, BUILD, Mode.NORMAL, ()), (SOME, BUILD, Mode.MANUAL, ()),
    (SOME, BUILD, Mode.NORMAL, (Rule(Effect.ASK, "shell", "make *"),)), (SOME, "rm -rf /", Mode.NORMAL, ()),
])  # fmt: skip
async def test_some_are_asked_about_before_they_run(
    effect: CommandEffect | None, command: str, mode: Mode, rules: tuple[Rule, ...]
) -> None:
    rig = trial(effect, command, mode=mode, rules=rules)
    await answered(rig, Outcome.NO)
    assert seen(rig, ApprovalRequested)[0].tool == "shell"
    assert not rig.sandbox.ran


async def test_a_command_that_is_asked_about_first_can_be_tried_first() -> None:
    rig = trial(SOME, mode=Mode.MANUAL)
    request = await question(rig, "build it")
    assert request.can_try
    rig.session.answer(request.approval_id, Answer(Outcome.TRY))
    effect = await rig.until(lambda event: isinstance(event, ApprovalRequested) and event.tool == EFFECT_TOOL)
    assert isinstance(effect, ApprovalRequested)
    await reply(rig, effect, Outcome.ONCE)
    assert rig.sandbox.kept == ["old.txt", "new.txt", "closed"]


@pytest.mark.parametrize("arguments", [{"command": BUILD, "network": True}, {"command": BUILD, "background": True}])
async def test_what_stays_or_reaches_the_network_cannot_be_tried(arguments: dict[str, object]) -> None:
    rig = Rig(FakeProvider(answer("", ("shell", json.dumps(arguments))), answer("ready")), mode=Mode.NORMAL)
    rig.sandbox.effect = SOME
    await answered(rig, Outcome.NO)
    assert [(each.tool, each.can_try) for each in seen(rig, ApprovalRequested)] == [("shell", False)]


def is_question(number: int, event: Event) -> bool:
    return isinstance(event, ApprovalRequested) and event.approval_id.endswith(f"_{number}")


async def test_where_no_overlay_can_be_made_it_is_said_once_and_commands_are_asked_about() -> None:
    asks = answer("", shell(BUILD)), answer("", shell("make again"))
    rig = Rig(FakeProvider(*asks, answer("ready")), mode=Mode.NORMAL)
    rig.sandbox.effect = SOME
    rig.sandbox.overlay_problem = "this kernel makes no overlays"
    refused = ExecResult(2, "mkdir: cannot create directory: Read-only file system\n", 0, 1)
    rig.sandbox.read_only_commands = {BUILD: refused, "make again": refused}
    rig.session.submit("build it")
    for number in (1, 2):
        request = await rig.until(partial(is_question, number))
        assert isinstance(request, ApprovalRequested)
        assert request.tool == "shell"
        rig.session.answer(request.approval_id, Answer(Outcome.ONCE))
    await rig.session.wait_idle()
    said = [each.text for each in seen(rig, Notice)]
    assert said == [NO_OVERLAYS.format(why="this kernel makes no overlays")]
    assert rig.sandbox.ran == [BUILD, BUILD, "make again", "make again"]
    assert rig.sandbox.ran_read_only == [BUILD, "make again"]


async def test_a_removed_folder_is_asked_about_by_name_and_what_cannot_be_kept_or_shown_is_told() -> None:
    rig = trial(SOME)
    rig.sandbox.keep_problem = "old.txt was changed meanwhile in the same place; nothing was kept"
    await answered(rig, Outcome.ONCE)
    assert finished(rig).result.startswith("built")
    assert "old.txt was changed meanwhile" in finished(rig).result
    assert not finished(rig).ok
    rig = await ran(trial(CommandEffect("a" * 40, "a" * 40, special=("pipe",), special_total=1)), "build it")
    assert not seen(rig, ApprovalRequested)
    assert "it cannot be kept, so none of this was kept: cannot be kept: pipe" in finished(rig).result
    rig = trial(CommandEffect("a" * 40, "a" * 40, removed=("old",)))
    await answered(rig, Outcome.NO)
    assert seen(rig, ApprovalRequested)[0].text.endswith("deletes old/")
    assert "keeping it would change 1 folder" in seen(rig, ApprovalRequested)[0].why
    rig = trial(SOME)
    rig.sandbox.effect_problem = "more than 20,000 files were touched"
    await answered(rig, Outcome.ONCE)
    assert ([each.tool for each in seen(rig, ApprovalRequested)], rig.sandbox.ran) == (["shell"], [BUILD, BUILD])
    assert seen(rig, ApprovalRequested)[0].why.startswith("what it changes cannot be shown")
    assert "more than 20,000 files were touched" in seen(rig, ApprovalRequested)[0].why


async def test_single_parts_are_kept_and_the_model_is_told_which() -> None:
    rig = trial(SOME)
    request = await question(rig, "build it")
    assert [(part.path, str(part.kind), part.hunks) for part in request.parts] == [
        ("old.txt", "deleted", 1), ("new.txt", "created", 1),
    ]  # fmt: skip
    await reply(rig, request, Answer(Outcome.ONCE, hunks=(1,)))
    assert rig.sandbox.kept == ["new.txt", "closed"]
    assert finished(rig).result.endswith("[the user kept: created new.txt; not kept: deleted old.txt]")
    assert finished(rig).summary == "kept 1 of 2"
    assert request.limits.startswith("exit 0 in ")
    assert "kept 1 of 2 by user" in as_audit_text(rig.session.history())
    assert "kept 1 of 2 by user" in as_text(rig.session.history())


async def test_a_yes_keeps_what_it_did_and_a_no_or_a_mode_that_only_reads_drops_it() -> None:
    rig = trial(SOME)
    await answered(rig, Outcome.ONCE)
    (request,) = seen(rig, ApprovalRequested)
    assert (request.tool, request.text) == (EFFECT_TOOL, "make all\n\ndeletes old.txt  +0 -1\ncreates new.txt  +1 -0")
    assert request.why == "it ran in an overlay; keeping it would change 2 files, 1 of them deleted"
    assert request.diff.index("old.txt") < request.diff.index("new.txt")
    assert rig.sandbox.kept == ["old.txt", "new.txt", "closed"]
    assert finished(rig).ok
    rig = trial(SOME)
    await answered(rig, Outcome.NO, "keep old.txt")
    assert (rig.sandbox.kept, rig.of("files_changed")) == (["closed"], [])
    assert "Not finished yet" not in str(rig.provider.requests[-1].messages[-1].text)
    assert "none of this was kept: deletes old.txt" in finished(rig).result
    assert "keep old.txt" in finished(rig).result
    assert finished(rig).result.startswith("built")
    rig = trial(SOME)
    request = await question(rig, "build it")
    rig.session.set_mode(Mode.PLAN)
    await reply(rig, request, Outcome.ONCE)
    assert rig.sandbox.kept == ["closed"]
    assert "plan mode only reads, so none of this was kept" in finished(rig).result


REFUSED = ExecResult(1, "sed: couldn't open file x: Read-only file system\n", 0, 1)


def rig_of(sandbox: FakeSandbox, *commands: str, mode: Mode = Mode.NORMAL, **more: Any) -> Rig:
    answers = [answer("", *map(shell, commands)), answer("done")]
    return Rig(FakeProvider(*answers), sandbox, mode=mode, checkpoints=FakeCheckpoints(sandbox), **more)


async def test_a_command_that_only_reads_runs_where_nothing_can_be_changed_keeps_no_state_and_waits_for_nobody() -> None:
    sandbox = FakeSandbox(has_read_only=True)
    rig = await ran(rig_of(sandbox, "ls | wc -l"), "go")
    assert sandbox.ran_read_only == ["ls | wc -l"]
    assert not any(isinstance(event, CheckpointCreated) for event in rig.events)
    assert finished(rig).why == "it runs where it cannot change your files"
    sandbox = FakeSandbox(has_read_only=True)
    rig = rig_of(sandbox, "ls")
    async with rig.session._agent.services.writing:
        await rig.run("go")
    assert sandbox.ran_read_only == ["ls"]


async def test_without_a_place_to_only_read_in_it_asks_and_where_nobody_is_there_the_output_is_kept() -> None:
    sandbox = FakeSandbox()
    rig = await ran(rig_of(sandbox, "ls", is_attended=False), "go")
    assert (sandbox.ran, finished(rig).summary) == ([], "refused")
    sandbox = FakeSandbox(has_read_only=True, read_only_commands={"sed p x": REFUSED})
    rig = await ran(rig_of(sandbox, "sed p x", is_attended=False), "go")
    assert sandbox.ran == ["sed p x"]
    assert "couldn't open file x" in finished(rig).result
    assert "needs approval" in finished(rig).result


@pytest.mark.parametrize("outcome", [Outcome.ONCE, Outcome.NO])
async def test_one_that_tried_to_write_asks_and_runs_again_on_a_yes(outcome: Outcome) -> None:
    sandbox = FakeSandbox(
        has_read_only=True, read_only_commands={"sed p x": REFUSED}, commands={"sed p x": ExecResult(0, "written\n", 0, 1)}
    )
    rig = rig_of(sandbox, "sed p x")
    request = await question(rig, "go")
    assert "tried to change files" in request.why
    await reply(rig, request, Answer(outcome))
    if outcome is Outcome.ONCE:
        assert (sandbox.ran, sandbox.ran_read_only) == (["sed p x", "sed p x"], ["sed p x"])
        assert "written" in finished(rig).result
    else:
        assert sandbox.ran == ["sed p x"]
        assert "Read-only file system" in finished(rig).result
        assert "needs approval" in finished(rig).result


async def test_secrets_that_an_approved_command_names_are_shown_to_it() -> None:
    sandbox = FakeSandbox()
    rig = rig_of(sandbox, "cat ./.env")
    request = await question(rig, "go")
    assert sandbox.ran == []
    await reply(rig, request, Outcome.ONCE)
    assert ".env" in sandbox.revealed
    assert sandbox.ran == ["cat ./.env"]
