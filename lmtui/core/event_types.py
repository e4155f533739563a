"""Every kind of event that a log may hold or a screen may show."""

from __future__ import annotations

from lmtui.core.agent_events import (
    AgentFinished,
    AgentStarted,
    BackgroundChanged,
    JobsChanged,
    PlanDecided,
    PlanProposed,
    WaitSet,
)
from lmtui.core.budgets import BudgetSet, ReportWritten
from lmtui.core.events import (
    ApprovalRequested,
    ApprovalResolved,
    CallProgress,
    CheckpointCreated,
    Event,
    FilesChanged,
    FilesRestored,
    HostReached,
    InboxChanged,
    MessageAdded,
    ModeChanged,
    ModelChanged,
    Notice,
    PlanChanged,
    PrefillProgress,
    RetryScheduled,
    Rewound,
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
from lmtui.core.hooks import HookRan
from lmtui.core.instruction_values import GuidanceRead
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
from lmtui.core.skills import SkillUsed

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
