"""What people bring to the model in words, in the linear mode: instructions, persona."""

from __future__ import annotations

from lmtui.core.guidance_words import WHOLE_CHARS, guidance_lines, init_task, persona_lines
from lmtui.frontends.plain.desk import Desk


def say_instructions(desk: Desk, _: str) -> None:
    """Say which instructions are read."""
    desk.say(*guidance_lines(desk.room.wait(desk.host.guide.read(WHOLE_CHARS))))


def say_persona(desk: Desk, _: str) -> None:
    """Say who the agent is told to be."""
    desk.say(*persona_lines(desk.room.wait(desk.host.guide.read(WHOLE_CHARS))))


def draft_instructions(desk: Desk, focus: str) -> None:
    """Have the model draft an AGENTS.md."""
    desk.act(lambda session: session.submit(init_task(focus)))
