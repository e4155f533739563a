"""Tool calls from the model's words to the results: check, decide, ask, run, trim.  Whatever happens, each ends once.

Of one message, those that only read run in parallel, all others one by one, in order.  A call that may change something waits
for all earlier calls and delays all later ones.  If features see the calls, none run in parallel: what one says of a call may
concern the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from lmtui.core.errors import SandboxError, SandboxUnavailable, SessionFileError, ToolError
from lmtui.core.events import Outcome, ToolCallFinished, ToolCallStarted
from lmtui.core.messages import ImageRef, ToolCall, ToolCallFormat
from lmtui.core.permissions.rules import Access, Decision, FileEffect, Verdict, traits_of
from lmtui.core.ports import PreparedCall, Sandbox, ToolContext, ToolResult
from lmtui.core.sanitize import escape_invisible
from lmtui.core.sessions import Answer
from lmtui.core.verification import Rung
from lmtui.engine import trial
from lmtui.engine.agent import Agent, CallReview
from lmtui.engine.call_permissions import (
    CommandNetworkApproval,
    PendingCall,
    ask,
    context_of,
    decide,
    decided,
    is_answered_by_typing,
    mask_files,
    may_try,
    sandbox_for,
)
from lmtui.engine.context_budget import truncate_result
from lmtui.engine.entries import check_copied
from lmtui.engine.file_changes import CHANGERS, record_changes, snapshot_before
from lmtui.engine.loop_detection import TOO_MANY_CALLS
from lmtui.engine.syntax import MOST_FILES, parse_check, unparsed, with_syntax_errors
from lmtui.engine.tasks import to_the_end

_log = logging.getLogger(__name__)
_MOST_AT_ONCE = 4
_NOT_RUN = "Not run: "
_NEVER_RAN = ("refused", "stopped", "not run", TOO_MANY_CALLS)


@dataclass(slots=True)
class _CallRun:
    """One call on its way to its end, and how it will be said to have ended: interrupted, until the call itself says more.

    `given` is None where it was not understood; `problem` says why it cannot run.  `by` says whose it is, where it is not the
    model's.  `pending` is there where it was decided about, or asked about, before its turn came.  `began` and `elapsed_s` are
    the tool's own time, not the user's.
    """

    agent: Agent
    call: ToolCall
    given: PreparedCall | None
    problem: str = ""
    by: str = ""
    pending: PendingCall | None = None
    result: ToolResult = field(default_factory=lambda: ToolResult("Not run: stopped before it began.", "not run", ok=False))
    decision: str = ""
    rule: str = ""
    why: str = ""
    note: str = ""
    began: float = 0.0
    elapsed_s: float = 0.0
    images: tuple[ImageRef, ...] = ()

    def refuse(self, why: str) -> None:
        """Say that the call was not allowed."""
        self.result = ToolResult(f"Refused: {why}", "refused", ok=False)

    async def run_to_end(self) -> ToolResult:
        """Run the call, if it can be run, and say how it ended."""
        try:
            await self.run()
        finally:
            self.end()
        return self.result

    async def run(self) -> None:
        """Decide about the call and run it; a failure becomes its result."""
        self.began, self.elapsed_s = self.agent.services.monotonic(), -1.0
        if self.given is None or self.problem:
            self.result = ToolResult(self.problem, "failed" if self.given else "not understood", ok=False)
            return
        try:
            await self._decide_and_run(self.given)
        except (ToolError, SandboxError) as error:
            self.result = ToolResult(error.full_text(), "failed", ok=False)
        except Exception as error:  # noqa: BLE001  (border: a tool run; the model is told, the log has the trace)
            _log.exception("tool %s failed inside", self.call.name)
            self.result = ToolResult(f"{self.call.name}: internal error of lmtui: {error}", "internal error", ok=False)

    async def _decide_and_run(self, prepared: PreparedCall) -> None:
        agent = self.agent
        mask_files(agent)
        prepared, reviews = await self._reviewed(prepared)
        pending = self.pending or await decided(agent, prepared)
        decision, behind = pending.decision, pending.behind
        self.decision = "rule" if decision.rule else "mode"
        is_overruled = False
        for review in reviews:
            if (said := review.overrule(decision, behind)) is not decision:
                decision, self.decision, is_overruled = said, review.by, True
        self.rule, self.why = decision.rule, decision.why
        if decision.verdict is Verdict.DENY:
            self.refuse(f"{decision.why}.")
            return
        context = pending.tool_context or context_of(agent, self.call)
        is_typed = self.by.startswith("user") and not is_overruled
        decision = replace(decision, is_read_only=False) if is_typed else decision  # a user's own command may write
        context = replace(context, sandbox=self._place(sandbox_for(agent, decision)))
        can_try = pending.question is None and not is_overruled and decision.is_read_only and may_try(agent, prepared)
        if decision.verdict is Verdict.ASK and is_typed and is_answered_by_typing(agent, prepared):
            self.decision, self.rule, self.why = str(Outcome.ONCE), "", "you typed it"
        elif can_try and await self._try(prepared, context, decision.rule):
            return
        elif decision.verdict is Verdict.ASK:
            if pending.question is None:
                pending = await ask(agent, self.call, PendingCall(prepared, decision, behind), context)
            answer = await self._answered(pending)
            if answer is not None and answer.outcome is Outcome.TRY:
                if not await self._try(prepared, context):
                    self.result = ToolResult("Not run: it cannot be tried here.", "not run", ok=False)
                return
            if answer is None or (allowed := await self._as_answered(pending, answer)) is None:
                return
            prepared, context = allowed, self._allowed_context(allowed, behind, context, answer)
        await self._run(prepared, context, is_reading=decision.is_read_only)
        is_held = not self.result.ok and trial.WAS_HELD_BACK.search(self.result.text)
        if decision.is_read_only and not agent.state.only_reads and is_held:
            await self._run_writing(prepared, context, trial.HELD_BACK)

    async def _try(self, prepared: PreparedCall, context: ToolContext, rule: str = "") -> bool:
        """Run a command in an overlay, then keep what it did if rules allow it or the user says so; False without overlays.

        `rule` is the one that covers the command, if one does: only another that denies keeps anything of its effect back.
        """
        agent = self.agent
        overlay = agent.services.sandbox.overlay()
        try:
            try:
                async with trial.growing_effect(context, overlay):
                    inside = replace(context, sandbox=self._place(overlay.sandbox))
                    await self._run(prepared, inside, is_reading=True, looks_back=False)
                whole = await overlay.effect()
                effect, notes = await overlay.keep_outputs(whole, agent.all_rules())
            except SandboxUnavailable as error:
                agent.update_sandbox(has_overlays=False)
                agent.notify(trial.NO_OVERLAYS.format(why=error.full_text()))
                return False
            except SandboxError as error:
                await self._run_writing(prepared, context, trial.UNSEEN.format(why=error.full_text().rstrip(".")))
                return True
            self.result = replace(self.result, text="\n".join((self.result.text, *notes)))
            kept = trial.KeptEffect(prepared, overlay, effect, self.result, self.elapsed_s, agent.all_rules)
            nothing = "it changed nothing" if effect is whole else "it changed only outputs that git ignores"
            if (allowed := await self._keeping(kept, context, rule, nothing)) is not None:
                await self._run(kept, allowed)
            else:
                self.result = await self._looked_back(prepared, self.result)
            return True
        finally:
            await overlay.close()

    def _place(self, sandbox: Sandbox) -> Sandbox:
        """Return where the call runs: a check in a new home, so that nothing which an earlier command left there decides it."""
        return sandbox.fresh() if self.by == "check" else sandbox

    async def _keeping(self, kept: trial.KeptEffect, context: ToolContext, rule: str, nothing: str) -> ToolContext | None:
        """Return with what an effect is kept; None where it is not, as `result` says then; `nothing` is for an empty one."""
        agent, effect, first = self.agent, kept.effect, kept.result
        self.decision, self.rule, self.why = "mode", "", nothing
        if not effect.can_keep:
            self.result = first if effect.is_empty else trial.dropped(first, effect, "it cannot be kept")
            return None
        decision = trial.decide_effect(effect, agent.state.mode, agent.all_rules())
        is_covered = decision.verdict is Verdict.ASK and bool(rule)
        self.rule, self.why = (rule, "a rule covers the command") if is_covered else (decision.rule, decision.why)
        self.decision = "rule" if self.rule else "mode"
        if decision.verdict is Verdict.ASK and not is_covered:
            self.result = trial.dropped(first, effect, "stopped before the user answered")
            answer = await self._answered(await ask(agent, self.call, PendingCall(kept, decision), context))
            if answer is None:
                self.result = trial.dropped(first, effect, self.result.text.removeprefix(_NOT_RUN).rstrip("."))
                return None
            context = replace(context, hunks=answer.hunks)
            decision = trial.decide_effect(effect, agent.state.mode, agent.all_rules())  # the mode may be another by now
        if decision.verdict is Verdict.DENY:
            self.why, self.result = decision.why, trial.dropped(first, effect, decision.why)
            return None
        return context

    async def _run_writing(self, prepared: PreparedCall, context: ToolContext, why: str) -> None:
        """Ask about a command that ran where its changes are not real; run it again after a yes."""
        agent, first = self.agent, self.result
        takes_no_rule = agent.services.approvals.is_attended
        decision = Decision(Verdict.ASK, why, uncovered=prepared.subjects, takes_no_rule=takes_no_rule)
        context = replace(context, sandbox=agent.effective_sandbox)
        asked = await ask(agent, self.call, PendingCall(prepared, decision), context)
        answer = await self._answered(asked)
        self.why = decision.why
        if answer is None:
            text = f"{first.text}\n[{why[:1].upper()}{why[1:]}, so it needs approval. {self.result.text}]"
            self.result = replace(first, text=text, summary=self.result.summary)
        elif (allowed := await self._as_answered(asked, answer)) is not None:
            await self._run(allowed, self._allowed_context(allowed, (), context, answer))

    def _allowed_context(
        self, prepared: PreparedCall, behind: tuple[str, ...], context: ToolContext, answer: Answer
    ) -> ToolContext:
        """Return the context of the call after a yes; the mode may have changed."""
        decision = replace(decide(self.agent, prepared, behind), is_read_only=False)
        return replace(context, hunks=answer.hunks, sandbox=sandbox_for(self.agent, decision))

    async def _answered(self, asked: PendingCall) -> Answer | None:
        """Wait for the answer; on a no, say so in the result and return nothing."""
        assert asked.question is not None
        answer = await asked.question.answer()
        self.decision = str(answer.outcome)
        if answer.outcome is not Outcome.NO:
            return answer
        words = f' They say: "{answer.feedback}"' if answer.feedback else ""
        is_attended = self.agent.services.approvals.is_attended
        text = f"{_NOT_RUN}the user refused it.{words}" if is_attended else f"{_NOT_RUN}{answer.feedback}."
        self.result = ToolResult(text, "refused", ok=False)
        return None

    async def _as_answered(self, asked: PendingCall, answer: Answer) -> PreparedCall | None:
        """Return the call as the user's yes left it; None where what holds by now is against it."""
        prepared = asked.prepared
        if answer.edited and prepared.tool == "shell" and answer.edited != escape_invisible(prepared.subjects[0]):
            edited = json.dumps({**prepared.arguments, "command": answer.edited})
            prepared = self.agent.services.toolbox.prepare(prepared.tool, edited)
            self.note = f"[the user changed the command to: {answer.edited}]\n"
            prepared, reviews = await self._reviewed(prepared)
            if refusal := next(filter(None, (review.refusal for review in reviews)), ""):
                self.refuse(f"{refusal}.")
                return None
        again = decide(self.agent, prepared, asked.behind)
        if again.verdict is Verdict.DENY:  # the mode was changed while the question was open
            self.refuse(f"{again.why}.")
            return None
        return prepared

    async def _reviewed(self, prepared: PreparedCall) -> tuple[PreparedCall, list[CallReview]]:
        """Return the call as features leave it, and what they say of it."""
        reviews: list[CallReview] = []
        for each in self.agent.services.points.before_call:
            reviews.append(await each(self.agent, self.call, prepared))
            prepared = reviews[-1].prepared
            self.note += reviews[-1].note
        return prepared, reviews

    async def _looked_back(self, prepared: PreparedCall, result: ToolResult) -> ToolResult:
        """Return the result of the call with what features say of it."""
        for each in self.agent.services.points.after_call:
            result = await each(self.agent, self.call, prepared, result)
        return result

    async def _run(
        self, prepared: PreparedCall, context: ToolContext, *, is_reading: bool = False, looks_back: bool = True
    ) -> None:
        """Run an allowed call; while it may change files, other agents that want to change files wait.

        `is_reading`: the sandbox prevents all changes, so no checkpoint is needed.  `looks_back`: features see what it did.
        """
        is_changing = not is_reading and prepared.access in CHANGERS  # what is done in an overlay is not real
        waits = is_changing and not self.agent.state.only_reads
        async with self.agent.services.writing if waits else contextlib.nullcontext():
            before = await snapshot_before(self.agent, self.call.id, prepared.access) if is_changing else None
            changed: tuple[str, ...] = ()
            self.result = ToolResult("Stopped by the user; its effect may be partial.", "stopped", ok=False)
            self.began = self.agent.services.monotonic()
            try:
                result = await prepared.run(context)
                if looks_back:  # what a feature changes (a formatter) is the call's
                    self.elapsed_s = self.agent.services.monotonic() - self.began
                    ran = prepared.command if isinstance(prepared, trial.KeptEffect) else prepared
                    result = await self._looked_back(ran, result)
                self.images = await _keep_pictures(self.agent, result)
                self.result = replace(result, text=self.note + result.text) if self.note else result
            finally:
                if self.elapsed_s < 0:
                    self.elapsed_s = self.agent.services.monotonic() - self.began
                if isinstance(context.gate, CommandNetworkApproval):
                    context.gate.close()
                if is_changing:
                    changed = await to_the_end(record_changes(self.agent, self.call.id, before, self.result))
            await self._parse(changed)

    async def _parse(self, changed: tuple[str, ...]) -> None:
        """Parse the files that the call changed, with those that did not parse before; the model is told at once."""
        if not 0 < len(changed) <= MOST_FILES:
            return
        agent, red = self.agent, self.agent.state.verification.red
        is_red = red is not None and red.rung is Rung.PARSE
        found = await unparsed(agent.services.sandbox, agent.state.verification.touched if is_red else changed)
        if found or is_red:
            agent.emit(replace(parse_check(found), agent=agent.id, turn_id=agent.turn.id))
        self.result = with_syntax_errors(self.result, {path: why for path, why in found.items() if path in changed})

    def end(self) -> None:
        """Say how the call ended."""
        agent, images, tool = self.agent, self.images, self.given.tool if self.given else self.call.name
        result = replace(self.result, text=truncate_result(tool, self.result.text, agent.result_limit_chars()))
        if not self.by and result.summary not in _NEVER_RAN:
            given = self.given.arguments if self.given else {"raw": self.call.arguments[:4000]}
            told = agent.loops.answer(tool, given, result.text, ok=result.ok)
            images = images if told == result.text else ()  # what it has already is not sent again
            result = replace(result, text=told)
        elapsed_s = self.elapsed_s if self.elapsed_s >= 0 else agent.services.monotonic() - self.began
        agent.emit(
            ToolCallFinished(
                agent=agent.id,
                call_id=self.call.id,
                tool=tool,
                ok=result.ok,
                result=result.text,
                elapsed_ms=round(elapsed_s * 1000),
                summary=result.summary,
                decision=self.decision,
                rule=self.rule,
                why=self.why,
                images=images,
            )
        )


