"""One tool call from the model's words to the result: check, decide, ask, run, trim.  Whatever happens, it ends once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from lmtui.core.children import Report
from lmtui.core.clean import reveal
from lmtui.core.errors import SandboxError, SessionFileError, ToolError
from lmtui.core.events import ROOT, Outcome, PlanChanged, ToolCallFinished, ToolCallStarted, ToolOutputDelta
from lmtui.core.hooks import HookEvent
from lmtui.core.messages import CallForm, ToolCall
from lmtui.core.permissions import Access, Decision, Mode, Verdict, decide_all, strictest
from lmtui.core.pictures import ImageRef
from lmtui.core.plan import Plan
from lmtui.core.ports import PreparedCall, ToolContext, ToolResult, no_wait
from lmtui.core.sessions import Answer
from lmtui.engine.approvals import Question
from lmtui.engine.cutting import cut
from lmtui.engine.desk import Desk
from lmtui.engine.hooking import Screened, look_back, overruled, screen
from lmtui.engine.hosts import CommandGate
from lmtui.engine.old_calls import check_copied
from lmtui.engine.planning import propose_plan
from lmtui.engine.questions import question
from lmtui.engine.skills import used_event
from lmtui.engine.watching import CHANGERS, keep_state, tell_changes, to_the_end

_log = logging.getLogger(__name__)
_MAX_PATHS = 100
_HOOK = "hook"
_NEVER_RAN = ("refused", "stopped", "not run")


@dataclass(slots=True)
class _Ending:
    """How the call will be said to have ended; it tells of an interrupt until the call itself says more."""

    result: ToolResult = field(default_factory=lambda: ToolResult("Not run: stopped before it began.", "not run", ok=False))
    files: dict[str, None] = field(default_factory=dict)
    decision: str = ""
    rule: str = ""
    why: str = ""
    note: str = ""
    began: float = 0.0
    elapsed_s: float = -1.0
    is_users: bool = False
    is_typed: bool = False
    images: tuple[ImageRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """A call whose question is open; `problem` says why it could not be asked (the call cannot succeed)."""

    prepared: PreparedCall
    decision: Decision | None = None
    context: ToolContext | None = None
    question: Question | None = None
    problem: str = ""
    behind: tuple[str, ...] = ()


async def run_call(
    desk: Desk, call: ToolCall, turn_id: str, files: dict[str, None], asked: Asked | None = None, *, by: str = ""
) -> ToolResult:
    """Deal with one call and return how it ended; `files` takes the files that it changed, events tell everything else.

    `asked` is there where the call has begun and was asked about before its turn came.  `by` says whose it is, where it is
    not the model's (see `ToolCallStarted`): what the mode would only ask about is answered by the user's typing it.
    """
    prepared, problem = (asked.prepared, asked.problem) if asked else _prepare(desk, call)
    if asked is None:
        begin(desk, call, prepared, turn_id, by)
    ending = _Ending(files=files, began=desk.monotonic(), is_users=bool(by), is_typed=by.startswith("user"))
    try:
        if prepared is None or problem:
            ending.result = ToolResult(problem, "failed" if asked else "not understood", ok=False)
        else:
            await _decide_and_run(desk, call, prepared, ending, asked)
    except (ToolError, SandboxError) as error:
        ending.result = ToolResult(error.full_text(), "failed", ok=False)
    except Exception as error:  # noqa: BLE001  (border: a tool run; the model is told, the log has the trace)
        _log.exception("tool %s failed inside", call.name)
        ending.result = ToolResult(f"{call.name} failed inside lmtui: {error}", "failed inside", ok=False)
    finally:
        _emit_end(desk, call, prepared, ending)
    return ending.result


def begin(desk: Desk, call: ToolCall, prepared: PreparedCall | None, turn_id: str, by: str = "") -> None:
    """Say that a call is dealt with."""
    desk.emit(
        ToolCallStarted(
            agent=desk.agent,
            call_id=call.id,
            tool=prepared.tool if prepared else call.name,
            arguments=dict(prepared.arguments) if prepared else {"raw": call.arguments[:4000]},
            title=prepared.title if prepared else "",
            turn_id=turn_id,
            by=by,
            recovered=call.form if desk.model.calling.form is CallForm.NATIVE else "",
        )
    )


def end_unrun(desk: Desk, call: ToolCall, asked: Asked) -> None:
    """End a call that was asked about and whose turn never came."""
    if asked.question is not None:
        asked.question.give(Answer(Outcome.NO), "interrupt")
    _emit_end(desk, call, asked.prepared, _Ending(began=desk.monotonic()))


def _prepare(desk: Desk, call: ToolCall) -> tuple[PreparedCall | None, str]:
    try:
        check_copied(call)
        return desk.toolbox.prepare(call.name, call.arguments), ""
    except ToolError as error:
        return None, error.full_text()


async def _decide_and_run(desk: Desk, call: ToolCall, prepared: PreparedCall, ending: _Ending, asked: Asked | None) -> None:
    screened = await _screened(desk, call, prepared, ending)
    prepared = screened.prepared if screened else prepared
    if prepared.access is Access.EXECUTE:
        await learn_sandbox(desk)
    behind = asked.behind if asked else await behind_links(desk, prepared)
    decision = asked.decision if asked and asked.decision else decide(desk, prepared, behind)
    ending.decision = "rule" if decision.rule else "mode"
    if screened is not None and (said := overruled(desk, screened, decision, behind)) is not decision:
        decision, ending.decision = said, _HOOK
    ending.rule, ending.why = decision.rule, decision.why
    if decision.verdict is Verdict.DENY:
        ending.result = ToolResult(f"Refused: {decision.why}.", "refused", ok=False)
        return
    context = asked.context if asked and asked.context else _context(desk, call)
    is_typed = ending.is_typed and ending.decision != _HOOK
    if decision.verdict is Verdict.ASK and is_typed and _is_answered_by_typing(desk, prepared):
        ending.decision, ending.rule, ending.why = str(Outcome.ONCE), "", "you typed it"
    elif decision.verdict is Verdict.ASK:
        asked = asked or await ask(desk, call, prepared, context=context, decision=decision, behind=behind)
        answer = await _answered(asked, ending, is_attended=desk.approvals.is_attended)
        if answer is None:
            return
        if answer.edited and prepared.tool == "shell" and answer.edited != reveal(prepared.subjects[0]):
            prepared = _edited(desk, prepared, answer.edited)
            ending.note = f"[the user changed the command to: {answer.edited}]\n"
            screened = await _screened(desk, call, prepared, ending)
            if screened is not None and screened.verdict.blocks:
                ending.result = ToolResult(f"Refused: a hook said no: {screened.verdict.reason}", "refused", ok=False)
                return
        context = replace(context, hunks=answer.hunks, sandbox=desk.reach)  # the mode may be another by now
        again = decide(desk, prepared, behind)
        if again.verdict is Verdict.DENY:  # the mode was changed while the question was open
            ending.result = ToolResult(f"Refused: {again.why}.", "refused", ok=False)
            return
    await _run(desk, call, prepared, context, ending)


async def _screened(desk: Desk, call: ToolCall, prepared: PreparedCall, ending: _Ending) -> Screened | None:
    """Let hooks look at a call, where there are any for it."""
    if not desk.hooking.wants(HookEvent.PRE_TOOL_USE):
        return None
    screened = await screen(desk, call, prepared)
    ending.note += screened.note
    return screened


async def learn_sandbox(desk: Desk) -> None:
    """Start the sandbox where it is not known yet: how much is asked depends on what confines commands."""
    if not desk.sandbox_name:
        status = await desk.sandbox.status()
        desk.sandbox_text, desk.asks_each_command = status.text, status.asks_each_command
    if desk.only_reads:
        desk.is_read_only = (await desk.reach.status()).is_read_only


async def behind_links(desk: Desk, prepared: PreparedCall) -> tuple[str, ...]:
    """Return the real paths of a call about files where they are others than its own: rules hold for both."""
    if prepared.access not in (Access.READ, Access.WRITE) or not 0 < len(prepared.subjects) <= _MAX_PATHS:
        return ()
    real = await desk.sandbox.real_paths(prepared.subjects)
    return tuple(path for path in real if path not in prepared.subjects)


def decide(desk: Desk, prepared: PreparedCall, behind: tuple[str, ...] = ()) -> Decision:
    """Return what the permission function says of a call now; `behind` are the real paths behind links."""
    modes = (desk.mode, Mode.PLAN) if desk.is_narrow else (desk.mode,)
    return strictest(
        [
            decide_all(
                prepared.tool,
                prepared.access,
                (*prepared.subjects, *behind),
                mode,
                desk.all_rules(),
                asks_each_command=desk.asks_each_command,
                is_read_only=desk.is_read_only,
                scopes=desk.scopes.scopes,
            )
            for mode in modes
        ]
    )


def _is_answered_by_typing(desk: Desk, prepared: PreparedCall) -> bool:
    """Tell whether only the mode or a reduced sandbox asks: a rule that asks, doubt and secrets ask the user too."""
    mode = desk.mode if desk.mode is Mode.PLAN else Mode.AUTO
    decision = decide_all(
        prepared.tool, prepared.access, prepared.subjects, mode, desk.all_rules(), is_read_only=desk.is_read_only
    )
    return decision.verdict is Verdict.ALLOW


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
    context, decision = context or _context(desk, call), decision or decide(desk, prepared, behind)
    request = await question(desk, call.id, prepared, context, decision)
    is_hooks = (
        decide(desk, prepared, behind).verdict is Verdict.ALLOW
    )  # a rule that is granted meanwhile does not answer a hook
    opened = desk.approvals.open(request, lambda: not is_hooks and decide(desk, prepared, behind).verdict is Verdict.ALLOW)
    return Asked(prepared, decision, context, opened, behind=behind)


def _edited(desk: Desk, prepared: PreparedCall, command: str) -> PreparedCall:
    """Return the call with the command that the user put in place of the model's."""
    arguments = {**prepared.arguments, "command": command}
    return desk.toolbox.prepare(prepared.tool, json.dumps(arguments))


