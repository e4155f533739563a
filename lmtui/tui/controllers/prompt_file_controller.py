"""Slash commands that are Markdown files: run, listed, and offered while one is typed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from lmtui.core.errors import LmtuiError
from lmtui.core.instruction_values import WHOLE_CHARS, Instructions, guidance_lines, init_task, persona_lines
from lmtui.core.mcp import PREFIX
from lmtui.core.prompt_text import AS_WORDS, PromptFile
from lmtui.core.sanitize import sanitize_line
from lmtui.tui.completing import PROMPT_FILES, prompt_values
from lmtui.tui.modals.picker import Picker, Reading
from lmtui.tui.modals.results import Choice
from lmtui.tui.workbench_api import Handler, WorkbenchApi


class InstructionController:
    """Answers the commands of instructions and persona."""

    def __init__(self, stage: WorkbenchApi) -> None:
        self._stage = stage

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {"guidance.show": self._show, "guidance.persona": self._persona, "guidance.draft": self._draft}

    async def _show(self, _: str) -> None:
        self._read("INSTRUCTIONS", guidance_lines(await self._guidance()))

    async def _persona(self, _: str) -> None:
        self._read("PERSONA", persona_lines(await self._guidance()))

    def _draft(self, focus: str) -> None:
        active = self._stage.desk.active
        if active is None:
            self._stage.say("no session yet")
            return
        active.session.submit(init_task(focus))

    async def _guidance(self) -> Instructions:
        host = self._stage.desk.host
        return await host.guide.read(WHOLE_CHARS) if host is not None else Instructions()

    def _read(self, title: str, lines: tuple[str, ...]) -> None:
        _ = self._stage.app.push_screen(Reading(title, lines))


_BROKEN = "/"  # no name begins with it
_NONE = "no commands of files: put NAME.md into .lmagent/commands of this folder, or into commands of your settings folder"


class PromptFileController:
    """Answers `/name` of a file, and shows which there are."""

    def __init__(self, stage: WorkbenchApi) -> None:
        self._stage = stage

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {"prompts.show": self._show, "prompts.run": self._run}

    async def _run(self, text: str) -> None:
        if text.startswith(PREFIX):  # a server may take its time
            _ = self._stage.app.run_worker(self._begin(text), group="server-prompt")
        else:
            await self._begin(text)

    async def _begin(self, text: str) -> None:
        host, active = self._stage.desk.host, self._stage.desk.active
        try:
            prompt = await host.extensions.prompts.read(f"/{text}") if host is not None else None
        except LmtuiError as error:
            self._stage.say(f"not sent: {sanitize_line(error.full_text())}", "error")
            return
        if prompt is None:
            name = sanitize_line(text.partition(" ")[0])
            self._stage.say(f"no command /{name}; /help and /commands list them. {AS_WORDS}", "error")
        elif active is None:
            self._stage.say("no session yet")
        else:
            if self._stage.panes is not None:
                self._stage.panes.follow_chat()
            self._stage.desk.begin_prompt(active, prompt, f"/{text}")

    async def _show(self, _words: str) -> None:
        files = await self._found()
        self._stage.prompt.completing.values[PROMPT_FILES] = prompt_values(files)
        if not files:
            self._stage.say(_NONE)
            return

        def chosen(name: str | None) -> None:
            if name and not name.startswith(_BROKEN):
                self._stage.prompt.put_before(f"/{name} ")
                self._stage.prompt.focus()

        choices = [
            Choice(f"{_BROKEN}{file.source}" if file.problem else file.name, file.label, _note_of(file)) for file in files
        ]
        _ = self._stage.app.push_screen(Picker("COMMANDS OF FILES", choices), chosen)

    async def _found(self) -> Sequence[PromptFile]:
        host = self._stage.desk.host
        return await asyncio.to_thread(host.extensions.prompts.found) if host is not None else ()


def _note_of(file: PromptFile) -> str:
    runs = "" if file.may_run else "its commands wait for trust; "
    return sanitize_line(f"{file.problem or runs + file.description}  ({file.source})")
