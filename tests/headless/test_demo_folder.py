from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmtui.app.extensions import idle_features
from lmtui.cli import run
from tests.trusting import say


@pytest.mark.parametrize("more", [(), ("--headless",)])
@pytest.mark.parametrize("way", ["--workspace", "--keep"])
def test_a_folder_with_work_in_it_is_not_taken(
    way: str, more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "main.py").write_text("mine")
    assert run(["demo", *more, way, str(tmp_path)]) == 64
    assert "holds main.py; the demo writes and commits" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["main.py"]


@pytest.mark.bubblewrap
@pytest.mark.full
def test_what_people_bring_holds_in_the_demo_once_it_is_trusted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "work"
    (folder / ".lmagent").mkdir(parents=True)
    hook = {"type": "command", "command": 'echo \'{"decision": "block", "reason": "no commits today"}\''}
    hooks = {"PreToolUse": [{"matcher": "git_commit", "hooks": [hook]}]}
    (folder / ".lmagent" / "hooks.json").write_text(json.dumps({"hooks": hooks}))
    say(idle_features(folder).trust, is_trusted=True)
    assert run(["demo", "--headless", "--workspace", str(folder)]) == 2  # the commit stays open, and that is said
    assert "no commits today" in capsys.readouterr().err
    assert (folder / "slugs" / "__init__.py").exists()
