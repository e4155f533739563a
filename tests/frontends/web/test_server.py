from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.core.errors import UsageError
from lmtui.frontends.web.server import serve


@pytest.mark.parametrize("port", [-1, 65_536, 99_999])
def test_a_port_that_is_none_is_told_before_anything_is_said(
    port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match=f"there is no port {port}"):
        serve([], tmp_path, "127.0.0.1", port, "")
    assert not capsys.readouterr().out
