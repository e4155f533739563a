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


def test_a_long_line_is_broken_between_words_and_stays_indented(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Terminal(tmp_path / "history").say(f"  {'word ' * 17}end")
    assert capsys.readouterr().out == f"  {'word ' * 15}\n  word word end\n"
