from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError
from lmtui.core.ports import Snapshot
from lmtui.paths import kept_dir
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from tests.sandbox.conftest import ALL, ISOLATED, OpenSandbox, fill, git

pytestmark = pytest.mark.git
EVERYWHERE = pytest.mark.parametrize("backend", ALL)


def tree_of(folder: Path) -> dict[str, tuple[str, int, bytes]]:
    """Return everything below a folder but lmtui's own: kind, permission bits, content."""
    found: dict[str, tuple[str, int, bytes]] = {}
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != ".lmagent"]
        for name in [*folders, *files]:
            path = Path(root, name)
            info = path.lstat()
            is_link, is_file = stat.S_ISLNK(info.st_mode), stat.S_ISREG(info.st_mode)
            content = os.fsencode(path.readlink()) if is_link else path.read_bytes() if is_file else b""
            found[str(path.relative_to(folder))] = (str(stat.S_IFMT(info.st_mode)), stat.S_IMODE(info.st_mode), content)
    return found


async def take_back(sandbox: WorkspaceSandbox, before: Snapshot) -> None:
    after = await sandbox.checkpoints.snapshot()
    changes = await sandbox.checkpoints.changes(before.id, after.id)
    await sandbox.checkpoints.restore(before.id, [change.path for change in changes], expected=after.id)


@EVERYWHERE
async def test_all_that_was_done_is_taken_back_to_the_byte(backend: str, workspace: Path, open_sandbox: OpenSandbox) -> None:
    (workspace / "run.sh").write_text("echo\n")
    (workspace / "run.sh").chmod(0o755)
    (workspace / "private.txt").write_text("mine\n")
    (workspace / "private.txt").chmod(0o600)
    fill(workspace, {"bytes.bin": bytes(range(256)) * 10, "windows.txt": b"a\r\nb\r\n"})
    (workspace / "link").symlink_to("README.md")
    (workspace / "odd \n name").write_text("x")
    sandbox = await open_sandbox(backend)
    before = tree_of(workspace)
    state = await sandbox.checkpoints.snapshot()
    assert await sandbox.checkpoints.snapshot() == state
    shutil.rmtree(workspace / "src")
    fill(workspace, {"src": "a file now", "README.md": "other\n"})
    (workspace / "run.sh").chmod(0o644)
    (workspace / "private.txt").unlink()
    fill(workspace, {"bytes.bin": b"\0", "windows.txt": b"a\nb\n"})
    (workspace / "link").unlink()
    fill(workspace, {"link/inner": "1"})
    (workspace / "odd \n name").unlink()
    fill(workspace, {"new/deep/file": "new"})
    assert tree_of(workspace) != before
    await take_back(sandbox, state)
    assert tree_of(workspace) == before


async def test_what_was_changed_since_or_is_in_no_state_stops_all_of_it(workspace: Path, open_sandbox: OpenSandbox) -> None:
    sandbox = await open_sandbox("process")
    fill(workspace, {"out.log": "old\n", "grown": "small\n"})
    before = await sandbox.checkpoints.snapshot()
    fill(workspace, {"README.md": "agent\n", "new.txt": "agent\n", ".gitignore": "*.log\n", "grown": bytes(17 << 20)})
    (workspace / "out.log").unlink()
    after = await sandbox.checkpoints.snapshot()
    assert after.left_out == ("grown",)
    fill(workspace, {"README.md": "the user\n", "out.log": "the user\n"})  # which is ignored now
    for paths in (["README.md", "new.txt"], ["out.log"], ["grown"]):
        with pytest.raises(SandboxError, match=f"in the meantime: {paths[0]}"):
            await sandbox.checkpoints.restore(before.id, paths, expected=after.id)
    found = [(workspace / name).read_text() for name in ("README.md", "new.txt", "out.log")]
    assert (found, (workspace / "grown").stat().st_size) == (["the user\n", "agent\n", "the user\n"], 17 << 20)


