"""The conversation: messages, streamed answers, thinking and tool calls in one pane of lines."""

from __future__ import annotations

from datetime import tzinfo
from typing import Unpack

from lmtui.core.events import ROOT, Envelope, TurnEnded, TurnStarted
from lmtui.tui.lines.block_view import BlockView
from lmtui.tui.lines.blocks import Mark
from lmtui.tui.lines.conversation import Conversation
from lmtui.tui.lines.surface import WidgetOptions

_HOP = 8


class Transcript(BlockView, can_focus=True, inherit_bindings=False):
    """Shows one agent's conversation.  Give it every event of the session, live or from the log."""

    empty_text = "The conversation will stand here. Type a task below and press enter."

    def __init__(self, agent: str = ROOT, zone: tzinfo | None = None, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self._agent = agent
        self._conversation = Conversation(self.document, agent, zone)

    def apply(self, envelope: Envelope) -> None:
        """Take one event."""
        event = envelope.event
        self._conversation.apply(envelope)
        if event.agent == self._agent:
            if isinstance(event, TurnStarted):
                self.hop = _HOP
            elif isinstance(event, TurnEnded):
                self.hop = 1
            self.touch()

    def choose(self) -> None:
        """Fold or unfold what the cursor is on."""
        self.action_toggle_fold()

    def copy_text(self) -> str:
        """Return what copying the block under the cursor gives (the whole message for a part of an answer)."""
        block = self.current
        return block.copy_text() if block is not None else ""

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

    def show_call(self, call_id: str) -> bool:
        """Put the cursor on a tool call; False if it is not in this conversation."""
        index = self._conversation.index_of_call(call_id)
        if index < 0:
            return False
        self.put_cursor(index)
        return True
