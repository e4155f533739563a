"""The hooks of a session: read when it is opened, called together, each in its place.

What a folder brings runs only where the user said yes to it as it is, and in the sandbox; the user's own run on this machine.
A hook makes things stricter, or answers what the mode alone would ask; it never lets through what somebody else forbids.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from lmtui.command_line import FAILURE, OK, TRUST_HINT, WARNING, CheckRow
from lmtui.core.agent_events import PlanProposed
from lmtui.core.errors import SandboxError, UsageError
from lmtui.core.events import ApprovalRequested, Envelope, Event, Level, MessageAdded, Notice
from lmtui.core.messages import ToolCall
from lmtui.core.model_events import Reminder
from lmtui.core.offers import Offers
from lmtui.core.permissions.decide import decide_all
from lmtui.core.permissions.rules import Decision, Effect, Mode, Verdict
from lmtui.core.ports import PreparedCall, ToolResult
from lmtui.core.programs import Launch, Served
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.trust import TrustItem
from lmtui.engine.agent import Agent, CallReview, PromptHeld, TurnPoints
from lmtui.engine.call_permissions import wants_network
from lmtui.engine.session import EngineSession
from lmtui.features.folder_consent import FolderConsent
from lmtui.features.hooks.hook_answers import together
from lmtui.features.hooks.hook_config import (
    HookEntry,
    HookEnvironment,
    matched_names,
    meets,
    odd_matchers,
    our_input,
    payload,
    read_hooks,
)
from lmtui.features.hooks.values import HookCall, HookEvent, HookVerdict
from lmtui.features.host_program import FLOODS, MAX_ERROR_BYTES, KeptOutput, ProgramRun, run_on_host, since
from lmtui.features.service import FeatureHost, SessionServices, WorkspaceFeature
from lmtui.paths import sessions_dir
from lmtui.sandbox.instance_programs import InstanceLauncher
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.tools.registry import ToolRegistry

_PASSED_ON = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "DISPLAY", "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "XAUTHORITY", "COLORTERM", "VIRTUAL_ENV",
})  # fmt: skip
_PROGRAM = re.compile(r"/?[\w.+/-]+")
_ENDED = b"lmtui: it ended"  # what an instance says behind the program's own words
# `head` ends at the last byte of the input, so that the hook meets its end; the last line says how the hook ended
_IN_INSTANCE = 'told=$1 mark=$2; shift 2; head -c "$told" | CLAUDE_PROJECT_DIR="$PWD" "$@"; printf "\\n%s%d" "$mark" "$?"'
_SHELL = ("/bin/sh", "-c", 'command -v bash >/dev/null && exec bash -c "$1"; exec /bin/sh -c "$1"', "hook")


def host_environment(environ: Mapping[str, str], workspace: Path) -> dict[str, str]:
    """Return what a local program gets of lmtui's environment: nothing that could hold a key."""
    kept = {name: value for name, value in environ.items() if name in _PASSED_ON or name.startswith("LC_")}
    # the shell says in English what it does not find, whatever the language: see `hooks_answer`
    return {**kept, "LANGUAGE": "en", "TERM": "dumb", "CLAUDE_PROJECT_DIR": str(workspace), "LMTUI_WORKSPACE": str(workspace)}


async def run_in_instance(
    program: str | tuple[str, ...], told: bytes, launcher: InstanceLauncher, *, can_write: bool, limit_s: float
) -> ProgramRun:
    """Run a hook of a folder's in the sandbox: a text for the shell, or the words of a program.

    Cancelled, it has ended it before it returns.
    """
    began, mark = time.monotonic(), secrets.token_hex(12)
    arguments = ("/bin/sh", "-c", _IN_INSTANCE, "hook", str(len(told)), mark, *words_of(program))
    allowed = program_of(program if isinstance(program, str) else program[0])
    out, err = KeptOutput(), KeptOutput(MAX_ERROR_BYTES)
    tail, problem = b"", ""
    try:
        async with contextlib.AsyncExitStack() as parts, asyncio.timeout(limit_s):
            served = await launcher.open(Launch(arguments, can_write=can_write, program=allowed), err.take)
            parts.push_async_callback(served.close)
            feeding = asyncio.ensure_future(_feed(served, told))
            parts.callback(feeding.cancel)
            while not out.is_flooding and (piece := await served.read()):
                out.take(piece)
                tail = (tail + piece)[-200:]
    except TimeoutError:
        problem = f"did not end within {limit_s:g} s"
    except SandboxError as error:
        problem = f"could not be run: {error}"
    _, _, code = tail.rpartition(mark.encode())
    if out.is_flooding:
        problem = FLOODS
    elif not problem and (mark.encode() not in tail or not code.isdigit()):
        problem = "was killed"
    said, found, _ = bytes(out.data).rpartition(b"\n" + mark.encode())
    return ProgramRun(
        -1 if problem else int(code),
        said if found else bytes(out.data),
        bytes(err.data).partition(_ENDED)[0],
        problem,
        since(began),
        is_cut=out.is_cut,
    )


