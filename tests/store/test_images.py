from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from lmtui.core.errors import SessionFileError
from lmtui.core.messages import Image
from lmtui.store.session_logs import ImageFolder

PNG = Image("a.png", "image/png", b"\x89PNG\r\n\x1a\nrest")


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    with pytest.raises(SessionFileError, match=r"cannot keep the picture a\.png"):
        ImageFolder(tmp_path / "missing" / ".lmagent" / "s.images").put(PNG)


def test_a_picture_comes_back_by_its_content_alone_and_deleting_leaves_nothing(tmp_path: Path) -> None:
    ref = ImageFolder(tmp_path / ".lmagent" / "s.images").put(PNG)
    assert (ref.size_bytes, ImageFolder(tmp_path / ".lmagent" / "s.images").get(ref)) == (len(PNG.data), PNG)
    assert [path.name for path in (tmp_path / ".lmagent" / "s.images").iterdir()] == [ref.sha256]
    folder = tmp_path / ".lmagent" / "s.images"
    ref = ImageFolder(folder).put(PNG)
    (folder / ref.sha256).write_bytes(b"\x89PNG\r\n\x1a\nother")
    assert ImageFolder(folder).get(ref) is None
    assert ImageFolder(folder).get(replace(ref, sha256="../../etc/passwd")) is None
    ImageFolder(folder).put(PNG)
    ImageFolder(folder).delete()
    assert list((tmp_path / ".lmagent").iterdir()) == []


def test_a_link_in_place_of_a_picture_or_its_folder_is_neither_followed_filled_nor_emptied(tmp_path: Path) -> None:
    folder = tmp_path / ".lmagent" / "s.images"
    ref = ImageFolder(folder).put(PNG)
    (tmp_path / "a.png").write_bytes(PNG.data)
    (folder / ref.sha256).unlink()
    (folder / ref.sha256).symlink_to(tmp_path / "a.png")
    assert ImageFolder(folder).get(ref) is None
    elsewhere, link = tmp_path / "elsewhere", tmp_path / ".lmagent" / "t.images"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("kept")
    link.symlink_to(elsewhere)
    linked = ImageFolder(link)
    with pytest.raises(SessionFileError, match="it is behind a link"):
        linked.put(PNG)
    linked.delete()
    assert not link.is_symlink()
    assert [path.name for path in elsewhere.iterdir()] == ["mine"]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_in_place_of_a_picture_is_gone_at_once(tmp_path: Path, make: Callable[[Path], None]) -> None:
    folder = tmp_path / ".lmagent" / "s.images"
    ref = ImageFolder(folder).put(PNG)
    (folder / ref.sha256).unlink()
    make(folder / ref.sha256)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(ImageFolder(folder).get, ref)
        try:
            assert found.result(timeout=10) is None
        finally:
            with contextlib.suppress(OSError):  # lets go of who waits for the other end
                os.close(os.open(folder / ref.sha256, os.O_RDWR | os.O_NONBLOCK))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
