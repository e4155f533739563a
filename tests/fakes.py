"""Stand-ins at the ports: a model that plays pieces, a sandbox in memory, a log in a list, a clock that ticks."""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lmtui.core.errors import SandboxError, SandboxUnavailable, SessionFileError
from lmtui.core.events import Envelope, Event
from lmtui.core.hosts import HostApproval
from lmtui.core.messages import (
    Completion,
    FinishReason,
    Message,
    ModelRequest,
    Role,
    StreamChunk,
    TextChunk,
    ToolCall,
    ToolCallFormat,
    Usage,
)
from lmtui.core.offers import Offers
from lmtui.core.permissions.rules import MaskExpressions, Mode, Rule
from lmtui.core.ports import (
    Checkpoints,
    CommandOverlay,
    Images,
    KeptChanges,
    Limits,
    Notes,
    OutputSink,
    Policy,
    Sandbox,
    Snapshot,
)
from lmtui.core.prompt_parts import PromptSource
from lmtui.core.roles import Roles
from lmtui.core.sanitize import Redactor
from lmtui.core.servers import Profiles, ServedModel
from lmtui.core.workspace import (
    BackgroundCommand,
    CommandEffect,
    CommandLimits,
    DirEntry,
    ExecResult,
    FileChange,
    FileChangeKind,
    FileContent,
    GrepMatch,
    SandboxStatus,
)
from lmtui.engine.agent import ModelAccess, TurnPoints
from lmtui.engine.context import ModelSettings
from lmtui.engine.context_budget import Budget, ContextBudget
from lmtui.engine.session import EngineSession, SessionParts
from lmtui.engine.subagent_runs import TeamParts
from lmtui.engine.tool_call_policy import KnownModel
from lmtui.features.checks.fixing import FixingLadder
from lmtui.features.checks.turn_checks import TurnChecks
from lmtui.features.skills.values import Skills
from lmtui.models.request_encoding import RequestWriter
from lmtui.tools.registry import ToolRegistry


def answer(text: str = "", *calls: tuple[str, str], reason: FinishReason | None = None) -> list[StreamChunk]:
    """Return the pieces of one answer: its text, then calls as (tool, arguments)."""
    made = tuple(ToolCall(f"call_{number}", name, arguments) for number, (name, arguments) in enumerate(calls))
    ending = reason or (FinishReason.TOOL_CALLS if made else FinishReason.STOP)
    completion = Completion(Message(Role.ASSISTANT, text, "", made), ending, Usage(10, 5, 4), 0.1, 0.5)
    return [*([TextChunk(text)] if text else []), completion]


def role_problem(messages: Sequence[dict[str, Any]]) -> str:
    """Return what a strict chat template (Mistral's, Gemma's) refuses in the messages of a request, empty where nothing."""
    before, is_users_turn, waiting = "", True, set[str]()
    for place, message in enumerate(messages):
        role, calls = message["role"], message.get("tool_calls", [])
        if role == "system" and place:
            return f"a system message at {place}"
        if role == before != "tool" or (role == "user" and before == "tool"):
            return f"{role} behind {before} at {place}"
        if (role == "tool") != bool(waiting) or (role == "tool" and message["tool_call_id"] not in waiting):
            return f"a result without a call, or a call without a result, at {place}"
        waiting = waiting - {message["tool_call_id"]} if role == "tool" else {call["id"] for call in calls}
        if not calls and role != "tool" and not str(message["content"]).strip():
            return f"an empty message at {place}"
        if role in ("user", "assistant") and not calls:
            if is_users_turn != (role == "user"):
                return f"{role} out of turn at {place}"
            is_users_turn = not is_users_turn
        before = role
    return "" if before in ("user", "tool") and not waiting else "it does not end with a message of the user's or a result"


