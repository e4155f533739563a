from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.cli import passed_on, run
from lmtui.frontends.parsers import app_parser, serve_parser


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


def test_what_serve_is_told_of_settings_holds_in_each_tab() -> None:
    given = [
        "--url", "http://127.0.0.1:1", "--model=-x", "--mode", "plan", "--sandbox", "landlock", "--network", "proxy",
        "--max-iterations", "7", "--temperature", "0.5", "--timeout-s", "9", "--allow", "Read(a b)", "--allow=-y",
        "--seed=-1", "--deny", "Shell", "--budget", "2h 10 steps", "--no-sub-agents", "--no-mcp",
    ]  # fmt: skip
    served, bare = vars(serve_parser().parse_args(given)), vars(serve_parser().parse_args([]))
    tab = vars(app_parser().parse_args(passed_on(serve_parser().parse_args(given))))
    settings = set(served) & set(tab) - {"dir", "workspace", "api_key"}
    assert {name for name in settings if served[name] == bare[name]} == set()
    assert {name: tab[name] for name in settings} == {name: served[name] for name in settings}
