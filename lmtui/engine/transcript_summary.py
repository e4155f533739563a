"""What happened in the part of a conversation that is summed up, in words made from it alone: the same every time.

What the work hangs on is told word for word, each within a share of the room: the user's last words, what is open of the plan,
the files in work, the errors that nothing has repaired yet.  The rest is told in few words, the newest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from lmtui.core.messages import Role
from lmtui.core.permissions.rules import FileEffect, tools_that, traits_of
from lmtui.core.plan import Plan, TodoStatus
from lmtui.core.sanitize import sanitize_line
from lmtui.core.task_state import done_words, task_lines
from lmtui.engine.entries import Entry
from lmtui.engine.loop_detection import TOO_MANY_CALLS

_HEAD_SHARE = 0.3
_GAP = "\n[…]\n"


def truncate_middle(text: str, limit_chars: int) -> str:
    """Return a text in at most so many characters: whole, or its first lines and its last ones, where errors are named."""
    text = text.strip()
    if len(text) <= limit_chars:
        return text
    room = max(2, limit_chars - len(_GAP))
    head_chars = int(room * _HEAD_SHARE)
    head, tail = text[:head_chars], text[len(text) - (room - head_chars) :]
    return f"{_to_line_end(head)}{_GAP}{_from_line_start(tail)}"


def _to_line_end(text: str) -> str:
    """Return a beginning without the half of a line at its end, if more than half of it stays."""
    whole = text.rpartition("\n")[0]
    return whole if 2 * len(whole) > len(text) else text


def _from_line_start(text: str) -> str:
    whole = text.partition("\n")[2]
    return whole if 2 * len(whole) > len(text) else text


LAST_FILES = 12
_CHANGED = tools_that(FileEffect.CHANGES)
_MISREAD = frozenset({"not understood", TOO_MANY_CALLS, "not run"})
_MOST_ERRORS, _MOST_ERROR_CHARS, _LEAST_ERROR_CHARS = 40, 1_500, 160
_LEAST_LINE_CHARS, _MOST_NAME_CHARS = 60, 200
_LEAST_CHARS = 200
_MOST_NAMED = 400
_MOST_OF_ONE_CALL = 20  # an installer's thousands of files are not those in work
_BEGINNING = "[The conversation up to here was left out to make room. What happened in it:"
_END = "Go on from there; what you did is done. Read a file again if you need what was in it.]"


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that failed: the place of its result by its part, what it was, and the lines that tell why."""

    part: str
    title: str
    text: str
    is_misread: bool = False


