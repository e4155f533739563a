"""The list above the prompt: what is offered for what is being typed."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from lmtui.tui.completing import Completing, Kind, Offer
from lmtui.tui.wording import shorten_middle

MAX_SHOWN = 8
LABEL_CELLS = 20
MARGIN_CELLS = 4


class Completions(Static):
    """Draws at most eight lines, the marked one among them."""

    DEFAULT_CSS = """
    Completions {
        height: auto; padding: 0 1 0 3; background: $panel; display: none; text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    def show(self, completing: Completing) -> None:
        """Draw what is offered, or nothing."""
        offers, marked = completing.offers, completing.marked
        self.display = bool(offers)
        if not offers:
            return
        first = max(0, min(marked - MAX_SHOWN + 1, len(offers) - MAX_SHOWN))
        shown = offers[first : first + MAX_SHOWN]
        is_path = completing.wanted is not None and completing.wanted.kind is Kind.PATH
        width = self.app.size.width - MARGIN_CELLS
        cells = LABEL_CELLS if any(offer.note for offer in shown) and not is_path else 0
        lines = [_line(offer, cells, width, is_marked=first + row == marked) for row, offer in enumerate(shown)]
        self.update(Content("\n").join(lines))


def _line(offer: Offer, cells: int, width: int, *, is_marked: bool) -> Content:
    label = shorten_middle(offer.label, max(1, width - len(offer.note) - 2) if not cells else width)
    head = label.ljust(cells) if cells else f"{label}  "
    return Content.assemble(
        (head, "bold $accent" if is_marked else "$text"), (offer.note, "$text" if is_marked else "$text-muted")
    )
