from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from lmtui.core.ports import Sandbox
from lmtui.sandbox.backend import LandlockBackend, refusal
from lmtui.sandbox.guest import confinement, linux
from lmtui.sandbox.guest.settings import Settings
from lmtui.sandbox.select import choose
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from tests.sandbox.conftest import OpenSandbox, fill

pytestmark = pytest.mark.landlock
_LANDLOCK = pytest.mark.parametrize("sandbox", ["landlock"], indirect=True)


async def test_the_status_names_the_reduced_tier_and_asks_for_every_command(workspace: Path) -> None:
    chosen = await choose([LandlockBackend(workspace)], workspace)
    try:
        status = chosen.status
        assert status.text.startswith("landlock (reduced): no private /tmp, other processes visible")
        assert (status.is_weaker, status.asks_each_command, status.has_shell) == (True, True, True)
    finally:
        await chosen.client.close()
        await chosen.guard.close()
        await chosen.backend.close()


def test_a_kernel_with_too_little_of_it_is_refused() -> None:
    for version, why in ((0, "the kernel has none"), (2, "version is 2")):
        found = refusal(version)
        assert found is not None
        assert (why in str(found), "Docker" in found.hint) == (True, True)
    assert refusal(confinement.OLDEST_ABI) is None


@_LANDLOCK
async def test_nothing_outside_is_read_or_written(sandbox: Sandbox, workspace: Path) -> None:
    secret = workspace.parent / "secret"
    secret.write_text("SECRET")
    secret.chmod(0o644)
    for command in (
        f"cat {secret}",
        f"echo x > {secret}",
        f"rm {secret}",
        f"mv {secret} .",
        f"ln {secret} l",
        f"truncate -s 0 {secret}",
    ):
        result = await sandbox.run_command(command)
        assert result.exit_code != 0
        assert "SECRET" not in result.output
    assert secret.read_text() == "SECRET"


@_LANDLOCK
async def test_no_process_outside_is_signalled_or_looked_into(sandbox: Sandbox) -> None:
    command = (
        f"kill -0 {os.getpid()}; echo $?; cat /proc/{os.getpid()}/environ | wc -c; cat /proc/{os.getpid()}/cmdline | wc -c"
    )
    result = await sandbox.run_command(f"({command}) 2>/dev/null; kill -9 $PPID; kill -9 -1; echo alive")
    assert result.output.split()[:3] == ["1", "0", "0"]
    assert result.output.split()[-1] == "alive"


@_LANDLOCK
async def test_sockets_of_every_family_are_refused_but_pairs_are_not(sandbox: Sandbox) -> None:
    script = (
        "import socket\n"
        "for family in (1, 2, 10, 16, 17, 38, 40):\n"
        "  try: socket.socket(family, 3 if family == 17 else 5 if family == 38 else 1); print('open', family)\n"
        "  except OSError as error: print(error.errno)\n"
        "a, b = socket.socketpair(); a.send(b'pair'); print(b.recv(9).decode())"
    )
    result = await sandbox.run_command(f'python3 -c "{script}"')
    assert result.output.split() == ["1"] * 7 + ["pair"]


@_LANDLOCK
async def test_the_temporary_folder_is_private_and_goes_with_the_sandbox(sandbox: Sandbox) -> None:
    folder = Path((await sandbox.run_command("echo $TMPDIR; echo x > $TMPDIR/kept; touch ~/y")).output.strip())
    assert (folder / "kept").exists()
    assert folder.stat().st_mode & 0o077 == 0
    await sandbox.close()
    assert not folder.exists()


@_LANDLOCK
async def test_no_capability_is_left_whoever_started_it(sandbox: Sandbox, workspace: Path) -> None:
    result = await sandbox.run_command(
        "while read -r n v; do case $n in Cap*|Uid:|NoNew*) echo $n $v;; esac; done < /proc/self/status"
    )
    facts = dict(line.split(" ", 1) for line in result.output.splitlines())
    assert [int(facts[name], 16) for name in ("CapInh:", "CapPrm:", "CapEff:", "CapAmb:")] == [0] * 4
    assert facts["NoNewPrivs:"] == "1"
    assert int(facts["Uid:"].split()[1]) == workspace.stat().st_uid
    if os.getuid() == 0:
        assert int(facts["CapBnd:"], 16) == 0


