"""Every kind of event that a log may hold or a screen may show."""

from __future__ import annotations

from lmtui.core.agent_events import AgentFinished, AgentStarted, BackgroundChanged, JobsChanged
from lmtui.core.budgets import BudgetSet, ReportWritten
from lmtui.core.events import (
    ApprovalRequested,
    ApprovalResolved,
    CallProgress,
    Event,
    InboxChanged,
    MessageAdded,
    ModeChanged,
    ModelChanged,
    Notice,
    PlanChanged,
    PrefillProgress,
    RetryScheduled,
    RuleRevoked,
    SandboxSelected,
    SessionOpened,
    SessionRenamed,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutputDelta,
    TurnEnded,
    TurnStarted,
    UsageUpdated,
)
from lmtui.core.file_events import CheckpointCreated, FilesChanged, FilesRestored, Rewound
from lmtui.core.guidance import GuidanceRead
from lmtui.core.hooks import HookRan
from lmtui.core.host_events import HostReached
from lmtui.core.model_events import (
    BroughtBack,
    CallFormChanged,
    Compacted,
    Compacting,
    LoopSuspected,
    Pinned,
    Reminder,
    ToolSetChanged,
    VisionChanged,
)
from lmtui.core.plan_events import PlanDecided, PlanProposed
from lmtui.core.skills import SkillUsed
from lmtui.core.wait_events import WaitSet

EVENT_TYPES: tuple[type[Event], ...] = (
    SessionOpened, SessionRenamed, ModelChanged, ModeChanged, SandboxSelected, TurnStarted, TurnEnded, MessageAdded,
    TextDelta, ThinkingDelta, PrefillProgress, CallProgress, RetryScheduled, ToolCallStarted, ToolOutputDelta,
    ToolCallFinished, ApprovalRequested, ApprovalResolved, RuleRevoked, HostReached, PlanChanged, FilesChanged,
    CheckpointCreated, FilesRestored, Rewound, InboxChanged, UsageUpdated, CallFormChanged, Compacted, Compacting,
    Reminder, Notice, BudgetSet, ReportWritten,
    WaitSet, AgentStarted, AgentFinished, JobsChanged, BackgroundChanged, BroughtBack, Pinned, ToolSetChanged,
    VisionChanged, LoopSuspected,
    PlanProposed, PlanDecided, GuidanceRead, SkillUsed, HookRan,
)  # fmt: skip
