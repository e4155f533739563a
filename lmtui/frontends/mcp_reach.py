"""Where an MCP server runs, chosen line by line: asked for from the question of trust."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lmtui.core.clean import clean_line
from lmtui.core.errors import LmtuiError
from lmtui.core.mcp import Reach
from lmtui.core.trust import TrustItem

KEY = "s"


def offer(items: Sequence[TrustItem]) -> str:
    """Return what the question says of the choice; empty where there is none."""
    return f", {KEY} to choose where a server runs" if any(item.server for item in items) else ""


def choose_reach(
    items: Sequence[TrustItem], choose: Callable[[str, Reach], object], read: Callable[[str], str], say: Callable[[str], object]
) -> None:
    """Let the user choose a server and where it runs; `choose` keeps it.  Anything but a number of the list leaves it."""
    names = list(dict.fromkeys(item.server for item in items if item.server))
    name = names[0] if len(names) == 1 else _one_of(names, "which server? ", read, say)
    reach = _one_of(list(Reach), f"where does {clean_line(name)} run? ", read, say) if name else None
    if name and reach:
        try:
            _ = choose(name, Reach(reach))
        except LmtuiError as error:
            _ = say(f"error: {clean_line(error.full_text())}")


def _one_of(choices: Sequence[str], question: str, read: Callable[[str], str], say: Callable[[str], object]) -> str:
    for number, choice in enumerate(choices, 1):
        _ = say(f"{number}. {clean_line(choice)}")
    typed = read(question).strip()
    return choices[int(typed) - 1] if typed.isdecimal() and 0 < int(typed) <= len(choices) else ""