async def test_large_files_repositories_and_odd_names_are_left_out_and_named(
    workspace: Path, open_sandbox: OpenSandbox
) -> None:
    with (workspace / "large.bin").open("wb") as file:
        file.truncate(17 << 20)
    subprocess.run(["git", "init", "-q", str(workspace / "nested")], check=True)
    (workspace / "nested" / "file").write_text("x")
    Path(os.fsdecode(os.fsencode(workspace) + b"/bad\xff")).write_text("x")
    os.mkfifo(workspace / "pipe")
    fill(workspace, {".gitignore": "build/\nsecret.env\n", "build/out": "x", "secret.env": "x"})
    sandbox = await open_sandbox("process")
    state = await sandbox.checkpoints.snapshot()
    assert [name for name in state.left_out if name != "pipe"] == ["bad�", "large.bin", "nested/"]
    assert set(await sandbox.checkpoints.ignored()) == {"build/", "secret.env"}
    before = tree_of(workspace)
    (workspace / "README.md").write_text("x")
    await take_back(sandbox, state)
    assert tree_of(workspace) == before


async def test_the_users_repository_is_left_alone(workspace: Path, open_sandbox: OpenSandbox) -> None:
    git(workspace, "init", "-q")
    git(workspace, "add", "README.md")
    git(workspace, "commit", "-qm", "first")
    (workspace / "README.md").write_text("staged\n")
    git(workspace, "stash", "-q")
    (workspace / "README.md").write_text("uncommitted\n")
    git(workspace, "add", "README.md")
    (workspace / "README.md").write_text("uncommitted and not staged\n")
    before = tree_of(workspace)
    sandbox = await open_sandbox("process")
    state = await sandbox.checkpoints.snapshot()
    fill(workspace, {"README.md": "agent\n", "added": "agent\n"})
    await take_back(sandbox, state)
    assert tree_of(workspace) == before


async def test_filters_and_conversions_of_the_workspace_are_not_heeded(workspace: Path, open_sandbox: OpenSandbox) -> None:
    (workspace / ".gitattributes").write_text(
        "* text eol=crlf filter=evil ident working-tree-encoding=UTF-16\n*.md diff=evil\n"
    )
    (workspace / "id.txt").write_text("$Id$\n")
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    config = workspace / ".git" / "config"
    program = f"touch {workspace}/pwned; cat"
    config.write_text(f'{config.read_text()}[filter "evil"]\n\tclean = {program}\n\tsmudge = {program}\n')
    before = tree_of(workspace)
    sandbox = await open_sandbox("process")
    state = await sandbox.checkpoints.snapshot()
    (workspace / "id.txt").unlink()
    (workspace / "README.md").write_text("other\n")
    await take_back(sandbox, state)
    assert tree_of(workspace) == before


async def test_a_link_is_put_back_as_a_link_and_never_followed(
    workspace: Path, tmp_path: Path, open_sandbox: OpenSandbox
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "main.py").write_text("theirs\n")
    sandbox = await open_sandbox("process")
    before = await sandbox.checkpoints.snapshot()
    shutil.rmtree(workspace / "src")
    after = await sandbox.checkpoints.snapshot()
    (workspace / "src").symlink_to(outside)
    with pytest.raises(SandboxError):
        await sandbox.checkpoints.restore(before.id, ["src/main.py"], expected=after.id)
    assert (outside / "main.py").read_text() == "theirs\n"
    assert [path.name for path in outside.iterdir()] == ["main.py"]


@pytest.mark.parametrize("backend", ISOLATED)
async def test_commands_do_not_see_the_store(backend: str, workspace: Path, open_sandbox: OpenSandbox) -> None:
    sandbox = await open_sandbox(backend)
    await sandbox.checkpoints.snapshot()
    store = kept_dir("checkpoints", workspace)
    assert (store / "objects").is_dir()
    result = await sandbox.run_command(f"ls -d /checkpoints {store} 2>&1; mount | grep -c checkpoints")
    assert result.output.count("No such file") == 2
    assert result.output.rstrip().endswith("0")


async def test_a_checkpoint_is_named_by_a_hash_only(workspace: Path, open_sandbox: OpenSandbox) -> None:
    sandbox = await open_sandbox("process")
    state = await sandbox.checkpoints.snapshot()
    with pytest.raises(SandboxError, match="not a checkpoint"):
        await sandbox.checkpoints.restore("--output=/tmp/x", ["README.md"], expected=state.id)
    with pytest.raises(SandboxError, match="not a checkpoint"):
        await sandbox.checkpoints.read("HEAD", "README.md")
    content = await sandbox.checkpoints.read(state.id, "README.md")
    assert content == b"hello\n"
    assert await sandbox.checkpoints.read(state.id, "nothing") is None
    assert hashlib.sha256(content).hexdigest() == (await sandbox.read_file("README.md")).sha256


