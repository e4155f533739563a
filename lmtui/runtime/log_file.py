"""Where lmtui writes what went wrong inside it: a small file at user level, never the terminal that it draws on."""

from __future__ import annotations

import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

from lmtui.core.redaction import Redactor
from lmtui.paths import state_dir

_MAX_BYTES = 1_000_000


def log_file() -> Path:
    """Return the log file."""
    return state_dir() / "lmtui.log"


class _Formatter(logging.Formatter):
    """A line of the log, traces included, without the values of keys."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return self._redactor.text(super().format(record))


class _File(RotatingFileHandler):
    """The log file; reports once, in one line, if it cannot be written."""

    _is_told = False

    def handleError(self, record: logging.LogRecord) -> None:
        """Say why a line is missing."""
        del record
        error = sys.exc_info()[1]
        if not self._is_told:
            self._is_told = True
            why = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
            print(f"lmtui: cannot write {self.baseFilename}: {why}. The log is incomplete.", file=sys.stderr)


def write_log_file(redactor: Redactor) -> None:
    """Send the program's log to its file, once; where that cannot be made, nowhere."""
    logger = logging.getLogger("lmtui")
    if logger.handlers:
        return
    logger.propagate = False
    try:
        log_file().parent.mkdir(parents=True, exist_ok=True)
        handler: logging.Handler = _File(log_file(), maxBytes=_MAX_BYTES, backupCount=1, encoding="utf-8", delay=True)
    except OSError:
        handler = logging.NullHandler()
    handler.setFormatter(_Formatter(redactor))
    logger.addHandler(handler)
