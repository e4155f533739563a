from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from lmtui.core.workspace import FileChangeKind
from lmtui.sandbox.guest import restore
from lmtui.sandbox.guest.beneath import Refused, Root
from lmtui.sandbox.guest.checkpoints import Store
from tests.sandbox.conftest import BUBBLEWRAP, OpenSandbox, fill
from tests.sandbox.test_checkpoints import tree_of

pytestmark = pytest.mark.git
LARGE = 17 << 20
STEPS = {
    "pipe": "rm README.md; mkfifo README.md",
    "socket": "rm README.md; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"README.md\")'",
    "grown": f"head -c {LARGE} /dev/zero > README.md",
    "appended": f"head -c {LARGE} /dev/zero >> README.md",
    "unreadable": "echo gone > README.md; chmod 000 README.md",
    "only unreadable": "chmod 000 README.md",
    "in an unreadable folder": "echo gone > src/main.py; chmod 000 src",
    "in a read-only folder": "rm src/main.py; chmod 555 src",
    "folder of pipes": "rm README.md; mkdir README.md",
    "under two names": "ln README.md other.txt",
}


@pytest.mark.parametrize("backend", [pytest.param("process", marks=pytest.mark.full), BUBBLEWRAP])
async def test_what_a_step_made_of_a_kept_file_is_known_and_taken_back(
    backend: str, workspace: Path, open_sandbox: OpenSandbox
) -> None:
    sandbox = await open_sandbox(backend)
    content = tree_of(workspace)
    for step, command in STEPS.items():
        before = await sandbox.checkpoints.snapshot()
        subprocess.run(["sh", "-c", f"{command}; echo more > other.txt"], cwd=workspace, check=True)
        after = await sandbox.checkpoints.snapshot()
        changes = await sandbox.checkpoints.changes(before.id, after.id, is_now=True)
        named = {change.path for change in changes}
        assert "other.txt" in named, step
        assert len(named) == 2 or step == "only unreadable", step  # an instance that may read anything sees no change in it
        unkept = [change.path for change in changes if not change.is_kept]
        assert all(change.kind is FileChangeKind.MODIFIED for change in changes if not change.is_kept), step
        await sandbox.checkpoints.restore(before.id, sorted(named), expected=after.id, over=unkept)
        found = tree_of(workspace)
        assert {path: each[2] for path, each in found.items()} == {path: each[2] for path, each in content.items()}, step
        assert os.access(workspace / "README.md", os.R_OK)
        if step == "only unreadable":  # root needs no bit, and sees no change
            (workspace / "README.md").chmod(0o644)
        assert (workspace / "README.md").stat().st_mode & 0o400, step


async def test_a_folder_that_took_a_files_place_is_set_aside_with_what_cannot_be_kept(
    workspace: Path, open_sandbox: OpenSandbox
) -> None:
    sandbox = await open_sandbox("process")
    before = await sandbox.checkpoints.snapshot()
    (workspace / "README.md").unlink()
    fill(workspace, {"README.md/deep/": "", "README.md/kept.txt": "goes"})
    os.mkfifo(workspace / "README.md" / "deep" / "pipe")
    (workspace / "README.md" / "large").write_bytes(b"x" * LARGE)
    after = await sandbox.checkpoints.snapshot()
    changes = await sandbox.checkpoints.changes(before.id, after.id, is_now=True)
    assert [(change.path, change.is_kept) for change in changes] == [("README.md", False), ("README.md/kept.txt", True)]
    paths = [change.path for change in changes]
    await sandbox.checkpoints.restore(before.id, paths, expected=after.id, over=["README.md"])
    assert (workspace / "README.md").read_text() == "hello\n"
    aside = next(workspace.glob("README.md.replaced-*"))
    assert sorted(path.name for path in aside.rglob("*")) == ["deep", "large", "pipe"]


async def test_more_files_than_are_named_that_no_state_can_hold_are_known(workspace: Path, open_sandbox: OpenSandbox) -> None:
    sandbox = await open_sandbox("process")
    names = [f"{number}.txt" for number in range(120)]
    for name in names:
        (workspace / name).write_text(name)
    before = await sandbox.checkpoints.snapshot()
    for name in names:
        (workspace / name).unlink()
        os.mkfifo(workspace / name)
    after = await sandbox.checkpoints.snapshot()
    changes = await sandbox.checkpoints.changes(before.id, after.id, is_now=True)
    assert sorted(change.path for change in changes if not change.is_kept) == sorted(names)
    await sandbox.checkpoints.restore(before.id, names, expected=after.id, over=names)
    assert all((workspace / name).read_text() == name for name in names)


def store_of(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"), Root(str(tmp_path / "work")), 16 << 20)


def kept(store: Store) -> str:
    with store.locked():
        return str(store.snapshot()["tree"])


def write_many(folder: Path, text: str, count: int = 400) -> None:
    for number in range(count):
        path = folder / f"d{number % 7}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text} {number}\n" * 200)


