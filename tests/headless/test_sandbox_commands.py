"""`lmtui sandbox explain` without isolation, so that it runs everywhere."""

from __future__ import annotations

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
