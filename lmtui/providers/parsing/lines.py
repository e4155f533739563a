"""What the beginning of a line begins: a fence, calls, an invented turn, or text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from lmtui.providers.parsing.harmony import BARE_CHARS, bare_header_at
from lmtui.providers.parsing.names import ToolNames
from lmtui.providers.parsing.zone import FENCE, FENCE_MAY_COME, FENCES, WORD

_SPEAKERS = frozenset(("user", "human", "observation", "tool", "system"))
_WORD_CHARS = 80
_TILDES = re.compile(r"(~{3,20})[^\n]{0,80}(?:\n|\Z)")
_TILDES_MAY_COME = re.compile(r"~{1,2}\Z|~{3,20}[^\n]{0,80}\Z")
_TO = " to=functions."


class Begins(Enum):
    """What begins; `MORE`: it cannot be told yet."""

    MORE = auto()
    TEXT = auto()
    CODE = auto()
    CALLS = auto()
    NAMED_CALL = auto()
    SPEAKER = auto()


@dataclass(frozen=True, slots=True)
class Beginning:
    """What begins, up to where it was read, and the fence or the name of the tool."""

    what: Begins
    end: int = 0
    name: str = ""


def beginning_at(text: str, at: int, tools: ToolNames, *, is_final: bool) -> Beginning:
    """Return what begins at the first character of a line that is not white space."""
    first = text[at]
    if first == "{":
        return Beginning(Begins.CALLS, at)
    if first == "`":
        return _fence(text, at, is_final=is_final)
    if first == "~":
        return _tildes(text, at, is_final=is_final)
    if first.isalpha() or first == "_":
        return _word(text, at, tools, is_final=is_final)
    return Beginning(Begins.TEXT, at)


def _fence(text: str, at: int, *, is_final: bool) -> Beginning:
    found = FENCE.match(text, at)
    if not is_final and (found is None or found.end() == len(text)) and FENCE_MAY_COME.match(text, at):
        return Beginning(Begins.MORE)
    if found is None:
        return Beginning(Begins.TEXT, at)
    if found[2].lower() in FENCES:
        return Beginning(Begins.CALLS, at)
    return Beginning(Begins.CODE, found.end(), found[1])


def _tildes(text: str, at: int, *, is_final: bool) -> Beginning:
    """Return code between tildes: models fence their calls with backticks, so whatever is in it is no call."""
    if not is_final and _TILDES_MAY_COME.match(text, at):
        return Beginning(Begins.MORE)
    found = _TILDES.match(text, at)
    return Beginning(Begins.CODE, found.end(), found[1]) if found else Beginning(Begins.TEXT, at)


def _word(text: str, at: int, tools: ToolNames, *, is_final: bool) -> Beginning:
    word = WORD.match(text, at)
    end = word.end() if word else at + 1
    if not is_final and end == len(text) and end - at < _WORD_CHARS:
        return Beginning(Begins.MORE)
    name, behind = text[at:end], text[end : end + len(_TO)]
    if behind.startswith(":") and name.lower() in _SPEAKERS:
        return Beginning(Begins.SPEAKER, end + 1)
    if name.lower().endswith("commentary") and behind and _TO.startswith(behind):
        header = bare_header_at(text, end)
        if header is not None:
            return Beginning(Begins.NAMED_CALL, header.end, header.tool)
        return Beginning(Begins.MORE) if not is_final and len(text) - end < BARE_CHARS else Beginning(Begins.TEXT, end)
    if name == "functools" and behind.startswith("["):
        return Beginning(Begins.CALLS, at)
    is_marked = "[ARGS]".startswith(behind[:6]) or "[CALL_ID]".startswith(behind[:9])
    if behind and (behind[0] in "({" or is_marked) and tools.find(name) is not None:
        return Beginning(Begins.CALLS, at)
    return Beginning(Begins.TEXT, end)
