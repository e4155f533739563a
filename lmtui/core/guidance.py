"""What people bring to the model in words: instructions, persona, user profile, the list of skills.  Values only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from lmtui.core.clean import clean_line
from lmtui.core.events import Event

INSTRUCTIONS, PERSONA, PROFILE, SKILLS = "instructions", "persona", "profile", "skills"
_TAG = re.compile(r"<(?=[\s/]*(?:instructions|persona|profile|skills?)\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GuidanceSource:
    """One file that was read: what for, its `name` as the user knows it, its price in tokens, and whether it was cut."""

    kind: str
    name: str
    tokens: int = 0
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Guidance:
    """What joins the system prompt: `persona` is who the agent is and for whom, `instructions` how to work here, `skills`
    which there are; each may be empty.  `sources` says where it comes from, `problems` what was not read, in words.
    """

    persona: str = ""
    instructions: str = ""
    skills: str = ""
    sources: tuple[GuidanceSource, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return all of it, as it is told."""
        return self.told(has_room=True)

    def told(self, *, has_room: bool) -> str:
        """Return all of it, as it is told; where there is little room the skills are left out."""
        parts = (self.persona, self.instructions, self.skills if has_room else "")
        return "\n\n".join(part for part in parts if part)


class Guide(Protocol):
    """Reads what people bring."""

    async def read(self, limit_chars: int) -> Guidance:
        """Return it as it is now, cut to about `limit_chars`; what cannot be read is named, never raised."""


class NoGuide:
    """Has nothing."""

    async def read(self, limit_chars: int) -> Guidance:
        """Return nothing."""
        del limit_chars
        return Guidance()


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidanceRead(Event):
    """Instructions, persona or skills were read, or are others than before.

    Before the model's first answer they join the system prompt; later they are told at the end of the conversation, and join
    the system prompt when room is made.
    """

    kind: ClassVar[str] = "guidance_read"
    guidance: Guidance


def without_tags(text: str) -> str:
    """Return somebody's text so that it can neither end the part that it stands in nor begin another: `<` becomes `&lt;`."""
    return _TAG.sub("&lt;", text)


def guidance_words(guidance: Guidance) -> str:
    """Return what was read, in one line; empty where it is the list of skills alone."""
    told = [source for source in guidance.sources if source.kind != SKILLS]
    if not told and guidance.skills:
        return ""  # the list of skills is nothing that the user wrote for this folder
    return f"instructions: {', '.join(map(_words, told)) or 'none'}"


def cut_sources(sources: Iterable[GuidanceSource]) -> list[str]:
    """Return the names of those that were cut."""
    return [clean_line(source.name) for source in sources if source.is_cut]


def _words(source: GuidanceSource) -> str:
    cut = ", cut" if source.is_cut else ""
    return f"{clean_line(source.name)} ({source.tokens:,} tokens{cut})"
