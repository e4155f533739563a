"""Where lmtui can draw a screen, and where it is better not to."""

from __future__ import annotations

import os
import sys

from lmtui.core.errors import UsageError

PLAIN_WAY = "`lmtui --plain` works here, line by line."


def wants_plain(*, is_asked: bool) -> bool:
    """Tell whether the linear mode is wanted: by its flag, or by `ACCESSIBLE` in the environment (a browser has no lines)."""
    if is_in_browser():
        return False
    return is_asked or os.environ.get("ACCESSIBLE", "").strip() not in ("", "0")


def is_in_browser() -> bool:
    """Tell whether `lmtui serve` started this process for a tab."""
    return os.environ.get("TEXTUAL_DRIVER", "").endswith("web_driver:WebDriver")


def check_screen() -> None:
    """Make sure that a screen can be drawn.

    Raises:
        UsageError: there is no terminal, or it cannot place a cursor or show what a screen is drawn with.
    """
    if is_in_browser():
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the full-screen app needs a terminal", 'Use `lmtui run "TASK"` without one.')
    if os.environ.get("TERM", "dumb") in ("", "dumb"):
        raise UsageError("the full-screen app cannot draw on TERM=dumb", f"Set TERM; {PLAIN_WAY}")
    written = sys.__stderr__.encoding if sys.__stderr__ is not None else ""
    if written.lower().replace("-", "") != "utf8":
        raise UsageError(
            f"the full-screen app needs UTF-8 and this terminal is said to take {written or 'nothing'}",
            f"Set LANG to a UTF-8 locale such as C.UTF-8 (and PYTHONIOENCODING to nothing); {PLAIN_WAY}",
        )
