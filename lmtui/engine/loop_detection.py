"""Follows the work of an agent: circles (the same calls, the same failures, nothing new), and what its turn leaves open.

One watch for each agent, fed by events alone, so that a resumed session counts on.  First the model is told, then the turn ends
and the user is asked.  Polling whose results change, and reading one file after the other, are none.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import takewhile

from lmtui.core import events
from lmtui.core.agent_events import Wait, WaitSet
from lmtui.core.messages import Role
from lmtui.core.model_events import Compacted, Reminder
from lmtui.core.permissions.rules import FileEffect, traits_of
from lmtui.core.plan import REFUSED, WELL, CommandRun, Plan, PlanStep, StepWork, Todo, current_step, is_run_of, programs_of
from lmtui.core.times import as_utc
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.engine.syntax import MOST_FILES
from lmtui.engine.turn_outcome import CUT_OFF, UNFINISHED, goes_on


@dataclass(frozen=True, slots=True)
class Seen:
    """A call with its result, by a key that is equal for equal ones; `words` name it, `has_changed`: it changed something."""

    key: tuple[str, str, str]
    words: str = ""
    has_changed: bool = False


HELD_FROM = 3
TOO_MANY_CALLS = "too many calls"  # the summary of a call beyond the limit of one message: it never ran
_CANNOT_RUN = ("failed", "not understood")
_SHORT_CHARS = 1_000
_TELLING_CHARS = 40
_MOST_TRAIL = 64
_MOST_SEEN = 10_000
_WINDOW, _IDLE_STEPS, _FAILED_STEPS = 8, 15, 5
_ROW_OVER = 8
_LONGEST_CIRCLE, _ROUNDS_TOLD, _ROUNDS_OVER, _ROUNDS_OVER_CHANGING = 5, 3, 4, 6
_SAME = "Same result as before: you have it already. Do not make this call again. Answer the user now, in plain words."
_SAME_FAILURE = "(This call failed in the same way before. Do it in another way, or tell the user what is missing.)"


@dataclass(frozen=True, slots=True)
class Loop:
    """A circle that the model goes round in: `what` says it to the user, `advice` to the model (empty: it was told already)."""

    kind: str
    what: str
    count: int
    advice: str = ""
    is_over: bool = False


@dataclass(slots=True)
class _Step:
    """What one answer of the model came to so far.

    Failed edits of one file count once: the model made each without seeing the others' errors.
    """

    text: str
    calls: int = 0
    failed: int = 0
    failed_edits: set[str] = field(default_factory=set)
    is_news: bool = False


@dataclass(slots=True)
class _Counts:
    """What is counted from the user's words on."""

    last: deque[Seen] = field(default_factory=deque)
    trail: deque[Seen] = field(default_factory=lambda: deque(maxlen=_MOST_TRAIL))
    seen: set[tuple[str, str, str]] = field(default_factory=set)
    results: set[str] = field(default_factory=set)
    edits: dict[str, int] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    idle: int = 0
    errors: int = 0
    texts: int = 0
    text: str = ""


