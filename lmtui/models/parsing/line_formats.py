"""What the beginning of a line begins: a fence, calls, an invented turn, or text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from lmtui.models.parsing.call_block import FENCE, FENCE_MAY_COME, FENCES, JSON_FENCES, WORD
from lmtui.models.parsing.literals import ToolNames

_HEADER = re.compile(r"<\|(start|channel)\|>(.{0,300}?)<\|message\|>", re.DOTALL)
HEADER_CHARS = 330
_RECIPIENT = re.compile(r"\bto=([\w.\-]+)")
_BARE = re.compile(r" to=(functions\.[\w\-]+)(?:\s*(?:<\|constrain\|>)?\s*(?:code|json))?\s*")
BARE_CHARS = 120


@dataclass(frozen=True, slots=True)
class Header:
    """What a header says, and where it ends; `tool` is the name that a call is sent to, empty where it is not a call."""

    end: int
    tool: str = ""
    is_thinking: bool = False
    is_foreign: bool = False


def header_at(text: str, at: int) -> Header | None:
    """Return the header that begins at a place, None where there is none (or not all of it yet)."""
    found = _HEADER.match(text, at)
    if found is None:
        return None
    words = found[2].replace("<|channel|>", " ").strip()
    if found[1] == "start" and words and not words.startswith("assistant"):
        return Header(found.end(), is_foreign=True)
    to = _RECIPIENT.search(words)
    tool = to[1] if to is not None and to[1] != "assistant" else ""
    return Header(found.end(), tool, is_thinking=not tool and "analysis" in words)


def bare_header_at(text: str, at: int) -> Header | None:
    """Return a header whose marks the server left out, behind the word `commentary`: ` to=functions.read json{…}`."""
    found = _BARE.match(text, at)
    if found is None or not text.startswith("{", found.end()):
        return None
    return Header(found.end(), found[1])


_RESULTS = frozenset(("tool_output", "tool_outputs", "tool_result", "tool_results", "tool_response", "output", "outputs"))
_HEADING = re.compile(
    r"[*_#>\[ ]{0,6}(?:the )?(?:tool|function|call|command|shell)?[ _]?(?:results?|outputs?|responses?|stdout)[*_\] ]{0,4}:",
    re.IGNORECASE,
)
_HEADING_CHARS = 40
_HEADING_BEGINS = re.compile(r"[*_#>\[ ]{0,6}([A-Za-z]*)")
_HEADING_WORDS = ("the", "tool", "function", "shell", "call", "command", "result", "output", "response", "stdout")
_REACT = re.compile(r"Action:[ \t]*`?([\w.\-]{1,80})`?[ \t]*\r?\n[ \t]*Action[ _]Input:\s*(?=\S)")
_REACT_MAY_COME = re.compile(r"Action:[^\n]{0,100}(?:\n[^\n:]{0,20}(?::\s*)?)?\Z")
_ARROWS = re.compile(r">>>([A-Za-z_][\w.\-]{0,60})\n\s{0,20}(?=\{)")
_ARROWS_MAY_COME = re.compile(r">{1,2}\Z|>>>(?:[A-Za-z_][\w.\-]{0,60}(?:\n\s{0,20})?)?\Z")
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
    NAMED_LINE = auto()
    RESULT = auto()
    SPEAKER = auto()


@dataclass(frozen=True, slots=True)
class Beginning:
    """What begins, up to where it was read, the fence or the name of the tool, and the shape of the call."""

    what: Begins
    end: int = 0
    name: str = ""
    form: str = "harmony"


def beginning_at(text: str, at: int, tools: ToolNames, *, is_final: bool) -> Beginning:
    """Return what begins at the first character of a line that is not white space."""
    first = text[at]
    if first == "{":
        return Beginning(Begins.CALLS, at)
    if first == "`":
        return _fence(text, at, is_final=is_final)
    if first == "~":
        return _tildes(text, at, is_final=is_final)
    if first == ">":
        return arrows_at(text, at, tools, is_final=is_final)
    if first.isalpha() or first == "_":
        return _word(text, at, tools, is_final=is_final)
    return Beginning(Begins.TEXT, at)


def _fence(text: str, at: int, *, is_final: bool) -> Beginning:
    found = FENCE.match(text, at)
    if not is_final and (found is None or found.end() == len(text)) and FENCE_MAY_COME.match(text, at):
        return Beginning(Begins.MORE)
    if found is None:
        return Beginning(Begins.TEXT, at)
    if found[2].lower() in FENCES | JSON_FENCES:
        return Beginning(Begins.CALLS, at)
    if found[2].lower() in _RESULTS:
        return Beginning(Begins.RESULT, found.end(), found[1])
    return Beginning(Begins.CODE, found.end(), found[1])


def _tildes(text: str, at: int, *, is_final: bool) -> Beginning:
    """Return code between tildes: models fence their calls with backticks, so whatever is in it is not a call."""
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
    if name == "Action" and behind.startswith(":"):
        return _react(text, at, end, tools, is_final=is_final)
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


def _react(text: str, at: int, end: int, tools: ToolNames, *, is_final: bool) -> Beginning:
    """Return the call of `Action: NAME` and `Action Input: …`; the input is an object or the rest of the line."""
    found = _REACT.match(text, at)
    if found is None:
        return Beginning(Begins.MORE if not is_final and _REACT_MAY_COME.match(text, at) else Begins.TEXT, end)
    if tools.find(found[1]) is None:
        return Beginning(Begins.TEXT, end)
    is_object = text[found.end()] == "{"
    return Beginning(Begins.NAMED_CALL if is_object else Begins.NAMED_LINE, found.end(), found[1], "react")


def arrows_at(text: str, at: int, tools: ToolNames, *, is_final: bool) -> Beginning:
    """Return the call that `>>>NAME` begins, on its own line before an object (functionary)."""
    found = _ARROWS.match(text, at)
    if found is not None and tools.find(found[1]) is not None:
        return Beginning(Begins.NAMED_CALL, found.end(), found[1], "tag")
    is_open = found is None and not is_final and _ARROWS_MAY_COME.match(text, at) is not None
    return Beginning(Begins.MORE) if is_open else Beginning(Begins.TEXT, at)


def heads_result(text: str, at: int, *, is_final: bool) -> bool | None:
    """Tell whether a line begins as the heading of a result (“Result:”, “**Output:**”); None: it cannot be told yet."""
    head = text[at : at + _HEADING_CHARS]
    if _HEADING.match(head):
        return True
    begins = _HEADING_BEGINS.match(head)
    word = begins[1].lower() if begins else ""
    if not any(each.startswith(word) or word.startswith(each) for each in _HEADING_WORDS):
        return False
    if begins and not word and begins.end() < len(head):
        return False
    return False if is_final or len(head) == _HEADING_CHARS or ":" in head or "\n" in head else None
