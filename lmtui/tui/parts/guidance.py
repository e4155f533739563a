"""What people bring to the model in words, shown and drafted."""

from __future__ import annotations

from lmtui.core.guidance import Guidance
from lmtui.core.guidance_words import WHOLE_CHARS, guidance_lines, init_task, persona_lines
from lmtui.tui.modals.reading import Reading
from lmtui.tui.stage import Handler, Stage


class GuidancePart:
    """Answers the commands of instructions and persona."""

    def __init__(self, stage: Stage) -> None:
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

    async def _guidance(self) -> Guidance:
        host = self._stage.desk.host
        return await host.guide.read(WHOLE_CHARS) if host is not None else Guidance()

    def _read(self, title: str, lines: tuple[str, ...]) -> None:
        _ = self._stage.app.push_screen(Reading(title, lines))