async def _feed(served: Served, told: bytes) -> None:
    with contextlib.suppress(SandboxError):
        await served.write(told)


def program_of(command: str) -> str:
    """Return the program that a command begins with, as far as that is plain; empty for what only a shell knows."""
    word = next(iter(command.split()), "")
    return word if _PROGRAM.fullmatch(word) else ""


def words_of(program: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a program; a text is for the shell."""
    return (*_SHELL, program) if isinstance(program, str) else program


_UNSAFE = "{whose} hooks before tool calls cannot be read, so each call is asked about until {file} is fixed"


def hooks_trust(workspace: Path) -> FolderConsent:
    """Return what a folder's hooks wait for."""

    def brought() -> list[TrustItem]:
        files = read_hooks(workspace)
        return [TrustItem("hook", each.source, each.words, files.digest) for each in files.folders]

    return FolderConsent(workspace, "hooks", brought)


def session_hooks(
    workspace: Path, around: HookEnvironment, place: Callable[[], Awaitable[tuple[InstanceLauncher | None, str]]]
) -> HookPoints:
    """Return the hooks of one session; what the files say now holds for all of it.

    Args:
        workspace: the folder.
        around: the session and its log.
        place: returns where a folder's hooks run: what starts them (None: nothing can), and the workspace's path there.
    """
    environment, files = host_environment(os.environ, workspace), read_hooks(workspace)
    is_trusted = hooks_trust(workspace).holds(files.digest)
    entries = [entry for entry in files.entries if entry.is_own or is_trusted]
    wanted = {entry.event for entry in entries}
    problems = [*files.problems, *odd_matchers(entries, ToolRegistry().names())]
    if files.folders and not is_trusted:
        names = ", ".join(dict.fromkeys(entry.source for entry in files.folders))
        why = f"{pluralize(len(files.folders), 'hook')} of this folder ({names}) left out: not trusted as they are now."
        problems.append(f"{why}  `/trust` or `lmtui trust` asks.")
    unsafe = ""
    if unread := next((entry for entry in files.unread if entry.is_own or is_trusted), None):
        unsafe = _UNSAFE.format(whose="your own" if unread.is_own else "this folder's", file=unread.source)
        problems.append(f"{unsafe}.")
        wanted.add(HookEvent.PRE_TOOL_USE)

    async def run_one(entry: HookEntry, call: HookCall) -> ProgramRun:
        limit_s = min(entry.limit_s, call.limit_s or entry.limit_s)
        if entry.is_own:
            words = words_of(entry.program(around.root))
            return await run_on_host(words, payload(call, around), workspace, environment, limit_s)
        launcher, root = await place()
        if launcher is None:
            return ProgramRun(-1, problem="could not be run: no sandbox works here")
        told = payload(call, replace(around, root=root))
        can_write = call.mode not in (Mode.PLAN, Mode.TRY)  # they see the workspace, not the overlay
        return await run_in_instance(entry.program(root), told, launcher, can_write=can_write, limit_s=limit_s)

    async def run(call: HookCall) -> HookVerdict:
        names = matched_names(call)
        about = [
            entry for entry in entries if entry.event is call.event and entry.is_about(names) and meets(entry.condition, call)
        ]
        meant = list({(entry.command, entry.arguments, entry.is_own): entry for entry in about}.values())
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run_one(entry, call)) for entry in meant]
        verdict = together(call.event, meant, [task.result() for task in tasks])
        if verdict.changed is not None:
            verdict = replace(verdict, changed=our_input(call, verdict.changed))
        if unsafe and call.event is HookEvent.PRE_TOOL_USE and verdict.permission is not Verdict.DENY:
            verdict = replace(verdict, permission=Verdict.ASK, reason=verdict.reason or unsafe)
        return verdict

    return HookPoints(wanted, run, problems)


