from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError
from lmtui.core.ports import Sandbox
from lmtui.core.programs import Launch
from lmtui.sandbox.supervisor_client import InstanceKind
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from tests.sandbox import races
from tests.sandbox.conftest import CONFINED, ISOLATED, OpenSandbox, fill, git, launcher_of


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_every_process_of_the_workspace_is_stopped_while_the_guard_moves_something(
    sandbox: WorkspaceSandbox, workspace: Path
) -> None:
    await sandbox.run_command("true")
    count = "n=0; while :; do n=$((n+1)); echo $n > n.new; mv n.new n; done"
    served = await launcher_of(sandbox).open(Launch(("bash", "-c", f"echo up; ({count}) & {count}")), lambda _: None)
    assert await served.read() == b"up\n"
    running = asyncio.create_task(
        sandbox.run_command(count.replace("n.new", "m.new").replace("mv m.new n", "mv m.new m"), timeout_s=8)
    )
    while not ((workspace / "m").exists() and (workspace / "n").exists()):
        await asyncio.sleep(0.01)

    def state() -> list[bytes]:
        return [(workspace / name).read_bytes() for name in ("m", "n")]

    async with sandbox._pool.frozen():
        before = state()
        await asyncio.sleep(0.3)
        assert state() == before
    await asyncio.sleep(0.3)
    assert all(one != other for one, other in zip(state(), before, strict=True))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await served.close()


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_what_was_set_aside_and_the_logs_cannot_be_seen_inside(sandbox: Sandbox, workspace: Path) -> None:
    fill(workspace, {".lmagent/sessions/a.jsonl": "a secret that was read\n"})
    await sandbox.run_command("echo evil-$((1+1)) > .mcp.json")
    for box in (sandbox, sandbox.read_only()):
        result = await box.run_command(
            "ls -R .lmagent/quarantine .lmagent/sessions; cat .lmagent/sessions/*; grep -r . .lmagent"
        )
        assert "mcp-json" not in result.output
        assert "a.jsonl" not in result.output
        assert "that was read" not in result.output


@pytest.mark.parametrize("sandbox", CONFINED, indirect=True)
async def test_a_guard_that_died_is_started_again(sandbox: WorkspaceSandbox, workspace: Path) -> None:
    await sandbox.run_command("true")
    await (await sandbox._pool.guard()).close()
    assert (await sandbox.run_command("touch .envrc")).quarantined == (".envrc",)


@pytest.mark.bubblewrap
async def test_the_guard_runs_no_program_and_does_only_what_it_knows(open_sandbox: OpenSandbox) -> None:
    sandbox = await open_sandbox("bubblewrap")
    await sandbox.run_command("true")
    guard = await sandbox._pool.guard()
    for op, fields in (
        ("run", {"command": "true", "timeout_s": 1, "memory_mb": 64}),
        ("git", {"arguments": ["status"], "timeout_s": 1, "memory_mb": 64}),
        ("guard", {"action": "anything"}),
    ):
        facts, _ = await guard.call(op, fields, limit_s=5)
        assert facts.get("error"), op
    facts, _ = await (await sandbox._pool.client(InstanceKind.MAIN)).call("guard", {"action": "layout"}, limit_s=5)
    assert facts.get("error")


EVIL_DRIVERS = """
[filter "t"]
	clean = touch ran; cat
	smudge = touch ran; cat
	process = touch ran
	required = true
[filter "o=d d"]
	clean = touch ran; cat
[merge "t"]
	driver = touch ran
[diff "t"]
	textconv = touch ran; cat
	command = touch ran
"""


@pytest.mark.git
@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_no_driver_of_the_repository_runs(sandbox: Sandbox, workspace: Path) -> None:
    git(workspace, "init", "-q")
    (workspace / "b.txt").write_text("one\n")
    git(workspace, "add", "README.md", "b.txt")
    git(workspace, "commit", "-qm", "one")
    (workspace / ".git/more").write_text(EVIL_DRIVERS)
    with (workspace / ".git/config").open("a") as config:
        config.write("[include]\n\tpath = more\n")
    (workspace / ".gitattributes").write_text('*.md filter=t diff=t merge=t\nb.txt filter="o=d d" diff=t\n')
    await asyncio.sleep(1.1)  # or the index is of the same time as what is written next, and git looks anyway
    fill(workspace, {"README.md": "two\n", "b.txt": "two\n"})
    for arguments in (["status"], ["diff"], ["log", "-p"], ["blame", "README.md"], ["grep", "one"], ["show"]):
        await sandbox.run_git(arguments)
    refused = await sandbox.run_git(["add", "README.md"], writes=True)
    assert refused.exit_code != 0
    assert "clean filter 't' failed" in refused.output
    for arguments in (
        ["add", ".gitattributes"],
        ["commit", "-m", "two"],
        ["checkout", "README.md"],
        ["stash"],
        ["switch", "-c", "x"],
    ):
        with contextlib.suppress(SandboxError):  # it would check out files that want the filter
            await sandbox.run_git(arguments, writes=True)
    await sandbox.read_only().run_command("git status; git diff; git blame README.md; git log -p")
    assert not (workspace / "ran").exists()


@pytest.mark.parametrize("backend", ISOLATED)
@pytest.mark.parametrize("number", [0, *(pytest.param(number, marks=pytest.mark.full) for number in range(1, 6))])
async def test_nothing_outside_is_shown_or_changed_by_races(
    backend: str, number: int, tmp_path: Path, open_sandbox: OpenSandbox
) -> None:
    await (await open_sandbox(backend)).close()  # skips where it cannot work
    attempt = races.attempts()[number]
    with races.place(tmp_path) as where:
        assert await races.play(attempt, backend, where, 0.5) == "", attempt
