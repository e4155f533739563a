from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError
from lmtui.sandbox.repository import find_repository, local_remote
from tests.sandbox.conftest import fill, git
from tests.sets import for_each


def make_tree(tmp_path: Path) -> Path:
    """Return a linked worktree of `repo`."""
    git(tmp_path, "init", "-q", "repo")
    git(tmp_path / "repo", "commit", "-q", "--allow-empty", "-m", "one")
    git(tmp_path / "repo", "worktree", "add", "-q", "../tree")
    return tmp_path / "tree"


def _names_other(tree: Path) -> None:
    """Let another folder's `.git` file lead into the repository of `tree`."""
    fill(tree.parent / "copy", {".git": (tree / ".git").read_bytes()})
    (tree / ".git").rename(tree.parent / "away")
    (tree.parent / "copy/.git").rename(tree / ".git")
    (tree.parent / "repo/.git/worktrees/tree/gitdir").write_text(f"{tree.parent}/copy/.git\n")


def _common(tree: Path, text: str) -> None:
    (tree.parent / "repo/.git/worktrees/tree/commondir").write_text(text)


def _inside(tree: Path) -> None:
    (tree.parent / "repo/.git").rename(tree / "inner")
    (tree / "inner/worktrees/tree/gitdir").write_text(f"{tree}/.git\n")
    (tree / ".git").write_text(f"gitdir: {tree}/inner/worktrees/tree\n")


def _linked(tree: Path) -> None:
    (tree.parent / "repo").rename(tree.parent / "moved")
    (tree.parent / "repo").symlink_to(tree.parent / "moved")


def _pipe(tree: Path) -> None:
    (tree / ".git").unlink()
    os.mkfifo(tree / ".git")


def _submodule(tree: Path) -> None:
    git(tree.parent / "repo", "config", "core.worktree", "../../other")
    (tree / ".git").write_text("gitdir: ../repo/.git\n")


HOSTILE: dict[str, Callable[[Path], object]] = {
    "etc": lambda tree: (tree / ".git").write_text("gitdir: /etc\n"),
    "no folder": lambda tree: (tree / ".git").write_text("x\n"),
    "not answered": _names_other,
    "submodule of another": _submodule,
    "another's": lambda tree: (tree / ".git").write_text("gitdir: ../repo/.git\n"),
    "common elsewhere": lambda tree: _common(tree, "../../../../other\n"),
    "common is /": lambda tree: _common(tree, "/\n"),
    "inside": _inside,
    "link": _linked,
    "file is a link": lambda tree: (tree / ".git").rename(tree / "f").parent.joinpath(".git").symlink_to("f"),
    "pipe": _pipe,
    "not a repository": lambda tree: (tree.parent / "repo/.git/HEAD").unlink(),
}


@for_each("name", HOSTILE)
def test_a_git_file_is_followed_only_if_it_is_answered(tmp_path: Path, name: str) -> None:
    tree = make_tree(tmp_path)
    assert find_repository(tree).common == tree.parent / "repo/.git"
    HOSTILE[name](tree)
    found = find_repository(tree)
    assert (found.common, found.git_dir) == (None, None)
    assert "is not used" in found.problem


def test_a_folder_belongs_to_the_repository_around_it_below_the_home_folder(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", ".")
    fill(tmp_path, {"a/.git/": "", "a/b/": ""})
    assert find_repository(tmp_path / "a/b").top == tmp_path
    assert find_repository(tmp_path / "a/b", home=tmp_path).top is None
    assert find_repository(tmp_path).common is None


def test_only_values_of_the_user_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "gitconfig"
    settings.write_text(
        '[user]\n\tname = "A\\n[core]\\n\\tsshCommand = x"\n[core]\n\tpager = x\n[alias]\n\tx = !y\n'
        "[credential]\n\thelper = z\n"
        '[url "https://t0ken@h/"]\n\tinsteadOf = h:\n[filter "a\\"b"]\n\tclean = evil\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    config = Path(find_repository(tmp_path).config)
    git(tmp_path, "config", "--file", str(config), "--list")
    text = config.read_text()
    assert 'name = "A\\n[core]\\n\tsshCommand = x"' in text
    assert '[filter "a\\"b"]\n\trequired = "false"' in text
    assert not any(word in text for word in ("pager", "alias", "helper", "t0ken", "evil"))


def test_a_remote_on_this_machine_is_a_repository_outside(tmp_path: Path) -> None:
    tree = make_tree(tmp_path)
    assert local_remote("https://example.org/x", tree) is None
    assert local_remote("git@example.org:x/y", tree) is None
    assert local_remote(f"file://{tree.parent}/repo", tree) == tree.parent / "repo"
    for url in ("/etc", "./.", "../tree"):
        with pytest.raises(SandboxError, match="not a git repository"):
            local_remote(url, tree)
