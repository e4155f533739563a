"""A text area in which a large paste or a picture is one token.  What a token stands for is kept in `folds`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from rich.text import Text
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea

from lmtui.tui.folding import Folds, is_large

_REORDERING = (0x061C, *range(0x200E, 0x2010), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_UNKNOWN = dict.fromkeys((*range(0x7F, 0xA0), *_REORDERING, *range(0xD800, 0xE000)), "\ufffd")
_SIGNS = {code: chr(0x2400 + code) for code in range(0x20) if code != 0x09} | _UNKNOWN


class TokenArea(TextArea):
    """Folds what is pasted where it is large, deletes tokens as one, and repaints only what differs."""

    @dataclass
    class Pasted(Message):
        """A short text was pasted; it may name a file."""

        text: str

    def __init__(self, *, name: str, placeholder: str) -> None:
        super().__init__(
            id=name,
            compact=True,
            highlight_cursor_line=False,
            placeholder=placeholder,
            tab_behavior="focus",
            show_line_numbers=False,
        )
        self.cursor_blink = False
        self.folds = Folds()
        self._drawn: list[Strip] = []

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Repaint only the rows that differ: a key in a prompt of eight lines writes one of them."""
        if regions or layout or recompose or not repaint or not self.is_mounted or not self.size:
            return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
        rows = [self.render_line(y) for y in range(self.size.height)]
        is_same_shape = len(rows) == len(self._drawn)
        changed = [y for y, row in enumerate(rows) if not is_same_shape or row != self._drawn[y]]
        self._drawn = rows
        regions = tuple(Region(0, y, self.size.width, 1) for y in changed)
        return super().refresh(*regions) if regions else self

    def get_line(self, line_index: int) -> Text:
        """Return a line as it is drawn: with a sign for each control or reordering character, which stay in the text."""
        return Text(self.document.get_line(line_index).translate(_SIGNS), end="", no_wrap=True)

    def _recompute_cursor_offset(self) -> None:
        """Leave the offset until the cursor is moved where an undo, which moves it last, has taken its line away."""
        if self.cursor_location[0] < self.document.line_count:
            recompute: Callable[[], object] = super()._recompute_cursor_offset
            _ = recompute()

    def replace_text(self, text: str) -> None:
        """Put a text into the prompt with the cursor at its end."""
        self.text = text
        self.move_cursor(self.document.end)

    def put_before(self, text: str) -> None:
        """Put a text on the lines before what is being typed; an empty one changes nothing."""
        if text:
            self.replace_text(f"{text}\n{self.text}" if self.text else text)

    def replace_last(self, old: str, new: str) -> bool:
        """Replace the last place where a text stands; False where it does not stand here any more."""
        before, found, _ = self.text.rpartition(old)
        if found:
            row = before.count("\n")
            start = len(before) - (before.rfind("\n") + 1)
            end = start + len(old) if "\n" not in old else len(old) - old.rfind("\n") - 1
            self.replace(new, (row, start), (row + old.count("\n"), end), maintain_selection_offset=True)
        return bool(found)

    def unfold(self) -> bool:
        """Put the text of a paste in place of its token, the one at the cursor or the last; False where there is none."""
        row, column = self.cursor_location
        here = self.folds.at(self.document.get_line(row), column, before=True, after=True)
        token = self.document.get_line(row)[slice(*here)] if here else ""
        whole = self.folds.whole(token)
        if whole is None:
            token = next(reversed(list(self.folds.typed(self.text).pastes)), "")
            whole = self.folds.whole(token)
        return whole is not None and self.replace_last(token, whole)

    async def _on_paste(self, event: events.Paste) -> None:
        """Insert what is pasted, folded where it is large; nothing of it sends."""
        event.stop()
        event.prevent_default()
        text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        if is_large(text):
            self.insert(self.folds.fold(text))
        elif text:
            self.insert(text)
            self.post_message(self.Pasted(text))

    def action_delete_left(self) -> None:
        """Delete a character, or a token as one."""
        if not self._delete_token(after=True):
            super().action_delete_left()

    def action_delete_right(self) -> None:
        """Delete a character, or a token as one."""
        if not self._delete_token(before=True):
            super().action_delete_right()

    def _delete_token(self, *, before: bool = False, after: bool = False) -> bool:
        row, column = self.cursor_location
        span = self.folds.at(self.document.get_line(row), column, before=before, after=after)
        if span is None or not self.selection.is_empty:
            return False
        self.delete((row, span[0]), (row, span[1]))
        return True