async def _run(desk: Desk, call: ToolCall, prepared: PreparedCall, context: ToolContext, ending: _Ending) -> None:
    """Run an allowed call; while one may change files, other agents that would change some wait."""
    may_change = prepared.access in CHANGERS and not desk.only_reads
    async with desk.writing if may_change else contextlib.nullcontext():
        await _run_watched(desk, call, prepared, context, ending)


async def _run_watched(desk: Desk, call: ToolCall, prepared: PreparedCall, context: ToolContext, ending: _Ending) -> None:
    """Run a call between two looks at the workspace, so that what it changed is known, also where it was stopped."""
    before = await keep_state(desk, call.id, prepared.access)
    ending.result = ToolResult("Stopped by the user; its effect may be partial.", "stopped", ok=False)
    ending.began = desk.monotonic()  # the time is the tool's own, not what the user took to answer
    try:
        result = await prepared.run(context)
        if desk.hooking.wants(HookEvent.POST_TOOL_USE):  # before the second look: what they change (a formatter) is the call's
            ending.elapsed_s = desk.monotonic() - ending.began
            result = await look_back(desk, call, prepared, result)
        ending.images = await _keep_pictures(desk, result)
        ending.result = replace(result, text=ending.note + result.text) if ending.note else result
    finally:
        if ending.elapsed_s < 0:
            ending.elapsed_s = desk.monotonic() - ending.began
        if isinstance(context.gate, CommandGate):
            context.gate.close()
        await to_the_end(tell_changes(desk, call.id, before, ending.result, ending.files))


