"""The linear mode from start to end: asks for a line, follows the turn that it starts, asks what must be approved."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from lmtui.command_line import EXIT_INTERRUPTED
from lmtui.commands import command
from lmtui.commands.session_commands import title_of
from lmtui.commands.table import run_typed
from lmtui.commands.work_commands import plan_text, read_plan
from lmtui.core.agent_events import PlanProposed
from lmtui.core.errors import LmtuiError, ToolError, UsageError
from lmtui.core.event_text import INDENT, SHELL, changes_text, dangers_of, question_text, quoted, why_text
from lmtui.core.events import ROOT, ApprovalRequested, Envelope, MessageAdded, Notice, Outcome, SandboxSelected
from lmtui.core.hosts import base_url
from lmtui.core.look_alikes import approval_warning
from lmtui.core.messages import Role
from lmtui.core.permissions.suggested_rules import grants
from lmtui.core.plan_mode import grant_lines, proposal_lines
from lmtui.core.proposals import Proposal
from lmtui.core.sanitize import escape_invisible, escape_invisible_line, pluralize, sanitize_line, sanitize_path
from lmtui.core.servers import KEY_NOTES, ServerFound, lack_text
from lmtui.core.sessions import Answer, SessionHost
from lmtui.core.tool_servers import Reach, ToolServers
from lmtui.core.trust import outcome_text
from lmtui.core.workspace import EFFECT_TOOL, EffectKind, EffectPart, EffectReview, part_line, units_of
from lmtui.headless.trust_report import YES, ask_trust, item_lines, pick
from lmtui.paths import state_dir, without_keys
from lmtui.plain.plain_session import AnswerChoice, AnsweredElsewhere, LoopThread, PlainSession, Terminal
from lmtui.plain_files import editor_command


def ask_for_server(plain: PlainSession, lacking: ServerFound | None = None) -> None:
    """Let the user choose a model: a running one, an address, the demo, or `lacking` (see `ModelServers.choice_problem`).

    Raises:
        EOFError: the user leaves.
    """
    plain.say(lack_text(lacking) if lacking else plain.host.setup_note, "looking for model servers on the usual ports")
    servers = plain.loop.wait(plain.host.servers.find())
    found = _list_models(plain, servers)
    for server in servers:
        if not server.chat_models and server.note:
            plain.say(f"{sanitize_line(server.kind)}: {sanitize_line(server.url)}, {sanitize_line(server.note)}")
    if not found:
        plain.say("no model server answers here")
    keep = ", or enter to keep that server" if lacking else ""
    question = f"a number, an address such as http://127.0.0.1:8080, or demo{keep}: "
    url = lacking.url if lacking and lacking.note in KEY_NOTES else ""
    while True:
        typed, url = url or plain.terminal.read(question).strip(), ""
        if lacking and not typed:
            return None
        try:
            if typed.isdecimal() and 0 < int(typed) <= len(found):
                return plain.loop.wait(plain.host.servers.use(*found[int(typed) - 1]))
            if typed == "demo":
                return plain.loop.wait(plain.host.start_demo())
            if "." not in typed and ":" not in typed:
                plain.say("Type a number, an address or demo. Ctrl+D leaves.")
                continue
            asked = f"API key for {sanitize_line(base_url(typed))} (Enter if none is needed): "
            key = plain.terminal.read(asked, is_secret=True).strip()
            named = plain.loop.wait(plain.host.servers.look(typed, key))
            if named is None or not named.needs_model:
                return plain.loop.wait(plain.host.servers.use(typed, "", key))
            found = _list_models(plain, [named], key) or found
        except LmtuiError as error:
            plain.say(f"error: {error.full_text()}")


def _list_models(plain: PlainSession, servers: Sequence[ServerFound], key: str = "") -> list[tuple[str, str, str]]:
    """Print the models with numbers; return what each is used by: address, name, key."""
    found = [(server, model.name) for server in servers for model in server.chat_models]
    for number, (server, name) in enumerate(found, 1):
        plain.say(f"{number}. {sanitize_line(name)}, {sanitize_line(server.kind)} at {sanitize_line(server.url)}")
    return [(server.url, name, key) for server, name in found]


def ask_for_trust(plain: PlainSession) -> None:
    """Ask whether what the folder brings holds; an empty answer leaves it open."""
    typed: str | None = None
    while typed is None and (waiting := plain.host.trust.waiting()):
        plain.say("this folder has its own settings; lmtui ignores them until you trust them:")
        plain.say(*(f"{INDENT}{line}" for line in item_lines(waiting)))
        plain.terminal.drop_typed()
        typed = ask_trust(waiting, partial(_choose_reach, plain), plain.terminal.read, plain.say)
        try:
            if typed:
                plain.host.trust.answer(waiting, is_trusted=typed in YES)
            if typed is not None:
                plain.say(outcome_text(waiting, is_trusted=typed in YES))
        except LmtuiError as error:
            plain.say(f"error: {error.full_text()}", outcome_text(waiting, is_trusted=False))


def _choose_reach(plain: PlainSession, server: str, reach: Reach) -> None:
    plain.loop.do(lambda: plain.host.extensions[ToolServers].choose_reach(server, reach))


PLAN_CHOICES = (
    AnswerChoice("y", "yes", "approve"),
    AnswerChoice("g", "grant", "approve and allow what it names: listed first"),
    AnswerChoice("e", "edit", "edit (VISUAL or EDITOR)"),
    AnswerChoice("f", "change", "request changes; text may follow the letter"),
    AnswerChoice("n", "no", "reject; plan mode stays on"),
    AnswerChoice("l", "later", "later; /plan asks again"),
)
Editor = Callable[[str], str]


def ask_plan(plain: PlainSession, edit: Editor | None = None) -> bool:
    """Ask about the plan that waits, if one does; True where the session continues by the answer.

    `edit` returns what an editor made of a text; what is not a plan is opened again by the next `e`.
    """
    asked = plain.act(lambda session: session.plans.open)
    if asked is None:
        return False
    proposal, draft, done = asked.proposal, "", None
    _show(plain, proposal)
    while done is None:
        letter, words = plain.choose(PLAN_CHOICES, plain.terminal.read)
        try:
            if letter == "e":
                draft = (edit or _in_editor)(draft or plan_text(proposal))
                proposal, draft = read_plan(draft), ""
                _show(plain, proposal)
            else:
                done = _answer(plain, asked, proposal, letter, words)
        except (ToolError, UsageError) as error:
            plain.say(f"error: {error.full_text()}")
    return done


def _show(plain: PlainSession, proposal: Proposal) -> None:
    plain.say("a plan is waiting for your approval:", *(f"  {line}" for line in proposal_lines(proposal)))
    plain.list_choices(PLAN_CHOICES)


def _answer(plain: PlainSession, asked: PlanProposed, proposal: Proposal, letter: str, words: str) -> bool | None:
    """Give an answer; True or False where the question is done, None where it continues."""
    edited = proposal if proposal != asked.proposal else None

    match letter:
        case "y":
            plain.act(lambda session: session.plans.approve(asked.proposal_id, edited))
            return True
        case "g":
            grants = plain.act(lambda session: session.plans.grants(proposal))
            plain.say(*grant_lines(grants) if grants.rules or grants.left_out else ("nothing that it names can be allowed",))
            if plain.confirm("approve it with these rules, for this session? yes or no: "):
                plain.act(lambda session: session.plans.approve(asked.proposal_id, edited, rules=grants.rules))
                return True
        case "f":
            said = words or plain.terminal.read("what should change? (sent to the model): ").strip()
            plain.act(lambda session: session.plans.revise(asked.proposal_id, said))
            return True
        case "n":
            plain.act(lambda session: session.plans.reject(asked.proposal_id))
            plain.say("plan rejected; /mode NAME leaves plan mode")
            return False
        case _:
            plain.say("plan left pending; /plan asks again")
            return False
    return None


def _in_editor(text: str) -> str:
    """Return what the user's editor made of a text; blocks until it ends."""
    with tempfile.TemporaryDirectory(prefix="lmtui-plan-") as folder:
        path = Path(folder) / "plan.yaml"
        path.write_text(text, encoding="utf-8")
        try:
            command = editor_command(path, 0, os.environ)
            subprocess.run(command, check=True, env=without_keys(os.environ))
            return path.read_text(encoding="utf-8")
        except (IndexError, ValueError, OSError, subprocess.CalledProcessError) as error:
            raise UsageError("no editor, or it failed: the plan is unchanged", "Set VISUAL or EDITOR.") from error


