"""The headers of the harmony format (gpt-oss): who speaks, in which channel, to whom.

Format: `<|start|>assistant<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{…}<|call|>`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEADER = re.compile(r"<\|(start|channel)\|>(.{0,300}?)<\|message\|>", re.DOTALL)
HEADER_CHARS = 330
_TO = re.compile(r"\bto=([\w.\-]+)")
_BARE = re.compile(r" to=(functions\.[\w\-]+)(?:\s*(?:<\|constrain\|>)?\s*(?:code|json))?\s*")
BARE_CHARS = 120


@dataclass(frozen=True, slots=True)
class Header:
    """What a header says, and where it ends; `tool` is the name that a call is sent to, empty where it is no call."""

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
    to = _TO.search(words)
    tool = to[1] if to is not None and to[1] != "assistant" else ""
    return Header(found.end(), tool, is_thinking=not tool and "analysis" in words)


def bare_header_at(text: str, at: int) -> Header | None:
    """Return a header whose marks the server left out, behind the word `commentary`: ` to=functions.read json{…}`."""
    found = _BARE.match(text, at)
    if found is None or not text.startswith("{", found.end()):
        return None
    return Header(found.end(), found[1])
