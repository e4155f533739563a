"""What may be done about a call, and the question where a person has to say: the permission function at this agent's rules."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from lmtui.core.agent_events import checked_wait
from lmtui.core.events import ROOT, ApprovalRequested, HostReached, Level, Notice, Outcome, PlanChanged, ToolOutputDelta
from lmtui.core.hosts import NETWORK_TOOL, SHOWN_TOOLS, is_covered, wider_patterns
from lmtui.core.messages import ToolCall, ToolCallFormat
from lmtui.core.permissions.dangerous_commands import dangers
from lmtui.core.permissions.decide import OUTSIDE_OVERLAY, decide_all, strictest
from lmtui.core.permissions.git_commands import writing_git_commands
from lmtui.core.permissions.rules import (
    THIS_SESSION,
    Access,
    Decision,
    Effect,
    Mode,
    Rule,
    Verdict,
    exact_rule,
    mask_expressions,
)
from lmtui.core.permissions.suggested_rules import suggested_rules
from lmtui.core.ports import AgentActions, PreparedCall, Sandbox, ToolContext, no_wait
from lmtui.core.sanitize import escape_invisible
from lmtui.core.sessions import NO_TRIAL, Answer
from lmtui.core.subagents import Report
from lmtui.core.workspace import EFFECT_TOOL
from lmtui.engine.agent import Agent
from lmtui.engine.approvals import PendingApproval
from lmtui.engine.planning import propose_plan
from lmtui.engine.syntax import syntax_error

_WHY = "no setting and no rule allows this host"
_OWN_REQUEST = "sent by lmtui itself, not by a command"
_ALL_HOSTS = {(Effect.ALLOW, NETWORK_TOOL, "*"), (Effect.ALLOW, NETWORK_TOOL, "")}
_MAX_TOLD = 200
_MAX_QUESTIONS = 20


class CommandNetworkApproval:
    """The gate of one command; implements `core.hosts.HostApproval`.  What was answered holds for the whole command.

    A command cannot bury the user in questions, nor the log in lines: there is one question at a time, and of both a most.
    """

    def __init__(self, agent: Agent, call_id: str) -> None:
        self._agent = agent
        self._call_id = call_id
        self._answered: dict[str, bool] = {}
        self._asking = asyncio.Lock()
        self._question: PendingApproval | None = None
        self._told: list[tuple[str, str]] = []
        self._is_closed = False

    async def may_reach(self, host: str, *, is_listed: bool = False, what: str = "") -> bool:
        async with self._asking:
            by_rules = partial(self._by_rules, host, is_listed=is_listed)
            if (decided := by_rules()) is not None:
                return decided
            return await self._answer(host, lambda: self._request(host, what), lambda: by_rules() is True)

    async def may_show(self, folder: str, why: str) -> bool:
        """Return what rules say of a folder of tools, else what the user says."""
        async with self._asking:
            rules = [rule for rule in self._agent.all_rules() if rule.tool == SHOWN_TOOLS]
            effects = [rule.effect for rule in rules if rule.pattern in ("*", folder)]
            if self._is_closed or Effect.DENY in effects:
                return False
            if Effect.ALLOW in effects and Effect.ASK not in effects:
                return True
            return await self._answer(folder, lambda: self._asked(SHOWN_TOOLS, folder, why, (folder,)))

    def warn(self, text: str) -> None:
        """Show the user why a command failed."""
        self._agent.emit(Notice(level=Level.WARNING, text=text))

    def close(self) -> None:
        """End the command's say: what it still asks is answered with no, and nothing more is written down."""
        self._is_closed = True
        if self._question is not None:
            self._question.give(Answer(Outcome.NO), "interrupt")

    def reached(self, host: str, sent_bytes: int, received_bytes: int, why_not: str) -> None:
        if self._is_closed or (why_not and (host, why_not) in self._told) or len(self._told) > _MAX_TOLD:
            return
        self._told.append((host, why_not))
        if len(self._told) > _MAX_TOLD:
            host, sent_bytes, received_bytes, why_not = "…", 0, 0, "further connections of this command are not listed"
        self._agent.emit(
            HostReached(
                agent=self._agent.id,
                call_id=self._call_id,
                host=host,
                sent_bytes=sent_bytes,
                received_bytes=received_bytes,
                why_not=why_not,
            )
        )

    def _by_rules(self, host: str, *, is_listed: bool) -> bool | None:
        """Return what is decided without asking: deny before ask, ask before what a rule or a setting allows."""
        rules = [rule for rule in self._agent.all_rules() if rule.tool in (NETWORK_TOOL, "*")]
        rules = [rule for rule in rules if rule.pattern == "*" or is_covered(host, [rule.pattern])]
        if self._is_closed or any(rule.effect is Effect.DENY for rule in rules):
            return False
        allowing = [rule for rule in rules if rule.effect is Effect.ALLOW and rule.tool == NETWORK_TOOL]
        if any(rule.effect is Effect.ASK for rule in rules):
            return True if any(rule.source == THIS_SESSION and rule.is_exactly(host) for rule in allowing) else None
        return True if allowing or is_listed else None

    async def _answer(
        self, subject: str, request: Callable[[], ApprovalRequested], is_covered: Callable[[], bool] = lambda: False
    ) -> bool:
        """Return the answer to a question; each is asked once, and of all a most.  A rule granted meanwhile answers it too."""
        if subject not in self._answered:
            if len(self._answered) >= _MAX_QUESTIONS:
                return False
            self._question = self._agent.services.approvals.open(request(), is_covered)
            self._answered[subject] = (await self._question.answer()).outcome is not Outcome.NO
        return self._answered[subject]

    def _request(self, host: str, what: str) -> ApprovalRequested:
        asked = self._asked(NETWORK_TOOL, f"{host}:443", _WHY, (host, *wider_patterns(host)))
        return replace(asked, text=f"{asked.text}\n{what}", sandbox=_OWN_REQUEST) if what else asked

    def _asked(self, tool: str, text: str, why: str, patterns: Sequence[str]) -> ApprovalRequested:
        approvals = self._agent.services.approvals
        offers = tuple(str(Rule(Effect.ALLOW, tool, pattern)) for pattern in patterns[: None if approvals.is_attended else 1])
        return ApprovalRequested(
            agent=self._agent.id,
            approval_id=approvals.next_id(),
            call_id=self._call_id,
            tool=tool,
            text=text,
            why=why,
            suggested_rule=offers[0],
            offered_rules=offers,
            sandbox=self._agent.state.sandbox.text,
        )


