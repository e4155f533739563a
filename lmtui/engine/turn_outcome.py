"""How a turn ended, told from the model's last words."""

from __future__ import annotations

import re

from lmtui.core.events import TurnReason

EXIT_CODES = {
    TurnReason.DONE: 0,
    TurnReason.WAITING: 0,
    TurnReason.ERROR: 1,
    TurnReason.LIMIT: 2,
    TurnReason.UNFINISHED: 2,
    TurnReason.BLOCKED: 3,
    TurnReason.INTERRUPTED: 130,
}

_BLOCKED = re.compile(r"^[^\S\n]*+BLOCKED:", re.MULTILINE)
_COMPLETE = re.compile(r"^[ \t>*_`]*TASK_COMPLETE[.!*_`]*[ \t]*(?:\n|\Z)", re.MULTILINE)
_GOES_ON = re.compile(
    r"(?:please )?(?:go on|continue|carry on|keep going|proceed|resume|weiter|mach weiter)\b.{0,40}", re.IGNORECASE
)


def goes_on(text: str) -> bool:
    """Tell whether the user's words ask for what was begun before, and for nothing else."""
    return _GOES_ON.fullmatch(" ".join(text.split()).strip(" .!…\"'“”")) is not None


def without_token(text: str) -> str:
    """Return an answer without the lines that only say TASK_COMPLETE, unless that is all it says."""
    return _COMPLETE.sub("", text).strip() or text if "TASK_COMPLETE" in text else text


def reason_of(text: str) -> TurnReason:
    """Return done, or blocked where the answer has a line that begins with `BLOCKED:`."""
    return TurnReason.BLOCKED if _BLOCKED.search(text) else TurnReason.DONE
