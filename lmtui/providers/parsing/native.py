"""The server's own structured calls: names and arguments that slipped, mended as those in the text are."""

from __future__ import annotations

import json
from dataclasses import dataclass

from lmtui.providers.parsing.literals import Unreadable, read_json
from lmtui.providers.parsing.names import ToolNames
from lmtui.providers.parsing.shapes import Meant, with_arguments


@dataclass(frozen=True, slots=True)
class Native:
    """A call of the server's."""

    name: str
    arguments: str


def mended(name: str, arguments: str, tools: ToolNames, *, is_cut: bool = False) -> Native:
    """Return a call with a tool's own name and with arguments that are JSON, as far as they have one meaning.

    What has none stays as it is: whoever runs it says so.  With `is_cut` (the answer ended at its limit) none is closed.
    """
    spec = tools.find(name)
    name = spec.name if spec is not None else name
    if not arguments.strip():
        return Native(name, "{}")
    try:
        value = json.loads(arguments)
        if isinstance(value, dict):
            return Native(name, arguments)
    except (ValueError, RecursionError):
        try:
            value = read_json(arguments, may_close=not is_cut)
        except Unreadable:
            return Native(name, arguments)
    if value is None:
        return Native(name, "{}")
    found = with_arguments(spec, value) if spec is not None and isinstance(value, dict | str) else None
    if not isinstance(found, Meant):
        return Native(name, arguments)
    return Native(name, json.dumps(found.arguments, ensure_ascii=False))