def wants_network(prepared: PreparedCall) -> bool:
    """Tell whether a command is to reach the package indexes."""
    return prepared.tool == "shell" and prepared.arguments.get("network") is True


def lacks_network(agent: Agent, prepared: PreparedCall) -> bool:
    """Tell whether a command is to reach the package indexes and no rule lets it."""
    rules = {(rule.effect, rule.tool, rule.pattern) for rule in agent.all_rules()}
    return wants_network(prepared) and rules.isdisjoint(_ALL_HOSTS)


def _lacking_rules(agent: Agent, prepared: PreparedCall, decision: Decision, offers: Sequence[str]) -> tuple[str, ...]:
    """Return the rules that together would have allowed a call, as nobody can say yes to it."""
    if not (prepared.tool == EFFECT_TOOL or lacks_network(agent, prepared)):
        return tuple(offers[:1])
    own = () if prepared.tool == "shell" and not decision.uncovered else (str(prepared.arguments["command"]),)
    hosts = ("Network(*)",) if wants_network(prepared) else ()
    return (*(str(exact_rule("shell", command, THIS_SESSION)) for command in own), *hosts)


def context_of(agent: Agent, call: ToolCall) -> ToolContext:
    """Return what one call works with."""

    def decided(tool: str, access: Access, subject: str) -> Decision:
        return decide_all(tool, access, (subject,), agent.state.mode, agent.all_rules())

    def is_forbidden(command: str) -> bool:
        decision = decided("shell", Access.EXECUTE, command)
        return decision.verdict is Verdict.DENY and bool(decision.rule)

    def knows(path: str) -> bool:
        """Tell whether a file may be replaced whole: who calls in the text has to have met it in this conversation."""
        return agent.model.known.calling.form is ToolCallFormat.NATIVE or agent.conversation.has_met(path)

    def report(given: Report) -> None:
        agent.turn.report = given

    def wait(until: datetime, why: str) -> None:
        agent.turn.wanted_wait = checked_wait(until, why, agent.services.now())

    return ToolContext(
        agent.effective_sandbox,
        agent.state.plan,
        lambda plan: agent.emit(PlanChanged(agent=agent.id, plan=plan)),
        lambda text: agent.emit(ToolOutputDelta(agent=agent.id, call_id=call.id, text=text)),
        agent.services.now,
        CommandNetworkApproval(agent, call.id),
        on_reading=lambda path: decided("read", Access.READ, path).verdict,
        sees=agent.may_send_images,
        knows=knows,
        faults=None if agent.model.known.calling.form is ToolCallFormat.NATIVE else syntax_error,
        step_work=agent.state.step.work,
        agent=AgentActions(
            children=agent.children,
            report=report if agent.state.depth else None,
            propose=partial(propose_plan, agent),
            wait=wait if agent.id == ROOT else no_wait,
            emit=lambda event: agent.emit(replace(event, agent=agent.id)),
            followed=lambda: agent.state.skills.in_use,
            on_writing=lambda path: decided("edit", Access.WRITE, path).verdict,
            is_forbidden=is_forbidden,
        ),
        features=agent.services.features,
    )


