from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError, SandboxUnavailable
from lmtui.core.ports import Sandbox
from lmtui.sandbox import replies
from lmtui.sandbox.backend import ProcessBackend
from lmtui.sandbox.guest import quarantine
from lmtui.sandbox.guest.beneath import Refused
from lmtui.sandbox.mount_layout import SandboxLayout
from lmtui.sandbox.supervisor_client import Client, InstanceKind
from lmtui.sandbox.workspace_guard import GuardMoment, WorkspaceGuard, check_mounts, open_client
from tests.sandbox.conftest import CONFINED, ISOLATED, LANDLOCK, OpenSandbox, fill
from tests.sets import for_each


@pytest.mark.parametrize("sandbox", CONFINED, indirect=True)
async def test_what_programs_outside_would_run_is_set_aside_and_told(sandbox: Sandbox, workspace: Path) -> None:
    command = "mkdir -p src/.vscode sub; echo evil > src/.vscode/tasks.json; echo evil > .mcp.json; git init -q sub"
    result = await sandbox.run_command(command)
    assert set(result.quarantined) == {"src/.vscode", ".mcp.json", "sub/.git"}
    assert result.notable == ()
    assert result.text.count("was moved to .lmagent/quarantine/") == 3
    assert not (workspace / "src/.vscode").exists()
    assert (workspace / "sub").is_dir()
    closed = next((workspace / ".lmagent/quarantine").glob("vscode-*"))
    assert closed.stat().st_mode & 0o777 == 0
    closed.chmod(0o700)
    assert (closed / "tasks.json").read_text() == "evil\n"
    result = await sandbox.run_command("echo be evil > AGENTS.md; mkdir -p src/.claude; echo {} > src/.claude/settings.json")
    assert (set(result.notable), result.quarantined) == ({"AGENTS.md", "src/.claude"}, ())  # what others only read stays
    assert "this command made or changed AGENTS.md" in result.text
    assert (workspace / "AGENTS.md").exists()
    assert (await sandbox.run_command("cat AGENTS.md")).notable == ()


@pytest.mark.parametrize("backend", ISOLATED)
async def test_what_the_user_had_is_read_only_and_stays(backend: str, workspace: Path, open_sandbox: OpenSandbox) -> None:
    fill(workspace, {"lib/.git/hooks/": "", ".vscode/": "", ".envrc": "export A=1\n"})
    sandbox = await open_sandbox(backend)
    command = (
        "echo x > .vscode/tasks.json; echo x >> .envrc; touch lib/.git/hooks/pre-commit; mv .vscode v; rm -rf lib/.git; true"
    )
    result = await sandbox.run_command(f"{command}; true")
    assert (result.quarantined, result.notable) == ((), ())
    assert (workspace / ".envrc").read_text() == "export A=1\n"
    assert list((workspace / ".vscode").iterdir()) == []
    assert list((workspace / "lib/.git/hooks").iterdir()) == []
    (workspace / "other/.git").mkdir(parents=True)  # what the user makes between commands is the user's
    (workspace / ".idea").mkdir()
    await asyncio.sleep(0.05)
    assert (await sandbox.run_command("ls")).quarantined == ()
    assert (workspace / ".idea").is_dir()


@pytest.mark.parametrize("sandbox", CONFINED, indirect=True)
async def test_a_command_that_is_stopped_is_looked_after_as_well(sandbox: Sandbox, workspace: Path) -> None:
    await sandbox.run_command("true")
    task = asyncio.create_task(sandbox.run_command("git init -q sub; echo done; sleep 20"))
    while not (workspace / "sub/.git").exists():
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.sleep(0.01)
    task.cancel()  # as a second, impatient interrupt
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (workspace / "sub/.git").exists()


@pytest.mark.parametrize("sandbox", CONFINED, indirect=True)
async def test_a_git_folder_below_another_name_is_found_where_it_was_hidden(sandbox: Sandbox, workspace: Path) -> None:
    result = await sandbox.run_command("git init -q a/b; chmod 555 a/b/.git; chmod 000 a/b; chmod 000 a")
    assert result.quarantined == ("a/b/.git",)


@pytest.mark.git
@pytest.mark.parametrize("sandbox", [LANDLOCK], indirect=True)
async def test_settings_that_git_itself_writes_stay(sandbox: Sandbox, workspace: Path) -> None:
    await sandbox.run_git(["init"], writes=True)
    for arguments in (["add", "README.md"], ["commit", "-m", "one"], ["branch", "other"]):
        assert (await sandbox.run_git(arguments, writes=True)).quarantined == ()
    await sandbox.run_git(["branch", "--set-upstream-to=main", "other"], writes=True)
    assert (await sandbox.run_command("true")).quarantined == ()
    assert "other" in (workspace / ".git/config").read_text()


