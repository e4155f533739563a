"""Workspaces that belong to somebody else: those that a group shares, and those that root works in."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxUnavailable
from lmtui.sandbox.select import select_sandbox
from tests.sandbox.conftest import BUBBLEWRAP, DOCKER, OpenSandbox

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
@pytest.mark.parametrize("backend", [BUBBLEWRAP, "landlock", "process"])
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


def _is_reached_by_all(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))


LANDLOCK = pytest.param(
    "landlock",
    marks=pytest.mark.skipif(not _is_reached_by_all(Path(sys.base_prefix)), reason="another user cannot start this Python"),
)


@AS_ROOT
@pytest.mark.parametrize("backend", [DOCKER, LANDLOCK, "process"])
async def test_root_works_in_a_folder_of_another(open_sandbox: OpenSandbox, foreign: Path, backend: str) -> None:
    sandbox = await open_sandbox(backend, foreign)
    assert (await sandbox.run_command("echo made > made.txt; cat made.txt")).output == "made\n"
    assert (foreign / "made.txt").stat().st_uid == (0 if backend == "process" else OWNER)


async def test_landlock_by_name_leaves_it_to_modes_and_rules(open_sandbox: OpenSandbox) -> None:
    sandbox = await open_sandbox("landlock")
    assert not (await sandbox.status()).asks_each_command
