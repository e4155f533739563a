from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError, SandboxUnavailable, UsageError
from lmtui.sandbox import backend, bubblewrap
from lmtui.sandbox.backend import GUEST, LandlockBackend, Options, ProcessBackend
from lmtui.sandbox.guest.settings import Settings
from lmtui.sandbox.host_paths import check_workspace, relative_path
from lmtui.sandbox.mount_layout import SandboxLayout
from lmtui.sandbox.select import choose, select_sandbox
from lmtui.sandbox.supervisor_client import InstanceKind, Link
from tests.sandbox.conftest import ALL, BUBBLEWRAP, DOCKER, OpenSandbox, fill
from tests.sets import for_each


class Absent(ProcessBackend):
    """A backend that is not installed, or refuses just this folder."""

    def __init__(self, workspace: Path, name: str) -> None:
        super().__init__(workspace)
        self.name, self.is_isolated = name, True

    async def open(self, kind: InstanceKind, layout: SandboxLayout) -> Link:
        raise SandboxUnavailable("no engine", "Start it.")


class Boastful(ProcessBackend):
    """A plain process that claims to isolate."""

    name = "boastful"
    network = "none"
    is_isolated = True
    isolation: tuple[str, ...] = ("files: all",)


async def test_what_fails_falls_to_the_next_and_the_reason_is_kept(workspace: Path) -> None:
    candidates = [Absent(workspace, "docker"), ProcessBackend(workspace)]
    chosen = await choose(candidates, workspace, Options(image="none:1"), make=lambda name, folder, _: Absent(folder, name))
    await chosen.client.close()
    await chosen.guard.close()
    assert chosen.status.backend == "process"
    assert chosen.status.is_weaker
    assert chosen.status.reason == "no engine"


async def test_a_backend_that_does_not_hold_what_it_claims_is_not_taken(workspace: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="boastful failed its self-test"):
        await choose([Boastful(workspace)], workspace, make=lambda _, folder, __: Boastful(folder))


async def test_what_bubblewrap_could_not_do_once_is_tried_again(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    _ = program.write_text('#!/bin/sh\n[ -e "$0.ran" ] || { : > "$0.ran"; exit 1; }\n')
    program.chmod(0o755)
    assert [await bubblewrap.can(str(program)) for _ in range(3)] == [False, True, True]


async def test_a_folder_that_breaks_a_backend_gets_none_that_is_weaker(workspace: Path, open_sandbox: OpenSandbox) -> None:
    await (await open_sandbox("bubblewrap")).close()
    with pytest.raises(SandboxUnavailable, match="no engine"):
        await choose([Absent(workspace, "bubblewrap"), LandlockBackend(workspace)], workspace)


_PROGRAMS = ("bash", "sh", "git", "rg", "bwrap", "docker", "python3", "mkdir", "rmdir", "tail", "env", "id")


@pytest.mark.parametrize("backend", ALL)
async def test_no_program_of_the_folder_runs_but_in_a_command(backend: str, workspace: Path, open_sandbox: OpenSandbox) -> None:
    ran = workspace / "ran"
    for folder in (".venv/bin", "venv/bin", "node_modules/.bin"):
        (workspace / folder).mkdir(parents=True)
        for name in (*_PROGRAMS, "only-here"):
            (workspace / folder / name).write_text(f'#!/bin/sh\necho "$0" >> {ran}\nexit 1\n')
            (workspace / folder / name).chmod(0o755)
    sandbox = await open_sandbox(backend)
    assert (await sandbox.status()).backend == backend
    assert (await sandbox.run_git(["init"], writes=True)).exit_code == 0
    assert (await sandbox.run_git(["status", "--short"])).exit_code == 0
    assert await sandbox.grep("hello")
    assert await sandbox.glob("**/*.py")
    before = await sandbox.checkpoints.snapshot()
    await sandbox.write_file("new.txt", b"x")
    after = await sandbox.checkpoints.snapshot()
    assert [each.path for each in await sandbox.checkpoints.changes(before.id, after.id)] == ["new.txt"]
    assert not ran.exists()
    _ = await sandbox.run_command("only-here")
    assert ran.read_text().endswith("bin/only-here\n")
    if (await sandbox.status()).has_read_only:  # where nothing asks, the system comes first
        read_only = await sandbox.read_only().run_command("command -v git")
        assert str(workspace) not in read_only.output


def test_only_these_modules_start_programs_or_look_them_up() -> None:
    starts = re.compile(r"\bwhich\(|create_subprocess|subprocess\.(?:run|Popen)|os\.(?:exec|posix_spawn|system|popen)")
    found = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if starts.search(path.read_text())}
    assert found == {line for line in _STARTERS.split() if line}


