from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

import pytest

from lmtui.plain_files import (
    NotPlain,
    is_plain_folder,
    list_plain,
    open_own,
    open_plain_folder,
    own_folder,
    plain_states,
    read_plain,
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/file").write_text("inside")
    (root / "a/link").symlink_to("b/file")
    (root / "out").symlink_to(tmp_path)
    os.mkfifo(root / "a/pipe")
    (tmp_path / "file").write_text("outside")
    return root


def test_a_file_is_read_below_real_folders(tree: Path) -> None:
    assert read_plain(tree, "a/b/file", 3) == b"ins"
    assert read_plain(tree, "a/b/none", 3) is None
    assert read_plain(tree, "none/file", 3) is None


@pytest.mark.parametrize("path", ["a/link", "a/pipe", "a/b"])
def test_a_link_or_what_is_no_regular_file_is_not_read_and_not_left_open(tree: Path, path: str) -> None:
    before = os.open(tree, os.O_RDONLY)
    os.close(before)
    with pytest.raises(NotPlain):
        read_plain(tree, path, 10)
    after = os.open(tree, os.O_RDONLY)
    os.close(after)
    assert after == before


@pytest.mark.parametrize("path", ["../file", "a/../../file", "a/..", "..", "a//b", "./a", "out"])
def test_no_path_leads_out_of_the_folder(tree: Path, path: str) -> None:
    assert not is_plain_folder(tree, path)
    assert list_plain(tree, path) == []
    with pytest.raises(OSError, match=r".+"):
        open_plain_folder(tree, path)
    with suppress(NotPlain):
        assert read_plain(tree, f"{path}/file", 10) is None


def test_a_folder_is_listed_with_what_each_name_is(tree: Path) -> None:
    assert list_plain(tree, "a") == [("b", "folder"), ("link", "other"), ("pipe", "other")]
    assert (list_plain(tree), list_plain(tree, "none")) == ([("a", "folder"), ("out", "other")], [])


def test_states_are_told_of_regular_files_and_not_through_links(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.txt").write_text("one")
    (tmp_path / "top.txt").write_text("four")
    (tmp_path / "link.txt").symlink_to(tmp_path / "top.txt")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    found = plain_states(tmp_path, ["a/x.txt", "top.txt", "link.txt", "b/x.txt", "a", "gone.txt", "a/../top.txt"])
    assert {path: size for path, (_, size) in found.items()} == {"a/x.txt": 3, "top.txt": 4}
    assert found["top.txt"][0] == (tmp_path / "top.txt").stat().st_mtime_ns


def leads_out(workspace: Path, kind: str) -> Path:
    """Put something that is not a file of ours in the way of a session's log, and return the path of that log."""
    own, outside = workspace / ".lmagent", workspace.parent / "outside"
    (outside / "sessions").mkdir(parents=True)
    (outside / "sessions/a.jsonl").write_text("theirs")
    (outside / "a.jsonl").write_text("theirs")
    workspace.mkdir()
    if kind == "all of it":
        own.symlink_to(outside)
    else:
        own.mkdir()
        if kind == "the folder":
            (own / "sessions").symlink_to(outside)
        elif kind == "a dangling folder":
            (own / "sessions").symlink_to(outside / "new")
        else:
            (own / "sessions").mkdir()
    log = own / "sessions/a.jsonl"
    targets = {
        "the file": outside / "a.jsonl", "a dangling file": outside / "new.jsonl", "a loop": log,
        "a device": Path("/dev/zero"),
    }  # fmt: skip
    if kind in targets:
        log.symlink_to(targets[kind])
    elif kind == "a pipe":
        os.mkfifo(log)
    elif kind == "another name":
        log.hardlink_to(outside / "a.jsonl")
    return log


KINDS = ["all of it", "the folder", "a dangling folder", "the file", "a dangling file", "a loop", "a device", "a pipe"]


@pytest.mark.parametrize("kind", [*KINDS, "another name"])
@pytest.mark.parametrize("mode", ["ab", "wb", "r+b", "xb"])
def test_nothing_below_lmtuis_folder_is_written_elsewhere(tmp_path: Path, kind: str, mode: str) -> None:
    log = leads_out(tmp_path / "work", kind)
    with pytest.raises(OSError, match=re.escape(str(log.parent))), open(log, mode, opener=open_own):
        pass
    files = {each.read_text() for each in (tmp_path / "outside").rglob("*") if each.is_file()}
    assert (files, (tmp_path / "outside/new").exists()) == ({"theirs"}, False)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_below_lmtuis_folder_is_read_from_elsewhere(tmp_path: Path, kind: str) -> None:
    log = leads_out(tmp_path / "work", kind)
    with pytest.raises(OSError, match=r"link|No such file|not a regular file"), open(log, "rb", opener=open_own):
        pass


@pytest.mark.parametrize("kind", ["all of it", "the folder", "a dangling folder"])
def test_a_folder_below_lmtuis_is_not_made_elsewhere(tmp_path: Path, kind: str) -> None:
    log = leads_out(tmp_path / "work", kind)
    with pytest.raises(OSError, match="behind a link"), own_folder(log.parent / "made", makes=True):
        pass
    assert not [*(tmp_path / "outside").rglob("made")]
