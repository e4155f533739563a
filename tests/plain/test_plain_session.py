from __future__ import annotations

import os
import pty
import sys
from pathlib import Path

import pytest

from lmtui.plain.plain_session import Terminal


def test_what_follows_ctrl_c_in_a_paste_is_not_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, terminals = pty.openpty()

    def interrupted(_: str) -> str:
        os.write(ours, b"!touch x\n")
        raise KeyboardInterrupt

    with os.fdopen(terminals) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr("builtins.input", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Terminal(tmp_path / "history").read("> ")
        os.write(ours, b"later\n")
        assert stdin.readline() == "later\n"
    os.close(ours)
