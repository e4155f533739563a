"""A session and a host that keep the promises of the ports, scripted by the test.  Events come when the script says so."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lmtui.core import events
from lmtui.core.budgets import BudgetSet, SessionBudget
from lmtui.core.errors import LmtuiError
from lmtui.core.events import Envelope, Event, Outcome, TurnReason
from lmtui.core.messages import Image, Role, ToolCall, ToolCallFormat, Usage
from lmtui.core.permissions.rules import Mode, Rule
from lmtui.core.plan import Plan
from lmtui.core.prompt_text import FilledPrompt
from lmtui.core.sessions import AgentRunner, Answer, CallsInUse, SessionSummary, Subscriber
from lmtui.core.trust import TrustItem, check_shown
from lmtui.core.verification import GoalChanged, GoalState, VerificationTracker
from lmtui.core.workspace import Changes, EffectPart, FileChange, FileChangeKind
from tests.fakes import FakeBackground
from tests.tui.fake_archive import FakeArchive
from tests.tui.fake_files import FakeFiles
from tests.tui.fake_mcp import FakeExtensions
from tests.tui.fake_plans import FakePlans
from tests.tui.fake_servers import FakeServers
from tests.tui.fake_settings import FakeSettings, FakeWindow

START = datetime(2026, 3, 14, 14, 2, 0, tzinfo=UTC)
DIFF = """\
--- a/parser/lexer.py
+++ b/parser/lexer.py
@@ -41,4 +41,6 @@ class Lexer:
     def skip_comment(self):
-        while self.peek(2) != "*/":
-            self.pos += 1
+        depth = 1
+        while depth:
+            if self.take("/*"):
+                depth += 1
         self.pos += 2