@dataclass(slots=True)
class TranscriptSummary:
    """What is worth telling of the beginning of a conversation; the newest is last, and each once.

    `said` is all that the user said, `answer` the model's last words.  `errors` are those that nothing repaired since (the same
    call that goes well, one that changes the file that it was about), by tool and subject; with `has_misread` some are of calls
    that never ran, for which the next one that goes well is enough.
    """

    said: list[str] = field(default_factory=list)
    answer: str = ""
    commands: dict[str, None] = field(default_factory=dict)
    errors: dict[tuple[str, str], Failure] = field(default_factory=dict)
    changed: dict[str, None] = field(default_factory=dict)
    read: dict[str, None] = field(default_factory=dict)
    has_misread: bool = False

    def copy(self) -> TranscriptSummary:
        """Return the same, to be gone on with apart."""
        copied = (self.commands.copy(), self.errors.copy(), self.changed.copy(), self.read.copy())
        return TranscriptSummary(self.said.copy(), self.answer, *copied, self.has_misread)

    def open_in(self, later: TranscriptSummary) -> TranscriptSummary:
        """Return the same without the errors that were repaired up to a later one."""
        parts = {failure.part for failure in later.errors.values()}
        errors = {key: failure for key, failure in self.errors.items() if failure.part in parts}
        return replace(self, errors=errors)

    def take(self, entries: Iterable[Entry]) -> None:
        """Take up what was said next."""
        for entry in entries:
            if entry.is_task:
                self.said.append(entry.kept or entry.message.text)
            elif entry.message.role is Role.ASSISTANT:
                self.answer = entry.message.text.strip() or self.answer
            for path in entry.files[:_MOST_OF_ONE_CALL]:
                _put(self.changed, path)
            if entry.tool:
                self._take_call(entry)

    def _take_call(self, entry: Entry) -> None:
        if entry.is_ok:
            self._repair(entry)
        else:
            self._fail(entry)
        if not traits_of(entry.tool).meets_file:
            if entry.subject:
                _put(self.commands, _outcome(entry))
        elif entry.is_ok and not entry.files:
            _put(self.changed if entry.tool in _CHANGED else self.read, entry.subject)

    def _fail(self, entry: Entry) -> None:
        key = (entry.tool, entry.subject)
        self.errors.pop(key, None)
        title = entry.title.removeprefix("result of ")
        text = truncate_middle(entry.message.text, _MOST_ERROR_CHARS)
        is_misread = entry.outcome in _MISREAD
        self.errors[key] = Failure(entry.part, title, text, is_misread)
        self.has_misread = self.has_misread or is_misread
        if len(self.errors) > _MOST_ERRORS:
            del self.errors[next(iter(self.errors))]

    def _repair(self, entry: Entry) -> None:
        """Forget the errors that a call which went well is the end of."""
        self.errors.pop((entry.tool, entry.subject), None)
        mended = {*entry.files, *([entry.subject] if entry.tool in _CHANGED else [])} if self.errors else set()
        if mended or self.has_misread:
            errors = self.errors.items()
            self.errors = {
                key: each for key, each in errors if not (each.is_misread or key[1].partition(" from ")[0] in mended)
            }
            self.has_misread = False


@dataclass(frozen=True, slots=True)
class Shares:
    """How long a summary may be, in characters: what is told in few words, the user's last words, the plan, the errors."""

    facts: int
    words: int
    plan: int
    errors: int

    @property
    def total(self) -> int:
        """Return about how long all of it may be."""
        return self.facts + self.words + self.plan + self.errors + len(_BEGINNING) + len(_END)

    def scaled(self, ratio: float) -> Shares:
        """Return shares that are so much smaller."""
        return Shares(*(int(each * ratio) for each in (self.facts, self.words, self.plan, self.errors)))


