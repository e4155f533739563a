"""The prompt: several lines that grow, a history, and a list of completions.  It asks; the screen answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from rich.text import Text
from textual import events, on
from textual.actions import SkipAction
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets import Static, TextArea

from lmtui.commands.command import Scope
from lmtui.core.messages import Image
from lmtui.tui.completing import (
    PROMPT_FILES,
    Completing,
    CompletionRequest,
    Offer,
    name_offers,
    past_offers,
    value_offers,
    wanted_at,
)
from lmtui.tui.key_bindings import PROMPT, bindings_of
from lmtui.tui.lines.styled_text import fit_middle
from lmtui.tui.prompt_store import Folds, SentHistory, Typed, is_large
from lmtui.tui.timing import PasteDetector, call_after

_REORDERING = (0x061C, *range(0x200E, 0x2010), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_UNKNOWN = dict.fromkeys((*range(0x7F, 0xA0), *_REORDERING, *range(0xD800, 0xE000)), "\ufffd")
_SIGNS = {code: chr(0x2400 + code) for code in range(0x20) if code != 0x09} | _UNKNOWN


MAX_SHOWN = 8
LABEL_CELLS, GAP_CELLS = 20, 2
MARGIN_CELLS = 4


class Completions(Static):
    """Draws at most eight lines, the marked one among them."""

    DEFAULT_CSS = """
    Completions {
        height: auto; padding: 0 1; background: $panel; display: none; text-wrap: nowrap; text-overflow: ellipsis;
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
        is_path = completing.wanted is not None and completing.wanted.kind == "path"
        width = (self.container_size or self.app.size).width - MARGIN_CELLS
        longest = max(len(offer.label) for offer in shown) + GAP_CELLS
        cells = (
            max(LABEL_CELLS, longest if longest <= width // 2 else 0) if any(each.note for each in shown) and not is_path else 0
        )
        lines = [_line(offer, cells, width, is_marked=first + row == marked) for row, offer in enumerate(shown)]
        if len(offers) > MAX_SHOWN:
            lines.append(Content.styled(f"  {max(marked, 0) + 1} of {len(offers)}", "$text-muted"))
        self.update(Content("\n").join(lines))


def _line(offer: Offer, cells: int, width: int, *, is_marked: bool) -> Content:
    label = fit_middle(offer.label, max(1, width - len(offer.note) - 2) if not cells else width)
    head = (label + " " * GAP_CELLS).ljust(cells)
    bar = ("▌ " if is_marked else "  ", "$accent")
    line = Content.assemble(
        bar, (head, "bold" if is_marked else "$text"), (offer.note, "$text" if is_marked else "$text-muted")
    )
    return line.pad_right(max(0, width - line.cell_length)).stylize_before("on $selection") if is_marked else line


class Prompt(TextArea):
    """A text area that sends on Enter; Up on the first line and Down on the last walk through what was sent before.

    Large pastes are folded to tokens, which are deleted as one; only rows that differ are repainted.
    """

    BINDINGS = bindings_of(each for each in PROMPT if each.scope is Scope.PROMPT)
    DEFAULT_CSS = """
    Prompt {
        height: auto; min-height: 1; max-height: 10; width: 1fr; padding: 0; border: none;
        background: transparent; scrollbar-size-vertical: 0;
        &:focus { border: none; }
        & .text-area--placeholder { color: $text-muted; }
        &:light .text-area--cursor { color: $input-cursor-foreground; background: $input-cursor-background; }
    }
    """

    @dataclass
    class Pasted(Message):
        """A short text was pasted; it may name a file."""

        text: str

    @dataclass
    class Submitted(Message):
        """Something is to be sent: `text` whole, `typed` as it was here; `is_now` before the agent's next step."""

        text: str
        typed: Typed
        images: tuple[Image, ...] = ()
        is_now: bool = False

    def __init__(self, *, placeholder: str) -> None:
        super().__init__(
            id="prompt",
            compact=True,
            highlight_cursor_line=False,
            placeholder=placeholder,
            tab_behavior="focus",
            show_line_numbers=False,
        )
        self.cursor_blink = False
        self.folds = Folds()
        self.come_back: Callable[[], bool] = lambda: False  # goes back to what made room for typing
        self.offered: Callable[[], None] = lambda: None  # draws the list of what is offered
        self.paths_wanted: Callable[[CompletionRequest], object] = lambda _: None  # calls `offer`
        self.marked: Callable[[int], None] = lambda _: None  # marks a suggestion, -1 for none
        self.page_chat: Callable[[int], None] = lambda _: None
        self._drawn: list[Strip] = []
        self.history_texts = SentHistory()
        self.completing = Completing()
        self.suggestions: tuple[str, ...] = ()
        self._suggestion = -1
        self._searched_from: str | None = None
        self._completed_text = ""
        self._burst = PasteDetector()
        self._held_enter: Timer | None = None

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
        """Replace the last place where a text is; False where it does not be here any more."""
        before, found, _ = self.text.rpartition(old)
        if found:
            row = before.count("\n")
            start = len(before) - (before.rfind("\n") + 1)
            end = start + len(old) if "\n" not in old else len(old) - old.rfind("\n") - 1
            self.replace(new, (row, start), (row + old.count("\n"), end), maintain_selection_offset=True)
        return bool(found)

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

    # -- keys -----------------------------------------------------------------------------------------------------------

    async def _on_key(self, event: events.Key) -> None:
        """Run what is bound to a key in its turn: through the app it would come after letters that were typed later."""
        is_close = self._burst.take(event.time)
        self._release_enter(as_line=is_close)
        self._follow()
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            if binding.action == "prompt_send" and is_close:
                self._held_enter = call_after(self, self._burst.wait_s, self._release_enter)
            elif "." in binding.action or not await self.app.run_action(binding.action, self):
                continue
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)

    def restyle(self) -> None:
        """Draw all lines in the style of now; a text area keeps them as they were drawn."""
        self.notify_style_update()
        self.refresh()

    async def settle(self) -> None:
        """Wait until what was typed so far is in the text: a key that the app takes first may overtake letters."""
        settled = asyncio.Event()
        if self.call_later(settled.set):
            await settled.wait()

    def _release_enter(self, *, as_line: bool = False) -> None:
        """Decide about an Enter that came right behind other keys: one that more follow is a line of a paste."""
        held, self._held_enter = self._held_enter, None
        if held is None:
            return
        held.stop()
        if as_line:
            self._burst.lines += 1
            self.insert("\n")
        elif not self._burst.lines:
            self.action_prompt_send()

    def action_prompt_send(self) -> None:
        """Send, or take the marked completion first."""
        completing = self.completing
        wanted, offer = completing.wanted, completing.offer
        if 0 <= self._suggestion < len(self.suggestions):
            self.action_take_suggestion(self._suggestion)
            return
        if self._searched_from is not None and offer is None:
            _ = self.close_completions()
            return
        line = self.document.get_line(wanted.row) if wanted is not None and wanted.row < self.document.line_count else ""
        if wanted is not None and offer is not None and not completing.is_typed_whole(line):
            self._accept(wanted, offer)
            if offer.goes_on or wanted.kind in ("path", "past"):
                return
        self._send(is_now=False)

    def action_prompt_steer(self) -> None:
        """Send before the agent's next step."""
        self._send(is_now=True)

    def action_prompt_newline(self) -> None:
        """Begin another line."""
        self.insert("\n")

    def action_prompt_complete(self) -> None:
        """Take the marked completion; without one the key goes back to a question, or continues to move between panes."""
        completing = self.completing
        if not completing.is_open or completing.wanted is None:
            if self.come_back():
                return
            raise SkipAction
        if completing.offer is None:
            completing.move(1)
        assert completing.offer is not None
        self._accept(completing.wanted, completing.offer)

    def action_prompt_search(self) -> None:
        """Search the history for what is typed; in the list already, go to the next."""
        if self._searched_from is not None:
            self.action_list_move("down")
            return
        self._searched_from = self.text
        self._follow(is_forced=True)

    def action_cursor_up(self, select: bool = False) -> None:
        """Move up a line, in the completions, or from the first line into the history."""
        self._up_or_down(-1, select)

    def action_cursor_down(self, select: bool = False) -> None:
        """Move down a line, in the completions, or from the last line towards what is being typed."""
        self._up_or_down(1, select)

    def _up_or_down(self, step: int, select: bool) -> None:
        is_at_edge = self.cursor_at_first_line if step < 0 else self.cursor_at_last_line
        if self.completing.is_open and not select:
            self.action_list_move("up" if step < 0 else "down")
        elif not self.text and self.suggestions and (step > 0 or self._suggestion >= 0):
            self.mark_suggestion(min(len(self.suggestions) - 1, self._suggestion + step))
        elif is_at_edge and not select:
            text = self.history_texts.walk(step, self.text)
            if text is not None:
                self.replace_text(text)
        elif step < 0:
            super().action_cursor_up(select)
        else:
            super().action_cursor_down(select)

    def action_take_suggestion(self, index: int) -> None:
        """Fill a suggestion in; a command is run."""
        self.mark_suggestion(-1)
        self.replace_text(self.suggestions[index])
        if self.text.startswith("/"):
            self.action_prompt_send()

    def mark_suggestion(self, index: int) -> None:
        """Mark a suggestion, which Enter takes; -1 for none."""
        if index != self._suggestion:
            self._suggestion = index
            self.marked(index)

    def action_cursor_page_up(self) -> None:
        """Scroll the conversation, not the few lines here."""
        self.page_chat(-1)

    def action_cursor_page_down(self) -> None:
        """Scroll the conversation, not the few lines here."""
        self.page_chat(1)

    # -- completing -----------------------------------------------------------------------------------------------------

    @on(TextArea.Changed)
    def _follow(self, _: TextArea.Changed | None = None, *, is_forced: bool = False) -> None:
        """Offer what fits what is typed now."""
        text = self.text
        if text:
            self.mark_suggestion(-1)
        if text == self._completed_text and not is_forced:
            return
        self._completed_text = text
        if self._searched_from is not None:
            wanted = CompletionRequest("past", text)
            self.offer(wanted, past_offers(self.history_texts.search(text)))
            return
        wanted_now = wanted_at(text, *self.cursor_location, self.completing.commands)
        match wanted_now:
            case CompletionRequest(kind="name", query=query):
                self.offer(
                    wanted_now, name_offers(query, self.completing.commands, self.completing.values.get(PROMPT_FILES, ()))
                )
            case CompletionRequest(kind="value", query=query, source=source):
                self.offer(wanted_now, value_offers(query, self.completing.values.get(source, ())))
            case CompletionRequest():
                self.completing.wanted = wanted_now
                self.paths_wanted(wanted_now)
            case None:
                self.close_completions()

    def offer(self, wanted: CompletionRequest, offers: Sequence[Offer]) -> None:
        """Show what fits, unless something else is wanted by now."""
        is_late = wanted.kind == "path" and wanted != self.completing.wanted
        if not is_late and (offers or self.completing.is_open or wanted.kind == "past"):
            self.completing.show(wanted, offers)
            self.offered()

    def close_completions(self) -> bool:
        """Put the list away, with what a search had typed; False if there was none."""
        was_open = self.completing.is_open or self._searched_from is not None
        self.completing.show(None, ())
        if was_open:
            searched_from, self._searched_from = self._searched_from, None
            self.offered()
            if searched_from is not None and self.text != searched_from:
                self._completed_text = searched_from
                self.replace_text(searched_from)
        return was_open

    def action_list_move(self, step: str) -> None:
        """Mark another completion."""
        self.completing.move(-1 if step == "up" else 1)
        self.offered()

    def _accept(self, wanted: CompletionRequest, offer: Offer) -> None:
        self._searched_from = None
        if wanted.kind == "past":
            index = self.completing.offers.index(offer)
            found = self.history_texts.search(wanted.query)[index]
            self.close_completions()
            self._completed_text = found
            self.replace_text(found)
            return
        text = offer.text if offer.goes_on or wanted.kind != "path" else f"{offer.text} "
        self.replace(text, (wanted.row, wanted.start), (wanted.row, wanted.end))
        self.move_cursor((wanted.row, wanted.start + len(text)))
        if not offer.goes_on:
            self._completed_text = self.text
            self.close_completions()

    def _send(self, *, is_now: bool) -> None:
        text = self.text.strip()
        if text.startswith("/") and self.text[0].isspace():
            text = f" {text}"  # sent as text
        typed = self.folds.typed(text)
        if text:
            self.history_texts.add(text)
        self._searched_from = None
        self.text = ""
        self.post_message(self.Submitted(self.folds.expand(text), typed, self.folds.images(text), is_now))
