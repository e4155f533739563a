"""The prompt: several lines that grow, a history, and a list of completions.  It asks; the screen answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from textual import events, on
from textual.actions import SkipAction
from textual.message import Message
from textual.timer import Timer
from textual.widgets import TextArea

from lmtui.core.pictures import Image
from lmtui.tui.bursts import Burst
from lmtui.tui.commands import Scope, bindings
from lmtui.tui.completing import (
    PROMPT_FILES,
    Completing,
    Kind,
    Offer,
    Wanted,
    name_offers,
    past_offers,
    value_offers,
    wanted_at,
)
from lmtui.tui.folding import Typed
from lmtui.tui.history import History
from lmtui.tui.timers import call_after
from lmtui.tui.widgets.token_area import TokenArea


class Prompt(TokenArea):
    """A text area that sends on Enter; Up on the first line and Down on the last walk through what was sent before."""

    BINDINGS = bindings(Scope.PROMPT)
    DEFAULT_CSS = """
    Prompt {
        height: auto; min-height: 1; max-height: 8; width: 1fr; padding: 0; border: none;
        background: $background; scrollbar-size-vertical: 0;
        &:focus { border: none; }
        & .text-area--placeholder { color: $text-muted; }
    }
    """

    @dataclass
    class Submitted(Message):
        """Something is to be sent: `text` whole, `typed` as it stood here; `is_now` before the agent's next step."""

        text: str
        typed: Typed
        images: tuple[Image, ...] = ()
        is_now: bool = False

    @dataclass
    class Completions(Message):
        """The list of what is offered changed."""

        completing: Completing

    @dataclass
    class PathsWanted(Message):
        """Paths are wanted; the answer goes to `offer`."""

        wanted: Wanted

    @dataclass
    class Paged(Message):
        """The conversation should scroll by pages."""

        pages: int

    def __init__(self, *, placeholder: str) -> None:
        super().__init__(name="prompt", placeholder=placeholder)
        self.history_texts = History()
        self.completing = Completing()
        self._searched_from: str | None = None
        self._completed_text = ""
        self._burst = Burst()
        self._held_enter: Timer | None = None

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
        if self._searched_from is not None and offer is None:
            _ = self.close_completions()
            return
        line = self.document.get_line(wanted.row) if wanted is not None and wanted.row < self.document.line_count else ""
        if wanted is not None and offer is not None and not completing.is_typed_whole(line):
            self._accept(wanted, offer)
            if offer.goes_on or wanted.kind in (Kind.PATH, Kind.PAST):
                return
        self._send(is_now=False)

    def action_prompt_steer(self) -> None:
        """Send before the agent's next step."""
        self._send(is_now=True)

    def action_prompt_newline(self) -> None:
        """Begin another line."""
        self.insert("\n")

    def action_prompt_complete(self) -> None:
        """Take the marked completion; without one the key goes on to move between panes."""
        completing = self.completing
        if not completing.is_open or completing.wanted is None:
            raise SkipAction
        if completing.offer is None:
            completing.move(1)
        assert completing.offer is not None
        self._accept(completing.wanted, completing.offer)

    def action_prompt_search(self) -> None:
        """Search the history for what is typed; in the list already, go to the next."""
        if self._searched_from is not None:
            self._mark(1)
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
            self._mark(step)
        elif is_at_edge and not select:
            text = self.history_texts.walk(step, self.text)
            if text is not None:
                self.replace_text(text)
        elif step < 0:
            super().action_cursor_up(select)
        else:
            super().action_cursor_down(select)

    def action_cursor_page_up(self) -> None:
        """Scroll the conversation, not the few lines here."""
        self.post_message(self.Paged(-1))

    def action_cursor_page_down(self) -> None:
        """Scroll the conversation, not the few lines here."""
        self.post_message(self.Paged(1))

    # -- completing -----------------------------------------------------------------------------------------------------

    @on(TextArea.Changed)
    def _follow(self, _: TextArea.Changed | None = None, *, is_forced: bool = False) -> None:
        """Offer what fits what is typed now."""
        text = self.text
        if text == self._completed_text and not is_forced:
            return
        self._completed_text = text
        if self._searched_from is not None:
            wanted = Wanted(Kind.PAST, text)
            self.offer(wanted, past_offers(self.history_texts.search(text)))
            return
        wanted_now = wanted_at(text, *self.cursor_location)
        match wanted_now:
            case Wanted(kind=Kind.NAME, query=query):
                self.offer(wanted_now, name_offers(query, self.completing.values.get(PROMPT_FILES, ())))
            case Wanted(kind=Kind.VALUE, query=query, source=source):
                self.offer(wanted_now, value_offers(query, self.completing.values.get(source, ())))
            case Wanted():
                self.completing.wanted = wanted_now
                self.post_message(self.PathsWanted(wanted_now))
            case None:
                self.close_completions()

    def offer(self, wanted: Wanted, offers: Sequence[Offer]) -> None:
        """Show what fits, unless something else is wanted by now."""
        is_late = wanted.kind is Kind.PATH and wanted != self.completing.wanted
        if not is_late and (offers or self.completing.is_open or wanted.kind is Kind.PAST):
            self.completing.show(wanted, offers)
            self.post_message(self.Completions(self.completing))

    def close_completions(self) -> bool:
        """Put the list away, with what a search had typed; False if there was none."""
        was_open = self.completing.is_open or self._searched_from is not None
        self.completing.wanted = None
        if was_open:
            searched_from, self._searched_from = self._searched_from, None
            self.completing.close()
            self.post_message(self.Completions(self.completing))
            if searched_from is not None and self.text != searched_from:
                self._completed_text = searched_from
                self.replace_text(searched_from)
        return was_open

    def _mark(self, step: int) -> None:
        self.completing.move(step)
        self.post_message(self.Completions(self.completing))

    def _accept(self, wanted: Wanted, offer: Offer) -> None:
        self._searched_from = None
        if wanted.kind is Kind.PAST:
            index = self.completing.offers.index(offer)
            found = self.history_texts.search(wanted.query)[index]
            self.close_completions()
            self._completed_text = found
            self.replace_text(found)
            return
        text = offer.text if offer.goes_on or wanted.kind is not Kind.PATH else f"{offer.text} "
        self.replace(text, (wanted.row, wanted.start), (wanted.row, wanted.end))
        self.move_cursor((wanted.row, wanted.start + len(text)))
        if not offer.goes_on:
            self._completed_text = self.text
            self.close_completions()

    def _send(self, *, is_now: bool) -> None:
        text = self.text.strip()
        typed = self.folds.typed(text)
        if text:
            self.history_texts.add(text)
        self._searched_from = None
        self.text = ""
        self.post_message(self.Submitted(self.folds.expand(text), typed, self.folds.images(text), is_now))