class FakeProvider:
    """Plays one list of pieces a request; an exception in the list is raised, a float is waited for."""

    url = "http://fake/v1"

    def __init__(self, *answers: Sequence[StreamChunk | Exception | float]) -> None:
        self.answers = list(answers)
        self.requests: list[ModelRequest] = []
        self.open_streams = 0
        self._writers: dict[int, RequestWriter] = {}

    def check(self, request: ModelRequest) -> None:
        """Check that the strictest chat template takes a request, and that it is what a later process would send too."""
        writer = self._writers.setdefault(id(request.messages[0]), RequestWriter())
        sent = json.loads(writer.write(request))["messages"]
        assert not (problem := role_problem(sent)), (problem, [(each["role"], each["content"]) for each in sent])
        assert sent == json.loads(RequestWriter().write(request))["messages"]

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        self.check(request)
        self.requests.append(request)
        pieces = self.answers.pop(0) if self.answers else answer("done")
        self.open_streams += 1
        try:
            for piece in pieces:
                await asyncio.sleep(piece if isinstance(piece, float) else 0)
                if isinstance(piece, Exception):
                    raise piece
                if not isinstance(piece, float):
                    yield piece
        finally:
            self.open_streams -= 1

    async def served(self, model: str) -> ServedModel | None:
        return None

    async def close(self) -> None:
        pass


@dataclass
class FakeBackground:
    """Background commands in memory: what was started, and what each was sent."""

    started: list[str] = field(default_factory=list)
    sent: list[tuple[str, str]] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    watchers: list[Callable[[], None]] = field(default_factory=list)

    def watch(self, on_change: Callable[[], None]) -> None:
        self.watchers.append(on_change)

    def commands(self) -> Sequence[BackgroundCommand]:
        return [self._shown(f"b{number}") for number in range(1, len(self.started) + 1)]

    async def start(self, command: str) -> BackgroundCommand:
        self.started.append(command)
        self._tell()
        return self._shown(f"b{len(self.started)}")

    async def read(self, identity: str, wait_s: float = 0.0) -> tuple[str, BackgroundCommand]:
        sent = [text for name, text in self.sent if name == identity]
        return f"output of {identity}{''.join(sent)}", self._shown(identity)

    async def send(self, identity: str, text: str) -> None:
        self.sent.append((identity, text))

    async def stop(self, identity: str) -> BackgroundCommand:
        self.ended.add(identity)
        self._tell()
        return self._shown(identity)

    async def close(self) -> None:
        self.ended |= {each.id for each in self.commands()}

    def _tell(self) -> None:
        for watcher in self.watchers:
            watcher()

    def _shown(self, identity: str) -> BackgroundCommand:
        if not 0 < int(identity[1:]) <= len(self.started):
            raise SandboxError(f"no background command {identity!r}")
        is_over = identity in self.ended
        return BackgroundCommand(identity, self.started[int(identity[1:]) - 1], 3.0, 137 if is_over else None, "stopped")


_NO_OVERLAY = "no overlay"


class FakeOverlay:
    """An overlay whose effect is the one that the sandbox was given; what is kept is written down there."""

    def __init__(self, real: FakeSandbox) -> None:
        self.real = real
        self.sandbox: Sandbox = replace(real, is_read_only=False, is_overlay=True)

    @property
    def checkpoints(self) -> Checkpoints:
        raise NotImplementedError

    def outlive_kill(self, name: str) -> Path:
        return Path(name)

    async def refresh(self) -> None:
        pass

    async def begin_call(self) -> None:
        pass

    def note_touched(self, paths: Collection[str]) -> None:
        pass

    async def save_patch(self, effect: CommandEffect, name: str) -> Path:
        raise NotImplementedError

    async def effect(self) -> CommandEffect:
        if self.real.effect_problem:
            raise SandboxError(self.real.effect_problem)
        assert self.real.effect is not None
        return self.real.effect

    async def keep_outputs(self, effect: CommandEffect, rules: Sequence[Rule]) -> tuple[CommandEffect, Sequence[str]]:
        outputs, rest = effect.split(self.real.outputs)
        self.real.kept += outputs.paths
        return rest if outputs.paths else effect, self.real.notes

    async def keep(self, effect: CommandEffect, units: Collection[int] | None, rules: Sequence[Rule]) -> KeptChanges:
        paths = effect.chosen(units).paths
        if self.real.keep_problem:
            raise SandboxError(self.real.keep_problem)
        self.real.kept += paths
        for path in paths:
            self.real.files[path] = b"kept\n"
        return KeptChanges(None, None)

    async def close(self) -> None:
        self.real.kept.append("closed")


