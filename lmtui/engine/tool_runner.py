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
    behind_links,
    context_of,
    decide,
    decide_in_time,
    is_answered_by_typing,
    learn_sandbox,
    mask_files,
    may_try,
    sandbox_for,
)
from lmtui.engine.context_budget import truncate_result
from lmtui.engine.entries import check_copied
from lmtui.engine.file_changes import CHANGERS, record_changes, snapshot_before, to_the_end
from lmtui.engine.loop_detection import TOO_MANY_CALLS
from lmtui.engine.syntax import MOST_FILES, parse_check, unparsed, with_syntax_errors

_log = logging.getLogger(__name__)
_MOST_AT_ONCE = 4
_NOT_RUN = "Not run: "
_NEVER_RAN = ("refused", "stopped", "not run", TOO_MANY_CALLS)


@dataclass(slots=True)
class _Ending:
    """How the call will be said to have ended; it tells of an interrupt until the call itself says more."""

    result: ToolResult = field(default_factory=lambda: ToolResult("Not run: stopped before it began.", "not run", ok=False))
    decision: str = ""
    rule: str = ""
    why: str = ""
    note: str = ""
    began: float = 0.0
    elapsed_s: float = -1.0
    by: str = ""
    images: tuple[ImageRef, ...] = ()

    def refuse(self, why: str) -> None:
        """Say that the call was not allowed."""
        self.result = ToolResult(f"Refused: {why}", "refused", ok=False)


async def run_call(agent: Agent, call: ToolCall, asked: PendingCall | None = None, *, by: str = "") -> ToolResult:
    """Deal with one call and return how it ended; events tell everything else.

    `asked` is there where the call has begun and was asked about before its turn came.  `by` says whose it is, where it is
    not the model's (see `ToolCallStarted`): what the mode would only ask about is answered by the user's typing it.
    """
    prepared, problem = (asked.prepared, asked.problem) if asked else _prepare(agent, call)
    if asked is None:
        begin(agent, call, prepared, by)
    ending = _Ending(began=agent.services.monotonic(), by=by)
    try:
        if prepared is None or problem:
            ending.result = ToolResult(problem, "failed" if asked else "not understood", ok=False)
        else:
            await _run_guarded(agent, call, prepared, ending, asked)
    finally:
        _emit_end(agent, call, prepared, ending)
    return ending.result


async def run_side_by_side(agent: Agent, calls: Sequence[tuple[ToolCall, PendingCall]]) -> None:
    """Run decided read-only calls in parallel, a few at a time; they end in their order, even if stopped."""
    places = asyncio.Semaphore(_MOST_AT_ONCE)
    endings: list[tuple[ToolCall, PendingCall, _Ending]] = []

    async def run(call: ToolCall, asked: PendingCall) -> None:
        async with places:
            begin(agent, call, asked.prepared)
            endings.append((call, asked, _Ending(began=agent.services.monotonic())))
            await _run_guarded(agent, call, asked.prepared, endings[-1][2], asked)

    ended = 0
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run(call, asked)) for call, asked in calls]
            for task in tasks:
                await asyncio.wait({task})
                task.result()
                call, asked, ending = endings[ended]
                ended += 1
                _emit_end(agent, call, asked.prepared, ending)
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    finally:
        for call, asked, ending in endings[ended:]:
            _emit_end(agent, call, asked.prepared, ending)


async def _run_guarded(
    agent: Agent, call: ToolCall, prepared: PreparedCall, ending: _Ending, asked: PendingCall | None
) -> None:
    """Decide about a call and run it; a failure becomes its result."""
    try:
        await _decide_and_run(agent, call, prepared, ending, asked)
    except (ToolError, SandboxError) as error:
        ending.result = ToolResult(error.full_text(), "failed", ok=False)
    except Exception as error:  # noqa: BLE001  (border: a tool run; the model is told, the log has the trace)
        _log.exception("tool %s failed inside", call.name)
        ending.result = ToolResult(f"{call.name} failed inside lmtui: {error}", "failed inside", ok=False)


