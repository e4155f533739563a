"""What fills the model's window, as lines: how much is used, then each part with its share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lmtui.core.clean import clean_line
from lmtui.core.window import WindowPart
from lmtui.tui.facts import Facts
from lmtui.tui.lines.text import Line, fit, pad, wrap
from lmtui.tui.wording import tokens_text, window_text

NAME_CELLS, NUMBER_CELLS, LEAST_BAR = 24, 7, 8
FULL, FREE = "━", "─"
NOTE = "Estimates by size; the first line is what the server counted. What stays the same from request to request is read once."


def window_lines(parts: Sequence[WindowPart], facts: Facts) -> Callable[[int], list[Line]]:
    """Return what makes the lines for a width: what is used of the window, then each part with its share."""
    total = sum(part.tokens for part in parts)
    window = facts.window_tokens
    rows = [*parts, *([WindowPart("free", window - total)] if window > total else [])]
    whole = max(window, total, 1)

    def make(width: int) -> list[Line]:
        bar = max(LEAST_BAR, width - NAME_CELLS - 3 * NUMBER_CELLS)
        head = _head(total, facts)
        lines = [*wrap(((head, "strong"),), width), ()]
        lines += [_row(part, whole, bar) for part in rows]
        return [*lines, (), *wrap(((NOTE, "muted"),), width)]

    return make


def _head(total: int, facts: Facts) -> str:
    window = f" of {window_text(facts.window_tokens)}" if facts.window_tokens else "; the server does not say how large it is"
    usage = facts.usage
    if usage is None or usage.is_estimate:
        return f"about {tokens_text(total)} tokens{window}"
    used = usage.usage.prompt_tokens
    return f"{tokens_text(used)} tokens in the last request{window}, {tokens_text(usage.usage.cached_tokens)} of them reused"


def _row(part: WindowPart, whole: int, bar: int) -> Line:
    share = part.tokens / whole
    cells = max(1, round(share * bar)) if part.tokens else 0
    is_free = part.name == "free"
    count = f"{part.count:,}×" if part.count > 1 else ""
    return (
        (pad(fit(clean_line(part.name), NAME_CELLS - 1), NAME_CELLS), "muted" if is_free else ""),
        (f"{tokens_text(part.tokens):>{NUMBER_CELLS}}", "muted" if is_free else ""),
        (f"{share:>{NUMBER_CELLS - 1}.0%} ", "muted"),
        ((FREE if is_free else FULL) * cells, "muted" if is_free else "accent"),
        (f" {count}", "muted"),
    )
