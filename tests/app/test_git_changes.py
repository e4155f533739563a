from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.core.workspace import FileChangeKind
from tests.app.conftest import Open
from tests.sandbox.conftest import git


async def test_what_differs_from_the_last_commit_is_told_with_new_and_deleted_files(workspace: Path, open_one: Open) -> None:
    for name, text in (("changed.txt", "one\ntwo\n"), ("gone.txt", "old\n"), ("same.txt", "x\n"), ("-odd *.txt", "a\n")):
        (workspace / name).write_text(text)
    git(workspace, "init")
    git(workspace, "add", ".")
    git(workspace, "commit", "-m", "first")
    (workspace / "changed.txt").write_text("one\n2\n")
    (workspace / "-odd *.txt").write_text("b\n")
    (workspace / "gone.txt").unlink()
    (workspace / "staged.txt").write_text("s\n")
    git(workspace, "add", "staged.txt")
    (workspace / "new").mkdir()
    (workspace / "new" / "ü.txt").write_text("first\n")
    (workspace / "new" / "picture.png").write_bytes(b"\x89PNG\0")
    found = {change.path: change for change in await open_one().files.git_changes()}
    assert {path: change.kind for path, change in found.items()} == {
        "-odd *.txt": FileChangeKind.MODIFIED,
        "changed.txt": FileChangeKind.MODIFIED,
        "gone.txt": FileChangeKind.DELETED,
        "staged.txt": FileChangeKind.ADDED,
        "new/ü.txt": FileChangeKind.ADDED,
        "new/picture.png": FileChangeKind.ADDED,
    }
    assert (found["changed.txt"].added_lines, found["changed.txt"].removed_lines) == (1, 1)
    assert "-two\n+2" in found["changed.txt"].diff
    assert "-a\n+b" in found["-odd *.txt"].diff
    assert "+first" in found["new/ü.txt"].diff
    assert found["new/picture.png"].diff == ""


@pytest.mark.parametrize("has_repository", [True, False])
async def test_before_a_first_commit_all_is_new_and_without_a_repository_there_is_nothing(
    workspace: Path, open_one: Open, has_repository: bool
) -> None:
    (workspace / "a.txt").write_text("one\n")
    if has_repository:
        git(workspace, "init")
        git(workspace, "add", "a.txt")
    found = await open_one().files.git_changes()
    assert [(change.path, change.kind) for change in found] == ([("a.txt", FileChangeKind.ADDED)] if has_repository else [])