def begin(agent: Agent, call: ToolCall, prepared: PreparedCall | None, by: str = "") -> None:
    """Say that a call is dealt with."""
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


def refuse_call(agent: Agent, call: ToolCall, result: ToolResult) -> None:
    """Answer a call that is not considered; the log still records what it asked for."""
    prepared, _ = _prepare(agent, call)
    begin(agent, call, prepared)
    _emit_end(agent, call, prepared, _Ending(result, began=agent.services.monotonic()))


def _prepare(agent: Agent, call: ToolCall) -> tuple[PreparedCall | None, str]:
    try:
        check_copied(call)
        return agent.services.toolbox.prepare(call.name, call.arguments), ""
    except ToolError as error:
        return None, error.full_text()


async def _decide_and_run(
    agent: Agent, call: ToolCall, prepared: PreparedCall, ending: _Ending, asked: PendingCall | None
) -> None:
    mask_files(agent)
    prepared, reviews = await _reviewed(agent, call, prepared, ending)
    await learn_sandbox(agent, prepared)
    behind = asked.behind if asked else await behind_links(agent, prepared)
    decision = asked.decision if asked and asked.decision else await decide_in_time(agent, prepared, behind)
    ending.decision = "rule" if decision.rule else "mode"
    is_overruled = False
    for review in reviews:
        if (said := review.overrule(decision, behind)) is not decision:
            decision, ending.decision, is_overruled = said, review.by, True
    ending.rule, ending.why = decision.rule, decision.why
    if decision.verdict is Verdict.DENY:
        ending.refuse(f"{decision.why}.")
        return
    tool_context = asked.tool_context if asked and asked.tool_context else context_of(agent, call)
    is_typed = ending.by.startswith("user") and not is_overruled
    decision = replace(decision, is_read_only=False) if is_typed else decision  # a user's own command may write
    tool_context = replace(tool_context, sandbox=_place(sandbox_for(agent, decision), ending))
    if decision.verdict is Verdict.ASK and is_typed and is_answered_by_typing(agent, prepared):
        ending.decision, ending.rule, ending.why = str(Outcome.ONCE), "", "you typed it"
    elif (
        asked is None
        and not is_overruled
        and decision.is_read_only
        and may_try(agent, prepared)
        and await _try(agent, call, prepared, tool_context, ending, rule=decision.rule)
    ):
        return
    elif decision.verdict is Verdict.ASK:
        asked = asked or await ask(agent, call, prepared, tool_context=tool_context, decision=decision, behind=behind)
        answer = await _answered(asked, ending, is_attended=agent.services.approvals.is_attended)
        if answer is not None and answer.outcome is Outcome.TRY:
            if not await _try(agent, call, prepared, tool_context, ending):
                ending.result = ToolResult("Not run: it cannot be tried here.", "not run", ok=False)
            return
        if answer is None or (allowed := await _as_answered(agent, call, asked, answer, ending)) is None:
            return
        prepared, tool_context = allowed, _allowed_context(agent, allowed, behind, tool_context, answer)
    await _run(agent, call, prepared, tool_context, ending, is_reading=decision.is_read_only)
    if decision.is_read_only and not agent.state.only_reads and trial.was_held_back(ending.result):
        await _run_writing(agent, call, prepared, tool_context, ending)


