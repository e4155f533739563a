"""Try mode: the agent's work stays in an overlay until it is merged."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from lmtui.app.host import Runtime
from lmtui.core.errors import SandboxError, UsageError
from lmtui.core.events import FilesChanged, ModeChanged, Notice, OverlayChanged, ToolCallFinished
from lmtui.core.model_events import Reminder
from lmtui.core.permissions.rules import Mode
from lmtui.core.sessions import Session
from lmtui.core.workspace import CommandEffect
from lmtui.engine.session import EngineSession
from lmtui.engine.trial import SessionWorkspace
from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from lmtui.paths import patches_dir
from tests.app.conftest import DONE, Open, Serve, run
from tests.waiting import until


def shell(command: str, **more: object) -> ScriptedTurn:
    return ScriptedTurn("Running.", calls=(ScriptedCall("shell", {"command": command, **more}),))


def results(events: list[object]) -> list[ToolCallFinished]:
    return [each for each in events if isinstance(each, ToolCallFinished)]


def told(session: Session) -> list[object]:
    return [each.event for each in session.history()]


async def opened(open_one: Open, url: str, **settings: object) -> tuple[Runtime, Session]:
    runtime = open_one(url, **{"sandbox": "bubblewrap", "verify": "off", "mode": "try", **settings})
    return runtime, await runtime.new_session()


async def test_work_stays_in_the_overlay_until_some_of_it_is_merged_and_that_can_be_undone(
    workspace: Path, open_one: Open, serve: Serve
) -> None:
    (workspace / "a.txt").write_text("zero\n")
    (workspace / "old.txt").write_text("old\n")
    edit = ScriptedTurn("Writing.", calls=(ScriptedCall("write", {"path": "a.txt", "content": "one\n"}),))
    server = await serve(edit, shell("cat a.txt; rm old.txt; echo new > b.txt"), DONE)
    _, session = await opened(open_one, server.url)
    happened = await run(session)
    assert [each.ok for each in results([*happened])] == [True, True]
    assert "one" in results([*happened])[1].result  # both tools work on one overlay
    assert sorted(each.name for each in workspace.iterdir() if each.suffix == ".txt") == ["a.txt", "old.txt"]
    assert (workspace / "a.txt").read_text() == "zero\n"
    assert session.trial.waiting == 3
    assert all(each.is_tried for each in happened if isinstance(each, FilesChanged))
    assert session.changes is not None
    assert not session.changes.steps()
    with pytest.raises(SandboxError, match="nothing to undo"):
        await session.changes.plan_undo()

    parts = await session.trial.parts()
    assert [(part.path, str(part.kind)) for part in parts] == [
        ("old.txt", "deleted"),
        ("a.txt", "changed"),
        ("b.txt", "created"),
    ]
    await session.trial.keep([1])
    assert ((workspace / "a.txt").read_text(), (workspace / "old.txt").exists()) == ("one\n", True)
    assert session.trial.waiting == 2
    assert [each.text for each in told(session) if isinstance(each, Reminder)] == [
        "The user merged changes that you made in try mode into the folder: a.txt. Not merged yet: old.txt, b.txt."
    ]
    assert [change.path for change in await session.changes.total()] == ["a.txt"]
    await session.changes.apply(await session.changes.plan_undo())
    assert (workspace / "a.txt").read_text() == "zero\n"


@pytest.mark.full
async def test_what_the_user_changed_meanwhile_is_merged_or_nothing_is(workspace: Path, open_one: Open, serve: Serve) -> None:
    lines = [f"{number}\n" for number in range(20)]
    for name in ("a.txt", "b.txt"):
        (workspace / name).write_text("".join(lines))
    server = await serve(shell("sed -i 's/^3$/three/' a.txt b.txt; echo theirs > new.txt"), DONE)
    _, session = await opened(open_one, server.url)
    await run(session)
    (workspace / "a.txt").write_text("".join(lines).replace("17\n", "mine\n"))
    (workspace / "b.txt").write_text("".join(lines).replace("3\n", "mine\n", 1))
    (workspace / "new.txt").write_text("mine\n")
    parts = await session.trial.parts()
    assert [part.path for part in parts] == ["a.txt", "b.txt", "new.txt"]
    assert all("mine" not in part.diff for part in parts)
    for chosen, name in ((None, r"b\.txt"), ([0, 1], r"b\.txt"), ([0, 2], r"new\.txt")):
        with pytest.raises(SandboxError, match=name):
            await session.trial.keep(chosen)
        assert "three" not in (workspace / "a.txt").read_text()
    assert any("both changes" in note for note in await session.trial.keep([0]))
    assert (workspace / "a.txt").read_text() == "".join(lines).replace("3\n", "three\n", 1).replace("17\n", "mine\n")
    assert "mine" in (workspace / "b.txt").read_text()
    assert (workspace / "new.txt").read_text() == "mine\n"


OUTSIDE = (
    ScriptedCall("shell", {"command": "sleep 9", "background": True}),
    ScriptedCall("shell", {"command": "pip install x", "network": True}),
    ScriptedCall("git_commit", {"message": "x"}),
    ScriptedCall("python", {"code": "open('x', 'w').write('x')"}),
    ScriptedCall("read", {"path": ".env"}),
)


async def test_what_would_act_outside_the_overlay_is_refused(workspace: Path, open_one: Open, serve: Serve) -> None:
    (workspace / ".env").write_text("KEY=1\n")
    server = await serve(*(turn for call in OUTSIDE for turn in (ScriptedTurn("Trying.", calls=(call,)), DONE)))
    _, session = await opened(open_one, server.url)
    for call in OUTSIDE:
        (result,) = results([*await run(session)])
        assert (result.ok, "leave try mode (F5 or /mode)" in result.result) == (False, True), call


@pytest.mark.full
async def test_leaving_the_mode_keeps_the_overlay_entering_goes_on_with_it_and_dropping_ends_it(
    workspace: Path, open_one: Open, serve: Serve
) -> None:
    server = await serve(shell("echo 1 > a.txt"), DONE, shell("echo 2 > b.txt"), DONE, *[shell("ls"), DONE] * 2)
    _, session = await opened(open_one, server.url)
    await run(session)
    session.set_mode(Mode.AUTO)
    assert [each.text for each in told(session) if isinstance(each, Notice)][-1] == (
        "1 file not merged: /merge shows the changes made in try mode"
    )
    await run(session)
    assert sorted(each.name for each in workspace.glob("*.txt")) == ["b.txt"]
    session.set_mode(Mode.TRY)
    (listed,) = results([*await run(session)])
    assert ("a.txt" in listed.result, "b.txt" in listed.result) == (True, True)
    await session.trial.drop()
    (listed,) = results([*await run(session)])
    assert (session.trial.waiting, "a.txt" in listed.result, (workspace / "a.txt").exists()) == (0, False, False)


@pytest.mark.full
async def test_what_is_not_merged_is_a_patch_after_a_close_and_without_overlays_the_mode_is_normal(
    workspace: Path, open_one: Open, serve: Serve
) -> None:
    (workspace / "old.txt").write_text("old\n")
    server = await serve(shell("rm old.txt; echo new > 'b c.txt'"), DONE)
    runtime, session = await opened(open_one, server.url)
    await run(session)
    await session.close()
    last = [each for each in told(session) if isinstance(each, OverlayChanged)][-1]
    assert last.files == 0
    assert last.patch in [each.text for each in told(session) if isinstance(each, Notice)][-1]
    subprocess.run(["git", "apply", last.patch], cwd=workspace, check=True, env={"GIT_DIR": "/nonexistent"})
    assert ((workspace / "b c.txt").read_text(), (workspace / "old.txt").exists()) == ("new\n", False)
    again = await runtime.open_session(session.id)
    assert (again.mode, again.trial.waiting) == (Mode.TRY, 0)
    await again.close()
    again = await open_one(server.url).open_session(session.id)
    assert again.mode is Mode.NORMAL
    assert [each.mode for each in told(again) if isinstance(each, ModeChanged)] == ["try", "normal"]


async def test_a_session_that_was_killed_says_where_its_work_is(workspace: Path, open_one: Open, serve: Serve) -> None:
    server = await serve(shell("echo 1 > a.txt"), DONE)
    runtime, session = await opened(open_one, server.url)
    await run(session)
    log = next((workspace.parent).rglob(f"{session.id}.jsonl"))
    before = log.read_bytes()
    await session.close()
    log.write_bytes(before)
    again = await runtime.open_session(session.id)
    (patch,) = patches_dir(workspace).iterdir()
    assert [each.text for each in told(again) if isinstance(each, Notice)][-1] == (
        f"lmtui was killed with 1 file not merged. The changes are saved as a patch: {patch}"
    )
    assert [each.text for each in told(again) if isinstance(each, Reminder)][-1].startswith(
        "Changes that you made in try mode and the user did not merge are not in the folder: reread the files."
    )
    assert again.trial.waiting == 0


@pytest.mark.parametrize("settings", [{"sandbox": "process"}, {"network": "on"}])
async def test_where_no_overlay_can_be_made_the_mode_is_refused(open_one: Open, settings: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="try mode needs overlays"):
        await opened(open_one, "http://127.0.0.1:9", **settings)


@pytest.mark.full
async def test_the_mode_is_not_changed_while_a_turn_runs(workspace: Path, open_one: Open, serve: Serve) -> None:
    server = await serve(shell("echo 1 > a.txt; sleep 0.3"), DONE)
    _, session = await opened(open_one, server.url)
    session.submit("do it")
    session.set_mode(Mode.AUTO)
    assert session.mode is Mode.TRY
    with pytest.raises(SandboxError, match="turn is running"):
        await session.trial.keep(None)
    await session.wait_idle()
    assert not (workspace / "a.txt").exists()


@pytest.mark.full
async def test_sub_agents_work_in_the_same_overlay(workspace: Path, open_one: Open, serve: Serve) -> None:
    delegate = ScriptedTurn("Delegating.", calls=(ScriptedCall("delegate", {"objective": "write a.txt"}),))
    report = ScriptedTurn("", calls=(ScriptedCall("report_result", {"status": "ok", "summary": "done"}),))
    server = await serve(delegate, shell("echo 1 > a.txt"), report, shell("cat a.txt"), DONE)
    _, session = await opened(open_one, server.url)
    happened = await run(session)
    assert next(each.tool for each in results([*happened]) if each.ok and each.agent != "root") == "shell"
    assert results([*happened])[-1].result.startswith("1")
    assert (session.trial.waiting, (workspace / "a.txt").exists()) == (1, False)


@pytest.mark.full
async def test_what_a_turn_that_began_during_a_merge_changes_still_waits(
    workspace: Path, open_one: Open, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve(shell("echo one > a.txt"), DONE, shell("echo late > late.txt"), DONE)
    runtime, session = await opened(open_one, server.url)
    assert isinstance(session, EngineSession)
    await run(session)
    look = SessionWorkspace._effect

    async def with_turn(trial: SessionWorkspace) -> CommandEffect:
        found = await look(trial)
        session.submit("more")
        await until(lambda: sum(isinstance(each, ToolCallFinished) and each.tool == "shell" for each in told(session)) >= 2)
        return found

    _ = await session.trial.parts()
    with monkeypatch.context() as patch:
        patch.setattr(SessionWorkspace, "_effect", with_turn)
        merging = asyncio.create_task(session.trial.keep(None))
        await until(lambda: len(server.requests) >= 3)
        patch.setattr(SessionWorkspace, "_effect", look)
        await merging
    await session.wait_idle()
    assert [part.path for part in await session.trial.parts()] == ["late.txt"]
    await runtime.close()
