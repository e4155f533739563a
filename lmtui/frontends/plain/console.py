"""The linear mode from start to end: asks for a line, follows the turn that it starts, asks what must be approved."""

from __future__ import annotations

import queue
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from lmtui.core.clean import clean_line
from lmtui.core.errors import UsageError
from lmtui.core.events import ApprovalRequested, ApprovalResolved, Envelope, Outcome, SandboxSelected
from lmtui.core.plan_events import PlanProposed
from lmtui.core.sessions import Answer, SessionHost
from lmtui.frontends.plain import approvals
from lmtui.frontends.plain.commands import Commands, Left
from lmtui.frontends.plain.desk import Desk, Room
from lmtui.frontends.plain.first_steps import ask_for_server, ask_for_trust
from lmtui.frontends.plain.plans import ask_plan
from lmtui.frontends.plain.terminal import LineTerminal, Terminal
from lmtui.paths import state_dir

EXIT_INTERRUPTED = 130
FENCE = "```"
SETTLE_S = 2.0
LOOK_S = 0.2
PROMPT, MORE_PROMPT = "you: ", "more: "


@dataclass(frozen=True, slots=True)
class PlainStart:
    """How the linear mode begins; the fields are those of the full-screen app."""

    session_id: str = ""
    task: str = ""
    is_demo: bool = False


def run_plain(open_host: Callable[[], SessionHost], start: PlainStart) -> int:
    """Run the linear mode on this process's terminal and return the exit code.  Blocks until the user leaves.

    Raises:
        LmtuiError: the host or the session cannot be opened.
    """
    if not sys.stdin.isatty():
        raise UsageError("--plain needs a terminal to read from", 'Use `lmtui run "TASK"` without one.')
    terminal = LineTerminal(state_dir() / "history" / "plain")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave_now)
    return Console(terminal).run(open_host, start)


def _leave_now(*_: object) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.exit(EXIT_INTERRUPTED)


