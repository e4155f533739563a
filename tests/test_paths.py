from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lmtui import paths
from lmtui.paths import config_dir, state_dir


def test_one_variable_moves_everything_and_keeps_it_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "here"))
    folders = {config_dir(), state_dir()}
    assert len(folders) == 2
    assert all(folder.parent == tmp_path / "here" for folder in folders)
    assert not (tmp_path / "here").exists()


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LMTUI_HOME", "~/mine")
    assert state_dir().is_relative_to(tmp_path / "mine")


def test_without_the_variable_the_platform_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LMTUI_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for folder in (config_dir(), state_dir()):
        assert folder.is_relative_to(tmp_path)
        assert folder.name == "lmtui"


@pytest.mark.parametrize(("prefix", "way"), [
    ("/home/me/.local/share/uv/tools/lmtui", "uv tool install"),
    ("/home/me/.local/share/pipx/venvs/lmtui", "pipx install --force"),
    ("/home/me/.venv", "pip install"),
])  # fmt: skip
@pytest.mark.parametrize(("noted", "place"), [
    ("", ""), ('{"url": "file:///home/me/my%20lmtui", "dir_info": {}}', " @ file:///home/me/my%20lmtui"),
    ('{"url": "https://git.example/lmtui", "vcs_info": {"vcs": "git"}}', " @ git+https://git.example/lmtui"),
])  # fmt: skip
def test_an_extra_is_installed_by_the_program_that_installed_lmtui(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, prefix: str, way: str, noted: str, place: str
) -> None:
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "lmtui" / "paths.py"))
    if noted:
        (tmp_path / "lmtui-1.0.dist-info").mkdir()
        (tmp_path / "lmtui-1.0.dist-info" / "direct_url.json").write_text(noted)
    assert paths.install_hint("acp") == f"Install it with `{way} 'lmtui[acp]{place}'`."