def run_command(plain: PlainSession, text: str) -> bool:
    """Run a slash command; False for what goes to the model.

    Raises:
        EOFError: it was the command to leave.
    """
    call = plain.context.commands.parse(text)
    if call is None:
        return False
    plain.context.active = plain.session
    try:
        _render(plain, plain.loop.wait(run_typed(plain.context, text)), sanitize_line(call.name))
    except LmtuiError as error:
        plain.say(f"error: {error.full_text()}")
    return True


def _render(plain: PlainSession, result: command.Result, name: str) -> None:
    match result:
        case None:
            return
        case command.Output(lines=lines):
            plain.say(*lines)
        case command.OpenView(text=text, instead=instead):
            way = f" or use {instead}" if instead else ""
            missing = f"/{name} needs the full screen: run lmtui without --plain{way}; /help lists the commands of plain mode"
            plain.say(*plain.loop.wait(text()) if text is not None else (missing,))
        case command.Begin(start=start):
            plain.act(start)
        case command.OpenSession(session_id=session_id):
            plain.open(session_id)
            tell_where_it_stands(plain)
        case command.Ask(question=question, then=then, placeholder=placeholder):
            hint = f" ({placeholder})" if placeholder else ""
            typed = plain.terminal.read(f"{question}{hint}: ", start=result.start).strip()
            _render(plain, plain.loop.wait(then(typed)), name)
        case command.AskYes():
            plain.say(result.text)
            is_sure = plain.confirm(f"{result.question} yes or no? ")
            _render(plain, plain.loop.wait(result.then()) if is_sure else command.Output(("no changes made",)), name)
        case command.Choose(title=title, choices=choices, chosen=chosen):
            plain.say(f"{title}: {chosen}; there are {', '.join(choices)}")
        case command.ConfirmRestore():
            _restore(plain, result)
        case command.ReviewEffect(review=review):
            _review(plain, review)
        case command.Leave():
            raise EOFError


