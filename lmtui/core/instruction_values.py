"""What the model gets besides the conversation: instructions, persona, user profile, the list of skills.  Values only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

from lmtui.core.events import Event
from lmtui.core.remote_marks import open_to_network
from lmtui.core.sanitize import sanitize_line

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
class Instructions:
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
        return self.as_text(has_room=True)

    def as_text(self, *, has_room: bool) -> str:
        """Return all of it as one text; where there is little room the skills are left out."""
        parts = (self.persona, self.instructions, self.skills if has_room else "")
        return "\n\n".join(part for part in parts if part)


class InstructionSource(Protocol):
    """Reads the instruction files."""

    @open_to_network
    async def read(self, limit_chars: int) -> Instructions:
        """Return it as it is now, cut to about `limit_chars`; what cannot be read is named, never raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidanceRead(Event):
    """Instructions, persona or skills were read, or are others than before.

    Before the model's first answer they join the system prompt; later they are added at the end of the conversation, and join
    the system prompt when room is made.
    """

    kind: ClassVar[str] = "guidance_read"
    guidance: Instructions


def without_tags(text: str) -> str:
    """Return somebody's text so that it can neither end the part that it is in nor begin another: `<` becomes `&lt;`."""
    return _TAG.sub("&lt;", text)


def guidance_words(guidance: Instructions) -> str:
    """Return what was read, in one line; empty where it is the list of skills alone."""
    given = [source for source in guidance.sources if source.kind != SKILLS]
    if not given and guidance.skills:
        return ""  # the list of skills is nothing that the user wrote for this folder
    return f"instructions: {', '.join(map(_words, given)) or 'none'}"


def cut_sources(sources: Iterable[GuidanceSource]) -> list[str]:
    """Return the names of those that were cut."""
    return [sanitize_line(source.name) for source in sources if source.is_cut]


def _words(source: GuidanceSource) -> str:
    cut = ", cut" if source.is_cut else ""
    return f"{sanitize_line(source.name)} ({source.tokens:,} tokens{cut})"


WHOLE_CHARS = 24_000
NO_PERSONA = (
    "No persona: the agent is a plain coding agent.",
    "Write one into .lmagent/.soul.md (or .soul.md) of this folder, or into soul.md in your settings folder for all folders.",
)
NO_INSTRUCTIONS = (
    "No instructions: no AGENTS.md here or above, up to the top of the repository.",
    "/init drafts one from what is in this folder. CLAUDE.md, GEMINI.md and .lmagent.md are read too.",
)
INIT_TASK = """\
Write AGENTS.md, the instructions for coding agents that work in this folder, into the file AGENTS.md. \
If there is one, keep what is right in it and fix the rest. First look: list the folder, read the README, the project's \
configuration (pyproject.toml, package.json, Cargo.toml, go.mod, Makefile or the like), the CI's files, two or three typical \
source and test files. Then write, in Markdown and at most 60 lines: what the project is, in two sentences; the commands that \
build, run, lint and test it, one test alone included; where things are; the conventions of code, tests and commits that you \
really saw; what must not be touched. Nothing that a reader sees at once from the file names, nothing invented, no general \
advice: each line has to change what an agent does here.{focus}"""


def init_task(focus: str) -> str:
    """Return the task that drafts an AGENTS.md; `focus` is what the user says of it."""
    return INIT_TASK.format(focus=f"\n\nThe user says: {focus.strip()}" if focus.strip() else "")


def persona_lines(guidance: Instructions) -> tuple[str, ...]:
    """Return the persona as the model gets it, or how to add one."""
    sources = [source for source in guidance.sources if source.kind == PERSONA]
    if not sources:
        return NO_PERSONA
    return (f"{sanitize_line(sources[0].name)}, {sources[0].tokens:,} tokens in each request", *guidance.persona.split("\n"))


def guidance_lines(guidance: Instructions) -> tuple[str, ...]:
    """Return what is read, with the price of each file, and what is not."""
    is_bare = not guidance.problems and all(source.kind == SKILLS for source in guidance.sources)
    return (*(NO_INSTRUCTIONS if is_bare else ()), *_lines(guidance))


def _lines(guidance: Instructions) -> Iterator[str]:
    for source in guidance.sources:
        cut = "; cut, as it is longer than its share of the window or 128 KB" if source.is_cut else ""
        is_list, way = source.kind == SKILLS, " (/skill)" if source.name == "skills" else ""
        name = f"the list of {source.name}{way}" if is_list else f"{sanitize_line(source.name)}: {source.kind}"
        yield f"{name}, {source.tokens:,} tokens in each request{cut}"
    for problem in guidance.problems:
        yield sanitize_line(problem)
    if len(guidance.sources) > 1:
        yield f"all together: {sum(source.tokens for source in guidance.sources):,} tokens"