async def _try(
    agent: Agent, call: ToolCall, prepared: PreparedCall, tool_context: ToolContext, ending: _Ending, *, rule: str = ""
) -> bool:
    """Run a command in an overlay, then keep what it did if rules allow it or the user says so; False without overlays.

    `rule` is the one that covers the command, if one does: only another that denies keeps anything of its effect back.
    """
    overlay = agent.services.sandbox.overlay()
    inside = replace(tool_context, sandbox=_place(overlay.sandbox, ending))
    try:
        try:
            async with trial.growing_effect(agent, call.id, overlay):
                await _run(agent, call, prepared, inside, ending, is_reading=True, looks_back=False)
            whole = await overlay.effect()
            effect, notes = await overlay.keep_outputs(whole, agent.all_rules())
        except SandboxUnavailable as error:
            agent.update_sandbox(has_overlays=False)
            agent.notify(trial.NO_OVERLAYS.format(why=error.full_text()))
            return False
        except SandboxError as error:
            why = trial.UNSEEN.format(why=error.full_text().rstrip("."))
            await _run_writing(agent, call, prepared, tool_context, ending, why=why)
            return True
        ending.result = replace(ending.result, text="\n".join((ending.result.text, *notes)))
        kept = trial.KeptEffect(prepared, overlay, effect, ending.result, ending.elapsed_s, agent.all_rules)
        nothing = "it changed nothing" if effect is whole else "it changed only outputs that git ignores"
        if (allowed := await _keeping(agent, call, kept, tool_context, ending, rule=rule, nothing=nothing)) is not None:
            await _run(agent, call, kept, allowed, ending)
        else:
            ending.result = await _looked_back(agent, call, prepared, ending.result)
        return True
    finally:
        await overlay.close()


def _place(sandbox: Sandbox, ending: _Ending) -> Sandbox:
    """Return where a call runs: a check in a new home, so that nothing which an earlier command left there decides it."""
    return sandbox.fresh() if ending.by == "check" else sandbox


async def _keeping(
    agent: Agent, call: ToolCall, kept: trial.KeptEffect, tool_context: ToolContext, ending: _Ending, *, rule: str, nothing: str
) -> ToolContext | None:
    """Return with what an effect is kept; None where it is not, which `ending` says then; `nothing` is for an empty one."""
    effect, first = kept.effect, kept.result
    ending.decision, ending.rule, ending.why = "mode", "", nothing
    if not effect.can_keep:
        ending.result = first if effect.is_empty else trial.dropped(first, effect, "it cannot be kept")
        return None
    decision = trial.decide_effect(agent, effect)
    is_covered = decision.verdict is Verdict.ASK and bool(rule)
    ending.rule, ending.why = (rule, "a rule covers the command") if is_covered else (decision.rule, decision.why)
    ending.decision = "rule" if ending.rule else "mode"
    if decision.verdict is Verdict.ASK and not is_covered:
        ending.result = trial.dropped(first, effect, "stopped before the user answered")
        asked = await ask(agent, call, kept, tool_context=tool_context, decision=decision)
        answer = await _answered(asked, ending, is_attended=agent.services.approvals.is_attended)
        if answer is None:
            ending.result = trial.dropped(first, effect, ending.result.text.removeprefix(_NOT_RUN).rstrip("."))
            return None
        tool_context = replace(tool_context, hunks=answer.hunks)
        decision = trial.decide_effect(agent, effect)  # the mode may be another by now
    if decision.verdict is Verdict.DENY:
        ending.why, ending.result = decision.why, trial.dropped(first, effect, decision.why)
        return None
    return tool_context


async def _run_writing(
    agent: Agent,
    call: ToolCall,
    prepared: PreparedCall,
    tool_context: ToolContext,
    ending: _Ending,
    *,
    why: str = trial.HELD_BACK,
) -> None:
    """Ask about a command that ran where its changes are not real; run it again after a yes."""
    first = ending.result
    is_attended = agent.services.approvals.is_attended
    decision = Decision(Verdict.ASK, why, uncovered=prepared.subjects, takes_no_rule=is_attended)
    tool_context = replace(tool_context, sandbox=agent.effective_sandbox)
    asked = await ask(agent, call, prepared, tool_context=tool_context, decision=decision)
    answer = await _answered(asked, ending, is_attended=is_attended)
    ending.why = decision.why
    if answer is None:
        text = f"{first.text}\n[{why[:1].upper()}{why[1:]}, so it needs approval. {ending.result.text}]"
        ending.result = replace(first, text=text, summary=ending.result.summary)
    elif (allowed := await _as_answered(agent, call, asked, answer, ending)) is not None:
        await _run(agent, call, allowed, _allowed_context(agent, allowed, (), tool_context, answer), ending)


