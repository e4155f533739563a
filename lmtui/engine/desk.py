"""What a turn and its tool calls work with: one agent's parts, and the session's shared state behind a few functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from lmtui.core.events import ROOT, Event
from lmtui.core.messages import ToolSpec
from lmtui.core.permissions import Mode, Rule
from lmtui.core.plan import Plan
from lmtui.core.ports import Checkpoints, Images, Limits, Provider, Sandbox, Toolbox
from lmtui.engine.approvals import Approvals
from lmtui.engine.context import Conversation, ModelSettings
from lmtui.engine.fitting import FULL, LEAN, WindowBook
from lmtui.engine.inbox import Inbox
from lmtui.engine.known_model import KnownModel
from lmtui.engine.repeats import Repeats


@dataclass(slots=True)
class Desk:
    """One agent at work.

    `emit` writes an event to the log and publishes it; `now` is UTC, `monotonic` seconds on a clock that only goes forward;
    `rules` are those from flags and settings, the ones granted in the session are in `approvals`; `checkpoint_problem` is why
    the last state could not be kept, as the user was told; `tool_set` is which tools the model is told of (full or lean).
    """

    provider: Provider
    toolbox: Toolbox
    sandbox: Sandbox
    conversation: Conversation
    approvals: Approvals
    inbox: Inbox
    settings: ModelSettings
    limits: Limits
    mode: Mode
    rules: tuple[Rule, ...]
    emit: Callable[[Event], None]
    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    warm_up: Callable[[], None]
    agent: str = ROOT
    plan: Plan = field(default_factory=Plan)
    window_tokens: int = 0
    sandbox_name: str = ""
    sandbox_text: str = ""
    asks_each_command: bool = False
    checkpoints: Checkpoints | None = None
    checkpoint_problem: str = ""
    images: Images | None = None
    model: KnownModel = field(default_factory=KnownModel)
    window: WindowBook = field(default_factory=WindowBook)
    tool_set: str = FULL
    repeats: Repeats = field(default_factory=Repeats)

    def all_rules(self) -> tuple[Rule, ...]:
        """Return every rule in force."""
        return (*self.rules, *self.approvals.granted)

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return what the model is told of the tools."""
        return self.toolbox.specs(is_lean=self.tool_set == LEAN)

    def result_limit_chars(self) -> int:
        """Return how much of a tool's result the model gets; see `Budget.result_chars`."""
        return self.window.budget.result_chars(self.window_tokens)