async def run_call(agent: Agent, call: ToolCall, *, by: str = "") -> ToolResult:
    """Deal with one call and return how it ended; events tell everything else.

    `by` says whose it is, where it is not the model's (see `ToolCallStarted`): what the mode would only ask about is answered
    by the user's typing it.
    """
    return await _begin(agent, call, by).run_to_end()


async def _run_side_by_side(agent: Agent, calls: Sequence[tuple[ToolCall, PendingCall]]) -> None:
    """Run decided read-only calls in parallel, a few at a time; they end in their order, even if stopped."""
    places = asyncio.Semaphore(_MOST_AT_ONCE)
    runs: list[_CallRun] = []

    async def run(call: ToolCall, pending: PendingCall) -> None:
        async with places:
            begun = _begin(agent, call)
            begun.pending = pending
            runs.append(begun)
            await begun.run()

    ended = 0
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run(call, pending)) for call, pending in calls]
            for task in tasks:
                await asyncio.wait({task})
                task.result()
                ended += 1
                runs[ended - 1].end()
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    finally:
        for unended in runs[ended:]:
            unended.end()


def _begin(agent: Agent, call: ToolCall, by: str = "") -> _CallRun:
    """Say that a call is dealt with."""
    prepared, problem = _prepare(agent, call)
    agent.emit(
        ToolCallStarted(
            agent=agent.id,
            call_id=call.id,
            tool=prepared.tool if prepared else call.name,
            arguments=dict(prepared.arguments) if prepared else {"raw": call.arguments[:4000]},
            title=prepared.title if prepared else "",
            turn_id=agent.turn.id,
            by=by,
            recovered=call.form if agent.model.known.calling.form is ToolCallFormat.NATIVE else "",
        )
    )
    return _CallRun(agent, call, prepared, problem, by)