@dataclass
class FakeSandbox:
    """A workspace in memory.  `commands` maps a command to its result or to seconds that it would run."""

    files: dict[str, bytes] = field(default_factory=dict)
    commands: dict[str, ExecResult | float] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    touched: list[str] = field(default_factory=list)
    asks_each_command: bool = False
    links: dict[str, str] = field(default_factory=dict)
    gate: HostApproval | None = None
    can_be_read_only: bool = True
    has_read_only: bool = False
    is_read_only: bool = False
    ran_read_only: list[str] = field(default_factory=list)
    read_only_commands: dict[str, ExecResult | float] = field(default_factory=dict)
    revealed: list[str] = field(default_factory=list)
    limits: CommandLimits = CommandLimits()
    background: FakeBackground = field(default_factory=FakeBackground)
    effect: CommandEffect | None = None
    kept: list[str] = field(default_factory=list)
    overlay_problem: str = ""
    keep_problem: str = ""
    outputs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    effect_problem: str = ""
    is_overlay: bool = False

    async def status(self) -> SandboxStatus:
        return SandboxStatus(
            "fake",
            "none",
            "fake, no network",
            has_shell=True,
            asks_each_command=self.asks_each_command,
            is_read_only=self.is_read_only and self.can_be_read_only,
            has_read_only=self.has_read_only or self.effect is not None,
            has_overlays=self.effect is not None and _NO_OVERLAY not in self.kept,
            folder="/workspace",
        )

    def fresh(self) -> Sandbox:
        return self

    def overlay(self, *, stays: bool = False) -> CommandOverlay:
        return FakeOverlay(self)

    def read_only(self) -> Sandbox:
        return replace(self, is_read_only=True)

    def mask(self, owner: int, expressions: MaskExpressions | None) -> None:
        pass

    def unmasked(self) -> Sandbox:
        return self.read_only()

    def revealing(self, paths: Sequence[str]) -> Sandbox:
        self.revealed += paths
        return self

    async def package_hosts(self) -> Sequence[str]:
        return ("index.example",)

    async def run_command(
        self,
        command: str,
        *,
        timeout_s: int = 30,
        memory_mb: int = 0,
        on_output: OutputSink | None = None,
        gate: HostApproval | None = None,
        with_packages: bool = False,
    ) -> ExecResult:
        if self.is_overlay and self.overlay_problem:
            self.kept.append(_NO_OVERLAY)
            raise SandboxUnavailable(self.overlay_problem)
        self.gate = gate
        self.with_packages = with_packages
        for host in [word.removeprefix("https://") for word in command.split() if word.startswith("https://")]:
            if gate is not None and not await gate.may_reach(host):
                gate.reached(host, 0, 0, "refused")
                return ExecResult(1, f"{host} refused", 0, 1)
        self.ran.append(command)
        result = self.commands.get(command, ExecResult(0, "", 0, 1))
        if self.is_read_only:
            self.ran_read_only.append(command)
            result = self.read_only_commands.get(command, result)
        if isinstance(result, float):
            try:
                await asyncio.sleep(result)
            except asyncio.CancelledError:
                self.stopped.append(command)
                raise
            result = ExecResult(0, "", 0, round(result * 1000))
        if on_output and result.output:
            on_output(result.output)
        return result

    async def run_git(self, arguments: Sequence[str], *, writes: bool = False, timeout_s: int = 30) -> ExecResult:
        self.ran.append("git " + " ".join(arguments))
        result = self.commands.get("git " + arguments[0], ExecResult(0, "", 0, 1))
        assert isinstance(result, ExecResult)
        return result

    async def real_paths(self, paths: Sequence[str]) -> Sequence[str]:
        return [self.links.get(path, path) for path in paths]

    async def read_file(self, path: str, max_bytes: int = 1_048_576) -> FileContent:
        await asyncio.sleep(0)
        if path not in self.files:
            raise SandboxError(f"{path} does not exist")
        data = self.files[path]
        return FileContent(data[:max_bytes], len(data), 0o644, hashlib.sha256(data).hexdigest())

    async def write_file(self, path: str, data: bytes, *, expect_sha256: str | None = None) -> None:
        await asyncio.sleep(0)
        if self.is_read_only:
            raise SandboxError("the folder is read-only in plan mode")
        if expect_sha256 is not None:
            now = hashlib.sha256(self.files[path]).hexdigest() if path in self.files else ""
            if now != expect_sha256:
                raise SandboxError(f"{path} has changed since it was read")
        self.touched.append(path)
        self.files[path] = data

    async def make_directory(self, path: str) -> bool:
        self.touched.append(path)
        return True

    async def list_directory(self, path: str = "", depth: int = 1, max_entries: int = 1000) -> Sequence[DirEntry]:
        return [DirEntry(name, "file", len(data)) for name, data in sorted(self.files.items())]

    async def glob(self, pattern: str, max_results: int = 200) -> Sequence[str]:
        return sorted(self.files)[:max_results]

    async def grep(self, pattern: str, **_: Any) -> Sequence[GrepMatch]:
        return [
            GrepMatch(name, number, line)
            for name, data in sorted(self.files.items())
            for number, line in enumerate(data.decode().splitlines(), 1)
            if pattern in line
        ]

    async def close(self) -> None:
        pass


