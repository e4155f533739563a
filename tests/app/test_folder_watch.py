from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lmtui.app.workspace_files import FolderWatch
from lmtui.core.workspace import FoldersChanged
from tests.waiting import until


class Watched:
    def __init__(self, root: Path) -> None:
        self.told: list[FoldersChanged] = []
        self.watch = FolderWatch(root.resolve(), self.told.append)


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    for name in ("src", "other", ".git"):
        (tmp_path / name).mkdir()
    found = Watched(tmp_path)
    yield found
    found.watch.close()


async def test_changes_in_watched_folders_are_told_together_and_others_not(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("src")
    watched.watch.watch(frozenset({"link", "src/..", "nowhere"}))
    assert watched.watch.folders == frozenset()
    watched.watch.watch(frozenset({"", "src"}))
    (tmp_path / "src" / "a.py").write_text("x")
    (tmp_path / "b.txt").write_text("x")
    (tmp_path / "other" / "c.txt").write_text("x")
    await until(lambda: len(watched.told) == 1)
    assert watched.told == [FoldersChanged(frozenset({"", "src"}))]
    watched.watch.watch(frozenset({"other"}))
    (tmp_path / "src" / "a.py").write_text("y")
    (tmp_path / "other" / "b.py").write_text("x")
    await until(lambda: len(watched.told) == 2)
    assert watched.told[1:] == [FoldersChanged(frozenset({"other"}))]
    watched.watch.watch(frozenset({"", "other"}))
    (tmp_path / "other" / "b.py").unlink()
    (tmp_path / "other" / "c.txt").unlink()
    (tmp_path / "other").rmdir()
    await until(lambda: watched.watch.folders == {""})


async def test_git_is_told_of_but_not_its_locks(watched: Watched, tmp_path: Path) -> None:
    watched.watch.watch(frozenset({""}))
    lock = tmp_path / ".git" / "index.lock"
    lock.write_text("")
    await asyncio.sleep(0.4)
    assert watched.told == []
    lock.rename(tmp_path / ".git" / "index")
    await until(lambda: bool(watched.told))
    assert watched.told == [FoldersChanged(frozenset(), has_git_changed=True)]


async def test_a_folder_that_took_the_name_of_one_moved_away_is_watched_too(watched: Watched, tmp_path: Path) -> None:
    watched.watch.watch(frozenset({"", "src"}))
    (tmp_path / "src").rename(tmp_path / "old")
    (tmp_path / "src").mkdir()
    await until(lambda: bool(watched.told))
    watched.watch.watch(frozenset({"", "src", "old"}))
    watched.told.clear()
    (tmp_path / "src" / "a.py").write_text("x")
    await until(lambda: bool(watched.told))
    assert watched.told == [FoldersChanged(frozenset({"src"}))]
    watched.watch.watch(frozenset({"", "old"}))
    watched.watch.watch(frozenset({""}))
    assert watched.watch.folders == {""}
