from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.sandbox.guest import beneath, files, linux
from lmtui.sandbox.guest.beneath import Refused, Root
from tests.sandbox.conftest import fill
from tests.sets import depth

_NAMES = (
    "a", "b", "up", "top", "root", "loop", "inner", ".git", ".lmagent", "..", ".", "", "…", "a\u200db", "secret", "ws", "f",
)  # fmt: skip
_PATHS = st.lists(st.sampled_from(_NAMES) | st.text(max_size=5), max_size=7).map("/".join)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a workspace full of links; everything outside of it says so."""
    base = tmp_path_factory.mktemp("beneath")
    root = base / "ws"
    for folder in ("a/b", "b", ".git", ".lmagent", "a/.git"):
        (root / folder).mkdir(parents=True)
        (root / folder / "f").write_text("protected" if "." in folder else "inside")
    for place in (base, base / "secret"):
        place.mkdir(exist_ok=True)
        fill(place, {"f": "outside", "a": "outside"})
    links = {
        "up": "..", "top": "/", "root": str(base), "loop": "loop", "inner": "a/b", "a/up": "../..", "b/a": "../a", "g": ".git",
    }  # fmt: skip
    for name, target in links.items():
        (root / name).symlink_to(target)
    return root


@pytest.fixture(scope="module")
def root(tree: Path) -> Iterator[Root]:
    opened = Root(str(tree))
    yield opened
    os.close(opened.fd)


@given(path=_PATHS)
@settings(max_examples=depth(150, 600))
def test_no_path_reads_anything_outside_or_protected(root: Root, path: str) -> None:
    try:
        _, data = files.read(root, path, 100)
    except Refused:
        return
    assert data == b"inside"


@given(path=_PATHS)
@settings(max_examples=depth(75, 300))
def test_no_path_writes_anything_outside_or_protected(root: Root, tree: Path, path: str) -> None:
    before = _guarded(tree)
    with suppress(Refused):
        files.write(root, path, b"inside", None)
    assert _guarded(tree) == before


@given(text=st.text(max_size=8))
def test_a_name_is_protected_however_it_is_spelled(text: str) -> None:
    for name in (".git", ".GIT", ".ｇｉｔ", ".Lmagent"):
        assert beneath.is_protected(f"{text.replace('/', '')}x/{name}/config")


def test_links_inside_are_followed_and_the_real_path_is_told(root: Root) -> None:
    assert files.read(root, "inner/f", 100)[1] == files.read(root, "b/a/b/f", 100)[1] == b"inside"
    with root.opened("inner/f", os.O_RDONLY) as (_, real):
        assert real == "a/b/f"


def test_a_kernel_that_cannot_open_below_a_folder_is_named(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> None:
        raise OSError(errno.ENOSYS, "not implemented")

    monkeypatch.setattr(linux, "open_beneath", unknown)
    with pytest.raises(Refused, match=r"Linux 5\.6 or later is needed"):
        files.read(root, "a/f", 100)


@pytest.mark.parametrize("comes_between", [False, True])
def test_a_new_file_is_written_where_there_are_no_hard_links_and_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, comes_between: bool
) -> None:
    def no_links(*names: str, **options: object) -> None:
        del names, options
        if comes_between:
            (tmp_path / "new.txt").write_text("theirs")
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", no_links)
    root = Root(str(tmp_path))
    try:
        if comes_between:
            with pytest.raises(Refused, match="exists already"):
                files.write(root, "new.txt", b"mine", "")
        else:
            files.write(root, "new.txt", b"mine", "")
    finally:
        os.close(root.fd)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [
        ("new.txt", "theirs" if comes_between else "mine")
    ]


def _guarded(tree: Path) -> dict[str, object]:
    """Return the state of everything that must not change: what is outside, and what is protected."""
    state: dict[str, object] = {}
    for folder, names, file_names in os.walk(tree.parent):
        if Path(folder) == tree:
            names[:] = [name for name in names if name in beneath.PROTECTED]
            continue
        for name in file_names:
            state[f"{folder}/{name}"] = Path(folder, name).read_text()
        state[folder] = sorted(names + file_names)
    return state
