"""Searching a pane of blocks: matches marked and counted, gone to one by one, unfolded while one is there."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from time import perf_counter
from typing import Unpack

from textual.binding import BindingsMap

from lmtui.core.sanitize import sanitize_line
from lmtui.tui.commands import Scope, bindings, hint_text, of_scope
from lmtui.tui.lines.block_view import BlockView
from lmtui.tui.lines.blocks import Block
from lmtui.tui.lines.document import Document
from lmtui.tui.lines.styled_text import Line, fit, plain, restyle
from lmtui.tui.lines.surface import WidgetOptions
from lmtui.tui.timing import call_after

_BLOCKS_A_LOOK = 16
_GAP = r"[\s│▌]+"

Stretch = tuple[int, int, int]


class Finder:
    """Matches of some words, upper and lower case alike, in blocks that may still change."""

    def __init__(self, blocks: Sequence[Block], words: str, start: int = 0) -> None:
        self.words = words
        self._blocks = blocks
        self._wanted = words.lower()
        parts = words.split()
        self._first = parts[0].lower() if len(parts) > 1 else self._wanted
        self._pattern = re.compile(_GAP.join(map(re.escape, parts)) if len(parts) > 1 else re.escape(words), re.IGNORECASE)
        self._seen: Sequence[Line] = ()
        self._found: list[list[Stretch]] = []
        self._by_row: dict[int, list[Stretch]] = {}
        self._start = start
        self._later: list[int] = []
        self._earlier: list[int] = []
        self._later_at = start
        self._earlier_at = 0
        self._counts: dict[int, int] = {}
        self.total = 0

    @property
    def is_done(self) -> bool:
        """Tell whether every block was looked at."""
        return self._later_at >= len(self._blocks) and self._earlier_at >= min(self._start, len(self._blocks))

    def work(self, budget_s: float) -> bool:
        """Look at blocks for about so long; True when all were looked at."""
        end = perf_counter() + budget_s
        while not self.is_done and perf_counter() < end:
            for _ in range(_BLOCKS_A_LOOK):
                if self._later_at < len(self._blocks):
                    self._look(self._later_at, self._later)
                    self._later_at += 1
                elif self._earlier_at < min(self._start, len(self._blocks)):
                    self._look(self._earlier_at, self._earlier)
                    self._earlier_at += 1
        return self.is_done

    def forget_from(self, index: int) -> None:
        """Look again at the blocks from here on: they changed, or new ones came."""
        for found in (self._later, self._earlier):
            while found and found[-1] >= index:
                self.total -= self._counts.pop(found.pop())
        self._earlier_at = min(self._earlier_at, index)
        self._later_at = min(self._later_at, max(index, self._start))

    def step(self, index: int, step: int) -> int | None:
        """Return the next block with a match after (or, for a negative step, before) one, around the end; None without any."""
        if not self._counts:
            return None
        if step > 0:
            for found in (self._earlier, self._later):
                at = bisect_left(found, index + 1)
                if at < len(found):
                    return found[at]
            return (self._earlier or self._later)[0]
        for found in (self._later, self._earlier):
            at = bisect_left(found, index)
            if at > 0:
                return found[at - 1]
        return (self._later or self._earlier)[-1]

    def count_before(self, index: int) -> int:
        """Return how many matches are in the blocks before one."""
        return sum(self._counts[each] for found in (self._earlier, self._later) for each in found[: bisect_left(found, index)])

    def count(self, index: int) -> int:
        """Return how many matches a block has."""
        return self._counts.get(index, 0)

    def matches(self, lines: Sequence[Line]) -> list[list[Stretch]]:
        """Return where matches are shown in the lines of a block, each in one stretch or, where it was wrapped, in several."""
        if self._seen is not lines:
            self._seen, self._found = lines, self._matches(lines)
            self._by_row = {}
            for number, stretches in enumerate(self._found):
                for row, start, end in stretches:
                    self._by_row.setdefault(row, []).append((number, start, end))
        return self._found

    def on_row(self, lines: Sequence[Line], row: int) -> list[Stretch]:
        """Return the stretches of one line of a block, each with the number of its match in the place of the row."""
        _ = self.matches(lines)
        return self._by_row.get(row, [])

    def _matches(self, lines: Sequence[Line]) -> list[list[Stretch]]:
        texts = [plain(line) for line in lines]
        starts = list(accumulate((len(text) + 1 for text in texts), initial=0))
        found: list[list[Stretch]] = []
        for match in self._pattern.finditer("\n".join(texts)):
            stretches: list[Stretch] = []
            row = bisect_right(starts, match.start()) - 1
            while starts[row] < match.end():
                start, end = max(0, match.start() - starts[row]), min(len(texts[row]), match.end() - starts[row])
                if end > start:
                    stretches.append((row, start, end))
                row += 1
            found.append(stretches)
        return found

    def _look(self, index: int, found: list[int]) -> None:
        text = self._blocks[index].search_text()
        count = text.lower().count(self._first)
        if count and self._first != self._wanted:
            count = sum(1 for _ in self._pattern.finditer(text))
        if count:
            self._counts[index] = count
            self.total += count
            found.append(index)


_SLICE_S = 0.006
_PAUSE_S = 0.004
_WORDS_CELLS = 20


class FindView(BlockView, can_focus=True, inherit_bindings=False):
    """A pane of blocks in which words can be looked for."""

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self.finder: Finder | None = None
        self._hit = (-1, 0)
        self._numbered: tuple[tuple[tuple[int, int], int], int] = (((-1, 0), -1), 0)
        self._opened: Block | None = None
        self._is_looking = False
        self._wants_step = 0
        self._bindings = BindingsMap.merge([BindingsMap(bindings(Scope.FINDING)), self._bindings])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let the keys of the search count while there is one."""
        if action == "finding":
            return self.finder is not None and self.copying is None
        return super().check_action(action, parameters)

    def find(self, words: str) -> None:
        """Look for words (none: end the search), those that were looked for before forgotten; the reader stays where he is."""
        self._fold_again()
        self.finder = Finder(self.document.blocks, words, self.at_top()[0]) if words.strip() else None
        self._hit, self._wants_step = (-1, 0), 0
        self._numbered = (((-1, 0), -1), 0)
        self.redraw()
        self.note_line()
        self._look()

    def go_to_match(self, step: int = 1) -> None:
        """Go to the next match, or the one before; to the first in sight or below where none was gone to yet."""
        finder = self.finder
        if finder is None:
            return
        index, ordinal = self._hit
        if index < 0:
            index, ordinal = self.at_top()[0] - (step > 0), len(self.document)
        if 0 <= index < len(self.document) and 0 <= ordinal + step < len(self._rows(index)) and self._hit[0] >= 0:
            self._show_hit(index, ordinal + step)
            return
        found = finder.step(index, step)
        if found is None:
            self._wants_step = step
            self.note_line()
            return
        self._wants_step = 0
        self._show_hit(found, 0 if step > 0 else -1)

    def action_finding(self, step: str) -> None:
        """Go to a match, or end the search."""
        if step == "end":
            self.find("")
        else:
            self.go_to_match(1 if step == "next" else -1)

    def toggle(self, index: int) -> None:
        """Fold or unfold a block; it stays as the reader wants it."""
        if self.document.blocks[index] is self._opened:
            self._opened = None
        super().toggle(index)

    def take_whole(self, document: Document) -> None:
        """Show a document whose end is what was shown until now, with what the reader unfolded there; he stays in his place."""
        shift = len(document) - len(self.document)
        if document.width != self.document.width:
            document.set_width(self.document.width)
        for index, block in enumerate(self.document.blocks):
            if not block.is_folded and 0 <= index + shift < len(document) and document.blocks[index + shift].kind == block.kind:
                document.blocks[index + shift].unfold_like(block)
                document.touch(index + shift)
        if self.copying is not None:
            self.leave_copying()
        if self.cursor >= 0:
            self.cursor = max(0, self.cursor + shift)
        words = self.finder.words if self.finder is not None else ""
        self._opened = None
        self.take_document(document, shift)
        self.find(words)

    def settle(self) -> None:
        """Make exact what is about to be seen, and look through what is new."""
        super().settle()
        changed = self.document.take_rewritten()
        if self.finder is not None and changed is not None:
            self.finder.forget_from(changed)
            self._look()

    def dressed(self, line: int, content: Line) -> Line:
        """Return a line with its matches marked, the one that was gone to more than the others."""
        if self.finder is not None and line < self.document.total:
            index, top = self.document.locate(line)
            for number, start, end in self.finder.on_row(self.document.lines(index), line - top):
                role = "match strong" if (index, number) == self._hit else "match"
                content = restyle(content, start + self.lead_cells, end + self.lead_cells, role)
        return super().dressed(line, content)

    def note_line(self) -> None:
        """Say what was found and what the keys do."""
        finder = self.finder
        if finder is None or self.copying is not None:
            super().note_line()
            return
        which = f"{self._number(finder):,} of {finder.total:,}" if self._hit[0] >= 0 else f"{finder.total:,}"
        more = "" if finder.is_done else "+"
        found: Line = (
            ((f" {which}{more}  ", "accent"),) if finder.total else ((" not found  " if finder.is_done else " … ", "warn"),)
        )
        words: Line = ((fit(sanitize_line(finder.words), _WORDS_CELLS), "strong"),)
        keys = hint_text(of_scope(Scope.FINDING))
        self.show_note((*words, *found, (keys, "muted")) if self.has_focus else found)

    def _number(self, finder: Finder) -> int:
        """Return which of all matches was gone to; counted again only when that, or the whole of them, is another."""
        known = (self._hit, finder.total if finder.is_done else -1)
        if known != self._numbered[0]:
            index, ordinal = self._hit
            number = finder.count_before(index) + min(ordinal, max(0, finder.count(index) - 1)) + 1
            self._numbered = (known, number)
        return self._numbered[1]

    def _look(self) -> None:
        if self._is_looking or self.finder is None:
            return
        is_done = self.finder.work(_SLICE_S)
        if self._wants_step and (self.finder.total or is_done):
            step, self._wants_step = self._wants_step, 0
            if self.finder.total:
                self.go_to_match(step)
        self.note_line()
        if not is_done and self.is_running:
            self._is_looking = True
            call_after(self, _PAUSE_S, self._look_on)

    def _look_on(self) -> None:
        self._is_looking = False
        self._look()

    def _rows(self, index: int) -> list[int]:
        assert self.finder is not None
        return [stretches[0][0] for stretches in self.finder.matches(self.document.lines(index)) if stretches] or [0]

    def _show_hit(self, index: int, ordinal: int) -> None:
        block = self.document.blocks[index]
        assert self.finder is not None
        if block is not self._opened:
            self._fold_again()
            if block.can_fold and not self.finder.matches(self.document.lines(index)):
                block.unfold_all()
                self._opened = block
                self.document.touch(index)
        rows = self._rows(index)
        ordinal = ordinal if ordinal >= 0 else len(rows) - 1
        self._hit = (index, ordinal)
        self.cursor = index
        self.hold_still()
        top = self.document.top(index) + rows[ordinal]
        view = self.scroll_offset.y
        if not view <= top < view + self.size.height - 1:
            self.go(*self._moved(index, rows[ordinal] - self.size.height // 3), can_follow=False)
        self.redraw()
        self.note_line()

    def _fold_again(self) -> None:
        block, self._opened = self._opened, None
        if block is not None and not block.is_folded and block in self.document.blocks:
            if self.is_following:
                self.hold_still()
            block.is_folded = True
            self.document.touch(self.document.blocks.index(block))
            self.touch(0)