ROOT = Path(__file__).parents[2] / "lmtui"
# On the host with absolute paths or a PATH without the workspace (`check_workspace`); inside with `Settings.environment`.
_STARTERS = """
command_line.py features/batch/cluster_worker.py
host/connect.py host/web.py models/embedded/embedded_server.py parser_process.py plain/console.py plain_files.py
sandbox/bubblewrap.py sandbox/guest/checkpoints.py sandbox/guest/execute.py sandbox/guest/git_calls.py
sandbox/guest/listing.py sandbox/guest/supervisor.py sandbox/images.py sandbox/repository.py sandbox/supervisor_client.py
tui/controllers/prompt_controller.py tui/editor.py tui/terminal_app.py
"""


async def test_a_named_backend_that_fails_is_never_replaced(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    sandbox = await select_sandbox(workspace, backend="docker")
    with pytest.raises(SandboxUnavailable, match="another machine"):
        await sandbox.status()
    with pytest.raises(SandboxUnavailable):
        await sandbox.run_command("echo no")
    await sandbox.close()


@for_each("name", [".git", ".lmagent"])
async def test_a_protected_name_that_is_a_link_is_never_mounted(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to("/etc")
    with pytest.raises(UsageError, match="symbolic link"):
        await select_sandbox(tmp_path)


@pytest.mark.parametrize("backend", [DOCKER, BUBBLEWRAP])
async def test_the_network_is_on_only_where_it_is_asked_for(backend: str, open_sandbox: OpenSandbox, workspace: Path) -> None:
    sandbox = await open_sandbox(backend, workspace, network="on")
    status = await sandbox.status()
    assert status.text == f"{backend}, network on"
    devices = await sandbox.run_command("tail -n +3 /proc/net/dev | cut -d: -f1")
    assert set(devices.output.split()) - {"lo"}


async def test_what_cannot_be_asked_for_is_a_usage_error(workspace: Path) -> None:
    with pytest.raises(UsageError, match="no sandbox called"):
        await select_sandbox(workspace, backend="chroot")
    with pytest.raises(UsageError, match="network"):
        await select_sandbox(workspace, network="some")


def test_folders_that_can_be_no_workspace_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home" / "ada"
    home.mkdir(parents=True)
    fill(home, {"file": "", "project/": ""})
    monkeypatch.setenv("HOME", str(home))
    for path in (Path("/"), home, home.parent, tmp_path, home / "missing", home / "file", home / "project" / ".."):
        with pytest.raises(UsageError):
            check_workspace(path)
    assert check_workspace(home / "project") == home / "project"


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="cannot be written"):
        check_workspace(tmp_path)
    tmp_path.chmod(0o700)


def test_absolute_paths_are_made_relative_or_refused(tmp_path: Path) -> None:
    assert relative_path(f"{tmp_path}/a/b", tmp_path) == "a/b"
    assert relative_path("/workspace", tmp_path) == ""
    assert relative_path("/workspace//a", tmp_path) == "a"
    assert relative_path("./a", tmp_path) == "a"
    for path in ("/etc/passwd", f"{tmp_path}x/a", "/workspaces/a"):
        with pytest.raises(SandboxError, match="outside the workspace"):
            relative_path(path, tmp_path)


def test_settings_survive_the_way_inside() -> None:
    from lmtui.sandbox.guest import settings

    given = Settings(root="/workspace", has_shell=True, environment={"PATH": "/bin"})
    assert vars(settings.parse(given.to_json())) == vars(given)
    with pytest.raises(TypeError, match="is_new"):
        settings.parse('{"root": "/workspace", "environment": {}, "is_new": true}')


def test_a_supervisor_starts_without_modules_that_take_long_to_import() -> None:
    code = f"import sys; sys.path.append({str(GUEST.parent)!r}); import guest.supervisor; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", code], capture_output=True, text=True, check=True).stdout
    assert "selectors" in found.split()
    assert not {"pathlib", "typing", "dataclasses", "inspect", "subprocess", "tempfile"} & set(found.split())


@pytest.mark.bubblewrap
async def test_an_upgrade_takes_nothing_from_a_running_instance(
    open_sandbox: OpenSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "GUEST", shutil.copytree(GUEST, tmp_path / "guest"))
    sandbox = await open_sandbox("bubblewrap")
    shutil.rmtree(tmp_path / "guest")
    assert "README.md" in await sandbox.glob("**", 10)
