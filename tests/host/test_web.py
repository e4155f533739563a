from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from lmtui.core.errors import UsageError
from lmtui.host.web import serve
from lmtui.tui.tab_driver import Tab


def _no_tab(_: Callable[[bytes], None], size: tuple[int, int]) -> Tab:
    raise AssertionError(size)


@pytest.mark.full
@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_is_none_is_told_before_anything_is_said(
    port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        serve(_no_tab, tmp_path, "127.0.0.1", port, "")
    assert not capsys.readouterr().out


@pytest.mark.full
def test_port_0_takes_a_free_one_and_the_link_opens(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "lmtui", "serve", "--port", "0", str(tmp_path)]
    environment = {**os.environ, "LMTUI_HOME": str(tmp_path / "home"), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as served:
        try:
            assert served.stdout is not None
            _ = served.stdout.readline()
            link = served.stdout.readline().split()[-1]
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with browser.open(link, timeout=20) as page:
                assert "textual-terminal" in page.read().decode()
        finally:
            served.terminate()
