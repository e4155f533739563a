"""What changes in how the model is asked: the form of its calls, and how much of the conversation it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from lmtui.core.events import ROOT, Envelope, Event, ModelChanged
from lmtui.core.sanitize import pluralize, sanitize_line


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFormChanged(Event):
    """Tools are called in another form from the next request on (`native`, `text` or `schema`); `why` says so in words.

    `is_by_hand`: the user set it, so that it stays whatever the model does; `lets_go`: what they or the settings said does not
    hold any more in this session.
    """

    form: str
    why: str = ""
    is_by_hand: bool = False
    lets_go: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionChanged(Event):
    """Whether the model in use sees pictures, as far as that is known (None: it is not).

    Where it does not, pictures become a line each.  `by` is the model that is asked in its place.
    """

    sees: bool | None
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLoading(Event):
    """A server is loading a model for a request; `text` and `ratio` tell the progress.  Shown, not stored."""

    durable: ClassVar[bool] = False
    model: str
    text: str
    ratio: float = -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLoaded(Event):
    """A model was loaded for a request of a role, or loading it failed."""

    model: str
    role: str = ""
    ok: bool = True
    unloaded: tuple[str, ...] = ()
    elapsed_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder(Event):
    """lmtui itself said something to the model: what it did wrong, or the state of things.  The user did not write it.

    `topic` is `plan` where it is about plan mode, `state` where it tells how the work is, `budget` where little of one is
    left, `skill` where it is about those in use.
    """

    text: str
    turn_id: str = ""
    topic: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSuspected(Event):
    """The model goes round in a circle; `what` says in words which, `count` how often.

    It was told so; with `is_over` that did not help, and the turn ends.
    """

    what: str
    count: int = 0
    is_over: bool = False
    turn_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted(Event):
    """The conversation that the model is sent became smaller; the log keeps all of it.

    The parts named in `elided` (results by their call's id, the user's messages as `message_N`, long arguments of calls as
    `args_` and the first call's id) are replaced by a line each, of those in `folded` only the beginning, or what decides a
    failure, is sent.  With `kept_from` (a message's place counted from 0 in the whole conversation,
    as it was said) all messages before it but the system prompt, the first task and what is pinned are replaced by `summary`.
    `tokens_before` and `tokens_after` are estimates, `why` says what asked for it.
    """

    why: str
    tokens_before: int
    tokens_after: int
    elided: tuple[str, ...] = ()
    folded: tuple[str, ...] = ()
    kept_from: int = 0
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacting(Event):
    """The model is asked to sum up what it was sent, so that room can be made.  Shown, not stored."""

    durable: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtBack(Event):
    """Parts that were folded or left out are sent whole again."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned(Event):
    """A part is kept word for word when room is made, or with `is_pinned` false is not any more."""

    part: str
    is_pinned: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSetChanged(Event):
    """The model is told about other tools from the next request on: a `ToolSet`, with the system prompt that goes with it."""

    tools: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Swaps:
    """How often the model changed, and how often models were loaded and unloaded for that."""

    model_changes: int = 0
    loads: int = 0
    unloads: int = 0

    def __str__(self) -> str:
        counts = ((self.model_changes, "model change"), (self.loads, "load"), (self.unloads, "unload"))
        return ", ".join(pluralize(count, word) for count, word in counts if count)


def swaps_of(history: Sequence[Envelope], after_seq: int = 0) -> Swaps:
    """Count the swaps of a session after `after_seq`, a position in its log."""
    models: dict[str, str] = {}
    changes = loads = unloads = 0
    for envelope in history:
        is_new, event = envelope.seq > after_seq, envelope.event
        if isinstance(event, ModelChanged):
            before = models.get(event.agent, models.get(ROOT, event.model))
            changes += is_new and before != event.model
            models[event.agent] = event.model
        elif isinstance(event, ModelLoaded) and is_new:
            loads, unloads = loads + event.ok, unloads + len(event.unloaded)
    return Swaps(changes, loads, unloads)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotesAttached(Event):
    """Notes were attached after a user message: `text` is what the model gets, `notes` are their texts.

    `sources` says of each where it applies and comes from, as `this folder · SESSION · DATE`.
    With `is_index` they are all notes, as a session begins with them, else those that the message called to mind.
    """

    kind: ClassVar[str] = "memory_recalled"
    text: str
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    turn_id: str = ""
    is_index: bool = False

    @property
    def lines(self) -> list[str]:
        """Return the notes for people, each with its source."""
        sources = (*self.sources, *[""] * (len(self.notes) - len(self.sources)))
        told = ((sanitize_line(note), sanitize_line(source)) for note, source in zip(self.notes, sources, strict=False))
        return [f"{note} ({source})" if source else note for note, source in told]

    @property
    def line(self) -> str:
        more = f" and {len(self.notes) - 1} more; /context shows them" if len(self.notes) > 1 else ""
        return f"from memory: {self.lines[0] if self.notes else ''}{more}"
