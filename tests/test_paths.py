from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.paths import config_dir, state_dir


def test_one_variable_moves_everything_and_keeps_it_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "here"))
    folders = {config_dir(), state_dir()}
    assert len(folders) == 2
    assert all(folder.parent == tmp_path / "here" for folder in folders)
    assert not (tmp_path / "here").exists()


def test_without_the_variable_the_platform_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LMTUI_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for folder in (config_dir(), state_dir()):
        assert folder.is_relative_to(tmp_path)
        assert folder.name == "lmtui"
