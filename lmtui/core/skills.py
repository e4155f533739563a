"""Skills as values: folders with a SKILL.md that say how a kind of work is done, and tools that the user promoted.  No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Protocol

from lmtui.core.events import Event
from lmtui.core.remote_marks import in_thread, open_to_network
from lmtui.core.sanitize import sanitize_line

PROMOTED = "skill__"
PROMOTE_TOOL = "promote_skill"
OFF = "off"
SKILL_OFF = f"/skill {OFF}"


class SkillSource(StrEnum):
    """Whose a skill is; the nearer hides the farther of the same name."""

    FOLDER = "this folder"
    USER = "yours"
    SHIPPED = "shipped"


class SkillState(StrEnum):
    """Where a skill is."""

    READY = "ready"
    WAITING = "waits for trust"
    REFUSED = "refused by you"
    HIDDEN = "hidden"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill that was found.

    `place` is its SKILL.md as the user knows it; `tokens` is what its line in the prompt costs (0: it is not told of),
    `body_tokens` what reading it costs.  `allowed` are the only tools that may be called while it is in use, as rules, None
    where it does not say.  `problem` is why it is broken or hidden, with the way out; `warnings` what is wrong with one that
    holds all the same.
    """

    name: str
    description: str
    source: SkillSource
    place: str
    state: SkillState = SkillState.READY
    tokens: int = 0
    body_tokens: int = 0
    allowed: tuple[str, ...] | None = None
    problem: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SkillUse:
    """A skill as it is read: `text` is what the model gets; `allowed` as in `Skill`."""

    name: str
    text: str
    source: SkillSource
    allowed: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class PromotedTool:
    """A Python function that became a tool by the user's yes.

    `name` is what the model calls it by, `parameters` its JSON Schema, made from the hints of `function`.  `source` is the
    whole program, `digest` its hash; `origin` is the file that it was taken from.  `tokens` is what telling it costs,
    `problem` why it cannot be called.
    """

    name: str
    function: str
    description: str
    source: str
    origin: str
    digest: str
    parameters: dict[str, object] = field(default_factory=dict)
    tokens: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillUsed(Event):
    """A skill is in use; where it `is_limited` only the tools of `allowed` (rules) may be called meanwhile.

    One that `stays` is in use until it is ended, others until the turn ends.  With a `digest` it comes into use with the
    user's message of that hash, else at once.
    """

    kind: ClassVar[str] = "skill_used"
    skill: str
    source: str = ""
    is_limited: bool = False
    allowed: tuple[str, ...] = ()
    digest: str = ""
    stays: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillEnded(Event):
    """A skill (without a name: every skill) is no longer in use.  The model ends only what it began (`by` user or model)."""

    kind: ClassVar[str] = "skill_ended"
    skill: str = ""
    by: str = "user"


class Skills(Protocol):
    """The skills of a workspace.  What tools ask raises `ToolError` with a text fit for the model."""

    @open_to_network
    async def listing(self) -> str:
        """Return every skill that can be read, a line each."""

    @open_to_network
    async def use(self, name: str) -> SkillUse:
        """Return a skill to be followed."""

    @open_to_network
    async def read_file(self, name: str, file: str) -> str:
        """Return a file next to a skill's own, as text."""

    @in_thread
    def check(self, path: str, text: str, function: str, name: str) -> PromotedTool:
        """Return what a function of a file would be as a tool."""

    @in_thread
    def promote(self, tool: PromotedTool) -> None:
        """Keep a tool that the user said yes to; it can be called from now on.  Blocks (disk)."""

    @open_to_network
    async def found(self) -> Sequence[Skill]:
        """Return every skill that is there now, by name; what is broken, hidden or waits too."""

    @open_to_network
    def promoted(self) -> Sequence[PromotedTool]:
        """Return the tools that were promoted here, by name.  Blocks (disk) the first time."""

    def remove(self, name: str) -> bool:
        """Forget a promoted tool; False where there is none.  Blocks (disk)."""

    async def add(self, text: str, *, is_for_all: bool) -> str:
        """Keep a new SKILL.md that the user has read, for this folder or for all of theirs, and return its place.

        Raises:
            UsageError: it is not a skill, there is one of that name, or it cannot be written.
        """


class SkillsInUse(Protocol):
    """The skills that a session follows."""

    @property
    @open_to_network
    def in_use(self) -> Sequence[str]:
        """Return the names of those in use, in the order in which they came into use."""

    @open_to_network
    def begin(self, used: SkillUse, words: str) -> None:
        """Put a skill before the model as the user's own message, with what they say to it; it stays in use."""

    @open_to_network
    def end(self, name: str = "") -> None:
        """End one that is in use, or without a name each of them; the model is told with the next request."""

    def promote(self, path: str, function: str, name: str = "") -> None:
        """Ask whether a function of a file may become a tool, behind the running turn."""


def skill_event_words(event: SkillUsed | SkillEnded) -> str:
    """Return that a skill is in use, and what it leaves to be called, or that it is over, in a line."""
    if isinstance(event, SkillEnded):
        which = f"skill {event.skill}" if event.skill else "skills"
        return sanitize_line(f"{which} ended{' by the model' if event.by == 'model' else ''}")
    until = f", until {SKILL_OFF}" if event.stays else ", until the turn ends" if event.is_limited else ""
    limits = f" only with {', '.join(event.allowed) or 'no tools'}" if event.is_limited else ""
    return sanitize_line(f"skill {event.skill} ({event.source}){until}{limits}")