def _allowed_context(
    agent: Agent, prepared: PreparedCall, behind: tuple[str, ...], tool_context: ToolContext, answer: Answer
) -> ToolContext:
    """Return the context of a call after a yes; the mode may have changed."""
    decision = replace(decide(agent, prepared, behind), is_read_only=False)
    return replace(tool_context, hunks=answer.hunks, sandbox=sandbox_for(agent, decision))


async def _as_answered(
    agent: Agent, call: ToolCall, asked: PendingCall, answer: Answer, ending: _Ending
) -> PreparedCall | None:
    """Return the call as the user's yes left it; None where what holds by now is against it."""
    prepared = asked.prepared
    if answer.edited and prepared.tool == "shell" and answer.edited != escape_invisible(prepared.subjects[0]):
        edited = json.dumps({**prepared.arguments, "command": answer.edited})
        prepared = agent.services.toolbox.prepare(prepared.tool, edited)
        ending.note = f"[the user changed the command to: {answer.edited}]\n"
        prepared, reviews = await _reviewed(agent, call, prepared, ending)
        if refusal := next(filter(None, (review.refusal for review in reviews)), ""):
            ending.refuse(f"{refusal}.")
            return None
    again = decide(agent, prepared, asked.behind)
    if again.verdict is Verdict.DENY:  # the mode was changed while the question was open
        ending.refuse(f"{again.why}.")
        return None
    return prepared


async def _reviewed(
    agent: Agent, call: ToolCall, prepared: PreparedCall, ending: _Ending
) -> tuple[PreparedCall, list[CallReview]]:
    """Return the call as features leave it, and what they say of it."""
    reviews: list[CallReview] = []
    for each in agent.services.points.before_call:
        reviews.append(await each(agent, call, prepared))
        prepared = reviews[-1].prepared
        ending.note += reviews[-1].note
    return prepared, reviews


async def _looked_back(agent: Agent, call: ToolCall, prepared: PreparedCall, result: ToolResult) -> ToolResult:
    """Return the result of a call with what features say of it."""
    for each in agent.services.points.after_call:
        result = await each(agent, call, prepared, result)
    return result


async def _run(
    agent: Agent,
    call: ToolCall,
    prepared: PreparedCall,
    tool_context: ToolContext,
    ending: _Ending,
    *,
    is_reading: bool = False,
    looks_back: bool = True,
) -> None:
    """Run an allowed call; while it may change files, other agents that want to change files wait.

    `is_reading`: the sandbox prevents all changes, so no checkpoint is needed.  `looks_back`: features see what it did.
    """
    access = Access.READ if is_reading else prepared.access
    async with agent.services.writing if access in CHANGERS and not agent.state.only_reads else contextlib.nullcontext():
        await _run_watched(agent, call, prepared, tool_context, ending, access=access, looks_back=looks_back)


async def _run_watched(
    agent: Agent,
    call: ToolCall,
    prepared: PreparedCall,
    tool_context: ToolContext,
    ending: _Ending,
    *,
    access: Access,
    looks_back: bool,
) -> None:
    """Run a call between two looks at the workspace, so that what it changed is known, also where it was stopped."""
    before = await snapshot_before(agent, call.id, access)
    changed: tuple[str, ...] = ()
    ending.result = ToolResult("Stopped by the user; its effect may be partial.", "stopped", ok=False)
    ending.began = agent.services.monotonic()  # the time is the tool's own, not what the user took to answer
    try:
        result = await prepared.run(tool_context)
        if looks_back:  # what a feature changes (a formatter) is the call's
            ending.elapsed_s = agent.services.monotonic() - ending.began
            ran = prepared.command if isinstance(prepared, trial.KeptEffect) else prepared
            result = await _looked_back(agent, call, ran, result)
        ending.images = await _keep_pictures(agent, result)
        ending.result = replace(result, text=ending.note + result.text) if ending.note else result
    finally:
        if ending.elapsed_s < 0:
            ending.elapsed_s = agent.services.monotonic() - ending.began
        if isinstance(tool_context.gate, CommandNetworkApproval):
            tool_context.gate.close()
        if access in CHANGERS:  # what was done in an overlay is not real
            changed = await to_the_end(record_changes(agent, call.id, before, ending.result))
    await _parse(agent, ending, changed)


