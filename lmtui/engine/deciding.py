"""What may be done about a call, and the question where a person has to say: the permission function at this agent's desk."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from lmtui.core.masks import mask_expressions
from lmtui.core.messages import ToolCall
from lmtui.core.permissions import Access, Decision, Mode, Verdict, decide_all, strictest
from lmtui.core.ports import PreparedCall, Sandbox, ToolContext
from lmtui.engine.approvals import Question
from lmtui.engine.desk import Desk
from lmtui.engine.hosts import lacks_network, wants_network
from lmtui.engine.questions import question
from lmtui.engine.tool_context import context_of

_MAX_PATHS = 100
_LONG_CHARS = 1024


@dataclass(frozen=True, slots=True)
class Asked:
    """A call whose question is open; `problem` says why it could not be asked (the call cannot succeed)."""

    prepared: PreparedCall
    decision: Decision | None = None
    context: ToolContext | None = None
    question: Question | None = None
    problem: str = ""
    behind: tuple[str, ...] = ()


def mask_files(desk: Desk) -> None:
    """Tell the sandbox which files the rules in force now keep from every program."""
    desk.sandbox.mask(id(desk.approvals), mask_expressions(desk.all_rules()))


async def learn_sandbox(desk: Desk) -> None:
    """Start the sandbox where it is not known yet: how much is asked depends on what confines commands."""
    if not desk.sandbox_name or desk.has_read_only is None:
        status = await desk.sandbox.status()
        desk.sandbox_text, desk.asks_each_command = status.text, status.asks_each_command
        desk.sandbox_folder = status.folder
        desk.has_read_only, desk.masks_git = status.has_read_only, status.masks_git
    if desk.only_reads:
        desk.is_read_only = (await desk.reach.status()).is_read_only


async def behind_links(desk: Desk, prepared: PreparedCall) -> tuple[str, ...]:
    """Return the real paths of a call about files where they are others than its own: rules hold for both."""
    if prepared.access not in (Access.READ, Access.WRITE) or not 0 < len(prepared.subjects) <= _MAX_PATHS:
        return ()
    real = await desk.sandbox.real_paths(prepared.subjects)
    return tuple(path for path in real if path not in prepared.subjects)


async def decide_in_time(desk: Desk, prepared: PreparedCall, behind: tuple[str, ...] = ()) -> Decision:
    """Return the result of `decide`; a thread reads long texts, so that nothing else waits."""
    if sum(map(len, prepared.subjects)) > _LONG_CHARS:
        return await asyncio.to_thread(decide, desk, prepared, behind)
    return decide(desk, prepared, behind)


def decide(desk: Desk, prepared: PreparedCall, behind: tuple[str, ...] = ()) -> Decision:
    """Return what the permission function says of a call now; `behind` are the real paths behind links."""
    modes = (desk.mode, Mode.PLAN) if desk.is_narrow else (desk.mode,)
    has_read_only = desk.is_read_only if desk.only_reads else desk.has_read_only is True
    stays = prepared.tool == "shell" and prepared.arguments.get("background") is True
    has_network = wants_network(prepared)
    decision = strictest(
        [
            decide_all(
                prepared.tool,
                prepared.access,
                (*prepared.subjects, *behind),
                mode,
                desk.all_rules(),
                asks_each_command=desk.asks_each_command,
                is_read_only=has_read_only and not stays and not has_network,  # these run where commands may write
                masks_git=desk.masks_git,
                scopes=desk.scopes.scopes,
            )
            for mode in modes
        ]
    )
    if not has_network or decision.verdict is Verdict.DENY:
        return decision
    lacks_hosts = lacks_network(desk, prepared)
    if decision.verdict is Verdict.ALLOW and lacks_hosts:
        return Decision(Verdict.ASK, "it reaches the package indexes", reveals=decision.reveals, takes_no_rule=True)
    takes_no_rule = decision.takes_no_rule or lacks_hosts  # a rule for the command alone does not open the network
    return replace(decision, takes_no_rule=takes_no_rule)


def is_answered_by_typing(desk: Desk, prepared: PreparedCall) -> bool:
    """Tell whether only the mode or a reduced sandbox asks: a rule that asks, doubt and secrets ask the user too."""
    mode = desk.mode if desk.mode is Mode.PLAN else Mode.AUTO
    decision = decide_all(
        prepared.tool, prepared.access, prepared.subjects, mode, desk.all_rules(), is_read_only=desk.is_read_only
    )
    return decision.verdict is Verdict.ALLOW


def sandbox_for(desk: Desk, decision: Decision) -> Sandbox:
    """Return the sandbox for an allowed call: read-only if it only reads, with the secret files that it names shown."""
    sandbox = desk.sandbox.read_only() if decision.is_read_only else desk.reach
    return sandbox.revealing(decision.reveals) if decision.reveals else sandbox


async def ask(
    desk: Desk,
    call: ToolCall,
    prepared: PreparedCall,
    *,
    context: ToolContext | None = None,
    decision: Decision | None = None,
    behind: tuple[str, ...] = (),
) -> Asked:
    """Open the question about a call.

    Raises:
        ToolError: the call cannot succeed, so there is nothing to ask about.
        SandboxError: the same, from the sandbox.
    """
    context, decision = context or context_of(desk, call), decision or decide(desk, prepared, behind)
    request = await question(desk, call.id, prepared, context, decision, behind=behind)
    # a rule that is granted meanwhile does not answer a hook
    is_hooks = decide(desk, prepared, behind).verdict is Verdict.ALLOW
    opened = desk.approvals.open(request, lambda: not is_hooks and decide(desk, prepared, behind).verdict is Verdict.ALLOW)
    return Asked(prepared, decision, context, opened, behind=behind)