MOST_HELD = 3
_END = "a hook ended the turn"
_END_S = 5.0


@dataclass(slots=True)
class HookPoints:
    """The hooks of one session.

    `wanted` is what they wait for, `problems` what of them cannot be read or does not hold.  `run` calls those that an event is
    for, at the same time, and returns what they say; what fails is in its `runs`.  Cancelled, it ends them before it returns.
    """

    wanted: Collection[HookEvent]
    run: Callable[[HookCall], Awaitable[HookVerdict]]
    problems: Sequence[str] = ()
    _tasks: set[asyncio.Task[object]] = field(default_factory=set, init=False)
    _start: asyncio.Task[object] | None = field(default=None, init=False)

    def register(self, points: TurnPoints) -> None:
        """Let the points be called that hooks wait for."""
        if HookEvent.SESSION_START in self.wanted:
            points.before_turn.append(self._begun)
        if HookEvent.USER_PROMPT_SUBMIT in self.wanted:
            points.before_message.append(self._pass_message)
        if HookEvent.PRE_TOOL_USE in self.wanted:
            points.before_call.append(self._review)
        if HookEvent.POST_TOOL_USE in self.wanted:
            points.after_call.append(self._look_back)
        if HookEvent.PRE_COMPACT in self.wanted:
            points.before_compaction.append(self._before_compaction)
        if {HookEvent.STOP, HookEvent.SUBAGENT_STOP} & set(self.wanted):
            points.turn_end.append(self._hold_up)

    def follow(self, session: EngineSession) -> None:
        """Say what does not hold, and call the hooks of the session's start; the first turn waits for them."""
        for problem in self.problems:
            session.emit(Notice(level=Level.WARNING, text=f"Hooks: {problem}"))
        if HookEvent.SESSION_START in self.wanted:
            self._start = self._spawn(self._started(session))
        if HookEvent.NOTIFICATION in self.wanted:
            _ = session.subscribe(partial(self._notify, session), ApprovalRequested, PlanProposed)
        session.before_close.append(partial(self._close, session))

    async def _begun(self) -> None:
        if self._start is not None and not self._start.done():
            _ = await asyncio.wait({self._start})

    async def _started(self, session: EngineSession) -> None:
        is_new = not any(isinstance(envelope.event, MessageAdded) for envelope in session.history())
        source = "startup" if is_new else "resume"
        verdict = await self._call_beside(session, HookEvent.SESSION_START, {"source": source}, source)
        if verdict.context:
            session.emit(Reminder(text=_to_model(verdict)))

    def _notify(self, session: EngineSession, envelope: Envelope) -> None:
        """Call the hooks that wait for what the user should know, where an event is such a thing."""
        text, kind = "lmtui has a plan for you to decide about", "plan_prompt"
        if isinstance(event := envelope.event, ApprovalRequested):
            text, kind = f"lmtui needs your permission to use {event.tool}", "permission_prompt"
        facts = {"message": text, "title": "lmtui", "notification_type": kind}
        _ = self._spawn(self._call_beside(session, HookEvent.NOTIFICATION, facts, kind))

    async def _close(self, session: EngineSession) -> None:
        """Call the hooks of the end, for a few seconds at most, and end what still runs."""
        if HookEvent.SESSION_END in self.wanted:
            _ = await self._call_beside(session, HookEvent.SESSION_END, {"reason": "other"}, "other", _END_S)
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[object, object, object]) -> asyncio.Task[object]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _call(self, call: HookCall, emit: Callable[[Event], None]) -> HookVerdict:
        """Call the hooks of an event; tell what they did and what they want the user to know."""
        verdict = await self.run(call)
        for run in verdict.runs:
            emit(replace(run, agent=call.agent, event=str(call.event), call_id=str(call.facts.get("tool_use_id", ""))))
        for note in verdict.notes:
            emit(Notice(agent=call.agent, level=Level.INFO, text=f"A hook says: {note}"))
        return verdict

    async def _call_beside(
        self, session: EngineSession, event: HookEvent, facts: Mapping[str, object], subject: str, limit_s: float = 0.0
    ) -> HookVerdict:
        return await self._call(HookCall(event, facts, subject, mode=str(session.mode), limit_s=limit_s), session.emit)

    async def _call_in_turn(
        self, agent: Agent, event: HookEvent, facts: Mapping[str, object], subject: str = "", about: PreparedCall | None = None
    ) -> HookVerdict:
        call = HookCall(event, facts, subject, mode=str(agent.state.mode), agent=agent.id)
        if about is not None:
            call = replace(call, subject=about.tool, arguments=dict(about.arguments), subjects=about.subjects)
        verdict = await self._call(call, agent.emit)
        if verdict.ends_turn:
            agent.turn.ended_by = f"{_END}: {verdict.end_reason}" if verdict.end_reason else _END
        return verdict

    async def _pass_message(self, agent: Agent, text: str) -> str:
        verdict = await self._call_in_turn(agent, HookEvent.USER_PROMPT_SUBMIT, {"prompt": text})
        if verdict.blocks or verdict.ends_turn:
            agent.turn.ended_by = ""
            why = verdict.reason or verdict.end_reason or "it gave no reason"
            raise PromptHeld(f"a hook held your message back: {why}")
        return _to_model(verdict)

    async def _review(self, agent: Agent, call: ToolCall, prepared: PreparedCall) -> CallReview:
        """Look at a call before anybody decides about it.

        Raises:
            ToolError: what hooks put in place of its arguments is not what the tool takes.
        """
        facts = {"tool_use_id": call.id}
        verdict = await self._call_in_turn(agent, HookEvent.PRE_TOOL_USE, facts, about=prepared)
        if agent.turn.ended_by and not verdict.blocks:
            verdict = replace(verdict, permission=Verdict.DENY, reason=agent.turn.ended_by)
        note = ""
        if verdict.changed is not None and not verdict.blocks:
            given = json.dumps(dict(verdict.changed), ensure_ascii=False)
            prepared = agent.services.toolbox.prepare(prepared.tool, given)
            told = json.dumps(dict(prepared.arguments), ensure_ascii=False, default=str)[:500]
            note = f"[a hook of the user's changed the arguments to: {told}]\n"
        reason = verdict.reason.rstrip(".")
        refusal = f"a hook said no: {reason}" if verdict.blocks else ""

        def overrule(decision: Decision, behind: tuple[str, ...]) -> Decision:
            is_answer = verdict.permission is Verdict.ALLOW and decision.verdict is Verdict.ASK
            if is_answer and not _only_mode_asks(agent, prepared, behind):
                return decision
            return _overruled(verdict.permission, reason, decision)

        return CallReview(prepared, overrule, "hook", refusal, note)

    async def _look_back(self, agent: Agent, call: ToolCall, prepared: PreparedCall, result: ToolResult) -> ToolResult:
        """Look at what a call did, and return the result with what hooks say to the model."""
        response = {"output": result.text, "summary": result.summary, "success": result.ok}
        facts = {"tool_use_id": call.id, "tool_response": response}
        verdict = await self._call_in_turn(agent, HookEvent.POST_TOOL_USE, facts, about=prepared)
        told = "\n".join(part for part in (verdict.reason if verdict.blocks else "", verdict.context) if part)
        if not told:
            return result
        gap = "" if not result.text or result.text.endswith("\n") else "\n"
        return replace(result, text=f"{result.text}{gap}[a hook of the user's says: {told}]")

    async def _before_compaction(self, agent: Agent, trigger: str, focus: str) -> None:
        facts = {"trigger": trigger, "custom_instructions": focus}
        _ = await self._call_in_turn(agent, HookEvent.PRE_COMPACT, facts, trigger)
        agent.turn.ended_by = ""

    async def _hold_up(self, agent: Agent, text: str, _error: str) -> tuple[str, str]:
        """Return why an agent may not end yet, in words for it; empty where it may."""
        event = HookEvent.SUBAGENT_STOP if agent.state.depth else HookEvent.STOP
        if event not in self.wanted:
            return "", ""
        if agent.turn.held >= MOST_HELD:
            agent.notify(f"A hook held up the end of this turn {MOST_HELD} times; now it ends all the same.")
            return "", ""
        facts = {"stop_hook_active": agent.turn.held > 0, "last_assistant_message": text}
        verdict = await self._call_in_turn(agent, event, facts)
        agent.turn.ended_by = ""  # it ends as it is
        if not verdict.blocks or verdict.ends_turn:
            return "", ""
        agent.turn.held += 1
        return f"The user's hook asks for more work: {verdict.reason}", ""


