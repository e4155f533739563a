from __future__ import annotations

import time
from pathlib import Path

import pytest

from lmtui.core.permissions.path_patterns import secret_regex
from lmtui.sandbox.guest import guard, protocol
from lmtui.sandbox.guest.linux import FILE_CLOCK
from tests.sets import for_each


def _found(root: Path, since_ns: int = 0, layout: guard.Layout | None = None) -> dict[str, str]:
    rows = (layout or guard.Layout(str(root))).survey(since_ns)["found"]
    return {bytes.fromhex(path).decode(): kind for path, kind, is_fresh, _ in rows if is_fresh}


@for_each(
    ("name", "kind"),
    [
        (".git", "git"), ("a/b/c/.git", "git"), (".mcp.json", "run"), ("a/.vscode", "run"), (".envrc", "run"), (".idea", "run"),
        ("AGENTS.md", "read"), ("sub/CLAUDE.md", "read"), (".claude", "read"), (".gitmodules", "read"), (".bashrc", "read"),
        ("a/.GIT", "git"), (".ｖscode", "run"), (".env\u200drc", "run"), (".vscode ", "run"), ("node_modules/x/.git", "git"),
    ],
)  # fmt: skip
def test_what_programs_outside_obey_is_found_however_it_is_spelled(tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    assert _found(tmp_path) == {name: kind}


def test_ordinary_names_are_not_found(tmp_path: Path) -> None:
    for name in ("src/git", "vscode", "Makefile", ".gitignore", "HEAD", "objects/a", ".lmagent/.git", "agents.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert _found(tmp_path) == {}


@for_each("parts", [("HEAD", "objects", "refs"), ("HEAD", "commondir")])
def test_a_folder_that_is_a_repository_itself_is_found(tmp_path: Path, parts: tuple[str, ...]) -> None:
    for name in parts:
        (tmp_path / "store" / name).mkdir(parents=True)
    assert _found(tmp_path) == {"store": "bare"}


def test_the_workspace_itself_may_be_a_repository(tmp_path: Path) -> None:
    for name in ("HEAD", "objects", "refs"):
        (tmp_path / name).mkdir()
    assert _found(tmp_path) == {"": "bare"}
    (tmp_path / ".git").mkdir()
    assert _found(tmp_path) == {".git": "git"}


def test_only_what_changed_since_is_fresh(tmp_path: Path) -> None:
    for name in (".git", "old/.git/hooks", "old/.vscode", ".claude"):
        (tmp_path / name).mkdir(parents=True)
    time.sleep(0.02)
    now_ns = time.clock_gettime_ns(FILE_CLOCK)
    time.sleep(0.02)
    layout = guard.Layout(str(tmp_path))
    assert _found(tmp_path, now_ns, layout) == {}
    for name in ("old/.git/hooks/pre-commit", "old/.vscode/tasks.json", ".claude/settings.json", "old/.idea"):
        (tmp_path / name).touch()
    runs = {"old/.idea": "run", "old/.vscode": "run"}
    assert _found(tmp_path, now_ns, layout) == {"old/.git": "gitconfig", ".claude": "read", **runs}


def test_what_is_hidden_is_looked_into_if_a_command_may_have_made_it(tmp_path: Path) -> None:
    layout = guard.Layout(str(tmp_path))
    for name in (".ssh", ".aws"):
        (tmp_path / name / ".vscode").mkdir(parents=True)
        layout.look("", secret_regex(), "", is_first=name == ".ssh")
    assert _found(tmp_path, 0, layout) == {".aws/.vscode": "run"}


def test_many_names_do_not_hide_one_that_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_MAX_FOUND", 3)
    for name in (*(f".bashrc{'.' * number}" for number in range(9)), ".envrc"):
        (tmp_path / name).touch()
    assert ".envrc" in _found(tmp_path)


def test_the_answer_fits_into_a_frame_however_long_the_names_are(tmp_path: Path) -> None:
    for number in range(1100):
        (tmp_path / ("p" * 240) / f"{number:0240}/.git/hooks").mkdir(parents=True)
    assert protocol.encode(guard.Layout(str(tmp_path)).survey(0))


def test_links_are_found_but_never_followed(tmp_path: Path) -> None:
    (tmp_path / "out" / "x" / ".git").mkdir(parents=True)
    (root := tmp_path / "ws").mkdir()
    (root / "out").symlink_to("../out")
    (root / ".vscode").symlink_to("../out")
    assert _found(root) == {".vscode": "run"}


def test_a_folder_that_was_closed_is_looked_into(tmp_path: Path) -> None:
    for name in (".git", "shut"):
        (tmp_path / name / ".git/hooks").mkdir(parents=True)
        (tmp_path / name).chmod(0)
    found = _found(tmp_path, 0, guard.Layout(str(tmp_path), has_mounts=False))
    assert {".git/.git/hooks", "shut/.git"} < found.keys()


def test_a_walk_that_is_too_long_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "/".join("abcdefghijklm")).mkdir(parents=True)
    for most, is_cut in ((20, False), (10, True)):
        monkeypatch.setattr(guard, "_MAX_FOLDERS", most)
        assert guard.Layout(str(tmp_path)).survey(0)["is_cut"] is is_cut
