from __future__ import annotations

import os
from pathlib import Path

import pytest

from lmtui.core.ports import Sandbox
from lmtui.sandbox import backend
from lmtui.sandbox.backend import in_control_group
from tests.sandbox.conftest import CONFINED, LIMITS, fill


@pytest.mark.parametrize("sandbox", CONFINED, indirect=True)
async def test_processes_over_the_limit_are_refused_and_not_only_killed(sandbox: Sandbox) -> None:
    backend = (await sandbox.status()).backend
    if os.getuid() == 0 and backend != "docker" and in_control_group(["x"], LIMITS) == ["x"]:
        pytest.skip("root has no limit of processes without control groups")
    result = await sandbox.run_command("for i in $(seq 300); do sleep 9 & done; echo started; false", timeout_s=1)
    assert "Resource temporarily unavailable" in result.text
    assert result.text.endswith("[at most 128 processes and threads of all commands together]")


@pytest.mark.parametrize("sandbox", CONFINED, indirect=True)
async def test_files_over_the_limit_are_refused(sandbox: Sandbox, workspace: Path) -> None:
    result = await sandbox.run_command("head -c 300M /dev/zero > big; ls; truncate -s 5G sparse", timeout_s=20)
    assert "File size limit exceeded" in result.text or "File too large" in result.text
    assert result.text.endswith("[at most 256 MB a file]")
    assert sum(path.stat().st_size for path in workspace.iterdir()) <= 257 << 20


def test_a_group_of_the_second_version_has_every_limit_that_is_offered(tmp_path: Path) -> None:
    fill(tmp_path, {"cgroup.procs": "", "cgroup.subtree_control": "cpu memory pids\n"})
    if os.getuid() != 0:
        pytest.skip("an ordinary user's groups lie below its session's")
    assert in_control_group(["program"], LIMITS, tmp_path / "none") == ["program"]
    command = in_control_group(["program", "argument"], LIMITS, tmp_path)
    group = Path(command[4])
    assert command[-2:] == ["program", "argument"]
    assert group.parent == tmp_path
    assert (group / "pids.max").read_text() == "144"
    assert int((group / "memory.max").read_text()) == (1024 + 256 + 512) << 20
    assert not (group / "cpu.max").exists()


def test_groups_of_instances_that_ended_are_removed_while_lmtui_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.getuid() != 0 or in_control_group(["x"], LIMITS) == ["x"]:
        pytest.skip("groups cannot be made here")
    first = [Path(each) for each in in_control_group(["x"], LIMITS)[4].split()]
    second = [Path(each) for each in in_control_group(["x"], LIMITS)[4].split()]
    assert all(each.exists() for each in first)  # what joins it may be about to
    monkeypatch.setattr(backend, "_JOIN_S", 0.0)
    third = [Path(each) for each in in_control_group(["x"], LIMITS)[4].split()]
    assert not any(each.exists() for each in (*first, *second))
    for each in third:
        each.rmdir()
