"""Hosts of the internet that a command wants to reach: a rule decides, else the user, else nobody."""

from __future__ import annotations

from lmtui.core.events import ApprovalRequested, HostReached, Outcome
from lmtui.core.hosts import NETWORK_TOOL, is_covered, wider_patterns
from lmtui.core.permissions import Effect, Rule
from lmtui.engine.desk import Desk

_WHY = "no setting and no rule allows this host"


class CommandGate:
    """The gate of one command; implements `core.ports.HostGate`.  What was answered holds for the whole command."""

    def __init__(self, desk: Desk, call_id: str) -> None:
        self._desk = desk
        self._call_id = call_id
        self._answered: dict[str, bool] = {}

    async def may_reach(self, host: str) -> bool:
        """Return what rules say of a host, else what the user says."""
        rules = [rule for rule in self._desk.all_rules() if rule.tool in (NETWORK_TOOL, "*") and _is_about(rule, host)]
        if any(rule.effect is Effect.DENY for rule in rules):
            return False
        if any(rule.effect is Effect.ALLOW and rule.tool == NETWORK_TOOL for rule in rules):
            return True
        if host not in self._answered:
            answer = await self._desk.approvals.ask(self._question(host))
            self._answered[host] = answer.outcome is not Outcome.NO
        return self._answered[host]

    def reached(self, host: str, sent_bytes: int, received_bytes: int, why_not: str) -> None:
        """Write down that a host was reached, or was not."""
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

    def _question(self, host: str) -> ApprovalRequested:
        offers = [str(Rule(Effect.ALLOW, NETWORK_TOOL, pattern)) for pattern in (host, *wider_patterns(host))]
        return ApprovalRequested(
            agent=self._desk.agent,
            approval_id=self._desk.approvals.next_id(),
            call_id=self._call_id,
            tool=NETWORK_TOOL,
            text=f"{host}:443",
            why=_WHY,
            suggested_rule=offers[0],
            offered_rules=tuple(offers),
            sandbox=self._desk.sandbox_text,
        )


def _is_about(rule: Rule, host: str) -> bool:
    return rule.pattern == "*" or is_covered(host, [rule.pattern])
