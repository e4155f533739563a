"""What a scripted model says, turn by turn, and how its server misbehaves.  Plain values, made in Python or read from JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum


class FaultKind(StrEnum):
    """How the scripted server misbehaves in place of, or in the middle of, an answer."""

    REFUSE = "refuse"
    STATUS = "status"
    LOADING = "loading"
    STALL = "stall"
    CUT = "cut"
    GARBAGE = "garbage"
    ERROR_OBJECT = "error_object"
    HTML = "html"
    HALF_CALL = "half_call"


@dataclass(frozen=True, slots=True)
class ScriptedFault:
    """One fault.

    `times` is how often it happens before the turn is played well (0: always); `status`, `retry_after_s` and `body` belong to
    `status`; `after_pieces` says how much is streamed before `stall`, `cut`, `garbage` and `error_object`; `seconds` is how
    long `stall` lasts.
    """

    kind: FaultKind
    times: int = 0
    status: int = 500
    retry_after_s: float = 0.0
    body: str = ""
    after_pieces: int = 0
    seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A tool call; `arguments` as an object, or as raw text where it is meant to be broken."""

    name: str
    arguments: dict[str, object] | str

    @property
    def arguments_text(self) -> str:
        """Return the arguments as they are sent."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """One answer.

    `pieces` cuts the text at will (default: words); `rate` is pieces a second, 0 as fast as they are taken; `expect` must be
    part of the last tool result, else `otherwise` is said and the script is over.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    pieces: tuple[str, ...] = ()
    rate: float = 0.0
    finish_reason: str = ""
    fault: ScriptedFault | None = None
    expect: str = ""
    otherwise: str = ""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A conversation: turn N answers the request with N assistant messages.  `match` is part of the first user message.

    With `goes_by_words` it is the turn behind the last one whose text stands anywhere in the request: so the script goes on
    where it was though the beginning of the conversation was summed up.
    """

    turns: tuple[ScriptedTurn, ...]
    name: str = "scenario"
    match: str = ""
    ending: str = "My script is over."
    models: tuple[str, ...] = field(default=("scripted",))
    window_tokens: int = 32_768
    goes_by_words: bool = False