"""


class FakeClock:
    """A clock that moves only when told."""

    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> datetime:
        return self.time

    def forward(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class FakeGoals:
    """Keeps goals as a session does."""

    def __init__(self, emit: Callable[[events.Event], None]) -> None:
        self._emit, self._tracker = emit, VerificationTracker()

    def listed(self) -> Sequence[tuple[str, GoalState]]:
        return self._tracker.goals

    def set(self, command: str) -> None:
        self._change(GoalChanged(command=command))

    def pause(self) -> None:
        self._change(GoalChanged(command=self._tracker.goal, state=GoalState.PAUSED))

    def resume(self) -> None:
        self._change(GoalChanged(command=self._tracker.goals[0][0]))

    def clear(self) -> None:
        self._change(GoalChanged(command=""))

    def _change(self, event: GoalChanged) -> None:
        self._tracker = self._tracker.apply(event)
        self._emit(event)


class FakeTrial:
    """The unmerged changes of try mode; records what is done with them."""

    def __init__(self) -> None:
        self.fake_parts: Sequence[EffectPart] = ()
        self.done: list[object] = []
        self.fake_problem = ""

    @property
    def waiting(self) -> int:
        return len(self.fake_parts)

    async def problem(self) -> str:
        return self.fake_problem

    async def parts(self) -> Sequence[EffectPart]:
        return self.fake_parts

    async def keep(self, units: Collection[int] | None) -> Sequence[str]:
        self.done.append(units)
        return ()

    async def drop(self) -> None:
        self.done.append("dropped")


class FakeSession:
    """One session.  `submit` starts a turn that goes on until `end_turn`; approvals block nothing but are paired."""

    def __init__(self, session_id: str = "20260314_140200_abc123", *, clock: FakeClock | None = None, title: str = "") -> None:
        self.id = session_id
        self.clock = clock or FakeClock()
        self.mode = Mode.NORMAL
        self.submitted: list[str] = []
        self.steered: list[str] = []
        self.queued: list[str] = []
        self.waiting = FakeWaiting(self)
        self.answers: dict[str, Answer] = {}
        self.is_closed = False
        self.fake_changes: Changes | None = None
        self.fake_background = FakeBackground()
        self.fake_rules: list[Rule] = []
        self.window_use = FakeWindow()
        self.form = CallsInUse(ToolCallFormat.TEXT, "it writes its calls as text")
        self.given = SessionBudget()
        self.trial = FakeTrial()
        self.goals = FakeGoals(self.emit)
        self.plans = FakePlans(self.history, self.emit, lambda: self.fake_rules)
        self._history: list[Envelope] = []
        self._subscribers: list[Subscriber] = []
        self._open_approvals: list[str] = []
        self._open_calls: list[tuple[str, str]] = []
        self._turn = ""
        self._turns = itertools.count(1)
        self._seq = itertools.count(1)
        self._idle = asyncio.Event()
        self._idle.set()
        self.emit(events.SessionOpened(workspace="/home/ada/src/parser", version="0.1.0"))
        if title:
            self.emit(events.SessionRenamed(title=title))
        self.emit(events.ModelChanged(model="qwen2.5-coder:7b", url="http://127.0.0.1:11434/v1", window_tokens=8192))
        self.emit(events.ModeChanged(mode=self.mode.value))

    @property
    def is_running(self) -> bool:
        return bool(self._turn)

    @property
    def turn_id(self) -> str:
        return self._turn

    def history(self) -> Sequence[Envelope]:
        return tuple(self._history)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def submit(self, text: str, *, typed: str = "", images: Sequence[Image] = ()) -> None:
        self.waiting.images += images
        self.submitted.append(text)
        if self._turn:
            self.queued.append(text)
            self.emit(events.InboxChanged(queued=tuple(self.queued)))
        else:
            self.begin_turn(text)

    def steer(self, text: str, *, typed: str = "", images: Sequence[Image] = ()) -> None:
        self.steered.append(text)
        if not self._turn:
            self.begin_turn(text)

    def run_agents_in(self, runner: AgentRunner) -> None:
        self.runner = runner

    def interrupt(self) -> None:
        if self._turn and self.queued:
            self.waiting.is_paused = True
            self.emit(events.InboxChanged(queued=tuple(self.queued), is_paused=True))
        if self._turn:
            self.end_turn(TurnReason.INTERRUPTED)

    def answer(self, approval_id: str, answer: Answer) -> None:
        if approval_id in self._open_approvals:
            self.answers[approval_id] = answer
            self._resolve(approval_id, answer.outcome, "user", answer.feedback)

    def set_mode(self, mode: Mode) -> None:
        self.mode = mode
        self.emit(events.ModeChanged(mode=mode.value))

    def budget(self) -> tuple[SessionBudget, SessionBudget]:
        return self.given, SessionBudget(tokens=1000, steps=3, seconds=75)

    def set_budget(self, budget: SessionBudget) -> None:
        self.given = budget
        self.emit(BudgetSet(budget=budget))

    def call_form(self) -> CallsInUse:
        return self.form

    def use_call_form(self, form: ToolCallFormat | None) -> None:
        self.form = CallsInUse(form, "you set it", is_by_hand=True) if form else CallsInUse(ToolCallFormat.NATIVE)

    def set_model(self, model: str, url: str = "http://127.0.0.1:11434/v1") -> None:
        self.emit(events.ModelChanged(model=model, url=url, window_tokens=8192))

    @property
    def background(self) -> FakeBackground:
        return self.fake_background

    @property
    def changes(self) -> Changes | None:
        return self.fake_changes

    @property
    def rules(self) -> Sequence[Rule]:
        return tuple(self.fake_rules)

    def revoke(self, rule: Rule) -> None:
        self.fake_rules.remove(rule)
        self.emit(events.RuleRevoked(rule=str(rule)))

    def rename(self, title: str) -> None:
        self.emit(events.SessionRenamed(title=title))

    async def wait_idle(self) -> None:
        await self._idle.wait()

    async def close(self) -> None:
        self.interrupt()
        self.is_closed = True

    # -- the script -----------------------------------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        envelope = Envelope(next(self._seq), self.clock(), self.id, event)
        if event.durable:
            self._history.append(envelope)
        for subscriber in tuple(self._subscribers):
            subscriber(envelope)

    def begin_turn(self, text: str) -> None:
        self._turn = f"turn-{next(self._turns)}"
        self._idle.clear()
        self.emit(events.TurnStarted(turn_id=self._turn))
        self.emit(events.MessageAdded(role=Role.USER, text=text, turn_id=self._turn))

    def end_turn(self, reason: TurnReason = TurnReason.DONE, text: str = "") -> None:
        for approval_id in tuple(self._open_approvals):
            self._resolve(approval_id, Outcome.NO, "interrupt")
        for call_id, tool in tuple(self._open_calls):
            self.finish_call(call_id, tool, ok=False, result="interrupted")
        turn, self._turn = self._turn, ""
        self.emit(events.TurnEnded(turn_id=turn, reason=reason, status=reason.value, text=text))
        self._idle.set()
        if self.queued and reason is TurnReason.DONE:
            text = self.queued.pop(0)
            self.emit(events.InboxChanged(queued=tuple(self.queued)))
            self.begin_turn(text)

    def say(self, text: str, *, thinking: str = "", thinking_s: float = 0.0, calls: tuple[ToolCall, ...] = ()) -> None:
        self.emit(
            events.MessageAdded(
                role=Role.ASSISTANT, text=text, thinking=thinking, thinking_s=thinking_s, tool_calls=calls, turn_id=self._turn
            )
        )

    def start_call(self, call_id: str, tool: str, title: str) -> None:
        self._open_calls.append((call_id, tool))
        arguments: dict[str, object] = {"command" if tool == "shell" else "path": title}
        self.emit(events.ToolCallStarted(call_id=call_id, tool=tool, arguments=arguments, title=title, turn_id=self._turn))

    def finish_call(
        self,
        call_id: str,
        tool: str,
        *,
        ok: bool = True,
        result: str = "",
        elapsed_ms: int = 12,
        summary: str = "",
        decision: str = "",
    ) -> None:
        self._open_calls.remove((call_id, tool))
        self.emit(
            events.ToolCallFinished(
                call_id=call_id, tool=tool, ok=ok, result=result, elapsed_ms=elapsed_ms, summary=summary, decision=decision
            )
        )

    def ask(self, approval_id: str, text: str, *, tool: str = "shell", diff: str = "", path: str = "", **fields: Any) -> None:
        rule = f"{tool.capitalize()}({path or text})"
        fields = {"why": "normal mode asks before changes", "suggested_rule": rule, **fields}
        self._open_approvals.append(approval_id)
        self.emit(
            events.ApprovalRequested(
                approval_id=approval_id, call_id=f"call-{approval_id}", tool=tool, text=text, diff=diff, path=path, **fields
            )
        )

    def _resolve(self, approval_id: str, outcome: Outcome, by: str, feedback: str = "") -> None:
        self._open_approvals.remove(approval_id)
        self.emit(events.ApprovalResolved(approval_id=approval_id, outcome=outcome, by=by, feedback=feedback))


class FakeWaiting:
    """What waits in a fake session; commands are noted and run nothing."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session
        self.is_paused = False
        self.commands: list[tuple[str, bool]] = []
        self.wishes: list[str] = []
        self.images: list[Image] = []
        self.begun: list[tuple[FilledPrompt, str]] = []

    def begin(self, prompt: FilledPrompt, typed: str) -> None:
        self.begun.append((prompt, typed))
        self._session.submit("".join(piece.text for piece in prompt.pieces))

    def drop(self, index: int) -> str:
        text = self._session.queued.pop(index)
        self._session.emit(events.InboxChanged(queued=tuple(self._session.queued), is_paused=self.is_paused))
        return text

    def go_on(self) -> None:
        self.is_paused = False
        text = self._session.queued.pop(0)
        self._session.emit(events.InboxChanged(queued=tuple(self._session.queued)))
        self._session.begin_turn(text)

    def make_room(self, focus: str = "") -> None:
        self.wishes.append(focus)

    def run_command(self, command: str, *, is_told: bool = True) -> None:
        self.commands.append((command, is_told))


