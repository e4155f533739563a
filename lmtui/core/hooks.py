"""Hooks as values: programs of the user's that are called when something happens, and what they answer.  Nothing here does I/O.

The format is the one that other agents have: JSON on standard input, exit code 2 or a JSON answer decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Protocol

from lmtui.core.events import ROOT, Event
from lmtui.core.permissions.rules import Verdict
from lmtui.core.sanitize import sanitize_line

_SAID_CHARS = 160
_COMMAND_CHARS = 60


class HookEvent(StrEnum):
    """When a hook is called."""

    SESSION_START = "SessionStart"
    USER_PROMPT_SUBMIT = "UserPromptSubmit"
    PRE_TOOL_USE = "PreToolUse"
    POST_TOOL_USE = "PostToolUse"
    NOTIFICATION = "Notification"
    STOP = "Stop"
    SUBAGENT_STOP = "SubagentStop"
    PRE_COMPACT = "PreCompact"
    SESSION_END = "SessionEnd"


@dataclass(frozen=True, slots=True)
class HookCall:
    """Something happened: `facts` are the fields of the format that belong to it, `subject` is what matchers look at (a tool's
    own name, a trigger).  `arguments` are those of a tool call in our words, `subjects` what permission rules are matched
    against, `mode` is the permission mode, and after `limit_s` seconds (0: each hook's own limit) nothing is waited for.
    """

    event: HookEvent
    facts: Mapping[str, object] = field(default_factory=dict)
    subject: str = ""
    arguments: Mapping[str, object] | None = None
    mode: str = ""
    agent: str = ROOT
    limit_s: float = 0.0
    subjects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HookRun:
    """One hook that ran.  `exit_code` is -1 where it did not end by itself; `said` is what it wrote for people, bounded."""

    command: str
    matcher: str = ""
    source: str = ""
    exit_code: int = 0
    decision: str = ""
    said: str = ""
    elapsed_ms: int = 0


@dataclass(frozen=True, slots=True)
class HookVerdict:
    """What the hooks of one call say together.

    `permission` is the strictest that one of them said (for a prompt or an end, deny holds it up), `reason` why, and `changed`
    are arguments in place of those that were sent.  `ends_turn`: one of them wants no more of this turn.  `context` goes to the
    model, `notes` go to the user.
    """

    runs: tuple[HookRun, ...] = ()
    permission: Verdict | None = None
    reason: str = ""
    changed: Mapping[str, object] | None = None
    ends_turn: bool = False
    end_reason: str = ""
    context: str = ""
    notes: tuple[str, ...] = ()

    @property
    def blocks(self) -> bool:
        """Tell whether what was about to happen is not to happen."""
        return self.permission is Verdict.DENY


class Hooks(Protocol):
    """The hooks of one session, as they were when it was opened."""

    def wants(self, event: HookEvent) -> bool:
        """Tell whether a hook waits for an event at all; costs nothing."""

    def problems(self) -> Sequence[str]:
        """Return what cannot be read or does not hold, each with the way out."""

    async def run(self, call: HookCall) -> HookVerdict:
        """Call the hooks that an event is for, at the same time, and return what they say; what fails is in its `runs`.

        Cancelled, it has ended them before it returns.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRan(Event):
    """A hook ran.  `event` is what it was called for, `call_id` the tool call where it was one, `source` the file.

    `exit_code` is -1 where it did not end by itself, `decision` what it said (allow, ask, deny, or empty), `said` the
    beginning of what it wrote for people.
    """

    kind: ClassVar[str] = "hook_ran"
    event: str
    command: str
    matcher: str = ""
    source: str = ""
    call_id: str = ""
    exit_code: int = 0
    decision: str = ""
    said: str = ""
    elapsed_ms: int = 0

    @property
    def has_failed(self) -> bool:
        """Tell whether it did not do what it is there for."""
        return self.exit_code not in (0, 2)


def hook_words(event: HookRan) -> str:
    """Return what the user is told about a hook in one line, empty where it did its work and let everything be."""
    said = _short(sanitize_line(event.said.strip().partition("\n")[0]), _SAID_CHARS)
    name = f"hook {sanitize_line(event.event)} ({_short(sanitize_line(event.command), _COMMAND_CHARS)})"
    if event.exit_code < 0:
        return f"{name} {said or 'did not end by itself'}"
    if event.has_failed:
        return f"{name} failed with exit code {event.exit_code}" + (f": {said}" if said else "")
    if event.decision in (Verdict.DENY, Verdict.ASK):
        return f"{name} said {'no' if event.decision == Verdict.DENY else 'ask'}" + (f": {said}" if said else "")
    return ""


def _short(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[: chars - 1].rstrip()}…"