def tell_where_it_stands(plain: PlainSession) -> None:
    """Say which session is open and what was said last in it."""
    events = [envelope.event for envelope in plain.act(lambda session: session.history())]
    said = [event for event in events if isinstance(event, MessageAdded) and event.text.strip()]
    title = plain.act(title_of) or "new"
    plain.say(f"session {plain.session.id}: {title}, {pluralize(len(said), 'message')}")
    if said:
        plain.say("you said last:" if said[-1].role is Role.USER else "lmtui answered last:", *quoted(said[-1].text))


def _restore(plain: PlainSession, asked: command.ConfirmRestore) -> None:
    plan = plain.loop.wait(asked.plan())
    if plan.conflicts:
        plain.say(f"these files have changed since: {', '.join(map(sanitize_line, plan.conflicts))}")
        return
    plain.say(f"{plan.action} would do this: {changes_text(plan.changes) or 'nothing'}")
    if plan.unkept:
        plain.say(f"these files are lost for good: {', '.join(map(sanitize_path, plan.unkept))}")
    if plan.left_out:
        plain.say(f"not in a checkpoint, so not restored: {', '.join(escape_invisible_line(each) for each in plan.left_out)}")
    changes = plain.session.changes
    if changes is not None and plain.confirm("yes or no? "):
        plain.loop.wait(changes.apply(plan))
    else:
        plain.say("no changes made")


def _review(plain: PlainSession, review: EffectReview) -> None:
    """List the changes, and keep all, some files or nothing."""
    parts = plain.loop.wait(review.parts())
    plain.say("changes to merge:", *map(part_text, parts))
    plain.terminal.drop_typed()
    answer = plain.terminal.read("merge all, each (asks for each file), drop all, or nothing? ").strip().lower()
    kept: list[int] | None = [] if answer not in ("a", "all", "y", "yes") else None
    if answer in ("d", "drop"):
        plain.loop.wait(review.drop())
        plain.say("dropped; your files are unchanged")
        return
    for part, units in zip(parts, units_of(parts), strict=True) if answer in ("e", "each") else ():
        plain.say(*quoted(part.diff or "no text diff"))
        if kept is not None and plain.confirm(f"{part_text(part)}: yes or no? "):
            kept += units
    if kept == []:
        plain.say("nothing was merged; the changes stay in the overlay")
    else:
        plain.say("merged", *plain.loop.wait(review.keep(kept)))


