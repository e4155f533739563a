from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lmtui.core.permissions.rules import MaskExpressions
from lmtui.core.ports import Sandbox
from lmtui.paths import path_inside
from lmtui.sandbox.host_paths import scratch_parents
from tests.sandbox.conftest import BUBBLEWRAP, ISOLATED, LIMITS, OpenSandbox, fill
from tests.sets import for_each


@for_each(
    ("workspace", "inside"),
    [
        ("/home/ada/project", "/home/ada/project"), ("/root/project", "/root/project"), ("/srv/p", "/srv/p"),
        ("/opt/p", "/opt/p"), ("/tmp/p", "/tmp/p"), ("/var/lib/p", "/var/lib/p"), ("/usr/local/src/p", "/usr/local/src/p"),
        ("/dev/shm/p", "/dev/shm/p"), ("/usr/lib/python3", "/workspace"), ("/usr/local/src", "/workspace"),
        ("/opt", "/workspace"), ("/opt/lmtui", "/workspace"), ("/tmp", "/workspace"), ("/tmp/home/p", "/workspace"),
        ("/etc/p", "/workspace"), ("/proc/self/cwd", "/workspace"), ("/workspace", "/workspace"),
        ("/run/lmtui/p", "/workspace"), ("/run/media/ada/p", "/run/media/ada/p"),
    ],
)  # fmt: skip
def test_a_workspace_has_its_own_path_unless_the_instance_needs_it(workspace: str, inside: str) -> None:
    assert path_inside(Path(workspace)) == inside


def test_a_parent_of_a_mount_in_a_private_file_system_gets_a_file_system_of_its_own() -> None:
    assert scratch_parents(["/tmp/a/b/c", "/tmp/a/d", "/tmp/e", "/dev/shm/f/g", "/srv/h/i"]) == ["/tmp/a", "/dev/shm/f"]


@pytest.mark.parametrize("kind", ["main", "read"])
@pytest.mark.parametrize("backend", ISOLATED)
async def test_no_command_moves_a_parent_of_the_workspace(backend: str, open_sandbox: OpenSandbox, kind: str) -> None:
    with TemporaryDirectory(dir="/tmp") as top:
        fill(folder := Path(top, "a", "b"), {"README.md": "hello\n"})
        sandbox = await open_sandbox(backend, folder, limits=LIMITS)
        view = sandbox.read_only() if kind == "read" else sandbox
        command = f"mv {top} /tmp/x; mv {folder.parent} {folder.parent}x; touch {folder.parent}/z; ls /tmp"
        first = await view.run_command(command)
        assert {Path(top).name, "x"}.intersection(first.output.splitlines()) == {Path(top).name}
        assert (await view.run_command("pwd; cat README.md")).output.splitlines() == [str(folder), "hello"]


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_a_mask_holds_under_both_names_of_the_workspace(sandbox: Sandbox, workspace: Path) -> None:
    (workspace / ".env").write_text("KEY=hidden-value\n")
    sandbox.mask(1, MaskExpressions(secret=r"(?:.*/)?\.env\Z"))
    result = await sandbox.run_command(
        f"cat {workspace}/.env; cat /workspace/.env; cat .env; (echo x > {workspace}/.lmagent/x)"
    )
    assert "hidden-value" not in result.output
    assert result.output.count("ermission denied") == 3
    assert "Read-only" in result.output


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        pytest.param("docker", "a b,c:d", marks=pytest.mark.docker),
        (BUBBLEWRAP.values[0], "a b,c:d"), (BUBBLEWRAP.values[0], "ä\n$(id)'\""),
        (BUBBLEWRAP.values[0], os.fsdecode(b"\xff\xfe")),
    ],
)  # fmt: skip
async def test_a_workspace_may_have_any_name(backend: str, name: str, tmp_path: Path, open_sandbox: OpenSandbox) -> None:
    folder = tmp_path / name
    folder.mkdir()
    sandbox = await open_sandbox(backend, folder, limits=LIMITS)
    result = await sandbox.run_command("echo there > made; cat made")
    assert result.output == "there\n"
    assert (folder / "made").read_text() == "there\n"
    assert await sandbox.real_paths(["made"]) == ["made"]
