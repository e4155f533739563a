from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.cli import run


@pytest.mark.parametrize("way", ["project", "other/../project", "link"])
def test_a_folder_has_one_name_however_it_is_reached(way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("project")
    assert run(["config", "path", "--workspace", f"{tmp_path}/{way}"]) == 0
    assert str(tmp_path.resolve() / "project" / ".lmagent" / "config.toml") in capsys.readouterr().out


def test_the_help_names_every_way_to_a_session(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert [
        way for way in ("lmtui serve [DIR]", "lmtui --plain [DIR]", "lmtui resume", "ACCESSIBLE=1") if way not in shown
    ] == []
