from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError
from lmtui.core.workspace import FoldersChanged
from tests.app.conftest import Open
from tests.waiting import until


async def test_files_of_the_workspace_are_seen_and_no_others(workspace: Path, tmp_path: Path, open_one: Open) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("secret")
    (workspace / "a.txt").write_text("one")
    (workspace / "-rf").write_text("a name like an option")
    (workspace / "inner").symlink_to("a.txt")
    (workspace / "outer").symlink_to(outside)
    (workspace / "folder").mkdir()
    files = open_one().files
    assert [entry.path for entry in await files.list("")][:3] == ["folder", "-rf", "a.txt"]
    assert (await files.paths(), files.paths_note) == (["-rf", "a.txt"], "")
    assert (await files.read("a.txt")).data == b"one"
    assert await files.real_path("a.txt") == workspace / "a.txt"
    assert await files.real_path("inner") == workspace / "a.txt"
    assert str(await files.real_path("-rf")).startswith("/")
    settings = workspace / ".lmagent" / "config.toml"
    settings.parent.mkdir(exist_ok=True)
    settings.symlink_to("/etc/passwd")
    for path in ("outer", "folder", "nowhere", "../outside.txt", str(outside), ".lmagent/config.toml"):
        for look in (files.real_path, files.read):
            with pytest.raises(SandboxError):
                await look(path)
    settings.unlink()
    settings.write_text("# mine")  # who is asked to trust a folder can read its settings
    assert (await files.read(".lmagent/config.toml")).data == b"# mine"


async def test_listeners_are_told_until_they_end_it(workspace: Path, open_one: Open) -> None:
    told: list[FoldersChanged] = []
    files = open_one().files
    end = files.changed(told.append)
    files.watch([""])
    (workspace / "a.txt").write_text("one")
    await until(lambda: told)
    end()
    (workspace / "b.txt").write_text("two")
    await asyncio.sleep(0.4)
    assert told == [FoldersChanged(frozenset({""}))]
