"""Slash commands that are Markdown files, in the full screen: one is chosen from a list and put into the prompt."""

from __future__ import annotations

import asyncio

from lmtui.core.prompt_text import PromptFile, PromptFiles
from lmtui.core.sanitize import sanitize_line
from lmtui.tui.completing import PROMPT_FILES, prompt_values
from lmtui.tui.modals.picker import Picker
from lmtui.tui.modals.results import Choice
from lmtui.tui.workbench_api import FeatureController, Handler

_BROKEN = "/"  # no name begins with it
_NONE = "no commands of files: put NAME.md into .lmagent/commands of this folder, or into commands of your settings folder"


class PromptFileController(FeatureController):
    """Shows the commands that are Markdown files."""

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {"prompts.show": self._show}

    async def _show(self, _words: str) -> None:
        files = await asyncio.to_thread(self.host.extensions[PromptFiles].found)
        self.workbench.prompt.completing.values[PROMPT_FILES] = prompt_values(files)
        if not files:
            self.workbench.say(_NONE)
            return

        def chosen(name: str | None) -> None:
            if name and not name.startswith(_BROKEN):
                self.workbench.prompt.put_before(f"/{name} ")
                self.workbench.prompt.focus()

        choices = [
            Choice(f"{_BROKEN}{file.source}" if file.problem else file.name, file.label, _note_of(file)) for file in files
        ]
        _ = self.workbench.app.push_screen(Picker("Commands from files", choices), chosen)


def _note_of(file: PromptFile) -> str:
    runs = "" if file.may_run else "its commands wait for trust; "
    return sanitize_line(f"{file.problem or runs + file.description}  ({file.source})")