def digest(gist: TranscriptSummary, plan: Plan, shares: Shares, own: str = "") -> str:
    """Return what happened and how the plan is.

    The first task and what the user said last are not told again.  `own` is what the model itself wrote of it, told before
    and beyond that.
    """
    room = max(_LEAST_CHARS, shares.facts)
    answer = [_clipped(gist.answer, room // 8)] if gist.answer else []
    whole, older = _words(gist.said[1:-1], shares.words)
    task = task_lines(plan.task) if plan.task is not None else []
    told = (
        _joined("the plan", _plan_lines(plan, shares.plan)),
        _joined("the task", _fitting(task, shares.plan // 2)),
        _section("the user said before that, the newest first", (_clipped(each, 80) for each in older), room // 8),
        _listed("the user also said, word for word, the newest last", whole),
        _section("files you changed, the newest first", _names(gist.changed), room // 6, LAST_FILES),
        _section("what you ran", list(reversed(gist.commands)), room // 6),
        _listed("what failed and is not fixed yet", _failures(gist, shares.errors)),
        _section("you said last", answer, room // 8),
        _section("files you read", _names(gist.read), room // 8),
    )
    words = f"- in your own words: {own}" if own else ""
    return "\n".join(part for part in (_BEGINNING, words, *told, _END) if part)


def _words(said: Sequence[str], limit_chars: int) -> tuple[list[str], Iterator[str]]:
    """Return the newest of the user's words that fit together, each whole and the newest last, and those before them.

    Of the first that does not fit there is as much as room is left for: it may be a long task.
    """
    first = len(said)
    while first and len(said[first - 1]) + 4 <= limit_chars:
        first -= 1
        limit_chars -= len(said[first]) + 4
    told = [f"“{each}”" for each in said[first:]]
    if first and limit_chars >= _LEAST_CHARS:
        first -= 1
        told.insert(0, f"“{said[first][: limit_chars - 20]}… (cut)”")
    return told, (said[place] for place in range(first - 1, -1, -1))


def _failures(gist: TranscriptSummary, limit_chars: int) -> list[str]:
    """Return the open errors, the newest first: whole where there is room for all, else each with the lines that tell why."""
    newest = [(f"{_clipped(failure.title, 120)}: ", failure.text) for failure in reversed(gist.errors.values())]
    if sum(len(title) + len(text) + 4 for title, text in newest) <= limit_chars:
        return [title + text for title, text in newest]
    told: list[str] = []
    for number, (title, text) in enumerate(newest):
        share = max(_LEAST_ERROR_CHARS, limit_chars // 2, limit_chars // (len(newest) - number) - len(title) - 4)
        words = title + truncate_middle(text, share)
        if told and len(words) + 4 > limit_chars:
            return [*told, f"and {len(newest) - number} more before them"]
        told.append(words)
        limit_chars -= len(words) + 4
    return told


def _plan_lines(plan: Plan, limit_chars: int) -> list[str]:
    """Return all that is open, and as far as there is room what came of the checks of done steps; done todos are counted."""
    tasks = (*plan.steps, *plan.todos)
    counted = [done_words(tasks)] if tasks else []
    lines = _fitting([f"{task.id} [{task.status}] {task.text}" for task in tasks if task.is_open], limit_chars)
    left = limit_chars - sum(len(line) + 2 for line in lines)
    for step in reversed(plan.steps):
        line = f"{step.id} [{TodoStatus.COMPLETED}] {_clipped(step.text, 60)} → {_clipped(step.result, 60)}"
        if not step.is_open and step.result and (left := left - len(line) - 2) > 0:
            lines.append(line)
    return [*counted, *lines]


def _fitting(lines: Sequence[str], limit_chars: int) -> list[str]:
    """Return lines whole where all fit, else each in its part of the room."""
    if sum(len(line) + 2 for line in lines) <= limit_chars:
        return list(lines)
    least = max(_LEAST_LINE_CHARS, limit_chars // len(lines) - 2)
    count = max(1, limit_chars // (least + 2))
    more = [f"and {len(lines) - count} more"] if count < len(lines) else []
    return [*(_clipped(line, least) for line in lines[:count]), *more]


def _section(title: str, lines: Iterable[str], limit_chars: int, least: int = 1) -> str:
    """Return a section with as many lines as fit, so many at least, and how many more there are."""
    taken: list[str] = []
    rest = iter(lines)
    for line in rest:
        limit_chars -= len(line) + 2
        if limit_chars < 0 and len(taken) >= least:
            count = 1 + sum(1 for _ in rest)
            taken.append(f"and {count} more" if count + len(taken) < _MOST_NAMED else "and many more")
            break
        taken.append(line)
    return _joined(title, taken)


def _joined(title: str, lines: Sequence[str]) -> str:
    return f"- {title}: {'; '.join(lines)}" if lines else ""


def _listed(title: str, lines: Sequence[str]) -> str:
    """Return a section whose lines may be long, each on its own."""
    return "\n".join([f"- {title}:", *(f"  - {line}" for line in lines)]) if lines else ""


def _outcome(entry: Entry) -> str:
    return f"{entry.tool} {_clipped(entry.subject, 100)}" + (f" → {entry.outcome}" if entry.outcome else "")


def _names(paths: dict[str, None]) -> Iterator[str]:
    """Return paths, the newest first; of a very long one the end, which tells more; a name ends no line of ours."""
    for path in reversed(paths):
        yield sanitize_line(path if len(path) <= _MOST_NAME_CHARS else f"…{path[-_MOST_NAME_CHARS:]}")


def _put(texts: dict[str, None], text: str) -> None:
    """Put a text last, also where it is there already; of very many the oldest go."""
    texts.pop(text, None)
    texts[text] = None
    if len(texts) > _MOST_NAMED:
        del texts[next(iter(texts))]


def _clipped(text: str, limit_chars: int) -> str:
    limit = max(40, limit_chars)
    line = " ".join(text.split()) if len(text) > limit else text
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