@pytest.mark.root
@_LANDLOCK
async def test_root_s_command_changes_no_mode_or_owner_of_anything(sandbox: Sandbox, workspace: Path) -> None:
    victim = workspace.parent / "victim"
    victim.touch(mode=0o600)
    before = victim.stat()
    await sandbox.run_command(
        f"chmod 666 {victim}; chown 1000 {victim}; touch -d 2001-01-01 {victim}; setfattr -n user.x -v y {victim}"
    )
    after = victim.stat()
    assert (after.st_mode, after.st_uid, after.st_mtime_ns) == (before.st_mode, before.st_uid, before.st_mtime_ns)


_CHANGES = {
    "changed": "echo evil > config",
    "new hook": "echo evil > hooks/post-commit",
    "new hook of a submodule": "echo evil > modules/a/hooks/post-commit",
    "many": "for n in $(seq 120); do mkdir $n; echo evil > $n/config; done",
    "new rebase": "mkdir rebase-merge; echo exec evil > rebase-merge/git-rebase-todo",
    "new patches": "mkdir rebase-apply; echo evil > rebase-apply/applying",
    "new sequence": "mkdir sequencer; echo pick evil > sequencer/todo",
    "new bisect": "echo evil > BISECT_RUN",
    "new commondir": "echo ../evil > commondir",
    "replaced by a folder": "rm config; mkdir config",
    "replaced by a link": "ln -sf /etc/passwd config",
    "hooks are a link": "rm -r hooks; ln -s /tmp hooks",
    "moved aside": "cd ..; mv .git aside; mkdir .git; echo evil > .git/config",
    "a link to a copy": "cd ..; cp -r .git evil; rm -r .git; ln -s evil .git",
    "a file": "cd ..; rm -r .git; echo gitdir: evil > .git",
}


@_LANDLOCK
async def test_what_git_would_run_is_moved_away_when_a_command_changed_it(sandbox: Sandbox, workspace: Path) -> None:
    git = workspace / ".git"
    before = {"config": "[core]\n", "HEAD": "ref: refs/heads/main\n", "hooks/pre-commit": "mine", "info/attributes": "mine"}
    for name, change in _CHANGES.items():
        fill(git, {**before, "objects/": "", "refs/heads/": "", "modules/a/hooks/": ""})
        await asyncio.sleep(0.05)  # what the user makes between commands is the user's
        assert (await sandbox.run_command("true")).quarantined == ()
        assert (await sandbox.run_command("cat .git/*; touch .git/index")).quarantined == ()
        result = await sandbox.run_command(f"cd .git; {change}")
        assert any(path.startswith(".git") for path in result.quarantined), name
        assert not git.is_symlink(), name
        left = {str(path.relative_to(git)): path.read_text() for path in git.rglob("*") if path.is_file()}
        assert left.items() <= {**before, "index": ""}.items(), name
        assert not any(path.is_symlink() for path in git.rglob("*")), name
        shutil.rmtree(git, ignore_errors=True)


async def test_what_a_killed_host_left_in_the_temporary_folder_is_removed(workspace: Path, open_sandbox: OpenSandbox) -> None:
    left = Path(tempfile.mkdtemp(prefix="lmtui-landlock-999999999-"))
    await open_sandbox("landlock")
    assert not left.exists()


@_LANDLOCK
async def test_a_check_has_a_home_of_its_own_and_git_is_looked_at_after_it(sandbox: WorkspaceSandbox, workspace: Path) -> None:
    fill(workspace, {".git/config": "[core]\n"})
    await sandbox.run_command("mkdir -p $HOME; touch $HOME/left $TMPDIR/left")
    ended = await sandbox.fresh().run_command("ls $HOME/left $TMPDIR/left; echo evil > .git/config")
    assert ended.output.count("No such file") == 2
    assert ended.quarantined == (".git/config",)


def test_rights_once_given_up_stay_given_up(tmp_path: Path) -> None:
    fill(tmp_path, {"in/": "", "out": "x"})
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            linux.set_process(linux.PR_SET_NO_NEW_PRIVS, 1)
            confinement.restrict_files(Settings(landlock_writes=[f"{tmp_path}/in"], has_network=False), ["/usr"])
            (tmp_path / "in" / "made").write_text("x")
            try:
                (tmp_path / "out").read_text()
            except PermissionError:
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert (tmp_path / "in" / "made").exists()
