"""The row of the prompt: leads what the prompt asks for to its controller, once that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Static

from lmtui.tui.widgets.prompt import Completions, Prompt

if TYPE_CHECKING:
    from lmtui.tui.controllers.prompt_controller import PromptController


class PromptRow(Horizontal):
    """The sign and the prompt; the list of completions is above it, and is mounted by the screen."""

    def __init__(self, prompt: Prompt) -> None:
        super().__init__(id="prompt-row")
        self._prompt = prompt
        self.completions = Completions("", id="completions", markup=False)
        self.controller: PromptController | None = None

    def compose(self) -> ComposeResult:
        """Lay out the row."""
        yield Static("❯", id="prompt-sign", markup=False)
        yield self._prompt

    @on(Prompt.Completions)
    def _show_completions(self, event: Prompt.Completions) -> None:
        if self.completions.is_mounted:
            self.completions.show(event.completing)

    @on(Prompt.PathsWanted)
    def _find_paths(self, event: Prompt.PathsWanted) -> None:
        if self.controller is not None:
            self.controller.paths_wanted(event.wanted)

    @on(Prompt.Pasted)
    async def _read_paste(self, event: Prompt.Pasted) -> None:
        if self.controller is not None:
            await self.controller.pasted(event.text)

    @on(Prompt.Changed)
    def _note_change(self) -> None:
        if self.controller is not None:
            self.controller.changed()
