from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmtui.app.host import log_file, write_log_file
from lmtui.core.sanitize import Redactor


@pytest.fixture
def logger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    loggers = [logging.getLogger(name) for name in ("lmtui", "mcp", "client")]
    for found in loggers:
        monkeypatch.setattr(found, "handlers", [])
    yield loggers[0]
    for handler in loggers[0].handlers:
        with contextlib.suppress(OSError):
            handler.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_a_full_disk_is_said_in_one_line_once(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    log_file().parent.mkdir(parents=True, exist_ok=True)
    log_file().symlink_to("/dev/full")
    write_log_file(Redactor([]))
    logger.warning("the first")
    try:
        raise ValueError
    except ValueError:
        logger.exception("the second")
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == f"lmtui: cannot write {log_file()}: No space left on device. The log is incomplete.\n"


def test_what_goes_wrong_is_in_the_file_and_no_key_is(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    key = "sk-0123456789abcdef"
    write_log_file(Redactor([key]))
    for name in ("lmtui", "mcp.shared.dispatcher", "client"):
        logging.getLogger(name).warning("the server refused %s", key)
    assert log_file().read_text().count("the server refused [key redacted]") == 3
    assert capsys.readouterr().err == ""