async def _keep_pictures(desk: Desk, result: ToolResult) -> tuple[ImageRef, ...]:
    """Keep what a tool shows beside the log, and return what to write down of it.

    Raises:
        ToolError: it cannot be kept, so nobody would see it.
    """
    if not result.images:
        return ()
    if desk.images is None:
        raise ToolError("pictures cannot be kept here, so it cannot be looked at")
    try:
        return tuple([await asyncio.to_thread(desk.images.put, image) for image in result.images])
    except SessionFileError as error:
        raise ToolError(str(error), error.hint) from error


async def _answered(asked: Asked, ending: _Ending, *, is_attended: bool) -> Answer | None:
    """Wait for the answer; on a no, say so in `ending` and return nothing."""
    assert asked.question is not None
    answer = await asked.question.answer()
    ending.decision = str(answer.outcome)
    if answer.outcome is not Outcome.NO:
        return answer
    words = f' They say: "{answer.feedback}"' if answer.feedback else ""
    text = f"Not run: the user refused it.{words}" if is_attended else f"Not run: {answer.feedback}."
    ending.result = ToolResult(text, "refused", ok=False)
    return None


def _context(desk: Desk, call: ToolCall) -> ToolContext:
    def set_plan(plan: Plan) -> None:
        desk.emit(PlanChanged(agent=desk.agent, plan=plan))

    def on_output(text: str) -> None:
        desk.emit(ToolOutputDelta(agent=desk.agent, call_id=call.id, text=text))

    def on_reading(path: str) -> Verdict:
        return decide_all("read", Access.READ, (path,), desk.mode, desk.all_rules()).verdict

    def report(given: Report) -> None:
        desk.report = given

    def wait(until: datetime, why: str) -> None:
        desk.waits.want(until, why, desk.now())

    return ToolContext(
        desk.reach,
        desk.plan,
        set_plan,
        on_output,
        desk.now,
        CommandGate(desk, call.id),
        on_reading=on_reading,
        sees=desk.can_show,
        knows=partial(_knows, desk),
        children=desk.children,
        report=report if desk.depth else None,
        propose=lambda proposal: propose_plan(desk, proposal, desk.turn_id),
        wait=wait if desk.agent == ROOT else no_wait,
        step_work=desk.step.work,
        interpreter=desk.interpreter,
        web=desk.web,
        skills=desk.skills,
        use_skill=lambda used: desk.emit(used_event(used, desk.agent)),
    )


