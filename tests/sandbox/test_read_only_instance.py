from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError, SandboxUnavailable
from lmtui.core.ports import Sandbox
from lmtui.sandbox import selftest
from lmtui.sandbox.backend import Options
from lmtui.sandbox.bubblewrap import BubblewrapBackend
from lmtui.sandbox.mount_layout import SandboxLayout
from lmtui.sandbox.pool import SandboxPool
from lmtui.sandbox.select import choose
from lmtui.sandbox.supervisor_client import InstanceKind, Link
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from tests.sandbox.conftest import CONFINED, ISOLATED, OpenSandbox

CHANGES = (
    "echo x > new",
    "echo x > README.md",
    "echo x >> src/main.py",
    "mkdir folder",
    "rm README.md",
    "mv README.md other",
    "rm -rf src",
    "ln -s README.md link",
    "chmod 600 README.md",
    "touch -d yesterday README.md",
    "truncate -s 0 README.md",
    "python3 -c \"open('README.md', 'a').write('x')\"",
    "cp src/main.py copy.py",
    "git init -q .",
)

OF_ITS_INODE = ("chmod 600 README.md", "touch -d yesterday README.md")  # which Landlock does not govern


def content(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Return every file with what could be changed of it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns) for path in files}


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_commands_run_and_change_nothing(sandbox: Sandbox, workspace: Path) -> None:
    reader = sandbox.read_only()
    status = await reader.status()
    assert (status.is_read_only, status.has_shell) == (True, True)
    before = content(workspace)
    assert "hello" in (await reader.run_command("cat README.md")).output
    for command in CHANGES:
        if status.backend == "landlock" and command in OF_ITS_INODE:
            continue
        result = await reader.run_command(command)
        assert result.exit_code != 0, command
    assert content(workspace) == before
    await sandbox.write_file("README.md", b"changed\n")  # what the other instance changes is seen
    assert (await reader.run_command("cat README.md")).output == "changed\n"
    assert reader.read_only() is reader
    scratch = await reader.run_command('echo x > "${TMPDIR:-/tmp}/note" && cat "${TMPDIR:-/tmp}/note"')
    assert scratch.output == "x\n"


@pytest.mark.parametrize("sandbox", [*CONFINED, "process"], indirect=True)
async def test_file_tools_read_and_change_nothing(sandbox: Sandbox, workspace: Path) -> None:
    reader = sandbox.read_only()
    before = content(workspace)
    assert (await reader.read_file("README.md")).data == b"hello\n"
    assert [each.path for each in await reader.list_directory("src")] == ["src/main.py"]
    assert list(await reader.glob("**/*.py")) == ["src/main.py"]
    assert [each.path for each in await reader.grep("hello")] == ["README.md", "src/main.py"]
    with pytest.raises(SandboxError, match="read-only"):
        await reader.write_file("README.md", b"x")
    with pytest.raises(SandboxError, match="read-only"):
        await reader.make_directory("folder")
    with pytest.raises(SandboxError):
        await reader.run_git(["init"], writes=True)
    assert content(workspace) == before


async def test_where_nothing_confines_commands_there_are_none(open_sandbox: OpenSandbox) -> None:
    reader = (await open_sandbox("process")).read_only()
    status = await reader.status()
    assert (status.is_read_only, status.has_shell) == (False, False)
    with pytest.raises(SandboxUnavailable):
        await reader.run_command("cat README.md")


class Leaky(BubblewrapBackend):
    """A backend that forgets what the read-only instance is."""

    async def open(self, kind: InstanceKind, layout: SandboxLayout) -> Link:
        return await super().open(InstanceKind.MAIN if kind is InstanceKind.READ else kind, layout)


@pytest.mark.bubblewrap
async def test_a_backend_that_does_not_hold_it_is_found_out_before_anything_runs(
    workspace: Path, open_sandbox: OpenSandbox
) -> None:
    await open_sandbox("bubblewrap")
    pool = SandboxPool(workspace, partial(choose, [Leaky(workspace)], workspace, Options()))
    try:
        reader = WorkspaceSandbox(pool, lambda pool: pool.close()).read_only()
        with pytest.raises(SandboxUnavailable, match="the read-only instance failed its test"):
            await reader.run_command("touch README.md")
        with pytest.raises(SandboxUnavailable, match="the read-only instance failed its test"):
            await reader.write_file("new", b"x")
    finally:
        await pool.close()
    assert sorted(path.name for path in workspace.iterdir()) == [".lmagent", "README.md", "src"]


@pytest.mark.parametrize("backend", ISOLATED)
async def test_a_lane_in_which_something_can_be_changed_does_not_count(
    backend: str, workspace: Path, open_sandbox: OpenSandbox
) -> None:
    sandbox = await open_sandbox(backend)
    pool = sandbox._pool
    with pytest.raises(SandboxUnavailable, match="file, folder, old file"):
        await selftest.verify_read_only(await pool.client(InstanceKind.MAIN), await pool.guard())
    assert sorted(path.name for path in workspace.iterdir()) == [".lmagent", "README.md", "src"]
