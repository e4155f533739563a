"""What changes in how the model is asked: the form of its calls, and how much of the conversation it is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lmtui.core.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFormChanged(Event):
    """Tools are called in another form from the next request on (`native`, `text` or `schema`); `why` says so in words."""

    kind: ClassVar[str] = "call_form_changed"
    form: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted(Event):
    """The conversation that the model is sent became smaller; the log keeps all of it.

    The results of the calls in `elided` are replaced by a line each.  With `kept_from` (a message's place counted from 0 in the
    conversation before) all messages before it but the system prompt and the first task are replaced by `summary`.
    `tokens_before` and `tokens_after` are estimates, `why` says what asked for it.
    """

    kind: ClassVar[str] = "compacted"
    why: str
    tokens_before: int
    tokens_after: int
    elided: tuple[str, ...] = ()
    kept_from: int = 0
    summary: str = ""