def _knows(desk: Desk, path: str) -> bool:
    """Tell whether a file may be replaced whole: a model that calls in its text has to have met it in this conversation."""
    return desk.model.calling.form is CallForm.NATIVE or desk.conversation.has_met(path)


def _emit_end(desk: Desk, call: ToolCall, prepared: PreparedCall | None, ending: _Ending) -> None:
    result, images, tool = ending.result, ending.images, prepared.tool if prepared else call.name
    result = replace(result, text=cut(tool, result.text, desk.result_limit_chars()))
    if not ending.is_users and result.summary not in _NEVER_RAN:
        given = prepared.arguments if prepared else {"raw": call.arguments[:4000]}
        told = desk.loops.answer(call.id, tool, given, result.text, ok=result.ok)
        images = images if told == result.text else ()  # what it has already is not sent again
        result = replace(result, text=told)
    desk.emit(
        ToolCallFinished(
            agent=desk.agent,
            call_id=call.id,
            tool=tool,
            ok=result.ok,
            result=result.text,
            elapsed_ms=round((ending.elapsed_s if ending.elapsed_s >= 0 else desk.monotonic() - ending.began) * 1000),
            summary=result.summary,
            decision=ending.decision,
            rule=ending.rule,
            why=ending.why,
            images=images,
        )
    )
