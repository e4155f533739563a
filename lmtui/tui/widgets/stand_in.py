"""Plain panes until the line widgets are there."""

from __future__ import annotations

from textual.widgets import RichLog

from lmtui.core import events
from lmtui.core.events import Envelope


class Plain(RichLog):
    """A log that draws nothing yet."""

    def apply(self, envelope: Envelope) -> None:
        """Draw one event."""

    def clear(self) -> Plain:
        """Forget."""
        return super().clear()


class Transcript(Plain):
    """Messages."""

    def apply(self, envelope: Envelope) -> None:
        """Draw a message."""
        if isinstance(envelope.event, events.MessageAdded):
            self.write(f"{envelope.event.role}: {envelope.event.text}")


class ToolLog(Plain):
    """Tool calls."""

    def apply(self, envelope: Envelope) -> None:
        """Draw a call."""
        if isinstance(envelope.event, events.ToolCallFinished):
            self.write(f"{envelope.event.tool} {envelope.event.summary}")


class FileTree(Plain):
    """Files."""


class DiffView(Plain):
    """A difference."""

    def show(self, diff: str) -> None:
        """Draw it."""
        self.write(diff)
