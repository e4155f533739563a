from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.cli import run


@pytest.mark.parametrize("more", [(), ("--headless",)])
def test_a_folder_of_the_users_is_not_taken_in_silence(
    more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["demo", *more, "--workspace", str(tmp_path)]) == 64
    assert "the demo works in a folder of its own" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