class FakeCheckpoints:
    """States of a workspace in memory, by content."""

    def __init__(self, sandbox: FakeSandbox) -> None:
        self._sandbox = sandbox
        self.states: dict[str, dict[str, bytes]] = {}
        self.problem: SandboxError | None = None
        self.left_out: tuple[str, ...] = ()
        self.unkept: set[str] = set()  # what no state can hold

    async def snapshot(self) -> Snapshot:
        if self.problem is not None:
            raise self.problem
        state = {path: data for path, data in self._sandbox.files.items() if path not in self.unkept}
        identity = hashlib.sha1(repr(sorted(state.items())).encode(), usedforsecurity=False).hexdigest()
        self.states[identity] = state
        return Snapshot(identity, self.left_out, len(self.left_out))

    async def ignored(self) -> tuple[str, ...]:
        return ("build/",)

    async def changes(
        self, before: str, after: str, paths: Sequence[str] = (), *, is_now: bool = False
    ) -> tuple[FileChange, ...]:
        old, new = self.states[before], self.states[after]
        wanted = [path for path in sorted({*old, *new}) if old.get(path) != new.get(path) and (not paths or path in paths)]
        found = (_change(path, old.get(path), new.get(path)) for path in wanted)
        lost = self.unkept & {*old} if is_now else set()
        return tuple(
            FileChange(each.path, FileChangeKind.MODIFIED, is_kept=False) if each.path in lost else each for each in found
        )

    async def read(self, snapshot: str, path: str) -> bytes | None:
        return self.states[snapshot].get(path)

    async def restore(self, source: str, paths: Sequence[str], *, expected: str, over: Sequence[str] = ()) -> None:
        for path in paths:
            if path in over and path in self.unkept:
                self.unkept.discard(path)
            elif self._sandbox.files.get(path) not in (self.states[expected].get(path), self.states[source].get(path)):
                raise SandboxError(f"changed in the meantime: {path}; nothing was changed")
        for path in paths:
            data = self.states[source].get(path)
            if data is None:
                self._sandbox.files.pop(path, None)
            else:
                self._sandbox.files[path] = data


def _change(path: str, old: bytes | None, new: bytes | None) -> FileChange:
    kind = FileChangeKind.ADDED if old is None else FileChangeKind.DELETED if new is None else FileChangeKind.MODIFIED
    lines = difflib.unified_diff((old or b"").decode().splitlines(), (new or b"").decode().splitlines(), lineterm="")
    diff = "\n".join(lines)
    return FileChange(path, kind, diff.count("\n+"), diff.count("\n-"), diff)