@pytest.mark.git
@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_what_git_checks_out_is_told_and_stays(sandbox: Sandbox, workspace: Path) -> None:
    (workspace / ".envrc").write_text("x\n")
    for arguments in (["init"], ["add", "."], ["commit", "-m", "one"], ["rm", "-q", ".envrc"], ["commit", "-m", "two"]):
        await sandbox.run_git(arguments, writes=True)
    await sandbox.run_command("true")
    result = await sandbox.run_git(["checkout", "HEAD~1"], writes=True)
    assert result.notable == (".envrc",)
    assert (await sandbox.run_command("true")).quarantined == ()
    assert (workspace / ".envrc").exists()


@for_each("name", ["plain", "folder", "closed"])
def test_what_is_set_aside_is_closed(tmp_path: Path, name: str) -> None:
    (tmp_path / ".lmagent").mkdir()
    evil = tmp_path / "sub" / ".git"
    fill(evil.parent, {".git": "gitdir: x"} if name == "plain" else {".git/hooks/pre-commit": "evil"})
    if name == "closed":
        for path in (evil / "hooks", evil, evil.parent):
            path.chmod(0o000 if path != evil.parent else 0o555)
    target = quarantine.set_aside(_opened(tmp_path), b"sub/.git")
    assert (tmp_path / target).is_file() is (name == "plain")
    assert name == "plain" or (tmp_path / target).stat().st_mode & 0o777 == 0
    assert not os.path.lexists(evil)
    assert [path.name for path in (tmp_path / ".lmagent/quarantine").iterdir()] == [Path(target).name]


def test_what_is_behind_a_link_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "ws/.lmagent").mkdir(parents=True)
    (tmp_path / "out/.git").mkdir(parents=True)
    (tmp_path / "ws/sub").symlink_to("../out")
    with pytest.raises(Refused, match="could not be moved"):
        quarantine.set_aside(_opened(tmp_path / "ws"), b"sub/.git")
    assert (tmp_path / "out/.git").is_dir()


@for_each("path", ["../x", "/etc", "a/../..", "a//b", "a\0b", "."])
def test_a_path_that_leads_out_is_refused(path: str) -> None:
    facts: dict[str, object] = {"found": [[path.encode().hex(), "git", True, 1]], "is_cut": False}
    with pytest.raises(SandboxError, match="answer that cannot be"):
        replies.parse(facts, replies.SurveyReply)


@pytest.fixture
async def clients(workspace: Path) -> AsyncIterator[list[Client]]:
    """Return a supervisor for commands and a guard."""
    kinds = (InstanceKind.MAIN, InstanceKind.GUARD)
    opened = [await open_client(ProcessBackend(workspace), kind, SandboxLayout()) for kind in kinds]
    yield opened
    for client in opened:
        await client.close()


async def test_a_clock_that_is_set_back_hides_nothing(workspace: Path, clients: list[Client]) -> None:
    moments = iter([GuardMoment(2**62, 0), GuardMoment(2**62 - 3600 * 10**9, 10**9)])
    workspace_guard = WorkspaceGuard(_returning(clients[1]), contextlib.nullcontext, lambda: next(moments))
    began = await workspace_guard.begin()
    (workspace / ".envrc").touch()
    assert (await workspace_guard.end(began)).quarantined == (".envrc",)


async def test_an_instance_without_a_shell_runs_nothing(clients: list[Client]) -> None:
    assert await clients[1].call("run", {"command": "true"}, limit_s=9.0) == ({"error": "no shell in this sandbox"}, b"")


async def test_what_was_exchanged_before_it_was_mounted_is_found_out(workspace: Path, clients: list[Client]) -> None:
    was = (workspace / "src").stat()
    await check_mounts(clients[0], InstanceKind.MAIN, SandboxLayout(read_only=(("src", was.st_dev, was.st_ino),)))
    with pytest.raises(SandboxUnavailable, match="src was replaced while the sandbox started"):
        await check_mounts(clients[0], InstanceKind.MAIN, SandboxLayout(read_only=(("src", was.st_dev, was.st_ino + 1),)))


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


def _returning(client: Client) -> Callable[[], Awaitable[Client]]:
    async def get() -> Client:
        return client

    return get