_MAX_PATHS = 100
_LONG_CHARS = 1024


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that was decided about, with the real paths `behind` links, and its question where one is open."""

    prepared: PreparedCall
    decision: Decision
    behind: tuple[str, ...] = ()
    tool_context: ToolContext | None = None
    question: PendingApproval | None = None


def mask_files(agent: Agent) -> None:
    """Tell the sandbox which files the rules in force now keep from every program."""
    agent.services.workspace.real.mask(id(agent.services.approvals), mask_expressions(agent.all_rules()))


async def learn_sandbox(agent: Agent, prepared: PreparedCall | None = None) -> None:
    """Start the sandbox where it is not known yet and a call has to know it: how much is asked depends on what confines it.

    Such a call runs a command, or works in the overlay of the try mode.
    """
    if prepared and agent.state.mode is not Mode.TRY and prepared.access is not Access.EXECUTE:
        return
    if not agent.state.sandbox.name or agent.state.sandbox.has_read_only is None:
        status = await agent.services.sandbox.status()
        told = ("text", "asks_each_command", "folder", "has_read_only", "has_overlays", "is_overlay", "masks_git")
        agent.update_sandbox(**{name: getattr(status, name) for name in told})
    if agent.state.only_reads:
        agent.update_sandbox(is_read_only=(await agent.effective_sandbox.status()).is_read_only)


async def behind_links(agent: Agent, prepared: PreparedCall) -> tuple[str, ...]:
    """Return the real paths of a call about files where they are others than its own: rules hold for both."""
    if prepared.access not in (Access.READ, Access.WRITE) or not 0 < len(prepared.subjects) <= _MAX_PATHS:
        return ()
    real = await agent.services.sandbox.real_paths(prepared.subjects)
    return tuple(path for path in real if path not in prepared.subjects)


async def decided(agent: Agent, prepared: PreparedCall) -> PendingCall:
    """Return what is decided about a call once the sandbox is known; a thread reads long texts, so that nothing else waits.

    Raises:
        SandboxError: the sandbox cannot be started, or cannot tell where links lead.
    """
    await learn_sandbox(agent, prepared)
    behind = await behind_links(agent, prepared)
    if sum(map(len, prepared.subjects)) > _LONG_CHARS:
        return PendingCall(prepared, await asyncio.to_thread(decide, agent, prepared, behind), behind)
    return PendingCall(prepared, decide(agent, prepared, behind), behind)


def decide(agent: Agent, prepared: PreparedCall, behind: tuple[str, ...] = ()) -> Decision:
    """Return what the permission function says of a call now; `behind` are the real paths behind links."""
    modes = (agent.state.mode, Mode.PLAN) if agent.state.is_narrow else (agent.state.mode,)
    has_read_only = agent.state.sandbox.is_read_only if agent.state.only_reads else agent.state.sandbox.has_read_only is True
    stays = prepared.tool == "shell" and prepared.arguments.get("background") is True
    has_network = wants_network(prepared)
    if agent.state.mode is Mode.TRY and prepared.access in (Access.READ, Access.WRITE, Access.EXECUTE):
        if stays or has_network:
            return Decision(Verdict.DENY, OUTSIDE_OVERLAY)
        if not agent.state.sandbox.has_overlays:
            return Decision(Verdict.DENY, NO_TRIAL)
    is_contained = has_read_only and not (stays or has_network or _is_danger(agent, prepared))
    decision = strictest(
        [
            decide_all(
                prepared.tool,
                prepared.access,
                (*prepared.subjects, *behind),
                mode,
                agent.all_rules(),
                asks_each_command=agent.state.sandbox.asks_each_command,
                is_read_only=is_contained,
                masks_git=agent.state.sandbox.masks_git,
                scopes=agent.state.skills.scopes,
            )
            for mode in modes
        ]
    )
    decision = replace(decision, is_read_only=decision.is_read_only and not agent.state.sandbox.is_overlay)
    if not has_network or decision.verdict is Verdict.DENY:
        return decision
    lacks_hosts = lacks_network(agent, prepared)
    if decision.verdict is Verdict.ALLOW and lacks_hosts:
        return Decision(Verdict.ASK, "it reaches the package indexes", reveals=decision.reveals, takes_no_rule=True)
    # a rule for the command alone does not open the network
    return replace(decision, takes_no_rule=decision.takes_no_rule or lacks_hosts)


def _is_danger(agent: Agent, prepared: PreparedCall) -> bool:
    """Tell whether a command is asked about first because it is dangerous."""
    if prepared.tool != "shell" or agent.state.only_reads:
        return False
    return bool(dangers(prepared.subjects[0], agent.state.sandbox.folder or "/workspace"))


def may_try(agent: Agent, prepared: PreparedCall) -> bool:
    """Tell whether a call is a command that can run in an overlay: one that ends, and reaches no network and no git folder."""
    stays = prepared.arguments.get("background") is True or wants_network(prepared)
    can_try = prepared.tool == "shell" and agent.state.sandbox.has_overlays and not (agent.state.only_reads or stays)
    return can_try and not writing_git_commands(prepared.subjects[0])


def is_answered_by_typing(agent: Agent, prepared: PreparedCall) -> bool:
    """Tell whether only the mode or a reduced sandbox asks: a rule that asks, doubt and secrets ask the user too."""
    mode = agent.state.mode if agent.state.mode is Mode.PLAN else Mode.AUTO
    decision = decide_all(
        prepared.tool,
        prepared.access,
        prepared.subjects,
        mode,
        tuple(each for each in agent.all_rules() if each.effect is not Effect.DENY or each.names(prepared.tool)),
        is_read_only=mode is Mode.AUTO or agent.state.sandbox.is_read_only,  # their own command may change what they deny
    )
    return decision.verdict is Verdict.ALLOW


def sandbox_for(agent: Agent, decision: Decision) -> Sandbox:
    """Return the sandbox for an allowed call: read-only where nothing was asked, with the secret files that it names shown."""
    sandbox = agent.services.sandbox.read_only() if decision.is_read_only else agent.effective_sandbox
    return sandbox.revealing(decision.reveals) if decision.reveals else sandbox


async def ask(agent: Agent, call: ToolCall, pending: PendingCall, tool_context: ToolContext) -> PendingCall:
    """Open the question about a call.

    Raises:
        ToolError: the call cannot succeed, so there is nothing to ask about.
        SandboxError: the same, from the sandbox.
    """
    prepared, decision, behind = pending.prepared, pending.decision, pending.behind
    preview = await prepared.preview(tool_context)
    subjects, is_command = prepared.subjects, prepared.access is Access.EXECUTE
    is_outside = not is_command and any(subject.startswith(("/", "../")) for subject in subjects)
    offers = () if decision.takes_no_rule or is_outside else suggested_rules(prepared.tool, prepared.access, subjects)
    approvals, why = agent.services.approvals, decision.why
    if not approvals.is_attended:
        offers = _lacking_rules(agent, prepared, decision, offers)
    changed = [path for path in (*subjects, *behind) if path.startswith("/")]
    if changed and prepared.access is Access.WRITE:
        why += f"; undo does not cover {escape_invisible(', '.join(changed))}"
    request = ApprovalRequested(
        agent=agent.id,
        approval_id=approvals.next_id(),
        call_id=call.id,
        tool=prepared.tool,
        text=escape_invisible(preview.text),
        diff=escape_invisible(preview.diff),
        path=preview.path,
        why=why,
        suggested_rule=offers[0] if offers else "",
        offered_rules=offers,
        cwd=agent.state.sandbox.folder if is_command else "",
        sandbox=agent.state.sandbox.text,
        limits=preview.limits,
        uncovered=tuple(map(escape_invisible, decision.uncovered)),
        commands=decision.commands,
        hunks=preview.hunks,
        parts=preview.parts,
        can_try=may_try(agent, prepared),
        digest=hashlib.sha256(preview.text.encode("utf-8", "surrogatepass")).hexdigest(),
    )

    def is_allowed() -> bool:
        return decide(agent, prepared, behind).verdict is Verdict.ALLOW

    is_features = is_allowed()  # a rule that is granted meanwhile does not answer a feature
    opened = approvals.open(request, lambda: not is_features and is_allowed())
    return replace(pending, tool_context=tool_context, question=opened)
