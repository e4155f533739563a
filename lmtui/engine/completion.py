"""How a turn ended, told from the model's last words."""

from __future__ import annotations

import re

from lmtui.core.events import TurnReason

EXIT_CODES = {
    TurnReason.DONE: 0,
    TurnReason.WAITING: 0,
    TurnReason.ERROR: 1,
    TurnReason.LIMIT: 2,
    TurnReason.BLOCKED: 3,
    TurnReason.INTERRUPTED: 130,
}

_BLOCKED = re.compile(r"^\s*BLOCKED:.*$", re.MULTILINE)


def reason_of(text: str) -> TurnReason:
    """Return done, or blocked where the answer has a line that begins with `BLOCKED:`."""
    return TurnReason.BLOCKED if _BLOCKED.search(text) else TurnReason.DONE