def _to_model(verdict: HookVerdict) -> str:
    return f"From a hook of the user's: {verdict.context}" if verdict.context else ""


def _overruled(said: Verdict | None, reason: str, decision: Decision) -> Decision:
    """Return what holds for a call: the permission function's decision, made stricter or answered by hooks."""
    match said, decision.verdict:
        case _, Verdict.DENY:
            return decision
        case Verdict.DENY, _:
            return Decision(Verdict.DENY, f"a hook said no: {reason}")
        case Verdict.ASK, Verdict.ALLOW:
            return Decision(Verdict.ASK, f"hooks ask: {reason}" if reason else "a hook asks", takes_no_rule=True)
        case Verdict.ASK, Verdict.ASK:
            why = f"{decision.why}; hooks ask too" + (f": {reason}" if reason else "")
            return replace(decision, why=why, takes_no_rule=True)
        case Verdict.ALLOW, Verdict.ASK:
            return Decision(Verdict.ALLOW, f"a hook allows it: {reason}" if reason else "a hook allows it")
        case _:
            return decision


def _only_mode_asks(agent: Agent, prepared: PreparedCall, behind: tuple[str, ...]) -> bool:
    """Tell whether nothing but the mode asks about a call: no rule, no doubt, no secret and no reduced sandbox."""
    mode = Mode.PLAN if agent.state.only_reads else Mode.AUTO
    rules = tuple(rule for rule in agent.all_rules() if rule.effect is not Effect.ALLOW)
    decision = decide_all(
        prepared.tool,
        prepared.access,
        (*prepared.subjects, *behind),
        mode,
        rules,
        asks_each_command=agent.state.sandbox.asks_each_command,
        is_read_only=agent.state.sandbox.is_read_only,
    )
    return decision.verdict is Verdict.ALLOW and not wants_network(prepared)


