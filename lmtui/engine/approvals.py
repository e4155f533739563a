"""Asking the user: an open question is a pair of events around a wait.  Where nobody is there, the answer is no at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from lmtui.core.errors import UsageError
from lmtui.core.events import ApprovalRequested, ApprovalResolved, Event, Outcome, RuleRevoked
from lmtui.core.permissions import THIS_SESSION, Effect, GrantScope, Rule, parse_rule, source_of
from lmtui.core.sessions import Answer


class Approvals:
    """The open questions of one session, and the rules that answers have granted for it.

    Args:
        emit: takes the events.
        name: goes into the ids, which are unique over all sessions that way.
        monotonic: seconds on a clock that only goes forward.
        is_attended: somebody is there to answer.
    """

    def __init__(self, emit: Callable[[Event], None], name: str, monotonic: Callable[[], float], *, is_attended: bool) -> None:
        self._emit = emit
        self._monotonic = monotonic
        self._name = name
        self._is_attended = is_attended
        self._open: dict[str, asyncio.Future[Answer]] = {}
        self._asked = 0
        self.granted: tuple[Rule, ...] = ()
        self.unattended: list[str] = []

    async def ask(self, request: ApprovalRequested) -> Answer:
        """Ask, wait and return the answer; cancelled while waiting, the question is resolved as a no by interrupt."""
        self._emit(request)
        asked = self._monotonic()
        if not self._is_attended:
            self.unattended.append(request.suggested_rule)
            answer = Answer(Outcome.NO, "nobody is there to approve it")
            self._resolve(request, answer, "headless", 0)
            return answer
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[request.approval_id] = future
        answer, by = Answer(Outcome.NO), "interrupt"
        try:
            answer, by = await future, "user"
        finally:
            del self._open[request.approval_id]
            self._resolve(request, answer, by, round((self._monotonic() - asked) * 1000))
        return answer

    def answer(self, approval_id: str, answer: Answer) -> None:
        """Answer an open question; one that is already resolved is ignored."""
        future = self._open.get(approval_id)
        if future is not None and not future.done():
            future.set_result(answer)

    def next_id(self) -> str:
        """Return an id for the next question."""
        return f"ask_{self._name}_{self._asked + 1}"

    def apply(self, event: Event) -> None:
        """Take up a question or an answer, live or replayed: a grant holds, an id is not used again."""
        if isinstance(event, ApprovalRequested):
            self._asked += 1
        if isinstance(event, RuleRevoked):
            self.granted = tuple(rule for rule in self.granted if str(rule) != event.rule)
        if isinstance(event, ApprovalResolved) and event.outcome in (Outcome.SESSION, Outcome.ALWAYS) and event.rule:
            source = THIS_SESSION if event.outcome is Outcome.SESSION else source_of(event.scope)
            with contextlib.suppress(UsageError):  # a log may hold anything; what is no rule grants nothing
                self.granted = (*self.granted, parse_rule(event.rule, Effect.ALLOW, source))

    def keep_only(self, kept: Sequence[Rule] | None) -> None:
        """After a replay: drop what was granted for always and is not in `kept` any more; with None drop every grant."""
        texts = {str(rule) for rule in kept or ()}
        self.granted = tuple(
            rule for rule in self.granted if kept is not None and (rule.source == THIS_SESSION or str(rule) in texts)
        )

    def _resolve(self, request: ApprovalRequested, answer: Answer, by: str, elapsed_ms: int) -> None:
        is_grant = answer.outcome in (Outcome.SESSION, Outcome.ALWAYS)
        rule = (answer.rule or request.suggested_rule) if is_grant else ""
        scope = {Outcome.SESSION: GrantScope.SESSION, Outcome.ALWAYS: answer.scope}.get(answer.outcome)
        self._emit(
            ApprovalResolved(
                agent=request.agent,
                approval_id=request.approval_id,
                outcome=answer.outcome,
                rule=rule,
                by=by,
                feedback=answer.feedback,
                scope=str(scope or ""),
                edited=answer.edited if answer.outcome is not Outcome.NO else "",
                elapsed_ms=elapsed_ms,
            )
        )