class LoopDetector:
    """Watches one agent: the deeper a sub-agent is, the sooner it is stopped.  `has_failed` tells whether the last call did.

    Attributes:
        window: among how many calls the same one is looked for.
    """

    def __init__(self, depth: int = 0) -> None:
        self.window = max(3, 5 - depth) if depth else _WINDOW
        self._most_idle = max(5, 9 - depth) if depth else _IDLE_STEPS
        self._most_failed = 3 if depth else _FAILED_STEPS
        self._enough = max(3, self.window // 2 + 1)  # of the window's calls: more than half
        self.has_failed = self._is_stuck = False
        self._counts = _Counts()
        self._step: _Step | None = None
        self._begun: dict[str, events.ToolCallStarted] = {}
        self._is_beginning = self._was_cut = False

    @property
    def count(self) -> int:
        """Return how often the last call with its result is among the last ones."""
        last = [each.key for each in self._counts.last][-self.window :]
        return last.count(last[-1]) if last else 0

    @property
    def has_called(self) -> bool:
        """Tell whether a call was made since the user's words."""
        return bool(self._counts.trail)

    @property
    def needs_answer(self) -> bool:
        """Tell whether the next answer should end the task, for nothing new comes any more."""
        return self.count >= min(HELD_FROM, self._enough - 1)

    def answer(self, tool: str, arguments: Mapping[str, object], text: str, *, ok: bool) -> str:
        """Return what the model gets of a call that ran, in place of a result that it has already.

        A long result is left out only where it is the newest of its call: else nobody could tell which one is meant.
        """
        key = _key_of(tool, arguments, text)
        recent = [each.key for each in self._counts.last][-self.window + 1 :]
        if key not in recent:
            return text
        if not ok:
            return f"{text}\n{_SAME_FAILURE}"
        if len(text) <= _SHORT_CHARS:
            return f"{_SAME}\n{text}"
        newest = next(each for each in reversed(recent) if each[:2] == key[:2])
        return _SAME if newest == key else text

    def apply(self, event: events.Event) -> None:
        """Take up what the agent did; live and on replay alike."""
        match event:
            case events.TurnStarted():
                self._is_beginning = True
            case events.MessageAdded(role=Role.USER):
                self._hear(event.text)
            case events.MessageAdded(role=Role.ASSISTANT):
                self._close()
                self._step = _Step(" ".join(event.text.split()))
            case events.ToolCallStarted(by=""):
                self._begun[event.call_id] = event
            case events.ToolCallFinished() if event.call_id in self._begun:
                self._take(event, self._begun.pop(event.call_id))
            case events.FilesChanged() | events.PlanChanged():
                self._change(is_files=isinstance(event, events.FilesChanged))
            case Compacted() | events.Rewound():  # what was left out may be asked for again
                counts = self._counts
                counts.last.clear()
                counts.seen.clear()
                counts.results.clear()
            case WaitSet():  # to look again at its time is what the wait is for
                self._begin_anew()
            case events.TurnEnded(reason=reason):
                self._close()
                self._was_cut = reason is events.TurnReason.INTERRUPTED

    def judge(self) -> Loop | None:
        """End the step and return the circle that shows itself, None where there is none or it was told of already."""
        self._close()
        rounds = (self._same(), self._circle()) if self._counts.trail else ()
        found = [*filter(None, rounds), *self._counted()]
        over = next((loop for loop in found if loop.is_over), None)
        if over:
            return over
        fresh = [loop for loop in found if loop.kind not in self._counts.told]
        self._counts.told.update(loop.kind for loop in fresh[:1])
        return fresh[0] if fresh else None

    def _hear(self, text: str) -> None:
        """Begin again with the user's words, unless they say to go on with what was cut short."""
        if not (self._is_beginning and self._was_cut and goes_on(text)):
            self._begin_anew()
        self._step, self._is_beginning = None, False

    def _begin_anew(self) -> None:
        self._counts, self._step, self.has_failed = _Counts(), None, False
        self._is_stuck = False

    def _change(self, *, is_files: bool) -> None:
        if self._step is not None:
            self._step.is_news = True
        if is_files:
            self._counts.last.clear()
            self._counts.edits.clear()
        if self._counts.trail:
            self._counts.trail[-1] = replace(self._counts.trail[-1], has_changed=True)

    def _take(self, event: events.ToolCallFinished, begun: events.ToolCallStarted) -> None:
        """Take note of a call that is over."""
        counts = self._counts
        if event.summary == TOO_MANY_CALLS:
            self.has_failed = True
            return
        key = self._key(event, begun)
        seen = Seen(key, f"{begun.tool} {begun.title}".strip()[:80])
        self.has_failed = not event.ok
        self._is_stuck = not event.ok and event.summary in _CANNOT_RUN
        if self._step is not None:
            is_telling = len(event.result) > _TELLING_CHARS
            is_known = key in counts.seen or (is_telling and key[2] in counts.results)
            # tests that fail in another way are news
            is_news = not is_known and (event.ok or event.summary.startswith(("exit ", "timed out")))
            self._step.calls += 1
            self._step.failed += not (event.ok or is_news)
            self._step.is_news |= is_news
        if len(counts.seen) > _MOST_SEEN:
            counts.seen.clear()
            counts.results.clear()
        counts.seen.add(key)
        counts.results.add(key[2])
        counts.last.append(seen)
        while len(counts.last) > self.window:
            counts.last.popleft()
        counts.trail.append(seen)
        path = str(begun.arguments.get("path", ""))
        if begun.tool == "edit" and path:
            self._take_edit(path, is_ok=event.ok)

    def _take_edit(self, path: str, *, is_ok: bool) -> None:
        counts, failed = self._counts, self._step.failed_edits if self._step is not None else set()
        counts.edits[path] = 0 if is_ok else counts.edits.get(path, 0) + (path not in failed)
        if not is_ok:
            failed.add(path)

    def _key(self, event: events.ToolCallFinished, begun: events.ToolCallStarted) -> tuple[str, str, str]:
        """Return the key of a call by what the log holds of it, where a result that came again may be told in other words."""
        said = event.result.removeprefix(f"{_SAME}\n").removesuffix(f"\n{_SAME_FAILURE}")  # as `answer` says it again
        key = _key_of(event.tool, begun.arguments, said)
        same = (each.key for each in reversed(self._counts.last) if each.key[:2] == key[:2])
        return next(same, key) if event.result == _SAME else key

    def _close(self) -> None:
        """End the step under way, if one is."""
        step, counts = self._step, self._counts
        if step is None:
            return
        self._step = None
        counts.idle = 0 if step.is_news else counts.idle + 1
        if step.calls:
            counts.errors = counts.errors + 1 if step.failed == step.calls and not step.is_news else 0
        is_again = bool(step.text) and step.text == counts.text and not step.is_news
        counts.texts = counts.texts + 1 if is_again else 1
        counts.text = step.text

    def _same(self) -> Loop | None:
        """Look among the last calls, and at the row that making room does not interrupt; one that cannot run ends it."""
        trail = self._counts.trail
        count = self.count
        row = sum(1 for _ in takewhile(lambda each: each.key == trail[-1].key and not each.has_changed, reversed(trail)))
        is_long = row >= _ROW_OVER
        count = row if is_long else count
        if count < HELD_FROM:
            return None
        what = f"the same call with the same result, {count} times: {trail[-1].words}"
        return Loop("same", what, count, is_over=is_long or self._is_stuck or count >= self._enough)

    def _circle(self) -> Loop | None:
        """Look for calls that come again in turn; those that change something may honestly, so they need more rounds."""
        trail = tuple(self._counts.trail)
        for period in range(2, _LONGEST_CIRCLE + 1):
            keys = [each.key for each in trail[-period:]]
            count = 1
            if len(trail) < period * _ROUNDS_TOLD or len(set(keys)) == 1:
                continue
            while [each.key for each in trail[-period * (count + 1) : -period * count]] == keys:
                count += 1
            if count < _ROUNDS_TOLD:
                continue
            calls = ", ".join(each.words for each in trail[-period:])
            advice = f"You are repeating yourself: {calls}. Do something else, or tell the user what is missing."
            changes = any(each.has_changed for each in trail[-period * count :])
            is_over = count >= (_ROUNDS_OVER_CHANGING if changes else _ROUNDS_OVER)
            return Loop("circle", f"the same {period} calls in turn, {count} times: {calls}", count, advice, is_over=is_over)
        return None

    def _counted(self) -> Iterator[Loop]:
        """Yield what came too often: told from one count on, over at another."""
        counts = self._counts
        path, edits = max(counts.edits.items(), key=lambda each: each[1], default=("", 0))
        missing = "tell the user what is missing"
        for kind, count, told, over, what, advice in (
            (
                "edits", edits, 3, 5, f"{edits} failed edits of {path}",
                f"{edits} edits of {path} failed. Read it again and copy the text exactly, or write the whole file.",
            ),
            (
                "errors", counts.errors, max(2, self._most_failed - 2), self._most_failed,
                f"steps in a row in which every call failed: {counts.errors}",
                f"Every call of your last steps failed. Read the errors, and try another way, or {missing}.",
            ),
            (
                "texts", counts.texts, 3, 5, f"the same text {counts.texts} times",
                "You say the same again and nothing comes of it. Do something else, or answer the user.",
            ),
            (
                "idle", counts.idle, self._most_idle * 2 // 3, self._most_idle,
                f"{counts.idle} steps without new information",
                "Your last steps brought nothing new and changed nothing. Do something else, or answer the user.",
            ),
        ):  # fmt: skip
            if count >= told:
                yield Loop(kind, what, count, advice, is_over=count >= over)


def _key_of(tool: str, arguments: Mapping[str, object], result: str) -> tuple[str, str, str]:
    given = json.dumps(dict(arguments), sort_keys=True, default=str)
    return tool, _digest(given), _digest(result.removesuffix(", unchanged"))


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


_STOPS = (events.TurnReason.INTERRUPTED, events.TurnReason.ERROR, events.TurnReason.LIMIT, events.TurnReason.UNFINISHED)


@dataclass(frozen=True, slots=True)
class StaleContextTracker:
    """Whether the model is to be told the state of its work, from its agent's events.

    `is_shaken`: it may no longer see what it did last; `is_lost`: it was stopped in a call and does not know the outcome.
    """

    is_due: bool = False
    is_shaken: bool = False
    is_lost: bool = False
    open_calls: frozenset[str] = frozenset()

    def apply(self, event: events.Event) -> StaleContextTracker:
        """Return this after an event of the agent."""
        match event:
            case events.ToolCallStarted(call_id=call_id, by=""):
                return replace(self, open_calls=self.open_calls | {call_id})
            case events.ToolCallFinished(call_id=call_id):
                is_lost = self.is_lost or event.summary == UNFINISHED
                return replace(self, open_calls=self.open_calls - {call_id}, is_lost=is_lost)
            case events.PlanChanged() if not self.open_calls:
                return replace(self, is_due=True)
            case Compacted() | events.Rewound():
                return replace(self, is_due=True, is_shaken=True)
            case events.TurnEnded(reason=reason) if reason in _STOPS:
                return replace(self, is_due=True, is_shaken=True, open_calls=frozenset())
            case Reminder(topic="state"):
                return self.cleared()
            case Reminder(topic="plan") if not self.is_shaken:  # it lists the steps itself
                return replace(self, is_due=False)
            case _:
                return self

    def cleared(self) -> StaleContextTracker:
        """Return this after the model was told, or nothing was left to tell."""
        return StaleContextTracker(open_calls=self.open_calls)


_CLAIM = "plan_complete_step"
_MOST_RUNS = 50


@dataclass(frozen=True, slots=True)
class StepTracker:
    """Follows the step under way; a command that changes files makes earlier runs old, unless it is the check itself."""

    step: PlanStep | None = None
    work: StepWork = field(default_factory=StepWork)
    programs: frozenset[str] = frozenset()
    commands: Mapping[str, str] = field(default_factory=dict)

    def apply(self, event: events.Event) -> StepTracker:
        """Return this after an event of the agent."""
        match event:
            case events.PlanChanged(plan=plan):
                return self._turn_to(current_step(plan))
            case _ if self.step is None:
                return self
            case events.ToolCallStarted(tool="shell", call_id=call_id, arguments=arguments):
                return replace(self, commands={**self.commands, call_id: str(arguments.get("command", ""))})
            case events.FilesChanged(call_id=call_id) if is_run_of(self.programs, self.commands.get(call_id, "")):
                return self
            case events.FilesChanged() | events.FilesRestored() | events.Rewound():
                return replace(self, work=StepWork(has_changed=True))
            case events.ToolCallFinished():
                return self._finish(event)
            case _:
                return self

    def _turn_to(self, step: PlanStep | None) -> StepTracker:
        is_same = (step.id if step else 0) == (self.step.id if self.step else 0)
        programs = programs_of(step) if step is not None and step != self.step else self.programs
        return replace(self, step=step, work=self.work if is_same else StepWork(), programs=programs if step else frozenset())

    def _finish(self, event: events.ToolCallFinished) -> StepTracker:
        command, work = self.commands.get(event.call_id), self.work
        if command is not None:
            outcome = event.summary or (WELL if event.ok else REFUSED)
            runs = (*work.runs, CommandRun(command, outcome))[-_MOST_RUNS:]
            is_doubted = work.is_doubted and not is_run_of(self.programs, command)
            work = replace(work, runs=runs, is_doubted=is_doubted)
        if traits_of(event.tool).looks and (event.ok or command is not None):
            work = replace(work, has_looked=True)
        if event.tool == _CLAIM and not event.ok:
            work = replace(work, is_doubted=True)
        others = {call_id: text for call_id, text in self.commands.items() if call_id != event.call_id}
        return replace(self, work=work, commands=others)


@dataclass(frozen=True, slots=True)
class TaskSteps:
    """Counts the answers of a task, and knows what the agent waits for, from its events."""

    count: int = 0
    wait: Wait | None = None
    is_cut_off: bool = False
    awaits_words: bool = False

    def apply(self, event: events.Event) -> TaskSteps:
        """Return this after an event of the agent."""
        match event:
            case events.TurnStarted():
                return replace(self, awaits_words=True, wait=None)
            case events.MessageAdded(role=Role.USER, text=text) if self.awaits_words:
                count = self.count if self.is_cut_off and goes_on(text) else 0
                return replace(self, awaits_words=False, count=count)
            case events.MessageAdded(role=Role.ASSISTANT):
                return replace(self, count=self.count + 1)
            case WaitSet():  # what it does when it wakes is a new stretch
                return replace(self, count=0, wait=Wait(as_utc(event.until), event.why))
            case events.TurnEnded(error=error):
                return replace(self, is_cut_off=error == CUT_OFF)
            case _:
                return self


_MOST_CLAIMS = 500


@dataclass(frozen=True, slots=True)
class OpenWorkTracker:
    """What an agent began, from its events.  `before` is the plan as the last turn left it, `births` the turn of each todo.

    `failed` is the last call where that should have changed a file and failed.
    `written` are the files that the turn changed a few at a time; `kept` are the calls before which a checkpoint was made.
    """

    plan: Plan = field(default_factory=Plan)
    before: Plan = field(default_factory=Plan)
    births: Mapping[int, str] = field(default_factory=dict)
    claimed: Mapping[str, None] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    written: Mapping[str, None] = field(default_factory=dict)
    turn: str = ""
    is_going_on: bool = False
    changed: frozenset[str] = frozenset()
    failed: str = ""
    has_ended: bool = True
    kept: frozenset[str] = frozenset()

    def apply(self, event: events.Event) -> OpenWorkTracker:
        """Return this after an event of the agent."""
        if isinstance(event, events.ToolCallFinished):
            return self._finish(event)
        match event:
            case events.TurnStarted(turn_id=turn_id):
                before = self.before if self.has_ended else self.plan
                return OpenWorkTracker(self.plan, before, self.births, turn=turn_id, has_ended=False)
            case events.MessageAdded(role=Role.USER, text=text):
                return replace(self, is_going_on=self.is_going_on or goes_on(text))
            case events.PlanChanged(plan=plan):
                texts = {todo.id: todo.text for todo in self.plan.todos}
                born = {todo.id: self.turn for todo in plan.todos if texts.get(todo.id) != todo.text}
                return replace(self, plan=plan, births={**self.births, **born})
            case events.TurnEnded():
                return replace(self, before=self.plan, has_ended=True)
            case events.FilesChanged(changes=changes):
                return self._take_changes(changes)
            case events.CheckpointCreated(call_id=call_id):
                return replace(self, kept=self.kept | {call_id})
            case events.FilesRestored():
                return replace(self, claimed={}, written={})
            case events.Rewound():  # the plan went back before it; nothing of that is the next turn's work
                return replace(self, claimed={}, written={}, before=self.plan)
            case _:
                return self

    def _finish(self, event: events.ToolCallFinished) -> OpenWorkTracker:
        traits = traits_of(event.tool)
        failed = "" if event.ok else self.failed
        if not event.ok and event.summary != REFUSED and traits.file_effect is FileEffect.CHANGES:
            failed = f"{event.tool}: {event.result.strip().partition(chr(10))[0]}"
        is_unknown = traits.may_change_unseen and event.call_id not in self.kept  # what it did to files is not known
        return replace(self, failed=failed, claimed={} if is_unknown else self.claimed)

    def _take_changes(self, changes: Sequence[FileChange]) -> OpenWorkTracker:
        paths = {change.path: None for change in changes}
        gone = {change.path for change in changes if change.kind is FileChangeKind.DELETED}
        written = {**self.written, **paths} if len(changes) <= MOST_FILES else self.written
        return replace(
            self,
            changed=self.changed | paths.keys(),
            gone=self.gone | gone,
            claimed={path: None for path in (*self.claimed, *paths) if path not in gone},
            written={path: None for path in written if path not in gone},
        )

    def open_todos(self) -> list[Todo]:
        """Return the open todos of each list that this turn touched."""
        before = {todo.id: todo for todo in self.before.todos}
        touched = {self.births.get(todo.id) for todo in self.plan.todos if before.get(todo.id) != todo}
        touched |= {self.births.get(each) for each in before.keys() - {todo.id for todo in self.plan.todos}}
        return [todo for todo in self.plan.open_todos if self.is_going_on or self.births.get(todo.id) in touched]

    def open_steps(self) -> list[PlanStep]:
        """Return the open steps of a plan that this turn worked on."""
        is_named = any(path in self.changed for step in self.plan.open_steps for path in step.files)
        is_at_work = self.is_going_on or self.plan.steps != self.before.steps or is_named
        return list(self.plan.open_steps) if is_at_work else []

    def claims(self) -> list[str]:
        """Return the files that this turn says it wrote: by its calls, its renames and the steps that it completed."""
        claimed = {**self.claimed}
        if self.plan.task is not None and self.plan.task != self.before.task:
            known = self.before.task.rename_map if self.before.task else ()
            renamed = {old for old, _ in self.plan.task.rename_map}
            claimed |= {new: None for old, new in self.plan.task.rename_map if (old, new) not in known and new not in renamed}
        before = {step.id: step for step in self.before.steps}
        done = [step for step in self.plan.steps if not step.is_open and before.get(step.id) != step]
        claimed |= {path: None for step in done for path in step.files if not set("*?[") & set(path)}
        return [path for path in claimed if path not in self.gone][:_MOST_CLAIMS]

    def remaining(self) -> int:
        """Return how many things of the task state are left, 0 where this turn is not about it."""
        task = self.plan.task
        is_about = task is not None and (self.is_going_on or task != self.before.task)
        return task.remaining_count if task is not None and is_about and not task.is_finished else 0
