"""The conversation: messages, streamed answers, thinking and tool calls in one pane of lines."""

from __future__ import annotations

import os
from datetime import tzinfo
from typing import ClassVar, Unpack

from textual.binding import BindingType

from lmtui.core.events import ROOT, Envelope, TurnEnded, TurnStarted
from lmtui.tui.commands import Scope, bindings
from lmtui.tui.lines.blocks import Mark
from lmtui.tui.lines.conversation import Conversation
from lmtui.tui.lines.document import Document
from lmtui.tui.lines.fences import Fence, fences_of, nearest
from lmtui.tui.lines.find_view import FindView
from lmtui.tui.lines.live import AnswerBlock, StoredAnswer
from lmtui.tui.lines.surface import WidgetOptions

_HOP, _REMOTE_HOP = 8, 16
_FENCE_BLOCKS = 400


class Transcript(FindView, can_focus=True, inherit_bindings=False):
    """Shows one agent's conversation.  Give it every event of the session, live or from the log."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.CHAT)

    empty_text = "The conversation will stand here. Type a task below and press enter."

    def __init__(self, agent: str = ROOT, zone: tzinfo | None = None, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self._agent = agent
        self._conversation = Conversation(self.document, agent, zone)
        self._zone = zone
        self._behind: Conversation | None = None
        self._copied_fence: tuple[str, int] = ("", -1)

    @property
    def agent(self) -> str:
        """Return whose conversation it is."""
        return self._agent

    def apply(self, envelope: Envelope) -> None:
        """Take one event."""
        event = envelope.event
        self._conversation.apply(envelope)
        if event.agent == self._agent:
            if isinstance(event, TurnStarted):
                self.hop = _REMOTE_HOP if "SSH_CONNECTION" in os.environ else _HOP
            elif isinstance(event, TurnEnded):
                self.hop = 1
            self.touch()

    def begin_loading(self) -> None:
        """Build the whole conversation behind what is shown."""
        self._behind = Conversation(Document(self.document.width), self._agent, self._zone)

    def apply_behind(self, envelope: Envelope) -> None:
        """Take one event of the whole conversation."""
        if self._behind is not None:
            self._behind.apply(envelope)

    def finish_loading(self) -> None:
        """Put the whole conversation in the place of its end; the reader stays where he is."""
        if self._behind is not None:
            self._conversation, self._behind = self._behind, None
            self.take_whole(self._conversation.document)

    def choose(self) -> None:
        """Fold or unfold what the cursor is on."""
        self.action_toggle_fold()

    def copy_text(self) -> str:
        """Return what copying the block under the cursor gives (the whole message for a part of an answer)."""
        block = self.current
        return block.copy_text() if block is not None else ""

    def next_fence(self) -> tuple[Fence | None, int, int]:
        """Return the code fence nearest the cursor, asked again the next one, with its number and how many there are."""
        blocks = self.document.blocks
        index = self.cursor if 0 <= self.cursor < len(blocks) else self._last_seen()
        for at in range(min(index, len(blocks) - 1), max(-1, index - _FENCE_BLOCKS), -1):
            block = blocks[at]
            text = block.copy_text() if isinstance(block, AnswerBlock | StoredAnswer) else ""
            fences = fences_of(text) if "```" in text or "~~~" in text else []
            if fences:
                again = self._copied_fence[0] == text
                start = block.first_char if isinstance(block, AnswerBlock) and at == index else len(text) * (at != index)
                number = (self._copied_fence[1] + 1) % len(fences) if again else nearest(fences, start)
                self._copied_fence = (text, number)
                return fences[number], number + 1, len(fences)
        return None, 0, 0

    def action_toggle_fold(self) -> None:
        """Fold or unfold what the cursor is on."""
        if self.current is not None:
            self.toggle(self.document.blocks.index(self.current))

    def action_next_turn(self) -> None:
        """Go to the next thing that the user said."""
        self.jump_to(Mark.TURN, 1)

    def action_previous_turn(self) -> None:
        """Go to the previous thing that the user said."""
        self.jump_to(Mark.TURN, -1)

    def action_next_call(self) -> None:
        """Go to the next tool call."""
        self.jump_to(Mark.CALL, 1)

    def action_previous_call(self) -> None:
        """Go to the previous tool call."""
        self.jump_to(Mark.CALL, -1)

    def action_next_error(self) -> None:
        """Go to the next failure."""
        self.jump_to(Mark.ERROR, 1)

    def action_previous_error(self) -> None:
        """Go to the previous failure."""
        self.jump_to(Mark.ERROR, -1)

    def action_next_change(self) -> None:
        """Go to the next call that changed files."""
        self.jump_to(Mark.CHANGE, 1)

    def action_previous_change(self) -> None:
        """Go to the call before that changed files."""
        self.jump_to(Mark.CHANGE, -1)

    def place_seq(self) -> int:
        """Return the place in the session of what the cursor is on while the pane has the focus, else 0."""
        is_placed = self.has_focus and 0 <= self.cursor < len(self.document)
        return self.document.blocks[self.cursor].seq if is_placed else 0

    def show_call(self, call_id: str) -> bool:
        """Put the cursor on a tool call; False if it is not in this conversation."""
        index = self._conversation.index_of_call(call_id)
        if index < 0:
            return False
        self.put_cursor(index)
        return True
