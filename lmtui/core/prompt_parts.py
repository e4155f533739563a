"""What joins the system prompt, whichever features bring it.  Values only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from lmtui.core.events import Event
from lmtui.core.remote_marks import open_to_network
from lmtui.core.sanitize import sanitize_line

INSTRUCTIONS, PERSONA, PROFILE, SKILLS = "instructions", "persona", "profile", "skills"
_TAG = re.compile(r"<(?=[\s/]*(?:instructions|persona|profile|skills?)\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PartSource:
    """One file that was read: what for, its `name` as the user knows it, its price in tokens, and whether it was cut."""

    kind: str
    name: str
    tokens: int = 0
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class PromptParts:
    """What joins the system prompt: `persona` is who the agent is and for whom, `instructions` how to work here, `skills`
    which there are; each may be empty.  `sources` says where it comes from, `problems` what was not read, in words.
    """

    persona: str = ""
    instructions: str = ""
    skills: str = ""
    sources: tuple[PartSource, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return self.as_text(has_room=True)

    def as_text(self, *, has_room: bool) -> str:
        """Return all of it as one text; where there is little room the skills are left out."""
        parts = (self.persona, self.instructions, self.skills if has_room else "")
        return "\n\n".join(part for part in parts if part)


class PromptSource(Protocol):
    """Reads what joins the system prompt."""

    @open_to_network
    async def read(self, limit_chars: int) -> PromptParts:
        """Return it as it is now, cut to about `limit_chars`; what cannot be read is named, never raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPartsRead(Event):
    """Instructions, persona or skills were read, or are others than before.

    Before the model's first answer they join the system prompt; later they are added at the end of the conversation, and join
    the system prompt when room is made.
    """

    kind: ClassVar[str] = "guidance_read"
    guidance: PromptParts


def without_tags(text: str) -> str:
    """Return a text that can neither end the part that it is in nor begin another: `<` becomes `&lt;`."""
    return _TAG.sub("&lt;", text)


def parts_words(guidance: PromptParts) -> str:
    """Return what was read, in one line; empty where it is the list of skills alone."""
    given = [source for source in guidance.sources if source.kind != SKILLS]
    if not given and guidance.skills:
        return ""  # the list of skills is nothing that the user wrote for this folder
    return f"instructions: {', '.join(map(_words, given)) or 'none'}"


def cut_sources(sources: Iterable[PartSource]) -> list[str]:
    """Return the names of those that were cut."""
    return [sanitize_line(source.name) for source in sources if source.is_cut]


def _words(source: PartSource) -> str:
    cut = ", cut" if source.is_cut else ""
    return f"{sanitize_line(source.name)} ({source.tokens:,} tokens{cut})"


WHOLE_CHARS = 24_000
