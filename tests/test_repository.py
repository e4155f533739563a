"""What git tracks stays small: a clone is for reading code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import guards

ROOT = Path(__file__).parents[1]
MOST_BYTES, MOST_PICTURES_BYTES, MOST_PICTURES = 300_000, 8_000_000, 110
PICTURES = (".png", ".svg", ".gif", ".jpg", ".webp")


@pytest.mark.git
def test_no_tracked_file_is_large_and_pictures_are_few() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    sizes = {name: (ROOT / name).stat().st_size for name in listed.split("\0") if name and (ROOT / name).is_file()}
    assert len(sizes) > 500
    assert not {name: size for name, size in sizes.items() if size > MOST_BYTES}
    pictures = [size for name, size in sizes.items() if name.endswith(PICTURES)]
    assert len(pictures) <= MOST_PICTURES
    assert sum(pictures) <= MOST_PICTURES_BYTES


def test_every_guard_that_make_guards_breaks_is_in_its_file() -> None:
    assert len(guards.read()) >= 120