class HooksService(WorkspaceFeature):
    """Gives each session the hooks that the files name when it is opened."""

    works_apart = True

    def __init__(self, host: FeatureHost, extensions: Offers) -> None:
        super().__init__(host, extensions)
        self.trust = (hooks_trust(host.workspace),)
        self._given: dict[str, HookPoints] = {}

    def equip(self, session: SessionServices, sandbox: WorkspaceSandbox) -> None:
        """Read the files.  Blocks (three small files).

        Raises:
            UsageError: hooks would not run in an attempt, and they may be there to forbid something.
        """
        if self.host.config.hooks != "on":
            return
        workspace = self.host.workspace

        async def place() -> tuple[InstanceLauncher | None, str]:
            status = await sandbox.status()
            return sandbox.launcher, status.folder or str(workspace)

        log = sessions_dir(workspace) / f"{session.session_id}.jsonl"
        around = HookEnvironment(session.session_id, str(log), str(workspace))
        points = session_hooks(workspace, around, place)
        if session.is_apart and points.wanted:
            raise UsageError("attempts run no hooks, but hooks are configured", "Turn them off with --no-hooks.")
        if not session.is_apart:
            self._given[session.session_id] = points
            points.register(session.points)

    def follow(self, session: EngineSession, *, is_ours: bool) -> None:
        """Call the hooks of its start, and those that wait for what the user should know."""
        del is_ours
        if (points := self._given.pop(session.id, None)) is not None:
            points.follow(session)

    def problems(self) -> Sequence[str]:
        """Return what of the files cannot be read."""
        return read_hooks(self.host.workspace).problems

    async def check(self, *, is_offline: bool) -> Sequence[CheckRow]:
        """Name each hook, and what is broken of them."""
        del is_offline
        files = await asyncio.to_thread(read_hooks, self.host.workspace)
        is_trusted = hooks_trust(self.host.workspace).holds(files.digest)
        problems = (*files.problems, *odd_matchers(files.entries, ToolRegistry().names()))
        rows = [
            CheckRow("hooks", OK, f"{each.words}, from {each.source}")
            if each.is_own or is_trusted
            else CheckRow("hooks", WARNING, f"needs approval: {each.words}, from {each.source}", TRUST_HINT)
            for each in files.entries
        ]
        return rows + [CheckRow("hooks", FAILURE if files.is_unsafe else WARNING, sanitize_line(each)) for each in problems]
