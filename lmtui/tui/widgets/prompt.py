"""The prompt: several lines that grow, a history, and completion of slash commands.  It asks; the screen answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from textual import events, on
from textual.actions import SkipAction
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Static, TextArea

from lmtui.tui.commands import Command, Scope, bindings, complete_slash

MAX_SHOWN_COMPLETIONS = 8
COMPLETION_CELLS = 20


class Prompt(TextArea):
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
        """A text is to be sent; `is_now` before the agent's next step instead of after its turn."""

        text: str
        is_now: bool = False

    @dataclass
    class TakeBack(Message):
        """The last queued text is wanted back."""

    @dataclass
    class Completing(Message):
        """The slash commands that fit what is typed, and which of them is marked."""

        found: Sequence[tuple[str, Command]]
        index: int

    @dataclass
    class Paged(Message):
        """The conversation should scroll by pages."""

        pages: int

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
        self.past: list[str] = []
        self._past_index = 0
        self._unsent = ""
        self._found: list[tuple[str, Command]] = []
        self._completed_text = ""
        self._marked = 0
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

    def set_past(self, past: list[str]) -> None:
        """Take the history, oldest first."""
        self.past = past
        self._past_index = len(past)

    def replace_text(self, text: str) -> None:
        """Put a text into the prompt with the cursor at its end."""
        self.text = text
        self.move_cursor(self.document.end)

    def put_before(self, text: str) -> None:
        """Put a text on the lines before what is being typed; an empty one changes nothing."""
        if text:
            self.replace_text(f"{text}\n{self.text}" if self.text else text)

    async def _on_key(self, event: events.Key) -> None:
        """Run what is bound to a key in its turn: through the app it would come after letters that were typed later."""
        self._complete()
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            if "." not in binding.action and await self.app.run_action(binding.action, self):
                event.stop()
                event.prevent_default()
                return
        await super()._on_key(event)

    def action_prompt_send(self) -> None:
        """Send, or take the marked completion first."""
        is_whole = any(self.text == f"/{name}" for name, _ in self._found)
        if self._found and not is_whole:
            self._accept()
            if self._found_argument():
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
        if not self._found:
            raise SkipAction
        self._accept()

    def action_prompt_take_back(self) -> None:
        """Ask for the last queued text."""
        self.post_message(self.TakeBack())

    def action_cursor_up(self, select: bool = False) -> None:
        """Move up a line, in the completions, or from the first line into the history."""
        if self._found and not select:
            self._mark(self._marked - 1)
        elif not select and self.cursor_at_first_line:
            self._walk(-1)
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        """Move down a line, in the completions, or from the last line towards what is being typed."""
        if self._found and not select:
            self._mark(self._marked + 1)
        elif not select and self.cursor_at_last_line:
            self._walk(1)
        else:
            super().action_cursor_down(select)

    def action_cursor_page_up(self) -> None:
        """Scroll the conversation, not the few lines here."""
        self.post_message(self.Paged(-1))

    def action_cursor_page_down(self) -> None:
        """Scroll the conversation, not the few lines here."""
        self.post_message(self.Paged(1))

    @on(TextArea.Changed)
    def _complete(self) -> None:
        if self.text == self._completed_text:
            return
        self._completed_text = self.text
        found = complete_slash(self.text)
        if found != self._found:
            self._found = found
            self._mark(0)

    def close_completions(self) -> bool:
        """Put the completions away; False if there were none."""
        was_open = bool(self._found)
        self._found = []
        self._mark(0)
        return was_open

    def _mark(self, index: int) -> None:
        self._marked = index % len(self._found) if self._found else 0
        self.post_message(self.Completing(self._found, self._marked))

    def _accept(self) -> None:
        name, each = self._found[self._marked]
        self.replace_text(f"/{name} " if each.argument else f"/{name}")

    def _found_argument(self) -> bool:
        return self.text.endswith(" ")

    def _send(self, *, is_now: bool) -> None:
        text = self.text.strip()
        if not text:
            return
        if not self.past or self.past[-1] != text:
            self.past.append(text)
        self._past_index, self._unsent = len(self.past), ""
        self.text = ""
        self.post_message(self.Submitted(text, is_now))

    def _walk(self, step: int) -> None:
        index = self._past_index + step
        if not 0 <= index <= len(self.past):
            return
        if self._past_index == len(self.past):
            self._unsent = self.text
        self._past_index = index
        self.replace_text(self._unsent if index == len(self.past) else self.past[index])


class Completions(Static):
    """The slash commands that fit what is typed, above the prompt."""

    DEFAULT_CSS = """
    Completions {
        height: auto; padding: 0 1 0 3; background: $panel; display: none; text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    def show(self, found: Sequence[tuple[str, Command]], index: int) -> None:
        """Draw them with the marked one in view, or nothing."""
        self.display = bool(found)
        first = max(0, min(index - MAX_SHOWN_COMPLETIONS + 1, len(found) - MAX_SHOWN_COMPLETIONS))
        shown = found[first : first + MAX_SHOWN_COMPLETIONS]
        lines = [_completion_line(name, each, first + row == index) for row, (name, each) in enumerate(shown)]
        self.update(Content("\n").join(lines))


def _completion_line(name: str, each: Command, is_marked: bool) -> Content:
    head = f"/{name} {each.argument}".ljust(COMPLETION_CELLS)
    return Content.assemble(
        (head, "bold $accent" if is_marked else "$text"), (each.help, "$text" if is_marked else "$text-muted")
    )