def _prepare(agent: Agent, call: ToolCall) -> tuple[PreparedCall | None, str]:
    try:
        check_copied(call)
        return agent.services.toolbox.prepare(call.name, call.arguments), ""
    except ToolError as error:
        return None, error.full_text()


async def _keep_pictures(agent: Agent, result: ToolResult) -> tuple[ImageRef, ...]:
    """Keep what a tool shows next to the log, and return what to write down of it.

    Raises:
        ToolError: it cannot be kept, so nobody would see it.
    """
    if not result.images:
        return ()
    if agent.services.images is None:
        raise ToolError("pictures cannot be kept here, so it cannot be looked at")
    try:
        return tuple([await asyncio.to_thread(agent.services.images.put, image) for image in result.images])
    except SessionFileError as error:
        raise ToolError(str(error), error.hint) from error


_FEWEST = 2


async def _batch_approvals(agent: Agent, calls: Sequence[ToolCall], asked: dict[str, _CallRun]) -> None:
    """Ask about the calls that can be asked ahead, if they are two or more; `asked` takes them, by call id, as they begin."""
    open_ones: list[tuple[ToolCall, PendingCall]] = []
    try:
        for call, prepared in _independent(agent, calls):
            pending = await decided(agent, prepared)
            open_ones += [(call, pending)] if pending.decision.verdict is Verdict.ASK else []
    except SandboxError:
        return  # each call says so when its turn comes
    if len(open_ones) < _FEWEST:
        return
    for call, pending in open_ones:
        run = asked[call.id] = _begin(agent, call)
        try:
            run.pending = await ask(agent, call, pending, context_of(agent, call))
        except (ToolError, SandboxError) as error:
            run.problem = error.full_text()


