"""Skills as values: folders with a SKILL.md that say how a kind of work is done, and tools that the user promoted.  No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from lmtui.core.remote_marks import open_to_network
from lmtui.core.subagents import FileState
from lmtui.core.tool_scopes import SkillUsed

PROMOTE_TOOL = "promote_skill"
OFF = "off"


class SkillSource(StrEnum):
    """Whose a skill is; the nearer hides the farther of the same name."""

    FOLDER = "this folder"
    USER = "yours"
    SHIPPED = "shipped"


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill that was found.

    `place` is its SKILL.md as the user knows it; `tokens` is what its line in the prompt costs,
    `body_tokens` what reading it costs.  `allowed` are the only tools that may be called while it is in use, as rules, None
    where it does not say.  `problem` is why it is broken or hidden, with the way out; `warnings` what is wrong with one that
    holds all the same.
    """

    name: str
    description: str
    source: SkillSource
    place: str
    state: FileState = FileState.READY
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

    def event(self, digest: str = "") -> SkillUsed:
        """Return the event that says that it is in use."""
        source, is_limited, allowed = str(self.source), self.allowed is not None, self.allowed or ()
        return SkillUsed(skill=self.name, source=source, is_limited=is_limited, allowed=allowed, digest=digest, stays=True)


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

    @open_to_network
    async def found(self) -> Sequence[Skill]:
        """Return every skill that is there now, by name; what is broken, hidden or waits too."""

    @open_to_network
    def promoted(self) -> Sequence[PromotedTool]:
        """Return the tools that were promoted here, by name.  Blocks (disk) the first time."""

    def remove(self, name: str) -> bool:
        """Forget a promoted tool; False where there is none.  Blocks (disk)."""

    @open_to_network
    async def in_use(self, session_id: str) -> Sequence[str]:
        """Return the names of those that a session follows, in the order in which they came into use."""

    @open_to_network
    def begin(self, session_id: str, name: str, words: str) -> None:
        """Put a skill that was read before the model as the user's own message, with what they say to it; it stays in use."""

    @open_to_network
    def end(self, session_id: str, name: str = "") -> None:
        """End one that is in use, or without a name each of them; the model is told with the next request."""

    def ask_to_promote(self, session_id: str, path: str, function: str, name: str = "") -> None:
        """Ask whether a function of a file may become a tool, behind the running turn."""
