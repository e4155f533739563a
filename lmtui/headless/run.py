"""One task without a screen: the answer on standard output, what is for people on standard error, exit codes as a contract."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from lmtui.app.archive import last_session, session_log
from lmtui.app.host import Runtime, encode_event, open_runtime, runtime_options
from lmtui.app.session_models import last_model
from lmtui.command_line import EXIT_BLOCKED, EXIT_INTERRUPTED, EXIT_UNFINISHED, say, stopping, until_stopped
from lmtui.commands.command import Begin, CommandContext, Output
from lmtui.commands.table import command_table, run_unasked
from lmtui.config import Config, Loaded
from lmtui.core import events
from lmtui.core.agent_events import PlanProposed
from lmtui.core.errors import ConfigError, LmtuiError, SandboxError, SessionFileError, UsageError
from lmtui.core.event_text import EventText, end_words, saved_patch
from lmtui.core.messages import Image
from lmtui.core.model_events import swaps_of
from lmtui.core.permissions.rules import Mode
from lmtui.core.plan_mode import grant_lines, proposal_lines
from lmtui.core.prompt_text import AS_WORDS, slash_call
from lmtui.core.sanitize import pluralize, sanitize, sanitize_line
from lmtui.core.sessions import Session, SessionHost
from lmtui.core.verification import GoalChanged, GoalState
from lmtui.headless.inputs import joined, write_answer

if TYPE_CHECKING:
    from lmtui.json_schema import JsonAnswer

NO_PLAN = "The model proposed no plan. Nothing changed. Ask again, or try another model."


def show_open(session: Session, asked: PlanProposed, out: TextIO, err: TextIO) -> int:
    """Print the plan that waits for a person and how to answer it, and return the exit code."""
    say("\n".join(proposal_lines(asked.proposal)), file=out)
    say(f"lmtui: the plan waits for your answer: lmtui resume {session.id} (on a terminal), or with --approve", file=err)
    return EXIT_BLOCKED


_MOST_TRIES = 3
_OTHER_ANSWER = "Simplify the schema, describe its fields in the task, or choose another model with --model."


@dataclass(frozen=True, slots=True)
class HeadlessTask:
    """What to run: a text with pictures, in a new session or an earlier one (`session_id`), told as `parsers` lists it.

    Without a text an earlier session continues, or shows the plan that waits in it.  What the options say has their names.
    `is_words`: no part of the text is a command.  `piped` is what came on standard input next to the text.
    With `attempts` it is tried that often, by each of the `models` if any, and the best one is kept with `keep`.
    `goal` is a command that an earlier session has to work at until it exits with 0.  A new session that
    `plans_first` begins in plan mode.
    """

    text: str
    session_id: str = ""
    output: str = "text"
    images: tuple[Image, ...] = ()
    approve: bool = False
    allow_named: bool = False
    is_words: bool = False
    piped: str = ""
    output_schema: JsonAnswer | None = None
    output_last_message: str = ""
    ephemeral: bool = False
    attempts: int = 0
    models: tuple[str, ...] = ()
    keep: bool = False
    goal: str = ""
    plans_first: bool = False

    @property
    def words(self) -> str:
        """Return what the model is told."""
        text = joined(self.text or "Go on.", self.piped)
        return self.output_schema.instruct(text) if self.output_schema is not None else text


async def read_task(host: SessionHost, text: str, images: tuple[Image, ...], session_id: str = "") -> Begin | Output:
    """Return what gives a session its task, or what a command says without one; it works on an earlier session where one is.

    Raises:
        UsageError: it is a slash command that is not there, or one that needs a screen.
    """
    call = command_table().parse(text) if text.startswith("/") else None
    if call is None:
        return Begin(lambda session: session.submit(text, images=images))
    name = sanitize_line(call.name)
    if images:
        raise UsageError(f"no picture goes along with /{name}", "Leave it out, or say what to do in words.")
    if call.command is not None and call.command.instead:
        raise UsageError(f"/{name} needs a screen", f"Use {call.command.instead}. {AS_WORDS}")
    try:
        session = await host.open_session(session_id) if session_id and call.command is not None else None
        return await run_unasked(CommandContext(host, session, command_table()), text)
    except LmtuiError as error:
        raise UsageError(str(error), error.hint) from error


async def _read(runtime: Runtime, task: HeadlessTask) -> Begin | Output:
    if not task.is_words and (call := slash_call(task.text)) is not None:
        if task.words != task.text:
            raise UsageError(f"/{call[0]} takes no standard input and no schema", f"Say in words what to do. {AS_WORDS}")
        return await read_task(runtime, task.text, task.images, task.session_id)
    return Begin(lambda session: session.submit(task.words, typed=task.text or "Go on.", images=task.images))


async def run_headless(runtime: Runtime, task: HeadlessTask, out: TextIO, err: TextIO) -> int:
    """Run one task to its end and return the exit code.  The runtime stays open; the caller closes it."""
    session, reporter = None, Reporter(task.output, out, err)
    runtime.plans_first = task.plans_first
    try:
        if task.session_id:
            runtime.take_server_of(task.session_id)
        begin = await _read(runtime, task)
        if isinstance(begin, Output):
            if task.output != "text":
                raise UsageError(f"{sanitize_line(task.text)} prints text and no events", "Leave out --output.")
            print(*map(sanitize, begin.lines), sep="\n", file=out)
            return 0
        if note := await runtime.choose_server(task.models):
            say(note, file=err)
        await runtime.require_sandbox()
        if task.attempts:
            return await _attempts(runtime, task, begin, out, err)
        session = await (runtime.open_session(task.session_id) if task.session_id else runtime.new_session())
        reporter.since_seq = session.history()[-1].seq if session.history() else 0
        if task.session_id:
            _take_up_goal(session, task.goal, err)
        unsubscribe = session.subscribe(reporter.take)
        try:
            with stopping(session.interrupt):
                await _turns(session, task, begin, reporter, err)
                if task.output_schema is not None:
                    await _match(session, task.output_schema, reporter)
        finally:
            unsubscribe()
    except (UsageError, ConfigError):
        raise
    except LmtuiError as error:
        return reporter.fail(session, error)
    if task.output_last_message:
        write_answer(Path(task.output_last_message), reporter.answer)
    reporter.allowing = [rule for each in runtime.sessions for rule in each.unattended]
    code = await _told(session, task, reporter, out, err)
    if task.ephemeral:
        await runtime.archive.delete(session.id)
    return code


async def _attempts(runtime: Runtime, task: HeadlessTask, begin: Begin, out: TextIO, err: TextIO) -> int:
    """Run a task several times and return the exit code: 0 only if the chosen attempt is right as far as checks tell."""
    attempts = runtime.attempts
    work = attempts.run(task.text, task.attempts, task.models, begin.start, lambda each: say(str(each), file=err, flush=True))
    if (chosen := await until_stopped(work, "nothing was kept")) is None:
        return EXIT_INTERRUPTED
    problem, is_kept, notes = "", task.keep and chosen.is_good, list[str]()
    try:
        notes += (await attempts.keep(chosen, None, ())).notes if is_kept else ()
    except SandboxError as error:
        problem, is_kept = f"nothing was kept: {error.full_text()}", False
    if not is_kept and chosen.effect is not None and not chosen.effect.is_empty:
        apply = f" To apply the changes: git apply {shlex.quote(chosen.patch)}" if chosen.patch else ""
        notes += [f"Nothing was kept.{apply}", *(f"not in it: {each}" for each in chosen.effect.special)]
    others = [each for each in attempts.ended if each.patch and each.number != chosen.number]
    notes += [f"patch of attempt {each.number}: {each.patch}" for each in others]
    session, reporter = attempts.session_of(chosen), Reporter("json", out, err)
    for envelope in session.history():
        reporter.take(envelope)
    end = reporter.end
    assert end is not None
    lacks = problem or ("" if chosen.is_good or end.exit_code else f"no attempt is green: {end.doubt or chosen.problem}")
    if task.output == "json":
        best, ended = chosen.number, attempts.ended
        listed = [each.as_object(is_chosen=each.number == best, is_kept=is_kept and each.number == best) for each in ended]
        print(json.dumps({**reporter.as_object(session, _lacking(end, lacks)), "attempts": listed}), file=out)
    elif reporter.answer.strip():
        print(sanitize(reporter.answer), file=out)
    doubt, kept = "" if chosen.is_green else ", and it is not green", "; it was kept" if is_kept else ""
    head = f"attempt {chosen.number} is chosen{doubt}{kept}: {attempts.why(chosen)}"
    print(*map(sanitize_line, (head, *notes, *([f"lmtui: {lacks}"] if lacks else []))), sep="\n", file=err)
    return EXIT_UNFINISHED if lacks else end.exit_code


def _take_up_goal(session: Session, goal: str, err: TextIO) -> None:
    """Set the goal that an earlier session is to have, or say that the one it has is paused."""
    since = [each.event for each in session.history()]
    reached = [place for place, event in enumerate(since) if event == GoalChanged(command=goal, state=GoalState.REACHED)]
    ended = [event.reason for event in since[reached[-1] :] if isinstance(event, events.TurnEnded)] if reached else []
    is_cut_off = bool(reached) and not {*ended} - {events.TurnReason.INTERRUPTED}  # killed right behind it
    if goal and not is_cut_off and dict(session.goals.listed()).get(goal) is not GoalState.ACTIVE:
        session.goals.set(goal)
    paused = [command for command, state in session.goals.listed() if state is GoalState.PAUSED]
    if paused:
        how = f'To work at it again: lmtui run --resume {session.id} "/goal resume"'
        print(f"The goal is paused, and this run does not check it: {sanitize_line(paused[0])}. {how}", file=err)


async def _told(session: Session, task: HeadlessTask, reporter: Reporter, out: TextIO, err: TextIO) -> int:
    """Print what comes at the end of a task and return the exit code."""
    started = [each.event for each in session.history() if isinstance(each.event, events.SandboxSelected)]
    mode = Mode.AUTO if any(each.asks_each_command for each in started) else session.mode  # then auto asks as well
    for rule in dict.fromkeys(reporter.allowing):
        print(_refusal(sanitize_line(rule), mode), file=err)
    for refused in reporter.refused:
        say(f"refused: {refused}; denied unattended, and no rule can allow it", file=err)
    if session.trial.waiting:
        await session.close()  # it is a patch then
    if patch := saved_patch(session.history()):
        say(f"lmtui: the changes made in try mode are not merged. To apply them: git apply {shlex.quote(patch)}", file=err)
    asked, end = session.plans.open, reporter.end
    if asked is None or (end is not None and end.reason not in _WELL):
        has_plan = any(isinstance(each.event, PlanProposed) for each in session.history())
        wants_plan = task.plans_first and not task.session_id
        return reporter.finish(session, lacks=NO_PLAN if wants_plan and not has_plan else "")
    if task.output == "json":
        told = reporter.as_object(session, end or _cut_short())
        plan = {"id": asked.proposal_id, **asdict(asked.proposal)}
        print(json.dumps({**told, "status": "blocked", "exit_code": EXIT_BLOCKED, "plan": plan}), file=out)
    reporter.print_end(end)
    return show_open(session, asked, out if task.output == "text" else err, err)


async def _match(session: Session, schema: JsonAnswer, reporter: Reporter) -> None:
    """Have the model answer again while its answer does not match, a few times."""
    for left in reversed(range(_MOST_TRIES)):
        if reporter.end is None or reporter.end.exit_code:
            return
        answer, why = schema.read(reporter.answer)
        if not why:
            reporter.answer = answer
            return
        if not left:
            reporter.lacks = f"{why.partition(chr(10))[0]} ({_MOST_TRIES} tries). {_OTHER_ANSWER}"
            return
        session.submit(why, typed="[the answer does not match]")
        await session.wait_idle()


def _refusal(rule: str, mode: Mode) -> str:
    """Return what was refused and what would allow it; the mode alone opens no host, and what asks in `auto` asks again."""
    other = "" if mode is Mode.AUTO or rule.startswith("Network(") else " or --mode auto"
    return f"refused: {rule} (denied unattended).  Allow it with --allow {shlex.quote(rule)}{other}"


async def _turns(session: Session, task: HeadlessTask, begin: Begin, reporter: Reporter, err: TextIO) -> None:
    if task.output == "stream-json":
        for envelope in session.history():
            reporter.print_line(envelope)
    else:
        for envelope in _said_at_opening(session.history()):
            reporter.take(envelope)
    if task.text or session.plans.open is None:
        begin.start(session)
        await session.wait_idle()
    if task.approve and (asked := session.plans.open) is not None:
        grants = session.plans.grants(asked.proposal)
        lines, rules = (grant_lines(grants), grants.rules) if task.allow_named else ((), ())
        say("\n".join([*proposal_lines(asked.proposal), *lines]), file=err)
        session.plans.approve(asked.proposal_id, rules=rules, by="flag")
        await session.wait_idle()


def _said_at_opening(history: Sequence[events.Envelope]) -> Iterator[events.Envelope]:
    """Return the warnings since the last turn ended: what does not hold in this session, said when it was opened."""
    ended = [place for place, envelope in enumerate(history) if isinstance(envelope.event, events.TurnEnded)]
    for envelope in history[ended[-1] + 1 if ended else 0 :]:
        if isinstance(envelope.event, events.Notice) and envelope.event.level is not events.Level.INFO:
            yield envelope


_LONG = re.compile(r"(.{120}).{2,}(.{120})")  # how a call ended stands at the end of its line
# What the end of a run says, or only a user who is there needs to hear.
_UNTOLD = (
    events.ApprovalResolved, events.FilesChanged, events.FilesRestored, events.HostReached, events.ModeChanged,
    events.ModelChanged, events.PlanChanged, events.TurnEnded,
)  # fmt: skip


# Ends behind which a plan can wait; after others it is the end that came of the run.
_WELL = (events.TurnReason.DONE, events.TurnReason.WAITING, events.TurnReason.BLOCKED)
_FIELDS = (
    "status", "exit_code", "text", "files_changed", "usage", "iterations", "elapsed_s", "sandbox", "error", "verified",
    "checks",
)  # fmt: skip


class Reporter:
    """Turns events into output as they happen; `refused` is what only a person could have allowed, each with why it asked."""

    def __init__(self, output: str, out: TextIO, err: TextIO) -> None:
        self._output = output
        self._out = out
        self._err = err
        self._text = EventText()
        self._last: events.TurnEnded | None = None
        self._before: events.TurnEnded | None = None
        self._held: events.Envelope | None = None  # the end of the last turn, not printed yet
        self._commands: dict[str, dict[str, object]] = {}
        self.refused: list[str] = []
        self.allowing: Sequence[str] = ()
        self.answer = ""
        self.lacks = ""
        self.since_seq = 0  # where the task begins in the log

    def take(self, envelope: events.Envelope) -> None:
        """Take one event."""
        if isinstance(envelope.event, events.TurnStarted):
            self.print_end()
            self._before, self._last = self._last, None
        elif self._last is not None:
            return  # what is learned behind the turn's back is no part of its story, which ends with `turn_ended`
        elif isinstance(envelope.event, events.TurnEnded):
            self._last, self._held = _together(self._before, envelope.event), envelope
            self.answer = envelope.event.text
        match envelope.event:
            case events.ToolCallStarted(tool="shell", call_id=call_id, title=title):
                self._commands[call_id] = {"command": title, "ok": False}
            case events.ToolCallFinished(call_id=call_id, ok=ok) if call_id in self._commands:
                self._commands[call_id]["ok"] = ok
            case events.ApprovalRequested(tool=tool, why=why, suggested_rule=""):
                self.refused.append(sanitize_line(f"{tool}, as {why}"))
        if self._output == "stream-json" and self._held is None:
            self.print_line(envelope)
        elif self._output == "text":
            self._tell(envelope.event)

    def print_end(self, end: events.TurnEnded | None = None) -> None:
        """Print the end of the last turn to a stream; that of the run, if it is given, takes its place."""
        if self._output == "stream-json" and self._held is not None:
            self.print_line(dataclasses.replace(self._held, event=end or self._held.event))
        self._held = None

    def print_line(self, envelope: events.Envelope) -> None:
        """Print one event as a line of JSON."""
        print(encode_event(envelope), file=self._out, flush=True)

    @property
    def end(self) -> events.TurnEnded | None:
        """Return the end of the last turn with the cost of all, None where none ended."""
        return self._last and dataclasses.replace(self._last, text=self.answer)

    def as_object(self, session: Session | None, end: events.TurnEnded) -> dict[str, object]:
        """Return how a run ended as `--output json` has it."""
        history = session.history() if session is not None else ()
        told, used, patch = asdict(end), last_model(history), saved_patch(history)
        return {
            "session": session.id if session is not None else "",
            **{name: told[name] for name in _FIELDS},
            "model": used.model if used is not None else "",
            "swaps": asdict(swaps_of(history, self.since_seq)),
            "commands": list(self._commands.values()),
            "refused": [*({"rule": rule} for rule in self.allowing), *({"why": why} for why in self.refused)],
            **({"patch": patch} if patch else {}),
        }

    def finish(self, session: Session, lacks: str = "") -> int:
        """Print what comes at the end and return the exit code; a turn that is done may lack what was asked for."""
        end = self.end
        if end is None:
            return self.fail(session, LmtuiError("the session ended before its turn"))
        lacks = lacks or self.lacks if end.exit_code == 0 else ""
        if self._output == "json":
            print(json.dumps(self.as_object(session, _lacking(end, lacks))), file=self._out)
        elif self._output == "text":
            if end.text.strip():
                print(sanitize(end.text), file=self._out)
            if end.error:
                print(f"lmtui: {sanitize(end.error)}", file=self._err)
            self._err.write(_summary(session, end, self.since_seq))
        self.print_end(_lacking(end, lacks))
        if lacks:
            say(f"lmtui: {lacks}", file=self._err)
        return EXIT_UNFINISHED if lacks else end.exit_code

    def fail(self, session: Session | None, error: LmtuiError) -> int:
        """Say why a run could not begin or end, and return the exit code."""
        say(f"lmtui: {error.full_text()}", file=self._err)
        if self._output != "text":
            kind = {"kind": "turn_ended", "reason": "error"} if self._output == "stream-json" else {}
            print(json.dumps({**kind, **self.as_object(session, _cut_short(error.full_text()))}), file=self._out)
        return 1

    def _tell(self, event: events.Event) -> None:
        if isinstance(event, _UNTOLD) or (isinstance(event, events.Notice) and event.level is events.Level.INFO):
            return
        lines = self._text.lines(event)
        if isinstance(event, events.ToolCallFinished):  # its first words say why it failed, and a shell's exit code does
            lines = (_LONG.sub(r"\1…\2", line) for line in islice(lines, 1 if event.tool == "shell" else 2))
        for line in lines:
            say(line, file=self._err, flush=True)


def _together(before: events.TurnEnded | None, end: events.TurnEnded) -> events.TurnEnded:
    """Return the end of a turn with the figures of those before it, too."""
    if before is None:
        return end
    return dataclasses.replace(
        end,
        usage=before.usage + end.usage,
        iterations=before.iterations + end.iterations,
        elapsed_s=round(before.elapsed_s + end.elapsed_s, 3),
        files_changed=tuple(dict.fromkeys((*before.files_changed, *end.files_changed))),
    )


def _summary(session: Session, end: events.TurnEnded, since_seq: int) -> str:
    doubt = "not verified" if end.verified == events.Verified.UNVERIFIED and not end.doubt else ""
    where, swaps = f"sandbox {end.sandbox}" if end.sandbox else "", str(swaps_of(session.history(), since_seq))
    return f"[{end_words(end, doubt, pluralize(end.iterations, 'step'), where, swaps)}; session {session.id}]\n"


def _cut_short(error: str = "") -> events.TurnEnded:
    """Return the end of a run in which no turn ended."""
    reason, verified = events.TurnReason.ERROR, events.Verified.NONE
    return events.TurnEnded(turn_id="", reason=reason, status=str(reason), exit_code=1, error=error, verified=verified)


def _lacking(end: events.TurnEnded, lacks: str) -> events.TurnEnded:
    """Return the end of a run that did not bring what was asked for, as it is where that is nothing."""
    reason = events.TurnReason.UNFINISHED
    changes = {"reason": reason, "status": str(reason), "exit_code": EXIT_UNFINISHED, "error": lacks} if lacks else {}
    return dataclasses.replace(end, **changes)  # type: ignore[arg-type]


async def task(workspace: Path, loaded: Loaded, wanted: HeadlessTask, model_file: Path | None = None) -> int:
    """Run one task, on a model file where one is named, and return the exit code."""
    options = runtime_options(loaded, model_file)
    async with open_runtime(workspace, loaded.config, is_attended=False, **options) as runtime:
        if model_file is not None:
            await asyncio.to_thread(runtime.servers.run_file, model_file)
        return await run_headless(runtime, wanted, sys.stdout, sys.stderr)


def which_session(workspace: Path, wanted: str, text: str) -> tuple[str, str]:
    """Return the session to resume and the text to go on with; the only word may be either.

    Raises:
        SessionFileError: no such session.
    """
    if wanted:
        try:
            return session_log(workspace, wanted).stem, text
        except SessionFileError:
            if text or " " not in wanted:
                raise
            text = wanted
    last = last_session(workspace)
    if not last:
        raise SessionFileError(f"no session in {workspace} yet", 'Start one with `lmtui` or `lmtui run "TASK"`.')
    return last, text


async def demo(config: Config, folder: Path, wanted: HeadlessTask, *, is_kept: bool) -> int:
    """Run the scripted demo in an empty folder, which the user chose if it `is_kept`, and return the exit code."""
    say("lmtui demo: the model is a script on a loopback port; the tools, the sandbox and the files are real.", file=sys.stderr)
    config = dataclasses.replace(config, mode="auto")
    async with open_runtime(folder, config, is_attended=False, writes_log=True) as runtime:
        lacks = await runtime.use_demo(folder, rate=0.0)
        say(f"folder:  {folder}" + (f"\nlacking: {lacks}" if lacks else ""), file=sys.stderr)
        code = await run_headless(runtime, wanted, sys.stdout, sys.stderr)
    where = folder if is_kept else f"{folder} (a temporary folder; --keep DIR chooses one)"
    if code == 0:
        say(f"What it made is in {where}.  `lmtui demo` on a terminal shows it full screen.", file=sys.stderr)
        return 0
    if wanted.plans_first and not wanted.approve and code == EXIT_BLOCKED:
        say("The demo's model has gone: `lmtui demo --headless --plan --approve` plans again and does it.", file=sys.stderr)
    say(f"What was done until then is in {where}.", file=sys.stderr)
    return 0 if lacks and code == EXIT_BLOCKED else code  # what is lacking was said
