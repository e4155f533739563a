"""The line above the prompt that says what happened; it goes away by itself, an error with the next thing that is sent."""

from __future__ import annotations

from typing import Literal

from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from lmtui.core.sanitize import sanitize
from lmtui.tui.timing import call_after

Tone = Literal["info", "warning", "error"]
SAY_S = 8.0
TONE_STYLES: dict[Tone, str] = {"info": "$text-muted", "warning": "$warning", "error": "$error"}


class SayLine(Static):
    """Shows one text at a time; errors that come together are kept together."""

    def __init__(self) -> None:
        super().__init__("", id="say", markup=False)
        self.say_s = SAY_S
        self.said = ""
        self._is_error = False
        self._timer: Timer | None = None

    def say(self, text: str, tone: Tone = "info") -> None:
        """Show a text."""
        if tone == "error" and self._is_error:
            text = self.said if text in self.said else f"{self.said}\n{text}"
        self.clear()
        self.said, self._is_error = text, tone == "error"
        self.display = bool(text)
        self.update(Content.styled(sanitize(text), TONE_STYLES[tone]))
        if text and tone != "error":
            self._timer = call_after(self, self.say_s, self.clear)

    def clear(self) -> None:
        """Show nothing."""
        self.display = False
        self.said, self._is_error = "", False
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def clear_error(self) -> None:
        """Put an error away that is repaired."""
        if self._is_error:
            self.clear()
