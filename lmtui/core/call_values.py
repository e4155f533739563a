"""Values that a model wrote as arguments of a call, made fit to be kept, shown and sent.  Pure."""

from __future__ import annotations

from lmtui.core.errors import ToolError

MOST_LEVELS = 64  # beyond it one of the programs that such a value meets gives up, each at a depth of its own


def fit_values(tool: str, given: dict[str, object]) -> dict[str, object]:
    """Return arguments without halves of surrogate pairs, which no file, command or server can hold.

    Raises:
        ToolError: they are nested too deep.
    """
    return {fit_text(str(name)): _fit(tool, value, MOST_LEVELS) for name, value in given.items()}


def fit_text(text: str) -> str:
    """Return a text with whole surrogate pairs as their character, and a sign in place of each half."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _fit(tool: str, value: object, levels: int) -> object:
    if isinstance(value, str):
        return fit_text(value)
    if not isinstance(value, list | dict):
        return value
    if not levels:
        raise ToolError(f"{tool[:64]} was not run: its arguments are nested more than {MOST_LEVELS} deep.")
    if isinstance(value, list):
        return [_fit(tool, each, levels - 1) for each in value]
    return {fit_text(str(name)): _fit(tool, each, levels - 1) for name, each in value.items()}
