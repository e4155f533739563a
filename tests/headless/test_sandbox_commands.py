"""`lmtui sandbox explain` and `shell`, without isolation, so that they run everywhere."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from lmtui.cli import run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def test_explain_lists_only_folders_on_path_that_exist(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "venv/bin").mkdir(parents=True)
    assert run(["sandbox", "explain", "--sandbox", "process"]) == 0
    (line,) = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("    PATH: ")]
    path = line.removeprefix("PATH: ").split(":")
    assert path[0] == f"{folder}/venv/bin"
    assert all(Path(each).is_dir() for each in path)


def test_a_shell_begins_with_its_limits_and_path_and_prints_all_output(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "venv/bin").mkdir(parents=True)
    monkeypatch.setattr("sys.stdin", io.StringIO("echo one; sleep 0.5; echo two; exit 4\necho three\n"))
    assert run(["sandbox", "shell", "--sandbox", "process"]) == 0
    told = capsys.readouterr()
    assert told.out == "one\ntwo\nthree\n"
    lines = told.err.splitlines()
    assert lines[0] == "process: not isolated"
    assert "    memory: limit per command, watched" in lines
    assert any(line.startswith(f"    PATH: {folder}/venv/bin:") for line in lines)
    assert "(exit code 4)" in lines
