from __future__ import annotations

import os
import subprocess
from pathlib import Path

from lmtui.sandbox.guest.guard import Vault, is_executed
from tests.sets import for_each


def repository(tmp_path: Path) -> Path:
    for name in (".git/hooks", ".git/info", ".git/objects/ab", ".git/refs/heads", ".lmagent"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("config", "HEAD", "hooks/pre-commit", "info/attributes", "objects/ab/cd", "refs/heads/main"):
        (tmp_path / ".git" / name).write_text(f"{name} of before")
    (tmp_path / ".git/hooks/pre-commit").chmod(0o755)
    (tmp_path / ".git/link").symlink_to("HEAD")
    return tmp_path


_CHANGES = {
    "changed": "echo evil > config",
    "mode": "chmod 644 hooks/pre-commit",
    "deleted": "rm config",
    "new hook": "echo evil > hooks/post-commit",
    "new rebase": "mkdir rebase-merge; echo exec evil > rebase-merge/git-rebase-todo",
    "new patches": "mkdir rebase-apply; echo evil > rebase-apply/applying",
    "new sequence": "mkdir sequencer; echo pick evil > sequencer/todo",
    "new bisect": "echo evil > BISECT_RUN",
    "new commondir": "echo ../evil > commondir",
    "replaced by a folder": "rm config; mkdir config",
    "replaced by a link": "ln -sf /etc/passwd config",
    "hooks are a link": "rm -r hooks; ln -s /tmp hooks",
    "moved aside": "cd ..; mv .git aside; mkdir .git; echo evil > .git/config",
    "a link to a copy": "cd ..; cp -r .git evil; rm -r .git; ln -s evil .git",
    "a file": "cd ..; rm -r .git; echo gitdir: evil > .git",
    "gone": "rm -r ../.git",
    "unreadable": "chmod 0 .",
}


@for_each("name", _CHANGES)
def test_what_was_changed_is_as_before(tmp_path: Path, name: str) -> None:
    git = repository(tmp_path) / ".git"
    before = _state(git)
    vault = Vault(_opened(tmp_path))
    vault.keep()
    subprocess.run(["sh", "-ec", _CHANGES[name]], cwd=git, check=True)
    changed = vault.put_back()
    assert _state(git) == before
    assert all(path.startswith(".git") for path in changed)
    assert changed or name == "unreadable"


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


def _state(git: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(git.rglob("*")):
        name = str(path.relative_to(git))
        if is_executed(name) and not path.is_dir():
            found[name] = path.readlink() if path.is_symlink() else (path.read_text(), path.stat().st_mode)
    return found
