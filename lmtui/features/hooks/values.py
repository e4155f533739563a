"""Hooks as values: programs of the user's that are called when something happens, and what they answer.  Nothing here does I/O.

The format is the one that other agents have: JSON on standard input, exit code 2 or a JSON answer decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lmtui.core.events import ROOT, Event, ListedRun, Outcome
from lmtui.core.permissions.rules import Verdict
from lmtui.core.sanitize import clipped, sanitize_line

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


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRan(Event):
    """A hook ran.  `event` is what it was called for, `call_id` the tool call where it was one, `source` the file.

    `exit_code` is -1 where it did not end by itself, `decision` what it said (allow, ask, deny, or empty), `said` the
    beginning of what it wrote for people.
    """

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
    def line(self) -> str:
        said = clipped(sanitize_line(self.said.strip().partition("\n")[0]), _SAID_CHARS)
        name = f"hook {sanitize_line(self.event)} ({clipped(sanitize_line(self.command), _COMMAND_CHARS)})"
        if self.exit_code < 0:
            return f"{name} {said or 'did not end by itself'}"
        if self._has_failed:
            return f"{name} failed with exit code {self.exit_code}" + (f": {said}" if said else "")
        if self.decision in (Verdict.DENY, Verdict.ASK):
            return f"{name} said {'no' if self.decision == Verdict.DENY else 'ask'}" + (f": {said}" if said else "")
        return ""

    @property
    def row(self) -> ListedRun:
        is_no = self.decision == Verdict.DENY
        decision = str(Outcome.NO) if is_no else self.decision
        title = f"{self.event}{f' said {decision}' if decision else ''}: {self.command}"
        return ListedRun("hook", title, not (self._has_failed or is_no), self.elapsed_ms, decision, self.call_id)

    @property
    def _has_failed(self) -> bool:
        return self.exit_code not in (0, 2)


@dataclass(frozen=True, slots=True)
class HookVerdict:
    """What a hook says, or all hooks of one call together.

    `permission` is the strictest that one of them said (for a prompt or an end, deny holds it up), `reason` why, and `changed`
    are arguments in place of those that were sent.  `ends_turn`: one of them wants no more of this turn.  `context` goes to the
    model, `notes` go to the user.
    """

    permission: Verdict | None = None
    reason: str = ""
    changed: Mapping[str, object] | None = None
    ends_turn: bool = False
    end_reason: str = ""
    context: str = ""
    notes: tuple[str, ...] = ()
    runs: tuple[HookRan, ...] = ()

    @property
    def blocks(self) -> bool:
        """Tell whether what was about to happen is not to happen."""
        return self.permission is Verdict.DENY