class Console:
    """Talks with one user over one terminal; for `settle_s` it waits for what is learned while a session opens."""

    def __init__(self, terminal: Terminal, settle_s: float = SETTLE_S) -> None:
        self._terminal = terminal
        self._settle_s = settle_s
        self._stops = 0
        self._resolved: set[str] = set()
        self._left: PlanProposed | None = None

    def run(self, open_host: Callable[[], SessionHost], start: PlainStart) -> int:
        """Open the host, talk until the user leaves, close everything, and return the exit code."""
        room = Room()
        host: SessionHost | None = None
        serving: Future[None] | None = None
        try:
            host = room.do(open_host)
            self._desk = Desk(room, host, self._terminal)
            self._commands = Commands(self._desk)
            self._begin(start)
            serving = room.start(host.jobs.serve())
            if start.session_id:
                self._follow()
            return self._talk(start.task)
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED
        except (EOFError, Left):
            return 0
        finally:
            if serving is not None:
                _ = serving.cancel()
            if host is not None:
                room.wait(host.close())
            room.close()

    def _begin(self, start: PlainStart) -> None:
        host, room = self._desk.host, self._desk.room
        self._terminal.say(f"lmtui, plain mode, in {clean_line(str(host.workspace))}. /help says what can be done.")
        if start.is_demo:
            room.wait(host.start_demo())
            self._terminal.say(f"the model is a script; the tools and the files in {host.workspace} are real")
        elif host.setup_note:
            ask_for_server(self._desk)
        elif silent := room.wait(host.servers.silent_choice()):
            ask_for_server(self._desk, silent)
        ask_for_trust(self._desk)
        self._desk.open(start.session_id)
        if start.session_id:
            self._commands.tell_where_it_stands()
        self._settle()

    def _settle(self) -> None:
        """Say what is learned while a session opens, above all which sandbox it has; it may also come later."""
        until = time.monotonic() + self._settle_s
        while (left := until - time.monotonic()) > 0:
            try:
                envelope = self._desk.inbox.get(timeout=left)
            except queue.Empty:
                return
            if envelope is not None:
                self._tell(envelope)
                if isinstance(envelope.event, SandboxSelected):
                    return

    # -- talking --------------------------------------------------------------------------------------------------------

    def _talk(self, task: str) -> int:
        text, is_leaving = task, False
        if task:
            self._terminal.say(f"{PROMPT}{clean_line(task)}")
        while True:
            try:
                self._take(text or self._typed())
                text, is_leaving = "", False
            except KeyboardInterrupt:
                if is_leaving:
                    raise
                text, is_leaving = "", True
                self._terminal.say("\nctrl+c once more leaves")

    def _typed(self) -> str:
        """Read what the user says: a line, lines that end in a backslash, or lines between two fences."""
        self._tell_waiting()
        line = self._terminal.read(PROMPT, is_kept=True)
        if line.strip() == FENCE:
            return "\n".join(iter(lambda: self._terminal.read(MORE_PROMPT).rstrip("\r"), FENCE))
        lines = [line]
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
            lines.append(self._terminal.read(MORE_PROMPT))
        return "\n".join(lines)

    def _take(self, text: str) -> None:
        """Do what a text says."""
        if not text.strip() or self._commands.run(text):
            self._left = None if text.strip() == "/plan" else self._left
            self._tell_waiting()
            self._follow()
            return
        if text.startswith("!"):
            command = text.lstrip("!").strip()
            if not command:
                self._terminal.say("! runs a shell command; with !! the model is not told of it")
                return
            self._desk.act(lambda session: session.waiting.run_command(command, is_told=not text.startswith("!!")))
        else:
            self._desk.act(lambda session: session.submit(text))
        self._follow()

    def _follow(self) -> None:
        """Tell what happens until the session rests, and ask about the plan that it ends with."""
        self._follow_turn()
        while (asked := self._desk.act(lambda session: session.plans.open)) is not None and asked is not self._left:
            if ask_plan(self._desk):
                self._follow_turn()
            else:
                self._left = asked

    def _follow_turn(self) -> None:
        """Tell what happens until the session rests; ctrl+c stops it, a second one leaves."""
        self._stops = 0
        rest = self._desk.room.start(self._desk.session.wait_idle())
        rest.add_done_callback(lambda _: self._desk.inbox.put(None))
        while not (rest.done() and self._desk.inbox.empty()):
            try:
                envelope = self._desk.inbox.get(timeout=LOOK_S)
                if envelope is not None:
                    self._tell(envelope)
            except queue.Empty:
                continue
            except KeyboardInterrupt:
                self._stop()

    def _stop(self) -> None:
        self._stops += 1
        if self._stops > 1:
            raise KeyboardInterrupt
        self._terminal.say("\nstopping; ctrl+c once more leaves")
        self._desk.act(lambda session: session.interrupt())

    def _tell_waiting(self) -> None:
        while not self._desk.inbox.empty():
            envelope = self._desk.inbox.get()
            if envelope is not None:
                self._tell(envelope)

    def _tell(self, envelope: Envelope) -> None:
        self._desk.say(*self._desk.teller.tell(envelope))
        match envelope.event:
            case ApprovalRequested() as request if not self._stops:
                self._ask(request)
            case ApprovalResolved(approval_id=approval_id):
                self._resolved.add(approval_id)
            case _:
                pass

    # -- approvals ------------------------------------------------------------------------------------------------------

    def _ask(self, request: ApprovalRequested) -> None:
        answer = None
        self._desk.say(*approvals.question(request), "choices:", *approvals.choice_lines(request))
        letters = " ".join(each.letter for each in approvals.choices(request))
        self._terminal.drop_typed()  # what was typed before the question was there is no answer to it
        while answer is None:
            try:
                typed = self._terminal.read(f"your answer ({letters}): ")
            except EOFError:
                self._desk.act(lambda session: session.answer(request.approval_id, Answer(Outcome.NO)))
                raise
            letter, words = approvals.chosen(request, typed)
            answer = approvals.direct_answer(request, letter, words) or self._ask_more(request, letter)
            if not letter:
                self._terminal.say(f"one of these letters, or its word: {letters}")
        given = answer
        self._desk.act(lambda session: session.answer(request.approval_id, given))

    def _ask_more(self, request: ApprovalRequested, letter: str) -> Answer | None:
        match letter:
            case "f":
                return Answer(Outcome.NO, feedback=self._terminal.read("why not? this goes to the model: ").strip())
            case "a":
                return self._ask_grant(request)
            case "e":
                start = request.text if "\n" not in request.text and request.text.isprintable() else ""
                edited = self._terminal.read("the command instead, empty goes back: ", start=start)
                return Answer(Outcome.ONCE, edited=edited if edited != request.text else "") if edited.strip() else None
            case _:
                return None

    def _ask_grant(self, request: ApprovalRequested) -> Answer | None:
        grants = approvals.grants(request)
        self._desk.say("which rule is kept?", *(f"  {number}. {grant}" for number, grant in enumerate(grants, 1)))
        typed = self._terminal.read("its number, empty goes back: ").strip()
        if not (typed.isdecimal() and 0 < int(typed) <= len(grants)):
            self._terminal.say("no rule is kept")
            return None
        grant = grants[int(typed) - 1]
        return Answer(Outcome.ALWAYS, rule=grant.rule, scope=grant.scope)