async def _parse(agent: Agent, ending: _Ending, changed: tuple[str, ...]) -> None:
    """Parse the files that a call changed, with those that did not parse before; the model is told at once."""
    if not 0 < len(changed) <= MOST_FILES:
        return
    red = agent.state.verification.red
    is_red = red is not None and red.rung is Rung.PARSE
    found = await unparsed(agent.services.sandbox, agent.state.verification.touched if is_red else changed)
    if found or is_red:
        agent.emit(replace(parse_check(found), agent=agent.id, turn_id=agent.turn.id))
    ending.result = with_syntax_errors(ending.result, {path: why for path, why in found.items() if path in changed})


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


async def _answered(asked: PendingCall, ending: _Ending, *, is_attended: bool) -> Answer | None:
    """Wait for the answer; on a no, say so in `ending` and return nothing."""
    assert asked.question is not None
    answer = await asked.question.answer()
    ending.decision = str(answer.outcome)
    if answer.outcome is not Outcome.NO:
        return answer
    words = f' They say: "{answer.feedback}"' if answer.feedback else ""
    text = f"{_NOT_RUN}the user refused it.{words}" if is_attended else f"{_NOT_RUN}{answer.feedback}."
    ending.result = ToolResult(text, "refused", ok=False)
    return None


def _emit_end(agent: Agent, call: ToolCall, prepared: PreparedCall | None, ending: _Ending) -> None:
    result, images, tool = ending.result, ending.images, prepared.tool if prepared else call.name
    result = replace(result, text=truncate_result(tool, result.text, agent.result_limit_chars()))
    if not ending.by and result.summary not in _NEVER_RAN:
        given = prepared.arguments if prepared else {"raw": call.arguments[:4000]}
        told = agent.loops.answer(call.id, tool, given, result.text, ok=result.ok)
        images = images if told == result.text else ()  # what it has already is not sent again
        result = replace(result, text=told)
    agent.emit(
        ToolCallFinished(
            agent=agent.id,
            call_id=call.id,
            tool=tool,
            ok=result.ok,
            result=result.text,
            elapsed_ms=round((ending.elapsed_s if ending.elapsed_s >= 0 else agent.services.monotonic() - ending.began) * 1000),
            summary=result.summary,
            decision=ending.decision,
            rule=ending.rule,
            why=ending.why,
            images=images,
        )
    )


_FEWEST = 2


async def batch_approvals(agent: Agent, calls: Sequence[ToolCall], asked: dict[str, PendingCall]) -> None:
    """Ask about the calls that can be asked ahead, if they are two or more; `asked` takes them, by call id, as they begin."""
    if agent.services.points.before_call or not agent.services.approvals.is_attended:
        return
    if len({call.id for call in calls}) != len(calls) or len(calls) < _FEWEST:
        return
    candidates = [(call, prepared) for call, prepared in _independent(agent, calls) if prepared.access is not Access.NONE]
    try:
        if candidates:
            await learn_sandbox(agent, *(prepared for _, prepared in candidates))
        placed = [(call, each, await behind_links(agent, each)) for call, each in candidates]
    except SandboxError:
        return  # each call says so when its turn comes
    decided = [(item, await decide_in_time(agent, item[1], item[2])) for item in placed]
    open_ones = [item for item, decision in decided if decision.verdict is Verdict.ASK]
    if len(open_ones) < _FEWEST:
        return
    for call, prepared, behind in open_ones:
        begin(agent, call, prepared)
        asked[call.id] = PendingCall(prepared, problem="stopped before it was asked about")
        try:
            asked[call.id] = await ask(agent, call, prepared, behind=behind)
        except (ToolError, SandboxError) as error:
            asked[call.id] = PendingCall(prepared, problem=error.full_text())