def _independent(agent: Agent, calls: Sequence[ToolCall]) -> list[tuple[ToolCall, PreparedCall]]:
    found: list[tuple[ToolCall, PreparedCall]] = []
    touched: set[str] = set()
    is_after_command = False
    for call in calls:
        prepared, _ = _prepare(agent, call)
        if prepared is None:
            continue  # it says so when its turn comes
        is_command = prepared.access is Access.EXECUTE
        is_free = is_command or not (is_after_command or touched & set(prepared.subjects))
        if is_free and prepared.access is not Access.NONE:
            found.append((call, prepared))
        is_after_command = is_after_command or is_command
        touched |= set(prepared.subjects)
    return found


async def run_calls(agent: Agent, calls: Sequence[ToolCall]) -> None:
    """Run the calls of one message, whose ids differ; refuse those beyond the limit of a message."""
    most, points = agent.services.limits.max_calls_per_message, agent.services.points
    allowed, asked = calls[:most], dict[str, _CallRun]()
    is_seen = bool(points.before_call or points.after_call)
    try:
        if len(allowed) >= _FEWEST and not points.before_call and agent.services.approvals.is_attended:
            await _batch_approvals(agent, allowed, asked)
        at = 0
        while at < len(allowed) and not agent.turn.ended_by:
            unasked = [] if is_seen else list(takewhile(lambda call: call.id not in asked, allowed[at:]))
            reading = await _reading(agent, unasked) if len(unasked) >= _FEWEST else []
            if len(reading) >= _FEWEST:
                await _run_side_by_side(agent, reading)
                at += len(reading)
            else:
                call = allowed[at]
                await (asked.pop(call.id, None) or _begin(agent, call)).run_to_end()
                at += 1
    finally:
        for run in asked.values():  # their turn never came
            if run.pending is not None and run.pending.question is not None:
                run.pending.question.give(Answer(Outcome.NO), "interrupt")
            run.end()
    if agent.turn.ended_by:
        return
    text = f"Not run: at most {most} calls in one message. Call it again if you still need it."
    for call in calls[len(allowed) :]:
        run = _begin(agent, call)  # the log records what it asked for
        run.result = ToolResult(text, TOO_MANY_CALLS, ok=False)
        run.end()


async def _reading(agent: Agent, calls: Sequence[ToolCall]) -> list[tuple[ToolCall, PendingCall]]:
    """Return the leading calls that only read and need no approval, with their decisions."""
    found: list[tuple[ToolCall, PendingCall]] = []
    for call in calls:
        prepared, _ = _prepare(agent, call)
        if prepared is None or not _only_reads(prepared):
            break
        try:
            pending = await decided(agent, prepared)
        except SandboxError:
            break  # it says so when its turn comes
        if pending.decision.verdict is not Verdict.ALLOW:
            break
        found.append((call, pending))
    return found


def _only_reads(prepared: PreparedCall) -> bool:
    """Tell whether a call shows or lists files, or fetches pages: what an MCP server does is unknown."""
    if prepared.access is Access.WEB:
        return prepared.tool in ("fetch", "web_search")
    traits = traits_of(prepared.tool)
    does_read = prepared.access is Access.READ and traits.file_effect in (FileEffect.SHOWS, FileEffect.LISTS)
    return does_read and not traits.is_for_work
