"""Events as JSON lines: the format of the session log and of `--output stream-json`.

A line is one object: `seq`, `time` (UTC, ISO 8601 with Z), `session`, `kind`, and the event's own fields.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lmtui.core import agent_events, budgets, events, instruction_values, model_events
from lmtui.core.errors import SessionFileError
from lmtui.core.events import Envelope, Event
from lmtui.core.times import FIRST_YEAR, LAST_YEAR
from lmtui.registry import features


def _events_of(module: ModuleType) -> Iterator[type[Event]]:
    for each in vars(module).values():
        if isinstance(each, type) and issubclass(each, Event) and each.kind and each.__module__ == module.__name__:
            yield each


_OF_FEATURES = (importlib.import_module(name) for feature in features() for name in feature.events)
EVENT_TYPES: tuple[type[Event], ...] = tuple(
    each
    for module in (events, agent_events, model_events, budgets, instruction_values, *_OF_FEATURES)
    for each in _events_of(module)
)
_BY_KIND = {event_type.kind: event_type for event_type in EVENT_TYPES}


class UnknownKind(SessionFileError):
    """A line holds an event that this version does not know (one of a newer lmtui, or of a feature that is gone)."""


def encode(envelope: Envelope) -> str:
    """Return an event as one line of JSON, without the line break."""
    head = {
        "seq": envelope.seq,
        "time": envelope.time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "session": envelope.session,
        "kind": envelope.event.kind,
    }
    fields = _adapter(type(envelope.event)).dump_python(envelope.event, mode="json")
    return json.dumps(head | fields, ensure_ascii=False, separators=(",", ":"))


def decode(line: str) -> Envelope:
    """Read one line.

    Raises:
        UnknownKind: the event's kind is not one of this version.
        SessionFileError: it is not an event at all.
    """
    try:
        value = json.loads(line)
        kind = value["kind"]
        if kind not in _BY_KIND:
            raise UnknownKind(f"unknown event {str(kind)[:40]!r}")
        event = _adapter(_BY_KIND[kind]).validate_python({key: each for key, each in value.items() if key not in _HEAD})
        return Envelope(int(value["seq"]), read_time(value["time"]), str(value["session"]), event)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, ValidationError) as error:
        raise SessionFileError(f"not an event: {line[:60]!r}") from error


def read_time(text: str) -> datetime:
    """Return the time of an event; one without a zone is UTC.

    Raises:
        ValueError: it is not a time, or one that cannot be told in every zone.
    """
    time = datetime.fromisoformat(text)
    if not FIRST_YEAR <= time.year <= LAST_YEAR:
        raise ValueError(f"no event can have happened in {time.year}")
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


_HEAD = frozenset({"seq", "time", "session", "kind"})


_ADAPTERS: dict[str, TypeAdapter[Any]] = {}


def _adapter(event_type: type[Event]) -> TypeAdapter[Any]:
    """Return the kind's adapter, made when the first event of the kind is met: most runs meet few kinds."""
    adapter = _ADAPTERS.get(event_type.kind)
    if adapter is None:
        adapter = _ADAPTERS[event_type.kind] = TypeAdapter(event_type)
    return adapter
