from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from lmtui.sandbox.guest.guard import Vault, is_executed
from tests.sets import for_each

Change = Callable[[Path], object]


def repository(tmp_path: Path) -> Path:
    for name in (".git/hooks", ".git/info", ".git/objects/ab", ".git/refs/heads", ".lmagent"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("config", "HEAD", "hooks/pre-commit", "info/attributes", "objects/ab/cd", "refs/heads/main"):
        (tmp_path / ".git" / name).write_text(f"{name} of before")
    (tmp_path / ".git/hooks/pre-commit").chmod(0o755)
    (tmp_path / ".git/link").symlink_to("HEAD")
    return tmp_path


def _replace_by_link(git: Path) -> None:
    shutil.copytree(git, git.parent / "evil")
    shutil.rmtree(git)
    git.symlink_to("evil")


def _move_aside(git: Path) -> None:
    git.rename(git.parent / "aside")
    git.mkdir()
    (git / "config").write_text("evil")


def _made(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)


def _replace_by_folder(git: Path) -> None:
    (git / "config").unlink()
    (git / "config").mkdir()


def _replace_file_by_link(git: Path) -> None:
    (git / "config").unlink()
    (git / "config").symlink_to("/etc/passwd")


def _replace_hooks_by_link(git: Path) -> None:
    shutil.rmtree(git / "hooks")
    (git / "hooks").symlink_to("/tmp")


def _replace_by_file(git: Path) -> None:
    shutil.rmtree(git)
    git.write_text("gitdir: evil")


_CHANGES: dict[str, Change] = {
    "changed": lambda git: (git / "config").write_text("evil"),
    "mode": lambda git: (git / "hooks/pre-commit").chmod(0o644),
    "deleted": lambda git: (git / "config").unlink(),
    "new hook": lambda git: (git / "hooks/post-commit").write_text("evil"),
    "new rebase": lambda git: _made(git / "rebase-merge/git-rebase-todo", "exec evil"),
    "new patches": lambda git: _made(git / "rebase-apply/applying", "evil"),
    "new sequence": lambda git: _made(git / "sequencer/todo", "pick evil"),
    "new bisect": lambda git: (git / "BISECT_RUN").write_text("evil"),
    "new commondir": lambda git: (git / "commondir").write_text("../evil"),
    "replaced by a folder": _replace_by_folder,
    "replaced by a link": _replace_file_by_link,
    "hooks are a link": _replace_hooks_by_link,
    "moved aside": _move_aside,
    "a link to a copy": _replace_by_link,
    "a file": _replace_by_file,
    "gone": shutil.rmtree,
    "unreadable": lambda git: git.chmod(0),
}


@for_each("name", _CHANGES)
def test_what_was_changed_is_as_before(tmp_path: Path, name: str) -> None:
    git, change = repository(tmp_path) / ".git", _CHANGES[name]
    before = _state(git)
    vault = Vault(_opened(tmp_path))
    vault.keep()
    change(git)
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
