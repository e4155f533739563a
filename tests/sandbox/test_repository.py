from __future__ import annotations

import subprocess
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


HOSTILE = {
    "etc": "echo gitdir: /etc > tree/.git",
    "no folder": "echo x > tree/.git",
    "not answered": "mkdir copy; cp tree/.git copy; echo $PWD/copy/.git > repo/.git/worktrees/tree/gitdir",
    "submodule of another": "git -C repo config core.worktree ../../other; echo gitdir: ../repo/.git > tree/.git",
    "another's": "echo gitdir: ../repo/.git > tree/.git",
    "common elsewhere": "echo ../../../../other > repo/.git/worktrees/tree/commondir",
    "common is /": "echo / > repo/.git/worktrees/tree/commondir",
    "inside": """mv repo/.git tree/inner; echo $PWD/tree/.git > tree/inner/worktrees/tree/gitdir
        echo gitdir: $PWD/tree/inner/worktrees/tree > tree/.git""",
    "link": "mv repo moved; ln -s moved repo",
    "file is a link": "mv tree/.git tree/f; ln -s f tree/.git",
    "pipe": "rm tree/.git; mkfifo tree/.git",
    "not a repository": "rm repo/.git/HEAD",
}


@for_each("name", HOSTILE)
def test_a_git_file_is_followed_only_if_it_is_answered(tmp_path: Path, name: str) -> None:
    tree = make_tree(tmp_path)
    assert find_repository(tree).common == tree.parent / "repo/.git"
    subprocess.run(["sh", "-ec", HOSTILE[name]], cwd=tmp_path, check=True)
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
