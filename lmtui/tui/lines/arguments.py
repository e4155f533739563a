"""The arguments of a tool call as lines: each under its name, long ones cut short until all is asked for.  Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from lmtui.core.clean import clean, clean_line, reveal, show_controls
from lmtui.tui.lines.blocks import FOLDED
from lmtui.tui.lines.text import Line, fit, indent, pad, row, width_of
from lmtui.tui.lines.text import fold as fold_line

_SHORT_LINES = 3
_MOST_LINES = 2000
_WIDEST_NAME = 16


def value_text(value: object) -> str:
    """Return a value as a person reads it: texts as they are, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def argument_lines(arguments: Mapping[str, object], width: int, *, is_all: bool) -> list[Line]:
    """Return every argument behind its name; of a long one three lines, unless `is_all`."""
    if not arguments:
        return []
    names = [fit(clean_line(name), _WIDEST_NAME) for name in arguments]
    lead = min(_WIDEST_NAME, max(width_of(((name, ""),)) for name in names)) + 2
    lines: list[Line] = []
    for name, value in zip(names, arguments.values(), strict=True):
        inner = max(8, width - lead)
        text = value_text(value)
        texts = (clean(show_controls(text)) if "\n" in text else reveal(text)).strip("\n").split("\n")
        shown = [part for each in texts[:_MOST_LINES] for part in _folded(each, inner, is_all=is_all)]
        left_out = len(texts) - _MOST_LINES
        if left_out > 0 and is_all:
            shown.append(((f"… {left_out:,} more lines", "muted"),))
        hidden = len(shown) + max(0, left_out) - _SHORT_LINES
        if not is_all and hidden > 0:
            shown = shown[:_SHORT_LINES]
            shown[-1] = row(shown[-1], ((f"{FOLDED} {hidden} more", "accent"),), inner)
        lines += indent(shown, ((pad(name, lead), "muted"),), ((" " * lead, ""),))
    return lines


def has_long(arguments: Mapping[str, object], width: int) -> bool:
    """Tell whether an argument is longer than what is shown of it at first."""
    texts = [value_text(value).strip("\n") for value in arguments.values()]
    return any(text.count("\n") >= _SHORT_LINES or len(text) > _SHORT_LINES * max(8, width - _WIDEST_NAME) for text in texts)


def search_text(arguments: Mapping[str, object]) -> str:
    """Return all that can be found in the arguments."""
    return "\n".join(f"{name} {value_text(value)}" for name, value in arguments.items())


def _folded(text: str, width: int, *, is_all: bool) -> list[Line]:
    shown = text.expandtabs(4) if is_all else text[: width * (_SHORT_LINES + 60)].expandtabs(4)
    return fold_line(((shown, ""),), width) if shown else [()]