def part_text(part: EffectPart) -> str:
    """Return a part of an effect in words, with a warning where git has no copy of it."""
    return f"{part_line(part)}{'' if part.is_tracked else ', not in git'}"


OUTCOMES = {"y": Outcome.ONCE, "d": Outcome.ONCE, "s": Outcome.SESSION, "t": Outcome.TRY, "n": Outcome.NO}


def approval_lines(request: ApprovalRequested) -> Iterator[str]:
    """Return everything that is to be known before an answer, the text that would run or change unabridged."""
    asked = question_text(request)
    who = "" if request.agent == ROOT else f"{sanitize_line(request.agent).replace('_', ' ')}: "
    yield f"approval needed: {who}{asked[:1].lower() + asked[1:] if who else asked}"
    is_change = "\n@@" in request.diff and not request.parts
    text = request.diff if is_change else "\n".join(filter(None, (request.text, request.diff)))
    yield from (f"{INDENT}{line}" for line in escape_invisible(text).split("\n"))
    yield from (f"dangerous: {escape_invisible_line(each.text)}" for each in dangers_of(request))
    if found := approval_warning(request):
        yield found
    conditions = [
        pluralize(request.commands, "command") if request.commands else "",
        f"in {sanitize_line(request.cwd)}" if request.cwd else "",
        sanitize_line(request.limits),
        f"sandbox {sanitize_line(request.with_network(request.sandbox))}" if request.sandbox else "",
    ]
    if any(conditions):
        yield f"{'it ran' if request.tool == EFFECT_TOOL else 'it would run'}: {', '.join(filter(None, conditions))}"
    if request.uncovered:
        yield f"no rule allows: {'; '.join(map(escape_invisible_line, request.uncovered))}"
    if request.why:
        yield f"why: {why_text(request)}"


def choices_of(request: ApprovalRequested) -> list[AnswerChoice]:
    """Return what may be answered; what is dangerous is allowed once at most, by the whole word."""
    is_danger = bool(dangers_of(request))
    if request.parts:
        return _effect_choices(request)
    found = [AnswerChoice("y", "yes", "allow once")]
    if is_danger:
        found = [AnswerChoice("", "yes", "allow anyway")]
    if request.suggested_rule and not is_danger:
        rule = escape_invisible_line(request.suggested_rule)
        found.append(AnswerChoice("s", "session", f"allow for session: {rule}"))
        found.append(AnswerChoice("a", "always", "always: choose the rule next"))
    if request.can_try:
        found.append(AnswerChoice("t", "try", "try first, in a copy of your files"))
    found.append(AnswerChoice("n", "no", "deny"))
    found.append(AnswerChoice("f", "because", f"deny with reason: {_REASON}"))
    return [*found, AnswerChoice("e", "edit", "edit command")] if request.tool == SHELL else found


_REASON = "write it behind the letter, or on the next line"


def _effect_choices(request: ApprovalRequested) -> list[AnswerChoice]:
    deleted = sum(part.kind is EffectKind.DELETED for part in request.parts)
    kept = len(request.parts) - deleted
    stays = f"; {pluralize(deleted, 'file')} not deleted" if deleted else ""
    found = [AnswerChoice("y", "yes", f"apply {kept}{stays}")] if kept else []
    if deleted:
        found.append(AnswerChoice("d", "delete", f"apply {kept}, delete {deleted}" if kept else f"delete {deleted}"))
    found.append(AnswerChoice("p", "parts", "choose what to apply or delete"))
    return [*found, AnswerChoice("n", "no", "discard all"), AnswerChoice("f", "because", f"discard with reason: {_REASON}")]


def units_typed(parts: Sequence[EffectPart], typed: str) -> tuple[int, ...] | None:
    """Return the units of the parts that are named by number, such as `1 3-5`; None for other text."""
    numbers: set[int] = set()
    for word in typed.replace(",", " ").split():
        first, _, last = word.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal() and 0 < int(first) <= int(last or first) <= len(parts)):
            return None
        numbers |= {*range(int(first), int(last or first) + 1)}
    return tuple(unit for number, units in enumerate(units_of(parts), 1) if number in numbers for unit in units)


