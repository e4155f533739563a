from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lmtui.sandbox.guest import files
from lmtui.sandbox.guest.beneath import Refused, Root

_IS_FULL = os.environ.get("LMTUI_FULL_BATTERY") == "1"
_RACED_OPENS = 1_000_000 if _IS_FULL else 20_000
_PATHS = 10_000
_FLIPPER = """
import os, sys
os.chdir(sys.argv[1])
while True:
    for target in ("real", sys.argv[2], "real", ".."):
        try:
            os.symlink(target, "tmp"); os.rename("tmp", "switch")
        except OSError:
            pass
    for one, other in (("real", "aside"), ("aside", "real")):
        try:
            os.rename(one, other)
        except OSError:
            pass
"""


@pytest.fixture
def raced(tmp_path: Path) -> Iterator[Path]:
    """Return a workspace in which another process swaps a folder for links that lead out."""
    workspace, outside = tmp_path / "ws", tmp_path / "out"
    (workspace / "real").mkdir(parents=True)
    outside.mkdir()
    (workspace / "real" / "f").write_bytes(b"inside")
    for place in (outside, tmp_path):
        (place / "f").write_bytes(b"outside")
    flipper = subprocess.Popen([sys.executable, "-c", _FLIPPER, str(workspace), str(outside)])
    try:
        while not (workspace / "switch").is_symlink():
            time.sleep(0.01)
        yield workspace
    finally:
        flipper.send_signal(signal.SIGKILL)
        flipper.wait()


def test_no_raced_open_reads_anything_outside(raced: Path) -> None:
    root = Root(str(raced))
    outcomes = {b"inside": 0, b"refused": 0}
    left = _RACED_OPENS
    limit = time.monotonic() + 60  # for a machine on which the other process hardly gets a turn
    try:
        while left > 0 or (min(outcomes.values()) == 0 and time.monotonic() < limit):
            left -= 1
            try:
                fd, _ = root.open("switch/f", os.O_RDONLY)
            except Refused:
                outcomes[b"refused"] += 1
                continue
            data = os.read(fd, 16)
            os.close(fd)
            assert data == b"inside"
            outcomes[data] += 1
    finally:
        os.close(root.fd)
    assert min(outcomes.values()) > 0, "nothing was raced"


def test_no_raced_write_lands_outside(raced: Path) -> None:
    root = Root(str(raced))
    done = 0
    end_s = time.monotonic() + 60
    for number in itertools.count():  # on a busy machine all of the first may be refused
        if number >= _RACED_OPENS // 40 and (done or time.monotonic() > end_s):
            break
        with suppress(Refused):
            files.write(root, "switch/made", b"x", None)
            done += 1
    os.close(root.fd)
    assert done
    assert not (raced.parent / "out" / "made").exists()
    assert not (raced.parent / "made").exists()


def test_ten_thousand_generated_paths_stay_inside(tmp_path: Path) -> None:
    workspace = _full_of_links(tmp_path)
    root = Root(str(workspace))
    dice = random.Random(20260101)
    read = 0
    for _ in range(_PATHS):
        path = _path(dice, str(tmp_path))
        with suppress(Refused):
            assert files.read(root, path, 64)[1] == b"inside", path
            read += 1
    os.close(root.fd)
    assert read > 100


def _full_of_links(base: Path) -> Path:
    workspace = base / "ws"
    for name in ("a/b", "b/a", ".git", "a/.git", ".lmagent"):
        (workspace / name).mkdir(parents=True)
        (workspace / name / "f").write_bytes(b"inside" if "." not in name else b"protected")
    (base / "f").write_bytes(b"outside")
    links = {
        "up": "..",
        "a/up": "../..",
        "abs": str(base),
        "in": "a/b",
        "a/self": ".",
        "b/git": "../.git",
        "root": "/",
        "l": "l",
    }
    for name, target in links.items():
        (workspace / name).symlink_to(target)
    return workspace


def _path(dice: random.Random, base: str) -> str:
    parts = [
        "a", "b", "f", "up", "abs", "in", "self", "git", "root", "l", "..", ".", "", ".git", ".GIT", ".ｇｉｔ", "ws", "a\0",
        "~", "$HOME", "x" * 300, "\udc80", "proc", "self", "fd", "\u202e", "file:", "%2e%2e", "..\\..", "...",
    ]  # fmt: skip
    chosen = [dice.choice(parts[:8] if dice.random() < 0.7 else parts) for _ in range(dice.randrange(1, 7))]
    start = dice.choice(["", "", "", "", "", "/", base + "/", "./", "../ws/"])
    return start + "/".join([*chosen, "f"] if dice.random() < 0.7 else chosen)
