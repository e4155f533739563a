"""Old calls told in short: what a model once gave to a tool (whole files, edits, long lists) is not sent again and again.

The call stays a call: its name, its short arguments and the shape of the others.  The log keeps all of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace

from lmtui.core.errors import ToolError
from lmtui.core.messages import ToolCall

BULKY_CHARS = 800
LONG_CHARS, LONG_ITEMS = 240, 12
_FIRST_ITEMS, _DEEPEST = 3, 4
_MARK = re.compile(r"\[left out by lmtui to save room: [\d,]+ (?:lines?|items?), [\d,]+ characters")


def is_bulky(calls: Sequence[ToolCall]) -> bool:
    """Tell whether the arguments of calls are long enough to be told in short later."""
    return sum(len(call.arguments) for call in calls) >= BULKY_CHARS


def in_short(call: ToolCall) -> ToolCall:
    """Return a call with a word in place of each long text or list in its arguments; they stay a JSON object."""
    if len(call.arguments) < LONG_CHARS:
        return call
    given = json.loads(call.sent_arguments)
    short = {name: _short(value, 1) for name, value in given.items()}
    return call if short == given else replace(call, arguments=_as_json(short))


def check_copied(call: ToolCall) -> None:
    """Refuse a call in which the word that stands for something left out was copied, as if it were a text of its own.

    Raises:
        ToolError: it was.
    """
    if _MARK.search(call.arguments):
        raise ToolError(
            f"`{call.name}` was given a line with which lmtui shortens old calls: give the text itself; read the file for it"
        )


def _short(value: object, depth: int) -> object:
    match value:
        case str() if len(value) > LONG_CHARS:
            return _mark(value.count("\n") + (not value.endswith("\n")), "line", len(value))
        case list() if len(value) > LONG_ITEMS or depth > _DEEPEST:
            first = [_short(each, depth + 1) for each in value[:_FIRST_ITEMS]] if depth <= _DEEPEST else []
            return [*first, _mark(len(value) - len(first), "item", len(_as_json(value[len(first) :])))]
        case list():
            return [_short(each, depth + 1) for each in value]
        case dict() if depth > _DEEPEST:
            return {"…": _mark(len(value), "item", len(_as_json(value)))} if value else value
        case dict():
            return {name: _short(each, depth + 1) for name, each in value.items()}
        case _:
            return value


def _mark(count: int, noun: str, size_chars: int) -> str:
    """Return the word; it says what it is, so that no model takes it for what was written, or writes it itself."""
    things = f"{count:,} {noun}{'s' if count != 1 else ''}"
    return f"[left out by lmtui to save room: {things}, {size_chars:,} characters; the tool got all of it. Never write this.]"


def _as_json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character, which only its escape can carry
        return json.dumps(value)
    return text
