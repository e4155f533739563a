"""Which files git ignores: the walk without ripgrep, and ripgrep itself, list what git lists."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from lmtui.sandbox.guest import listing

NAMES = ("a", "b", "ab", "x.py", "y.txt", "build", ".hid", "a b", "#c", "!d", "foo.o", "[z]", "node_modules", "dist")
RULES = (
    "a", "/a", "a/", "*.py", "b/*", "b/**", "**/ab", "a/**/b", "!x.py", "!a/", "/b/a", "\\#c", "\\!d", "a\\ b", "*.o", "build/",
    "[ab]", "[!a]", "?", "*", "!*.txt", "#c", "  ", "**/build/**", "foo.*", "[a-b]b", "/**", "a/*/b", "!b/a/x.py", "x.py ",
    "\\[z\\]",
)  # fmt: skip


def grow(root: Path, rng: random.Random) -> None:
    folders = [root]
    for number in range(22):
        path = rng.choice(folders) / rng.choice(NAMES)
        if path.exists():
            continue
        if number < 8:
            path.mkdir()
            folders.append(path)
        else:
            path.touch()
    for folder in rng.sample(folders, min(2, len(folders))):
        (folder / ".gitignore").write_text("\n".join(rng.sample(RULES, rng.randint(1, 4))))
    (root / ".git/info/exclude").write_text(rng.choice(RULES))


def listed(root: Path, *command: str) -> set[str]:
    found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout.split("\0")
    return {path for path in found if path and listing._SKIPPED.isdisjoint(path.split("/"))}


@pytest.mark.git
def test_the_walk_and_ripgrep_list_what_git_does_not_ignore(tmp_path: Path) -> None:
    failed = []
    for seed in range(40):
        root = tmp_path / str(seed)
        subprocess.run(["git", "init", "-q", root], check=True)
        (root / ".git/info").mkdir(exist_ok=True)
        grow(root, random.Random(seed))
        folder = os.open(root, os.O_RDONLY)
        excludes = ("-c", "core.excludesFile=/dev/null")
        expected = listed(root, "git", *excludes, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        by_rg = listed(root, "rg", "--files", "--null", *listing._BASE) if shutil.which("rg") else expected
        failed += [seed] if set(listing.walk(folder, "")) != expected or by_rg != expected else []
        shutil.rmtree(root / ".git")
        walked = set(listing.walk(folder, ""))
        failed += [seed] if shutil.which("rg") and listed(root, "rg", "--files", "--null", *listing._BASE) != walked else []
        os.close(folder)
    assert not failed