class FakeTrust:
    """What a folder brings: a list, and the answer."""

    def __init__(self) -> None:
        self.items: list[TrustItem] = []
        self.refused_items: list[TrustItem] = []
        self.trusted_items: list[TrustItem] = []
        self.is_trusted: bool | None = None
        self.elsewhere: bool | None = None
        self.failure: LmtuiError | None = None
        self.looks = 0
        self.threads: set[int] = set()

    def waiting(self) -> Sequence[TrustItem]:
        self._looked()
        return tuple(self.items) if self.elsewhere is None else ()

    def refused(self) -> Sequence[TrustItem]:
        self._looked()
        return () if self.elsewhere else tuple(self.refused_items)

    def _looked(self) -> None:
        self.looks += 1
        self.threads.add(threading.get_ident())

    def answered_elsewhere(self) -> bool | None:
        return self.elsewhere

    def trusted(self) -> Sequence[TrustItem]:
        return tuple(self.trusted_items)

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def revoke(self) -> None:
        self._check()
        self.items, self.trusted_items = self.trusted_items, []

    def answer(self, shown: Sequence[TrustItem], *, is_trusted: bool) -> None:
        self._check()
        check_shown(self.items or self.refused_items, shown)
        self.is_trusted = is_trusted
        self.trusted_items += (self.items or self.refused_items) if is_trusted else []
        self.items, self.refused_items = [], [] if is_trusted else self.items or self.refused_items