FENCE = "```"
SETTLE_S = 2.0
LOOK_S = 0.2
PROMPT, MORE_PROMPT = "you: ", "more: "


def run_plain(open_host: Callable[[], SessionHost], session_id: str, task: str, *, is_demo: bool) -> int:
    """Run the linear mode on this terminal and return the exit code.  Blocks until the user leaves.

    It begins with an earlier session, if one is named, and a task, if there is one.

    Raises:
        LmtuiError: the host or the session cannot be opened.
    """
    if not sys.stdin.isatty():
        raise UsageError("--plain needs a terminal to read from", 'Use `lmtui run "TASK"` without one.')
    terminal = Terminal(state_dir() / "history" / "plain")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave_now)
    before = termios.tcgetattr(sys.stdin)
    now = [*before[:3], before[3] | termios.NOFLSH, *before[4:]]  # ctrl+c keeps what was typed
    termios.tcsetattr(sys.stdin, termios.TCSANOW, now)
    try:
        return Console(terminal).run(open_host, session_id, task, is_demo=is_demo)
    finally:
        with contextlib.suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


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
        self._has_sandbox = False
        self._left: PlanProposed | None = None

    def run(self, open_host: Callable[[], SessionHost], session_id: str = "", task: str = "", *, is_demo: bool = False) -> int:
        """Open the host, talk until the user leaves, close everything, and return the exit code."""
        with contextlib.closing(LoopThread()) as loop, contextlib.suppress(EOFError):
            host, serving = loop.do(open_host), None
            self._plain = PlainSession(loop, host, self._terminal)
            try:
                self._begin(session_id, is_demo=is_demo)
                serving = loop.start(host.serve())
                if session_id:
                    self._follow()
                self._talk(task)
            except KeyboardInterrupt:
                return EXIT_INTERRUPTED
            finally:
                if serving is not None:
                    _ = serving.cancel()
                loop.wait(host.close())
                self._tell_last_notices()
        return 0

    def _begin(self, session_id: str, *, is_demo: bool) -> None:
        host, loop = self._plain.host, self._plain.loop
        self._terminal.say(f"lmtui, plain mode, in {sanitize_line(str(host.workspace))}. /help lists the commands.")
        if is_demo:
            loop.wait(host.start_demo())
            self._terminal.say(f"the model is scripted; the tools and the files in {host.workspace} are real")
        elif host.setup_note:
            ask_for_server(self._plain)
        elif lacking := loop.wait(host.servers.choice_problem()):
            ask_for_server(self._plain, lacking)
        ask_for_trust(self._plain)
        self._plain.open(session_id)
        if session_id:
            tell_where_it_stands(self._plain)
        until = time.monotonic() + self._settle_s  # what is learned while a session opens, above all which sandbox it has
        self._tell_until(lambda: self._has_sandbox or time.monotonic() >= until)

    # -- talking --------------------------------------------------------------------------------------------------------

    def _talk(self, task: str) -> NoReturn:
        text, is_leaving = task, False
        if task:
            self._terminal.say(f"{PROMPT}{sanitize_line(task)}")
        while True:
            try:
                self._take(text or self._typed())
                text, is_leaving = "", False
            except KeyboardInterrupt:
                if is_leaving:
                    raise
                text, is_leaving = "", True
                self._terminal.say("\npress ctrl+c again to quit")

    def _typed(self) -> str:
        """Read what the user says: a line, lines that end in a backslash, or lines between two fences."""
        self._tell_until(lambda: True)
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
        if not text.strip() or run_command(self._plain, text):
            self._left = None if text.strip() == "/plan" else self._left
        elif not text.startswith("!"):
            self._plain.act(lambda session: session.submit(text))
        elif command := text.lstrip("!").strip():
            self._plain.act(lambda session: session.waiting.run_command(command, is_told=not text.startswith("!!")))
        else:
            self._terminal.say("! runs a shell command; !! hides it from the model")
        self._follow()

    def _follow(self) -> None:
        """Tell what happens until the session rests, and ask about the plan that it ends with."""
        self._follow_turn()
        while (asked := self._plain.act(lambda session: session.plans.open)) is not None and asked is not self._left:
            if ask_plan(self._plain):
                self._follow_turn()
            else:
                self._left = asked

    def _follow_turn(self) -> None:
        """Tell what happens until the session rests."""
        self._stops = 0
        rest = self._plain.loop.start(self._plain.session.wait_idle())
        rest.add_done_callback(lambda _: self._plain.inbox.put(None))
        self._tell_until(rest.done)

    def _tell_until(self, is_over: Callable[[], bool]) -> None:
        """Tell what happens until something is over, and all before that; ctrl+c stops the session, a second one leaves."""
        while not (is_over() and self._plain.inbox.empty()):
            try:
                self._tell(self._plain.inbox.get(timeout=LOOK_S))
            except queue.Empty:
                continue
            except KeyboardInterrupt:
                self._stop()

    def _stop(self) -> None:
        self._stops += 1
        if self._stops > 1:
            self._terminal.drop_typed()  # the shell shall not get it
            raise KeyboardInterrupt
        self._terminal.say("\nstopping; press ctrl+c again to quit")
        self._plain.act(lambda session: session.interrupt())

    def _tell(self, envelope: Envelope | None) -> None:
        if envelope is None:
            return
        self._plain.say(*self._plain.teller.tell(envelope))
        request = envelope.event
        self._has_sandbox |= isinstance(request, SandboxSelected)
        if isinstance(request, ApprovalRequested) and not self._stops and self._plain.is_open(request):
            self._ask(request)

    def _tell_last_notices(self) -> None:
        while not self._plain.inbox.empty():
            envelope = self._plain.inbox.get()
            if envelope is not None and isinstance(envelope.event, Notice):
                self._tell(envelope)

    # -- approvals ------------------------------------------------------------------------------------------------------

    def _ask(self, request: ApprovalRequested) -> None:
        choices, answer = choices_of(request), None
        self._plain.say(*approval_lines(request))
        self._plain.list_choices(choices)
        while answer is None:
            try:
                letter, words = self._plain.choose(choices, lambda prompt: self._plain.read_answer(request, prompt))
            except AnsweredElsewhere:
                return
            except EOFError:
                self._plain.act(lambda session: session.answer(request.approval_id, Answer(Outcome.NO)))
                raise
            if letter == "y" and request.parts:  # deletions wait for a word of their own
                kept = [str(number) for number, part in enumerate(request.parts, 1) if part.kind is not EffectKind.DELETED]
                answer = Answer(Outcome.ONCE, hunks=units_typed(request.parts, " ".join(kept)))
            else:
                answer = Answer(OUTCOMES[letter]) if letter in OUTCOMES else self._ask_more(request, letter, words)
        given = answer
        self._plain.act(lambda session: session.answer(request.approval_id, given))

    def _ask_more(self, request: ApprovalRequested, letter: str, words: str) -> Answer | None:
        match letter:
            case "f":
                return Answer(Outcome.NO, feedback=words or self._terminal.read("why not? (sent to the model): ").strip())
            case "a":
                return self._ask_grant(request)
            case "e":
                start = request.text if "\n" not in request.text and request.text.isprintable() else ""
                edited = self._terminal.read("edited command (empty to go back): ", start=start)
                return Answer(Outcome.ONCE, edited=edited if edited != request.text else "") if edited.strip() else None
            case "p":
                return self._ask_parts(request)
            case _:
                return None

    def _ask_parts(self, request: ApprovalRequested) -> Answer | None:
        rows = (f"  {number}. {part_text(part)}" for number, part in enumerate(request.parts, 1))
        self._plain.say("apply or delete which of these?", *rows)
        typed = self._terminal.read("numbers, such as 1 3-5 (empty to go back): ")
        units = units_typed(request.parts, typed)
        if not units:
            self._terminal.say("nothing chosen" + (f": type numbers from 1 to {len(request.parts)}" if typed.strip() else ""))
            return None
        return Answer(Outcome.ONCE, hunks=units)

    def _ask_grant(self, request: ApprovalRequested) -> Answer | None:
        found = grants(request)
        self._terminal.say("add which rule?")
        number = pick([*map(str, found)], "number (empty to go back): ", self._terminal.read, self._terminal.say)
        if number is None:
            self._terminal.say("no rule added")
            return None
        return Answer(Outcome.ALWAYS, rule=found[number].number, scope=found[number].scope)