def _independent(agent: Agent, calls: Sequence[ToolCall]) -> list[tuple[ToolCall, PreparedCall]]:
    found: list[tuple[ToolCall, PreparedCall]] = []
    touched: set[str] = set()
    is_after_command = False
    for call in calls:
        prepared, _ = _prepare(agent, call)
        if prepared is None:
            continue  # it says so when its turn comes
        is_command = prepared.access is Access.EXECUTE
        if is_command or not (is_after_command or touched & set(prepared.subjects)):
            found.append((call, prepared))
        is_after_command = is_after_command or is_command
        touched |= set(prepared.subjects)
    return found


async def run_calls(agent: Agent, calls: Sequence[ToolCall]) -> None:
    """Run the calls of one message; refuse those beyond the limit of a message."""
    allowed = calls[: agent.services.limits.max_calls_per_message]
    asked: dict[str, PendingCall] = {}
    try:
        await batch_approvals(agent, allowed, asked)
        at = 0
        while at < len(allowed) and not agent.turn.ended_by:
            reading = await _reading(agent, list(takewhile(lambda call: call.id not in asked, allowed[at:])))
            if len(reading) >= _FEWEST:
                await run_side_by_side(agent, reading)
                at += len(reading)
            else:
                await run_call(agent, allowed[at], asked.pop(allowed[at].id, None))
                at += 1
    finally:
        for call in allowed:
            if (unrun := asked.get(call.id)) is not None:  # its turn never came
                if unrun.question is not None:
                    unrun.question.give(Answer(Outcome.NO), "interrupt")
                _emit_end(agent, call, unrun.prepared, _Ending(began=agent.services.monotonic()))
    if agent.turn.ended_by:
        return
    most = agent.services.limits.max_calls_per_message
    text = f"Not run: at most {most} calls in one message. Call it again if you still need it."
    for call in calls[len(allowed) :]:
        refuse_call(agent, call, ToolResult(text, TOO_MANY_CALLS, ok=False))


async def _reading(agent: Agent, calls: Sequence[ToolCall]) -> list[tuple[ToolCall, PendingCall]]:
    """Return the leading calls that only read and need no approval, with their decisions."""
    found: list[tuple[ToolCall, PendingCall]] = []
    points = agent.services.points
    if points.before_call or points.after_call or len(calls) < _FEWEST or len({call.id for call in calls}) != len(calls):
        return found
    for call in calls:
        asked = await _as_reading(agent, call)
        if asked is None:
            break
        found.append((call, asked))
    return found


async def _as_reading(agent: Agent, call: ToolCall) -> PendingCall | None:
    """Return the decision about a call that only reads and needs no approval, else None."""
    prepared, _ = _prepare(agent, call)
    if prepared is None or not _may_only_read(prepared):
        return None
    try:
        await learn_sandbox(agent, prepared)
        behind = await behind_links(agent, prepared)
    except SandboxError:
        return None  # it says so when its turn comes
    decision = await decide_in_time(agent, prepared, behind)
    return PendingCall(prepared, decision, behind=behind) if decision.verdict is Verdict.ALLOW else None


def _may_only_read(prepared: PreparedCall) -> bool:
    """Tell whether a call only reads files or a page.  Tools of MCP servers are unknown, and so are commands."""
    traits = traits_of(prepared.tool)
    match prepared.access:
        case Access.READ:
            return traits.file_effect in (FileEffect.SHOWS, FileEffect.LISTS) and not traits.is_for_work
        case Access.WEB:
            return prepared.tool in ("fetch", "web_search")
        case _:
            return False
