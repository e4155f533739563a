"""Workspaces that belong to somebody else: those that a group shares, and those that root works in."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxUnavailable
from lmtui.sandbox.select import select_sandbox
from tests.sandbox.conftest import BUBBLEWRAP, DOCKER, LANDLOCK, OpenSandbox

OWNER = 4321
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make folders of other owners")


@pytest.fixture
def foreign() -> Iterator[Path]:
    """Return a folder of another owner that everybody can reach."""
    folder = Path(tempfile.mkdtemp(prefix="lmtui-foreign-", dir="/var/tmp"))
    folder.chmod(0o755)
    os.chown(folder, OWNER, OWNER)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif("LMTUI_TEAM_FOLDER" not in os.environ, reason="CI names a folder of another owner that a group shares")
@pytest.mark.parametrize("backend", [BUBBLEWRAP, LANDLOCK, "process"])
async def test_a_folder_that_a_group_shares_is_worked_in_by_its_members(open_sandbox: OpenSandbox, backend: str) -> None:
    folder = Path(os.environ["LMTUI_TEAM_FOLDER"])
    sandbox = await open_sandbox(backend, folder)
    made = f"made-{backend}.txt"
    assert (await sandbox.run_command(f"echo made > {made}; cat {made}")).output == "made\n"
    assert (folder / made).stat().st_uid == os.geteuid() != folder.stat().st_uid


@AS_ROOT
@pytest.mark.bubblewrap
async def test_root_is_told_why_bubblewrap_cannot_work_in_a_folder_of_another(foreign: Path) -> None:
    sandbox = await select_sandbox(foreign, backend="bubblewrap")
    with pytest.raises(SandboxUnavailable, match=f"it belongs to uid {OWNER}, and you are root") as refused:
        await sandbox.status()
    await sandbox.close()
    assert f"chown -R root {foreign}" in refused.value.hint


@AS_ROOT
@pytest.mark.parametrize("backend", [DOCKER, LANDLOCK, "process"])
async def test_root_works_in_a_folder_of_another(open_sandbox: OpenSandbox, foreign: Path, backend: str) -> None:
    sandbox = await open_sandbox(backend, foreign)
    assert (await sandbox.run_command("echo made > made.txt; cat made.txt")).output == "made\n"
    assert (foreign / "made.txt").stat().st_uid == (0 if backend == "process" else OWNER)


@pytest.fixture
def reached_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have checkpoints where everybody can reach them."""
    folder = Path(tempfile.mkdtemp(prefix="lmtui-home-", dir="/var/tmp"))
    folder.chmod(0o755)
    monkeypatch.setenv("LMTUI_HOME", str(folder))
    yield
    shutil.rmtree(folder)


@AS_ROOT
@pytest.mark.git
@pytest.mark.usefixtures("reached_home")
async def test_landlock_needs_nothing_of_a_python_that_the_owner_cannot_read(open_sandbox: OpenSandbox, foreign: Path) -> None:
    sandbox = await open_sandbox("landlock", foreign)
    await sandbox.write_file("notes.txt", b"heron\n")
    assert (await sandbox.read_file("notes.txt")).data == b"heron\n"
    assert [match.path for match in await sandbox.grep("heron")] == ["notes.txt"]
    assert list(await sandbox.glob("*.txt")) == ["notes.txt"]
    assert "200000" in (await sandbox.run_command("seq 200000")).output
    assert (await sandbox.run_git(["init"], writes=True)).exit_code == 0
    assert "notes.txt" in (await sandbox.run_git(["status", "--short"])).output
    assert (await sandbox.run_command("mkdir kept && mv .git kept/")).quarantined == ("kept/.git",)
    before = await sandbox.checkpoints.snapshot()
    await sandbox.write_file("notes.txt", b"egret\n")
    after = await sandbox.checkpoints.snapshot()
    await sandbox.checkpoints.restore(before.id, ["notes.txt"], expected=after.id)
    assert (foreign / "notes.txt").read_bytes() == b"heron\n"
