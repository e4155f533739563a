from __future__ import annotations

import os
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError
from lmtui.core.workspace import DirEntry, GitState
from lmtui.sandbox import workspace_states
from tests.sandbox.conftest import ALL, CONFINED, OpenSandbox, fill, git
from tests.sets import for_each

every_backend = pytest.mark.parametrize("backend", ALL)


@every_backend
async def test_a_folder_is_listed_folders_first_with_names_of_every_kind(
    backend: str, open_sandbox: OpenSandbox, workspace: Path
) -> None:
    (workspace / "a\nb").write_text("x")
    (workspace / os.fsdecode(b"bad\xff")).write_bytes(b"raw")
    (workspace / "out").symlink_to("/etc")
    sandbox = await open_sandbox(backend)
    assert await sandbox.listing.folder("") == [
        DirEntry("src", "dir"),
        DirEntry("README.md", "file", 6),
        DirEntry("a\nb", "file", 1),
        DirEntry("bad\udcff", "file", 3),
        DirEntry("out", "link"),
    ]
    assert (await sandbox.read_file("bad\udcff")).data == b"raw"
    for path in ("out", "../", "/etc", ".lmagent", "nowhere"):
        with pytest.raises(SandboxError):
            await sandbox.listing.folder(path)


@every_backend
async def test_without_a_repository_names_that_are_never_meant_and_ignored_ones_are_left_out(
    backend: str, open_sandbox: OpenSandbox, workspace: Path
) -> None:
    fill(workspace, {"node_modules/x.js": "", "src/x.log": "", ".gitignore": "*.log\n"})
    (workspace / "loop").symlink_to(".")
    (workspace / os.fsdecode(b"src/n\xff")).touch()
    sandbox = await open_sandbox(backend)
    assert await sandbox.listing.paths(100) == ([".gitignore", "README.md", "src/main.py", "src/n\udcff"], False)
    assert await sandbox.listing.paths(2) == ([".gitignore", "README.md"], True)
    assert await sandbox.listing.git_status() == {}


@pytest.mark.git
@pytest.mark.parametrize("backend", CONFINED)
async def test_a_repository_tells_every_state(backend: str, open_sandbox: OpenSandbox, workspace: Path) -> None:
    for name in ("old.txt", "gone.txt", "mod.txt"):
        (workspace / name).write_text(f"{name}\n" * 5)
    (workspace / ".gitignore").write_text("build\n*.o\n.lmagent\n")
    git(workspace, "init", "-q")
    git(workspace, "add", ".")
    git(workspace, "commit", "-qm", "one")
    git(workspace, "mv", "old.txt", "re\nnamed.txt")
    (workspace / "gone.txt").unlink()
    fill(workspace, {"mod.txt": "other", "added.txt": ""})
    git(workspace, "add", "added.txt")
    for name in ("build/x.py", "new/a.c", "new/a.o", "src/b.o"):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text("")
    sandbox = await open_sandbox(backend)
    assert await sandbox.listing.git_status() == {
        "re\nnamed.txt": GitState.RENAMED,
        "gone.txt": GitState.DELETED,
        "mod.txt": GitState.MODIFIED,
        "added.txt": GitState.ADDED,
        "new": GitState.UNTRACKED,
        "build": GitState.IGNORED,
        "new/a.o": GitState.IGNORED,
        "src/b.o": GitState.IGNORED,
    }
    paths, is_cut = await sandbox.listing.paths(100)
    assert not is_cut
    assert {"re\nnamed.txt", "added.txt", "new/a.c", "src/main.py"} < set(paths)
    assert not {"build/x.py", "new/a.o", "src/b.o"} & set(paths)


@pytest.mark.full
async def test_twenty_thousand_long_names_travel_whole(open_sandbox: OpenSandbox, workspace: Path) -> None:
    folder = workspace / "many"
    folder.mkdir()
    for number in range(20_000):
        (folder / f"{number:05}-{'x' * 100}.py").touch()
    sandbox = await open_sandbox("process")
    entries = await sandbox.listing.folder("many")
    assert len(entries) == 20_000
    assert entries[-1].path == f"many/19999-{'x' * 100}.py"
    assert len((await sandbox.listing.paths(200_000))[0]) == 20_002


def test_a_listing_without_end_is_refused() -> None:
    with pytest.raises(SandboxError, match="the sandbox sent a listing"):
        workspace_states._records(b"x" * 17_000_000)


@for_each("name", ["f1 ../x", "f1 ..", "f1 ", "f" * 300, "f1 /etc/passwd", "q1 name", "f-1 name", "f1 a/.git/x"])
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(SandboxError, match="a name that cannot be"):
        workspace_states.read_entries(name.encode())


def test_paths_that_lead_elsewhere_are_left_out() -> None:
    data = b"\0".join([b"ok.py", b"/etc/passwd", b"../x", b"a/../../x", b".git/config", b"folder/", b"a..b"])
    assert workspace_states._paths(data) == ["a..b", "ok.py"]