async def test_dropping_frees_the_disk_and_says_what_is_gone(workspace: Path, open_sandbox: OpenSandbox) -> None:
    for number in range(100):
        (workspace / f"file{number}").write_bytes(os.urandom(6000))
    sandbox = await open_sandbox("process")
    old = await sandbox.checkpoints.snapshot()
    for number in range(100):
        (workspace / f"file{number}").write_bytes(os.urandom(6000))
    kept = await sandbox.checkpoints.snapshot()
    expected = tree_of(workspace)
    store = kept_dir("checkpoints", workspace)
    before = _size(store)
    log = store / "lmtui.snapshots"
    lines = log.read_text().splitlines()
    log.write_text("\n".join([f"1 {lines[0].split()[1]}", *lines[1:]]) + "\n")
    await sandbox.close()
    again = await open_sandbox("process")
    assert (await again.checkpoints.snapshot()).dropped == 1
    assert _size(store) < before * 0.7
    (workspace / "file7").unlink()
    await take_back(again, kept)
    with pytest.raises(SandboxError, match="checkpoint"):
        await again.checkpoints.restore(old.id, ["file7"], expected=kept.id)
    assert tree_of(workspace) == expected


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / "objects").rglob("*") if path.is_file())


async def test_a_folder_that_became_a_link_is_put_back(workspace: Path, open_sandbox: OpenSandbox) -> None:
    fill(workspace, {"pkg/a.txt": "a\n", "pkg/deep/b.txt": "b\n", "other/a.txt": "other\n"})
    sandbox = await open_sandbox("process")
    before, was = await sandbox.checkpoints.snapshot(), tree_of(workspace)
    for target in ("lib", "other", "../nowhere"):
        (workspace / "pkg").rename(workspace / "lib")
        (workspace / "pkg").symlink_to(target)
        after, linked = await sandbox.checkpoints.snapshot(), tree_of(workspace)
        paths = [change.path for change in await sandbox.checkpoints.changes(before.id, after.id)]
        for source, expected, found in ((before, after, was), (after, before, linked), (before, after, was)):
            await sandbox.checkpoints.restore(source.id, paths, expected=expected.id)
            assert tree_of(workspace) == found, target


async def test_nothing_is_put_back_through_a_link_that_came_since(workspace: Path, open_sandbox: OpenSandbox) -> None:
    fill(workspace, {"pkg/a.txt": "old\n"})
    sandbox = await open_sandbox("process")
    before = await sandbox.checkpoints.snapshot()
    (workspace / "pkg" / "a.txt").write_text("new\n")
    after = await sandbox.checkpoints.snapshot()
    (workspace / "pkg").rename(workspace / "mine")
    (workspace / "pkg").symlink_to("mine")
    with pytest.raises(SandboxError, match=r"in the meantime: pkg/a\.txt"):
        await sandbox.checkpoints.restore(before.id, ["pkg/a.txt"], expected=after.id)
    assert (workspace / "mine" / "a.txt").read_text() == "new\n"


@pytest.mark.full
async def test_every_file_of_a_large_change_is_known_and_taken_back(workspace: Path, open_sandbox: OpenSandbox) -> None:
    sandbox = await open_sandbox("process")
    was = tree_of(workspace)
    before = await sandbox.checkpoints.snapshot()
    (workspace / "made").mkdir()
    for number in range(4500):  # the first answers are full of letters, the others of names
        name = f"a_{number}{chr(0x6587) * 80}" if number < 1_999 else f"file_{number}.txt"
        (workspace / "made" / name).write_text(f"{number}\n")
    after = await sandbox.checkpoints.snapshot()
    changes = await sandbox.checkpoints.changes(before.id, after.id)
    assert len({change.path for change in changes}) == 4500
    paths = [change.path for change in changes]
    assert len(await sandbox.checkpoints.changes(before.id, after.id, paths)) == 4500
    with pytest.raises(SandboxError, match="too many files"):
        await sandbox.checkpoints.restore(before.id, paths * 20, expected=after.id)
    await sandbox.checkpoints.restore(before.id, paths, expected=after.id)
    assert tree_of(workspace) == was
