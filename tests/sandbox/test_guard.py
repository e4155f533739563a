from __future__ import annotations

import asyncio
import contextlib
import stat
import tarfile
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError
from lmtui.core.ports import Sandbox
from lmtui.core.programs import Launch
from lmtui.sandbox.supervisor_client import InstanceKind
from lmtui.sandbox.workspace_guard import Findings
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from tests.sandbox import races
from tests.sandbox.conftest import CONFINED, ISOLATED, OpenSandbox, fill, git, launcher_of

SECRET = b"the-content-of-a-file-outside"

# Keeps a descriptor of a folder that will be set aside, and exchanges its files for links as fast as it can.
SWAPPER = r"""
import ctypes, os, sys, time
target, kind = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs("d/.git/objects")
folder = os.open("d/.git", os.O_RDONLY | os.O_DIRECTORY)
names = [b"%04d" % i for i in range(400)]
for name in names:
    if kind == "folder":
        os.mkdir(name, dir_fd=folder)
    else:
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=folder))
    os.symlink(target, b"x" + name, dir_fd=folder)
print("up", flush=True)
end = time.monotonic() + 20
while time.monotonic() < end:
    for name in names:
        libc.syscall(316, folder, name, folder, b"x" + name, 2)  # renameat2 with RENAME_EXCHANGE
"""


def _packed(workspace: Path) -> list[bytes]:
    """Return the contents of everything that was set aside."""
    found: list[bytes] = []
    for path in (workspace / ".lmagent/quarantine").rglob("*"):
        if path.name.endswith(".tar.gz"):
            with tarfile.open(path) as file:
                opened = [file.extractfile(each) for each in file.getmembers() if each.isreg()]
                found += [each.read() for each in opened if each is not None]
        elif path.is_file() and not path.is_symlink():
            found.append(path.read_bytes())
    return found


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
@pytest.mark.full
async def test_files_exchanged_for_links_meanwhile_show_and_change_nothing_outside(
    sandbox: WorkspaceSandbox, workspace: Path, tmp_path: Path, kind: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "secret").write_bytes(SECRET)
    (outside / "secret").chmod(0o640)
    target = outside if kind == "folder" else outside / "secret"
    await sandbox.run_command("true")
    launcher = launcher_of(sandbox)
    errors = bytearray()
    for _ in range(2):
        async with launcher.guarded() as notes:
            served = await launcher.open(Launch(("python3", "-c", SWAPPER, str(target), kind)), errors.extend)
            assert await served.read() == b"up\n", errors.decode()
        await served.close()
        assert any("was moved to .lmagent/quarantine" in note for note in notes)
        assert not (workspace / "d/.git").exists()
    assert not any(SECRET in content for content in _packed(workspace))
    assert stat.S_IMODE((outside / "secret").stat().st_mode) == 0o640
    assert stat.S_IMODE(outside.stat().st_mode) == 0o755


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


@pytest.mark.landlock
@pytest.mark.git
async def test_git_settings_that_could_not_be_compared_are_told(open_sandbox: OpenSandbox) -> None:
    sandbox = await open_sandbox("landlock")
    await sandbox.run_git(["init"], writes=True)
    findings: list[Findings] = []
    async with sandbox._pool.git_client(findings):
        await (await sandbox._pool.guard()).close()
    assert "could not check .git" in str(findings)


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


@pytest.mark.git
@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_git_runs_nothing_in_a_submodule(sandbox: WorkspaceSandbox, workspace: Path) -> None:
    source = workspace.parent / "source"
    source.mkdir()
    git(source, "init", "-q")
    git(source, "commit", "-q", "--allow-empty", "-m", "one")
    git(workspace, "init", "-q")
    git(workspace, "submodule", "--quiet", "add", str(source), "sub")
    git(workspace, "commit", "-qm", "one")
    git(workspace / "sub", "config", "core.fsmonitor", "touch /workspace/ran; false")
    (workspace / "sub/new").write_text("x")
    for arguments in (["status"], ["diff"], ["diff", "HEAD"]):
        result = await sandbox.run_git(arguments)
        assert result.exit_code == 0, result.output
    await sandbox.run_git(["add", "sub"], writes=True)
    await sandbox.listing.git_status()
    assert not (workspace / "ran").exists()
    assert not (workspace / "sub/ran").exists()


@pytest.mark.parametrize("backend", ISOLATED)
@pytest.mark.parametrize("number", [0, *(pytest.param(number, marks=pytest.mark.full) for number in (1, 2))])
async def test_nothing_outside_is_shown_or_changed_by_races(
    backend: str, number: int, tmp_path: Path, open_sandbox: OpenSandbox
) -> None:
    await (await open_sandbox(backend)).close()  # skips where it cannot work
    attempt = races.attempts()[number]
    with races.place(tmp_path) as where:
        assert await races.play(attempt, backend, where, 0.5) == "", attempt
