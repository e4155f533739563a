"""Make a call's arguments fit its tool: canonical names, the types of the schema."""

from __future__ import annotations

import json
import re

from lmtui.core.messages import ToolSpec
from lmtui.providers.parsing.literals import Unreadable, read_json
from lmtui.providers.parsing.names import own_parameter, parameters, required, type_of

_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,17})")
_DECIMAL = re.compile(r"-?\d{1,17}(?:\.\d{1,17})?")
_PATHS = frozenset(("path", "file", "cwd"))
_PLACEHOLDER = re.compile(r"<[^<>\n]{1,80}>|\{\{[^{}\n]{1,80}\}\}")
_DRIVE = re.compile(r"[A-Za-z]:[\\\t\r\b\f\n]")
_BACKSLASHED = str.maketrans({"\t": r"\t", "\r": r"\r", "\b": r"\b", "\f": r"\f", "\n": r"\n"})
_WORDS = {"true": True, "false": False}


class Unfit(ValueError):
    """Arguments with which a tool cannot be called; `str(error)` says why in a few words."""


def fitted(spec: ToolSpec, arguments: dict[str, object]) -> dict[str, object]:
    """Return arguments under their own names; what the tool does not know stays, for the tool to say so.

    Raises:
        Unfit: one that the tool needs is missing, or one is given twice with two values.
    """
    if not parameters(spec) and not required(spec):
        return arguments
    fit: dict[str, object] = {}
    for name, value in arguments.items():
        own = own_parameter(spec, name) or name
        is_path = own in _PATHS and isinstance(value, str)
        typed = _path(own, str(value)) if is_path else _typed(value, type_of(spec, own))
        if own in fit and fit[own] != typed:
            raise Unfit(f"it gives {own} twice")
        fit[own] = typed
    missing = [name for name in required(spec) if fit.get(name) is None]
    if missing:
        raise Unfit(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    return fit


def _path(name: str, value: str) -> str:
    """Return a path; where a drive's backslashes were read as escapes, with them.

    Raises:
        Unfit: it only says that a path belongs there.
    """
    if _PLACEHOLDER.fullmatch(value):
        raise Unfit(f"its {name} is a placeholder")
    return value.translate(_BACKSLASHED) if _DRIVE.match(value) else value


def _typed(value: object, kind: str) -> object:
    """Return a value in the type that a schema asks for, where it has one reading in it; else as it is."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    match kind:
        case "integer":
            return int(text) if _WHOLE.fullmatch(text) else value
        case "number":
            return json.loads(text) if _DECIMAL.fullmatch(text) and _WHOLE.match(text) else value
        case "boolean":
            return _WORDS.get(text.lower(), value)
        case "array" | "object":
            return _structure(text, value, list if kind == "array" else dict)
    return value


def _structure(text: str, value: str, kind: type) -> object:
    try:
        found = read_json(text)
    except Unreadable:
        return value
    return found if isinstance(found, kind) else value
