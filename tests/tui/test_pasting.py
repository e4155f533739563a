from __future__ import annotations

import os
import time
from pathlib import Path

from lmtui.core.messages import MAX_IMAGE_BYTES, Image
from lmtui.tui.controllers.prompt_controller import mentions_of, paths_in, read_picture
from tests.sets import for_each

PNG = b"\x89PNG\r\n\x1a\nrest"


@for_each(
    ("text", "paths"),
    [
        ("/a/b.py", ["/a/b.py"]),
        ("/a/my\\ file.py ", ["/a/my file.py"]),
        ("file:///a/my%20file.py\nfile:///b.py\n", ["/a/my file.py", "/b.py"]),
        ("./a.py", ["a.py"]),
        ("hello there", []),
        ("/it's broken", []),
        ("", []),
        ("file://[", []),
        ("src/main/java", []),
    ],
)
def test_a_paste_of_nothing_but_paths_is_read(text: str, paths: list[str]) -> None:
    assert paths_in(text) == paths


@for_each("text", ["a" + "/a" * 24, "https://x" + "/a" * 24 + " b", "a." * 400 + " "])
def test_a_paste_that_is_no_path_is_told_from_one_at_once(text: str) -> None:
    began = time.process_time()
    assert paths_in(text) == []
    assert time.process_time() - began < 0.5


def test_what_is_below_the_workspace_becomes_a_mention(tmp_path: Path) -> None:
    (tmp_path / "my docs").mkdir()
    (tmp_path / "my docs" / "a.md").write_text("x")
    assert mentions_of(f"'{tmp_path}/my docs/a.md'", tmp_path) == ('@"my docs/a.md"', [])
    assert mentions_of(f"'{tmp_path}/my docs'", tmp_path) == ('@"my docs/"', [])


def test_what_is_elsewhere_or_not_there_stays_text(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "secret.txt").write_text("x")
    (work / "link.txt").symlink_to(tmp_path / "secret.txt")
    for text in (f"{tmp_path}/secret.txt", f"{work}/link.txt", f"{work}/missing.py", "/etc/hosts is odd"):
        assert mentions_of(text, work) == ("", [])


def test_a_picture_is_taken_from_anywhere_and_told_by_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "shot.dat").write_bytes(PNG)
    (tmp_path / "fake.png").write_text("<html>")
    assert mentions_of(str(tmp_path / "shot.dat"), tmp_path / "work") == ("", [tmp_path / "shot.dat"])
    assert mentions_of(str(tmp_path / "fake.png"), tmp_path / "work") == ("", [])
    assert read_picture(tmp_path / "shot.dat") == Image("shot.dat", "image/png", PNG)


def test_a_picture_that_is_too_large_is_said_and_a_pipe_is_none(tmp_path: Path) -> None:
    (tmp_path / "big.png").write_bytes(PNG + b"0" * MAX_IMAGE_BYTES)
    assert read_picture(tmp_path / "big.png") == "big.png is larger than 5 MB; make it smaller first"
    os.mkfifo(tmp_path / "pipe.png")
    assert mentions_of(str(tmp_path / "pipe.png"), tmp_path / "work") == ("", [])
