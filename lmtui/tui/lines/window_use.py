"""What fills the model's window, as rows: each part with its share and its seconds, and in it the single messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lmtui.core.clean import clean_line
from lmtui.core.window import WindowItem, WindowPart
from lmtui.tui.facts import Facts
from lmtui.tui.lines.grouped import GroupRow
from lmtui.tui.lines.text import Line, fit, pad
from lmtui.tui.wording import tokens_text, window_text

NUMBER_CELLS, SHARE_CELLS, SECONDS_CELLS, STATE_CELLS = 8, 6, 8, 10
LEAST_NAME = 12
PIN = "pinned"
TOOLS = "tools"


def window_head(parts: Sequence[WindowPart], facts: Facts) -> str:
    """Return how much of the window is used, in words."""
    total = sum(part.tokens for part in parts)
    window = f" of {window_text(facts.window_tokens)}" if facts.window_tokens else "; the server does not say how large it is"
    usage = facts.usage
    if usage is None or usage.is_estimate:
        return f"about {tokens_text(total)} tokens{window}"
    return f"about {tokens_text(total)} tokens{window}; {tokens_text(usage.usage.prompt_tokens)} in the last request"


def column_head(width: int) -> Line:
    """Return the names of the columns."""
    numbers = f"{'tokens':>{NUMBER_CELLS}}{'share':>{SHARE_CELLS}}{'to read':>{SECONDS_CELLS}}"
    return ((pad("", max(LEAST_NAME, _name_cells(width) + 2)) + numbers, "muted"),)


def window_rows(parts: Sequence[WindowPart], window_tokens: int, read_s: Callable[[int], float]) -> list[GroupRow]:
    """Return a row for each part and, below it, for each message in it; at the end what is free."""
    total = sum(part.tokens for part in parts)
    whole = max(window_tokens, total, 1)
    rows: list[GroupRow] = []
    for part in parts:
        rows.append(GroupRow(part.name, "", _part_line(part, whole, read_s)))
        rows += [GroupRow(part.name, item_key(item, at), _item_line(item, whole, read_s)) for at, item in enumerate(part.items)]
    if window_tokens > total:
        rows.append(GroupRow("free", "", _free_line(window_tokens - total, whole)))
    return rows


def item_key(item: WindowItem, place: int) -> str:
    """Return what a row is known by: its message's own id, else its place."""
    return item.id or f"#{place}"


def cost_text(item: WindowItem, read_s: Callable[[int], float]) -> str:
    """Return what it costs to change a message in the middle of what was sent: all behind it is read again."""
    behind = max(0, item.reread_tokens - item.tokens)
    if not behind:
        return "Nothing stands behind it: a change costs no reading again."
    seconds = seconds_text(read_s(behind), " (", ")")
    return f"To fold it, leave it out or bring it back costs reading about {behind:,} tokens again{seconds}."


def seconds_text(seconds: float, before: str = "", after: str = "") -> str:
    """Return seconds of reading in few characters, an empty text where the speed is not known."""
    if seconds <= 0:
        return ""
    return f"{before}{seconds:.1f} s{after}" if seconds < 100 else f"{before}{seconds / 60:.0f} min{after}"


def _part_line(part: WindowPart, whole: int, read_s: Callable[[int], float]) -> Callable[[int], Line]:
    count = f"  {part.count:,}×" if part.count > 1 else ""
    return lambda width: (
        (pad(fit(clean_line(part.name) + count, _name_cells(width) - 1), _name_cells(width)), "strong"),
        *_numbers(part.tokens, whole, read_s),
    )


def _item_line(item: WindowItem, whole: int, read_s: Callable[[int], float]) -> Callable[[int], Line]:
    state = " · ".join(filter(None, (item.state, PIN if item.is_pinned else "")))

    def make(width: int) -> Line:
        name = _name_cells(width)
        title = pad(fit(f"  {clean_line(item.title)}", name - 1), name)
        role = "muted" if item.state else ""
        return ((title, role), *_numbers(item.tokens, whole, read_s), (f"  {fit(state, STATE_CELLS * 2)}", "accent"))

    return make


def _free_line(tokens: int, whole: int) -> Callable[[int], Line]:
    def make(width: int) -> Line:
        numbers = "".join(text for text, _ in _numbers(tokens, whole, lambda _: 0.0))
        return ((pad("free", _name_cells(width)) + numbers, "muted"),)

    return make


def _numbers(tokens: int, whole: int, read_s: Callable[[int], float]) -> Line:
    return (
        (f"{tokens_text(tokens):>{NUMBER_CELLS}}", ""),
        (f"{tokens / whole:>{SHARE_CELLS}.0%}", "muted"),
        (f"{seconds_text(read_s(tokens)):>{SECONDS_CELLS}}", "muted"),
    )


def _name_cells(width: int) -> int:
    return max(LEAST_NAME, width - NUMBER_CELLS - SHARE_CELLS - SECONDS_CELLS - STATE_CELLS)
