"""Hosts that a command wants to reach and tools that it lacks: a rule decides, else the user, else nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from lmtui.core.events import ApprovalRequested, Level, Notice, Outcome
from lmtui.core.host_events import HostReached
from lmtui.core.hosts import NETWORK_TOOL, SHOWN_TOOLS, is_covered, wider_patterns
from lmtui.core.permissions import THIS_SESSION, Effect, Rule
from lmtui.core.ports import PreparedCall
from lmtui.core.sessions import Answer
from lmtui.engine.approvals import Question
from lmtui.engine.desk import Desk

_WHY = "no setting and no rule allows this host"
_ALL_HOSTS = {(Effect.ALLOW, NETWORK_TOOL, "*"), (Effect.ALLOW, NETWORK_TOOL, "")}
_MAX_TOLD = 200
_MAX_QUESTIONS = 20


class CommandGate:
    """The gate of one command; implements `core.hosts.HostGate`.  What was answered holds for the whole command.

    A command cannot bury the user in questions, nor the log in lines: there is one question at a time, and of both a most.
    """

    def __init__(self, desk: Desk, call_id: str) -> None:
        self._desk = desk
        self._call_id = call_id
        self._answered: dict[str, bool] = {}
        self._asking = asyncio.Lock()
        self._question: Question | None = None
        self._told: set[tuple[str, str]] = set()
        self._told_total = 0
        self._is_closed = False

    async def may_reach(self, host: str, *, is_listed: bool = False) -> bool:
        """Return what rules and settings say of a host, else what the user says."""
        async with self._asking:
            decided = self._by_rules(host, is_listed=is_listed)
            if decided is not None:
                return decided
            return await self._answer(host, lambda: self._request(host))

    async def may_show(self, folder: str, why: str) -> bool:
        """Return what rules say of a folder of tools, else what the user says."""
        async with self._asking:
            rules = [rule for rule in self._desk.all_rules() if rule.tool == SHOWN_TOOLS]
            effects = [rule.effect for rule in rules if rule.pattern in ("*", folder)]
            if self._is_closed or Effect.DENY in effects:
                return False
            if Effect.ALLOW in effects and Effect.ASK not in effects:
                return True
            return await self._answer(folder, lambda: self._folder_request(folder, why))

    def warn(self, text: str) -> None:
        """Show the user why a command failed."""
        self._desk.emit(Notice(level=Level.WARNING, text=text))

    def close(self) -> None:
        """End the command's say: what it still asks is answered with no, and nothing more is written down."""
        self._is_closed = True
        if self._question is not None:
            self._question.give(Answer(Outcome.NO), "interrupt")

    def reached(self, host: str, sent_bytes: int, received_bytes: int, why_not: str) -> None:
        """Write down that a host was reached, or was not: each refusal once, and of all a most."""
        if self._is_closed or (why_not and (host, why_not) in self._told) or self._told_total > _MAX_TOLD:
            return
        self._told.add((host, why_not))
        self._told_total += 1
        if self._told_total > _MAX_TOLD:
            host, sent_bytes, received_bytes, why_not = "…", 0, 0, "further connections of this command are not listed"
        self._desk.emit(
            HostReached(
                agent=self._desk.agent,
                call_id=self._call_id,
                host=host,
                sent_bytes=sent_bytes,
                received_bytes=received_bytes,
                why_not=why_not,
            )
        )

    def _by_rules(self, host: str, *, is_listed: bool) -> bool | None:
        """Return what is decided without asking: deny before ask, ask before what a rule or a setting allows."""
        rules = [rule for rule in self._desk.all_rules() if rule.tool in (NETWORK_TOOL, "*") and _is_about(rule, host)]
        if self._is_closed or any(rule.effect is Effect.DENY for rule in rules):
            return False
        allowing = [rule for rule in rules if rule.effect is Effect.ALLOW and rule.tool == NETWORK_TOOL]
        if any(rule.effect is Effect.ASK for rule in rules):
            return True if any(rule.source == THIS_SESSION and rule.is_exactly(host) for rule in allowing) else None
        return True if allowing or is_listed else None

    async def _answer(self, subject: str, request: Callable[[], ApprovalRequested]) -> bool:
        """Return the answer to a question; each is asked once, and of all a most."""
        if subject not in self._answered:
            if len(self._answered) >= _MAX_QUESTIONS:
                return False
            self._question = self._desk.approvals.open(request())
            self._answered[subject] = (await self._question.answer()).outcome is not Outcome.NO
        return self._answered[subject]

    def _request(self, host: str) -> ApprovalRequested:
        return self._asked(NETWORK_TOOL, f"{host}:443", _WHY, (host, *wider_patterns(host)))

    def _folder_request(self, folder: str, why: str) -> ApprovalRequested:
        return self._asked(SHOWN_TOOLS, folder, why, (folder,))

    def _asked(self, tool: str, text: str, why: str, patterns: Sequence[str]) -> ApprovalRequested:
        offers = tuple(str(Rule(Effect.ALLOW, tool, pattern)) for pattern in patterns)
        return ApprovalRequested(
            agent=self._desk.agent,
            approval_id=self._desk.approvals.next_id(),
            call_id=self._call_id,
            tool=tool,
            text=text,
            why=why,
            suggested_rule=offers[0],
            offered_rules=offers,
            sandbox=self._desk.sandbox_text,
        )


def wants_network(prepared: PreparedCall) -> bool:
    """Tell whether a command is to reach the package indexes."""
    return prepared.tool == "shell" and prepared.arguments.get("network") is True


def lacks_network(desk: Desk, prepared: PreparedCall) -> bool:
    """Tell whether a command is to reach the package indexes and no rule lets it."""
    rules = {(rule.effect, rule.tool, rule.pattern) for rule in desk.all_rules()}
    return wants_network(prepared) and rules.isdisjoint(_ALL_HOSTS)


def _is_about(rule: Rule, host: str) -> bool:
    return rule.pattern == "*" or is_covered(host, [rule.pattern])
