"""What a folder brings, listed by the files that it comes from."""

from __future__ import annotations

from collections.abc import Sequence

from lmtui.core.clean import clean_line, reveal_line
from lmtui.core.look_alikes import warning
from lmtui.core.trust import TrustItem
from lmtui.tui.lines.page_view import whole_text
from lmtui.tui.lines.text import Line, fit, pad

MOST_KIND_CELLS = 18


def item_lines(items: Sequence[TrustItem], width: int) -> list[Line]:
    """Return every item: what kind, where it stands, and its text, all of it."""
    found: list[Line] = []
    source = ""
    kind_cells = min(MOST_KIND_CELLS, max((len(clean_line(item.kind)) for item in items), default=0))
    for item in items:
        if item.source != source:
            source = item.source
            found += [*([()] if found else []), *whole_text(reveal_line(source), width, "strong")]
        room = max(8, width - kind_cells - 4)
        lines = [*whole_text(reveal_line(item.text), room), *whole_text(warning((item.text,)), room, "bad")]
        lines = [line for line in lines if line]
        kinds = [clean_line(item.kind), *([""] * (len(lines) - 1))]
        found += [
            ((f"  {pad(fit(kind, kind_cells), kind_cells)}  ", "muted"), *line) for kind, line in zip(kinds, lines, strict=True)
        ]
    return found