class FakeHost:
    """A host over fake sessions, with a small workspace and two model servers."""

    def __init__(
        self,
        *,
        clock: FakeClock | None = None,
        setup_note: str = "",
        workspace: Path | None = None,
        kind: type[FakeSession] = FakeSession,
    ) -> None:
        self.clock = clock or FakeClock()
        self.kind = kind
        self.workspace = workspace or Path("/home/ada/src/parser")
        self.setup_note = setup_note
        self.extensions = FakeExtensions()
        self.opened: dict[str, FakeSession] = {}
        self.summaries: list[SessionSummary] = []
        self.servers = FakeServers(self)
        self.used: tuple[str, str] | None = None
        self.is_demo = False
        self.is_closed = False
        self.deleted: list[str] = []
        self.searched: list[str] = []
        self.trust = FakeTrust()
        self.files = FakeFiles(self.workspace)
        self.settings = FakeSettings()
        self.archive = FakeArchive(self)
        self._numbers = itertools.count(1)

    @property
    def session(self) -> FakeSession:
        """Return the session opened last."""
        return list(self.opened.values())[-1]

    async def serve(self) -> None:
        await self.extensions.jobs.serve()

    async def new_session(self) -> FakeSession:
        return self._add(self.kind(f"20260314_1402{next(self._numbers):02}_abc123", clock=self.clock))

    async def open_session(self, session_id: str) -> FakeSession:
        if session_id not in self.opened:
            titles = {each.id: each.title for each in self.summaries}
            return self._add(FakeSession(session_id, clock=self.clock, title=titles.get(session_id, "")))
        return self.opened[session_id]

    def _add(self, session: FakeSession) -> FakeSession:
        self.opened[session.id] = session
        return session

    async def switch_model(self, session_id: str, url: str, model: str) -> None:
        await self.servers.use(url, model)
        self.opened[session_id].set_model(model, url)

    async def start_demo(self) -> None:
        self.is_demo = True
        self.setup_note = ""

    async def close(self) -> None:
        for session in self.opened.values():
            await session.close()
        self.is_closed = True


def play_work(session: FakeSession) -> None:
    """Play half a turn of real work; the model is still writing at the end of it."""
    from lmtui.core.plan import PlanStep, Todo, TodoStatus

    clock = session.clock
    session.emit(events.SandboxSelected(backend="docker", network="none", text="Docker, no network"))
    session.begin_turn("Make the tokenizer accept nested comments and add tests.")
    clock.forward(6)
    session.say(
        "The lexer drops back to state 0 at the first `*/`. I will count the depth.",
        thinking="Where does it leave the comment?",
        thinking_s=6.0,
        calls=(ToolCall("c1", "read", '{"path": "parser/lexer.py"}'),),
    )
    session.start_call("c1", "read", "parser/lexer.py 1–120")
    session.finish_call("c1", "read", result="1  class Lexer:", elapsed_ms=12)
    steps = tuple(
        PlanStep(number, text, status)
        for number, (text, status) in enumerate(
            [
                ("read the tokenizer", TodoStatus.COMPLETED),
                ("write a failing test", TodoStatus.COMPLETED),
                ("nest the counter", TodoStatus.IN_PROGRESS),
                ("edge cases", TodoStatus.PENDING),
                ("run all tests", TodoStatus.PENDING),
            ],
            1,
        )
    )
    session.emit(events.PlanChanged(plan=Plan(todos=(Todo(1, "unicode in comments"),), steps=steps)))
    clock.forward(20)
    session.say("", calls=(ToolCall("c2", "edit", '{"path": "parser/lexer.py"}'),))
    session.start_call("c2", "edit", "parser/lexer.py")
    session.finish_call("c2", "edit", result="edited", elapsed_ms=8, summary="+4 −2", decision="once")
    session.emit(
        events.FilesChanged(
            call_id="c2",
            files=("parser/lexer.py",),
            changes=(FileChange("parser/lexer.py", FileChangeKind.MODIFIED, 4, 2, DIFF),),
        )
    )
    session.start_call("c3", "shell", "pytest -q tests/test_lexer.py")
    session.emit(events.ToolOutputDelta(call_id="c3", text="..F.\n"))
    clock.forward(2)
    session.finish_call(
        "c3",
        "shell",
        ok=False,
        result="E   assert [Tok('c')] == []\n2 failed, 14 passed in 1.62s",
        elapsed_ms=1900,
        summary="2 failed",
        decision="session",
    )
    usage = Usage(prompt_tokens=2980, completion_tokens=140, cached_tokens=2860)
    session.emit(events.UsageUpdated(usage=usage, window_tokens=8192, tokens_per_s=21.0, first_token_s=0.4))
    session.emit(events.TextDelta(text="Two cases end inside a string. "))
    clock.forward(2)
    session.emit(events.TextDelta(text="I'll look at how strings are entered before I touch the counter."))
