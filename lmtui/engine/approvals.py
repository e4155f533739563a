"""Asking the user: an open question is a pair of events around a wait.  Without a user, everything is denied at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from lmtui.core.agent_events import PlanDecided
from lmtui.core.errors import SessionFileError, UsageError
from lmtui.core.events import ApprovalRequested, ApprovalResolved, Event, Outcome, RuleRevoked, TurnStarted
from lmtui.core.permissions.rules import THIS_SESSION, Effect, GrantScope, Rule, parse_rule, source_of
from lmtui.core.permissions.suggested_rules import Grant, grants
from lmtui.core.sessions import NOBODY, Answer


@dataclass(slots=True)
class PendingApproval:
    """An open question; it is resolved once, by whoever is first."""

    request: ApprovalRequested
    resolve: Callable[[ApprovalRequested, Answer, str], None]
    is_covered: Callable[[], bool]
    _is_given: bool = False
    _answer: asyncio.Future[Answer] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    async def answer(self) -> Answer:
        """Wait for the answer; cancelled while waiting, it is a no by interrupt."""
        try:
            return await asyncio.shield(self._answer)
        finally:
            self.give(Answer(Outcome.NO), "interrupt")

    def give(self, answer: Answer, by: str) -> None:
        """Answer it; ignored where it is answered already.  What cannot be written down is a no.

        Raises:
            UsageError: the question does not offer this answer.
            SessionFileError: the answer could not be written down.
        """
        if self._is_given:
            return
        answer = _as_offered(answer, self.request)
        self._is_given = True
        try:
            self.resolve(self.request, answer, by)
        except SessionFileError:
            answer = Answer(Outcome.NO, "the answer could not be written to the session's log")
            raise
        finally:
            self._answer.set_result(answer)


def _as_offered(answer: Answer, request: ApprovalRequested) -> Answer:
    """Return an answer as the request allows it: nothing is granted that was not offered, or applied that was not accepted.

    Raises:
        UsageError: the request does not offer it.
    """
    if answer.outcome is Outcome.NO:
        return replace(answer, hunks=None, edited="")
    _check_offered(answer, request)
    if answer.hunks is None:
        return answer
    accepted = tuple(number for number in range(request.hunks) if number in answer.hunks)
    if not accepted:
        return Answer(Outcome.NO, answer.feedback)
    is_all = len(accepted) == request.hunks
    return Answer(Outcome.ONCE, answer.feedback, hunks=None if is_all else accepted)


def _check_offered(answer: Answer, request: ApprovalRequested) -> None:
    problem, is_grant = "", answer.outcome in (Outcome.SESSION, Outcome.ALWAYS)
    if answer.outcome is Outcome.TRY and not request.can_try:
        problem = "this cannot be tried in an overlay"
    elif answer.edited and (is_grant or request.tool != "shell"):
        problem = "only a command can be changed, and only to run it once"
    elif is_grant and not any(_is_granted(each, answer) for each in grants(request)):
        problem = f"rule {answer.rule} ({answer.outcome}) is not offered here"
    elif answer.hunks and not set(answer.hunks) <= set(range(request.hunks)):
        problem = "the change has no such hunks"
    if problem:
        raise UsageError(problem, "Give an answer that the question offers; it is still open.")


def _is_granted(grant: Grant, answer: Answer) -> bool:
    return grant.number == answer.rule and (answer.outcome is Outcome.SESSION or grant.scope is answer.scope)


class Approvals:
    """The open questions of one session, and the rules that answers have granted for it.

    Args:
        emit: takes the events.
        name: goes into the ids, which are unique over all sessions that way.
        monotonic: seconds on a clock that only goes forward.
        is_attended: somebody is there to answer.

    `unattended` are the rules that would have allowed what was refused in the whole session because nobody was there.
    """

    def __init__(self, emit: Callable[[Event], None], name: str, monotonic: Callable[[], float], *, is_attended: bool) -> None:
        self._emit = emit
        self._monotonic = monotonic
        self._name = name
        self.is_attended = is_attended
        self._open: dict[str, PendingApproval] = {}
        self._asked = 0
        self.granted: tuple[Rule, ...] = ()
        self.unattended: list[str] = []
        self._refused: set[str] = set()

    def open(self, request: ApprovalRequested, is_covered: Callable[[], bool] = lambda: False) -> PendingApproval:
        """Ask now, and return what the answer can be waited for with.

        `is_covered` tells whether a rule that was granted meanwhile answers it: then nobody needs to.
        """
        self._emit(request)
        question = PendingApproval(request, partial(self._resolve, self._monotonic()), is_covered)
        if self.is_attended:
            self._open[request.approval_id] = question
        else:
            self.unattended += request.offered_rules
            self._refused.add(request.agent)
            question.give(Answer(Outcome.NO, "running unattended"), NOBODY)
        return question

    def answer(self, approval_id: str, answer: Answer) -> None:
        """Answer an open question; one that is already resolved is ignored."""
        if approval_id in self._open:
            self._open[approval_id].give(answer, answer.by)

    def has_refused(self, agent: str) -> bool:
        """Tell whether something was refused to an agent in its turn because nobody was there."""
        return agent in self._refused

    def attend(self) -> None:
        """Ask from now on: somebody is there, and what was refused before blocks nothing any more."""
        self.is_attended = True
        self.unattended.clear()
        self._refused.clear()

    def next_id(self) -> str:
        """Return an id for the next question."""
        return f"ask_{self._name}_{self._asked + 1}"

    def apply(self, event: Event) -> None:
        """Take up a question or an answer, live or replayed: a grant holds, an id is not used again."""
        if isinstance(event, ApprovalRequested):
            self._asked += 1
        if isinstance(event, TurnStarted):
            self._refused.discard(event.agent)
        if isinstance(event, RuleRevoked) and event.effect == Effect.ALLOW:
            self.granted = tuple(rule for rule in self.granted if str(rule) != event.rule)
        if isinstance(event, PlanDecided):
            self._grant(event.rules, THIS_SESSION)
        if isinstance(event, ApprovalResolved) and event.outcome in (Outcome.SESSION, Outcome.ALWAYS) and event.rule:
            source = THIS_SESSION if event.outcome is Outcome.SESSION else source_of(event.scope)
            self._grant((event.rule,), source)

    def _grant(self, rules: Sequence[str], source: str) -> None:
        for rule in rules:
            with contextlib.suppress(UsageError):  # a log may hold anything; what is no rule grants nothing
                self.granted = (*self.granted, parse_rule(rule, Effect.ALLOW, source))

    def keep_only(self, kept: Sequence[Rule] | None) -> None:
        """After a replay: drop what was granted for always and is not in `kept` any more; with None drop every grant."""
        texts = {str(rule) for rule in kept or () if rule.effect is Effect.ALLOW}
        self.granted = tuple(
            rule for rule in self.granted if kept is not None and (rule.source == THIS_SESSION or str(rule) in texts)
        )

    def _resolve(self, asked_s: float, request: ApprovalRequested, answer: Answer, by: str) -> None:
        self._open.pop(request.approval_id, None)
        is_grant = answer.outcome in (Outcome.SESSION, Outcome.ALWAYS)
        rule = next(each.rule for each in grants(request) if _is_granted(each, answer)) if is_grant else ""
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
                edited=answer.edited,
                elapsed_ms=round((self._monotonic() - asked_s) * 1000),
                hunks=answer.hunks,
            )
        )
        if is_grant:
            for question in tuple(self._open.values()):
                if question.is_covered():
                    question.give(Answer(Outcome.ONCE), "rule")