RESTORE = """
import os, signal, sys
sys.path[:0] = sys.argv[6:]
from pathlib import Path
from tests.sandbox.test_undo_of_anything import store_of
from lmtui.sandbox.guest import restore
store = store_of(Path(sys.argv[1]))
paths = [str(path.relative_to(Path(sys.argv[1], "work"))) for path in Path(sys.argv[1], "work").rglob("*.txt")] + ["gone.txt"]
done, left = getattr(restore, sys.argv[4]), [int(sys.argv[5])]

def counted(*given):
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    return done(*given)

setattr(restore, sys.argv[4], counted)
with store.locked():
    print(restore.restore(store, sys.argv[2], sys.argv[3], paths, []), flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors of folders are Linux's")
@pytest.mark.parametrize(
    ("place", "count"),
    [
        ("create_file", 0), ("create_file", 1), ("create_file", 250), ("_put", 0), ("_put", 1), ("_put", 2),
        ("_put", 200), ("_rename", 399),
    ],
)  # fmt: skip
@pytest.mark.full
def test_a_restore_that_was_killed_is_done_again_and_leaves_nothing_behind(tmp_path: Path, place: str, count: int) -> None:
    (tmp_path / "work").mkdir()
    store = store_of(tmp_path)
    write_many(tmp_path / "work", "first")
    (tmp_path / "work" / "gone.txt").write_text("comes back")
    source = kept(store)
    wanted = tree_of(tmp_path / "work")
    write_many(tmp_path / "work", "second")
    (tmp_path / "work" / "gone.txt").unlink()
    (tmp_path / "work" / "goes.txt").write_text("goes")
    expected = kept(store)
    command = [sys.executable, "-c", RESTORE, str(tmp_path), source, expected, place]
    killed = subprocess.run([*command, str(count), *sys.path], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    again = subprocess.run([*command, "-1", *sys.path], capture_output=True, text=True, check=True)
    assert again.stdout.startswith("{'conflicts': []")
    (tmp_path / "work" / "goes.txt").unlink(missing_ok=True)  # it was not among the paths of the second time
    assert tree_of(tmp_path / "work") == wanted


def test_drafts_of_a_killed_restore_go_with_the_next_state(tmp_path: Path) -> None:
    (tmp_path / "work" / "d").mkdir(parents=True)
    store = store_of(tmp_path)
    store.begin_drafts(["", "d", "missing"])
    own = [tmp_path / "work" / f"{folder}{store.draft_prefix}1.tmp" for folder in ("", "d/")]
    others = [tmp_path / "work" / ".lmtui-123456789abc-1.tmp", tmp_path / "work" / "d" / "x.tmp"]
    for path in (*own, *others):
        path.write_text("x")
    kept(store_of(tmp_path))
    assert not any(path.exists() for path in own)
    assert all(path.exists() for path in others)


def test_a_file_that_another_hand_changed_stops_a_restore_that_is_done_again(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    store = store_of(tmp_path)
    write_many(tmp_path / "work", "first", 4)
    source = kept(store)
    write_many(tmp_path / "work", "second", 4)
    expected = kept(store)
    write_many(tmp_path / "work", "first", 2)
    (tmp_path / "work" / "d3" / "3.txt").write_text("by hand")
    paths = [f"d{number}/{number}.txt" for number in range(4)]
    with store.locked():
        assert restore.restore(store, source, expected, paths, []) == {"conflicts": ["d3/3.txt"]}
    assert (tmp_path / "work" / "d2" / "2.txt").read_text().startswith("second")


@pytest.mark.parametrize("after", ["create_file", "_put"])
def test_a_file_that_is_changed_during_a_restore_stays(tmp_path: Path, after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (work := tmp_path / "work").mkdir()
    store = store_of(tmp_path)
    fill(work, {"a.txt": "first", "gone.txt": "first"})
    source = kept(store)
    (work / "gone.txt").unlink()
    fill(work, {"a.txt": "second", "goes.txt": "second"})
    expected = kept(store)
    changed = "goes.txt" if after == "create_file" else "a.txt"
    does = getattr(restore, after)

    def raced(*given: Any) -> Any:
        if after == "create_file" or changed in given:
            (work / changed).write_text("by hand")
        return does(*given)

    monkeypatch.setattr(restore, after, raced)
    with store.locked(), nullcontext() if after == "create_file" else pytest.raises(Refused, match=r"put back: a\.txt"):
        assert restore.restore(store, source, expected, ["a.txt", "goes.txt", "gone.txt"]) == {"conflicts": ["goes.txt"]}
    found = {"a.txt": "second", "goes.txt": "second"} if after == "create_file" else {"gone.txt": "first"}
    assert {each.name: each.read_text() for each in work.iterdir()} == found | {changed: "by hand"}