class MemoryLog:
    """A log in a list; after `room` events the disk is full."""

    def __init__(self, room: int = 1_000_000) -> None:
        self.events: list[Envelope] = []
        self.room = room

    def append(self, envelope: Envelope) -> None:
        if len(self.events) >= self.room:
            raise SessionFileError("cannot write the log: No space left on device", "Free some space.")
        self.events.append(envelope)

    def sync(self) -> None:
        pass

    def close(self) -> None:
        pass


class Ticking:
    """A clock that goes on by a second each time it is read."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
        self.seconds = 0.0

    def now(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now

    def monotonic(self) -> float:
        self.seconds += 0.001
        return self.seconds


def offers(found: Mapping[type, object]) -> Offers:
    """Return what features offer in a test; None stands for one that is not there."""
    offered = Offers()
    for port, offer in found.items():
        if offer is not None:
            offered.add(port, offer)
    return offered


class Rig:
    """A session on fakes, everything it published, and the means to wait for something in it."""

    def __init__(
        self,
        provider: FakeProvider,
        sandbox: FakeSandbox | None = None,
        *,
        mode: Mode = Mode.AUTO,
        rules: tuple[Rule, ...] = (),
        limits: Limits | None = None,
        log: MemoryLog | None = None,
        past: Sequence[Envelope] = (),
        is_attended: bool = True,
        is_ours: bool = True,
        checkpoints: Checkpoints | None = None,
        redactor: Redactor | None = None,
        images: Images | None = None,
        profiles: Profiles | None = None,
        roles: Roles | None = None,
        vision: bool | None = None,
        call_form: ToolCallFormat | None = None,
        team: TeamParts | None = None,
        asks_for_summaries: bool = False,
        has_spare_slot: Callable[[], bool] = bool,
        compact_at: int = 0,
        tools: str = "auto",
        guide: PromptSource | None = None,
        points: TurnPoints | None = None,
        skills: Any = None,
        checks: FixingLadder | None = None,
        memory: Any = None,
    ) -> None:
        clock = self.clock = Ticking()
        points = points or TurnPoints()
        if checks is not None:
            TurnChecks(lambda: checks).register(points)
        notes = memory and Notes(memory.recall)
        self.provider = provider
        self.sandbox = sandbox or FakeSandbox()
        self.log = log or MemoryLog()
        self.published: list[Envelope] = []
        self._waiting: list[tuple[Callable[[Event], bool], asyncio.Event]] = []
        parts = SessionParts(
            id="20260101_120000_abcdef",
            log=self.log,
            provider=provider,
            toolbox=ToolRegistry("/home/me/project"),
            sandbox=self.sandbox,
            policy=Policy(mode, rules, is_attended),
            limits=limits or Limits(),
            now=clock.now,
            monotonic=clock.monotonic,
            checkpoints=checkpoints,
            images=images,
            redactor=redactor or Redactor(()),
            team=team or TeamParts(),
            main=ModelSettings("model"),
            model=ModelAccess(
                KnownModel(profiles, call_form),
                ContextBudget(
                    Budget(form=call_form or ToolCallFormat.NATIVE), tools, compact_at, asks_for_summaries=asks_for_summaries
                ),
                roles or {},
                has_spare_slot,
                vision=vision,
            ),
            points=points,
            features=offers({PromptSource: guide, Skills: skills, Notes: notes}),
        )
        self.session = EngineSession(parts, past, is_ours=is_ours)
        self.session.subscribe(self._take)

    def _take(self, envelope: Envelope) -> None:
        self.published.append(envelope)
        for test, event in self._waiting:
            if test(envelope.event):
                event.set()

    @property
    def events(self) -> list[Event]:
        return [envelope.event for envelope in self.published]

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.kind == kind]

    async def until(self, test: Callable[[Event], bool]) -> Event:
        """Wait for an event for which the test holds, past ones included."""
        for event in self.events:
            if test(event):
                return event
        happened = asyncio.Event()
        self._waiting.append((test, happened))
        async with asyncio.timeout(60):
            await happened.wait()
        return next(event for event in self.events if test(event))

    async def run(self, text: str = "do it") -> None:
        """Submit a task and wait until it is over."""
        self.session.submit(text)
        async with asyncio.timeout(60):
            await self.session.wait_idle()
