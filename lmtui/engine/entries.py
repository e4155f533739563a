"""What was said in one conversation, whole and in order, with what is asked of it often, and what happened in it, summed up.

A step must not cost more because a session is long: nothing that every step asks goes over everything that was ever said.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import TypeVar, overload

from lmtui.core.errors import ToolError
from lmtui.core.events import Envelope, Event, MessageAdded, ToolCallFinished, ToolCallStarted
from lmtui.core.messages import EXAMPLE_FILES, Message, Role, ToolCall
from lmtui.core.model_events import NotesAttached
from lmtui.core.permissions.rules import FileEffect, tools_that, traits_of
from lmtui.core.plan import Plan, TodoStatus
from lmtui.core.sanitize import clipped, sanitize_line
from lmtui.core.task_state import done_words, task_lines
from lmtui.engine.loop_detection import TOO_MANY_CALLS

LONG_CHARS = 2_000
_MOST_LOOSE_CHARS = 4_000_000
_MOST_AT_ONCE = 2
T = TypeVar("T")


def packed(texts: Sequence[str]) -> bytes:
    """Return texts in few bytes: their lengths in a line, then all of them."""
    head = " ".join(str(len(text)) for text in texts)
    return zlib.compress(f"{head}\n{''.join(texts)}".encode("utf-8", "surrogatepass"), 1)


def unpacked(data: bytes) -> list[str]:
    """Return the texts that were packed."""
    head, _, rest = zlib.decompress(data).decode("utf-8", "surrogatepass").partition("\n")
    ends = list(accumulate(map(int, head.split())))
    return [rest[start:end] for start, end in pairwise((0, *ends))]


class PackedList(Sequence[T]):
    """Items of which some are held packed: each is whole when it is looked at, and `held` has it without its long texts.

    Args:
        texts: returns what may be long in an item.
        with_texts: returns an item with other texts in the places of those.
    """

    def __init__(self, texts: Callable[[T], list[str]], with_texts: Callable[[T, Sequence[str]], T]) -> None:
        self._texts, self._with_texts = texts, with_texts
        self.held: list[T] = []
        self.packed: dict[int, bytes] = {}

    def pack(self, place: int) -> None:
        """Hold the long texts of an item packed."""
        texts = self._texts(self.held[place])
        self.packed[place] = packed(texts)
        self.held[place] = self._with_texts(self.held[place], [""] * len(texts))

    def unpack(self, place: int) -> None:
        """Hold an item at hand again."""
        self.held[place] = self._whole(place)
        self.packed.pop(place, None)

    def copy(self) -> PackedList[T]:
        """Return what there is now."""
        copied = PackedList(self._texts, self._with_texts)
        copied.held, copied.packed = self.held.copy(), self.packed.copy()
        return copied

    def _whole(self, place: int) -> T:
        item, data = self.held[place], self.packed.get(place)
        return item if data is None else self._with_texts(item, unpacked(data))

    def __len__(self) -> int:
        return len(self.held)

    def __iter__(self) -> Iterator[T]:
        return map(self._whole, range(len(self.held)))

    @overload
    def __getitem__(self, place: int) -> T: ...

    @overload
    def __getitem__(self, place: slice) -> list[T]: ...

    def __getitem__(self, place: int | slice) -> T | list[T]:
        found = range(len(self.held))[place]
        return self._whole(found) if isinstance(found, int) else list(map(self._whole, found))


class History:
    """The events of a session, oldest first; behind the last few millions of characters, long ones are held packed.

    Those are results, the arguments of calls, and the answers that hold them.
    """

    def __init__(self) -> None:
        self._all = PackedList[Envelope](lambda envelope: _texts(envelope.event), _with)
        self._loose: deque[tuple[int, int]] = deque()
        self._loose_chars = 0

    def add(self, envelope: Envelope) -> None:
        """Add an event."""
        size_chars = sum(map(len, _texts(envelope.event)))
        if size_chars >= LONG_CHARS:
            self._loose.append((len(self._all), size_chars))
            self._loose_chars += size_chars
        self._all.held.append(envelope)
        for _ in range(_MOST_AT_ONCE):
            if self._loose_chars > _MOST_LOOSE_CHARS:
                place, size_chars = self._loose.popleft()
                self._loose_chars -= size_chars
                self._all.pack(place)

    def read(self) -> Sequence[Envelope]:
        return self._all.copy() if self._all.packed else tuple(self._all.held)


def _texts(event: Event) -> list[str]:
    """Return what may be long in an event."""
    match event:
        case ToolCallFinished(result=result):
            return [result]
        case ToolCallStarted(arguments=arguments):
            return [value for value in arguments.values() if isinstance(value, str)]
        case MessageAdded(tool_calls=calls):
            return [call.arguments for call in calls]
        case _:
            return []


def _with(envelope: Envelope, texts: Sequence[str]) -> Envelope:
    """Return an event with other texts in the places of those that may be long."""
    event, rest = envelope.event, iter(texts)
    match event:
        case ToolCallFinished():
            event = replace(event, result=next(rest))
        case ToolCallStarted(arguments=arguments):
            given = {name: next(rest) if isinstance(value, str) else value for name, value in arguments.items()}
            event = replace(event, arguments=given)
        case MessageAdded(tool_calls=calls):
            event = replace(event, tool_calls=tuple(replace(call, arguments=next(rest)) for call in calls))
    return replace(envelope, event=event)


def bare(history: Sequence[Envelope]) -> Sequence[Envelope]:
    """Return events as they are held: long results and arguments may be empty, and going through them costs nothing."""
    return history.held if isinstance(history, PackedList) else history


BULKY_CHARS = 800
LONG_ARGUMENT_CHARS, LONG_ITEMS = 240, 12
_FIRST_ITEMS, _DEEPEST = 3, 4
_MARK = re.compile(r"\[left out by lmtui to save room: [\d,]+ (?:lines?|items?), [\d,]+ characters")

_EXAMPLE = re.compile(rf'"(?:path|command)"\s*:\s*"[^"\n]{{0,200}}({"|".join(map(re.escape, EXAMPLE_FILES))})')


def is_bulky(calls: Sequence[ToolCall]) -> bool:
    """Tell whether the arguments of calls are long enough to be told in short later."""
    return sum(len(call.arguments) for call in calls) >= BULKY_CHARS


def in_short(call: ToolCall) -> ToolCall:
    """Return a call with a word in place of each long text or list in its arguments; they stay a JSON object."""
    if len(call.arguments) < LONG_ARGUMENT_CHARS:
        return call
    given = json.loads(call.sent_arguments)
    short = {name: _short(value, 1) for name, value in given.items()}
    return call if short == given else replace(call, arguments=_as_json(short))


def check_copied(call: ToolCall) -> None:
    """Refuse a call into which was copied what is not meant for it: the word for something left out, a file of the example.

    Raises:
        ToolError: it was.
    """
    if _MARK.search(call.arguments):
        raise ToolError(
            f"`{call.name}` was given a line with which lmtui shortens old calls: give the text itself; read the file for it"
        )
    if copied := _EXAMPLE.search(call.arguments):
        raise ToolError(f"{copied[1]} is only in the example and does not exist", "Look with ls for the files of this task.")


def _short(value: object, depth: int) -> object:
    match value:
        case str() if len(value) > LONG_ARGUMENT_CHARS:
            return _mark(value.count("\n") + (not value.endswith("\n")), "line", len(value))
        case list() if len(value) > LONG_ITEMS or depth > _DEEPEST:
            first = [_short(each, depth + 1) for each in value[:_FIRST_ITEMS]] if depth <= _DEEPEST else []
            return [*first, _mark(len(value) - len(first), "item", len(_as_json(value[len(first) :])))]
        case list():
            return [_short(each, depth + 1) for each in value]
        case dict() if depth > _DEEPEST:
            return {"…": _mark(len(value), "item", len(_as_json(value)))} if value else value
        case dict():
            return {name: _short(each, depth + 1) for name, each in value.items()}
        case _:
            return value


def _mark(count: int, noun: str, size_chars: int) -> str:
    """Return the word; it says what it is, so that no model takes it for what was written, or writes it itself."""
    things = f"{count:,} {noun}{'s' if count != 1 else ''}"
    return f"[left out by lmtui to save room: {things}, {size_chars:,} characters; the tool got all of it. Never write this.]"


def _as_json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character, which only its escape can carry
        return json.dumps(value)
    return text


@dataclass(frozen=True, slots=True)
class Entry:
    """A message as it was said.

    `part` names it where it can be folded, left out or pinned.  `title` says in words what it is (`result of read a.py`), and
    `kept` is what stays of it in any case (the user's own words before the files that they mention).  `tool`, `subject` and
    `outcome` are of a result: which tool, about what, and how it ended in a word or two; `files` are those that its call
    changed.  `is_task`: the user said it; `recalled` are the notes that it is made of.
    """

    message: Message
    part: str = ""
    title: str = ""
    kept: str = ""
    tool: str = ""
    subject: str = ""
    outcome: str = ""
    is_ok: bool = True
    is_task: bool = False
    files: tuple[str, ...] = ()
    recalled: NotesAttached | None = None


class Entries(PackedList[Entry]):
    """The entries, oldest first.  Long results and arguments that are not sent any more may be held packed."""

    def __init__(self, first: Entry) -> None:
        super().__init__(_entry_texts, _entry_with)
        self.held.append(first)
        self._packed_to = 0

    def cut(self, length: int, kept_from: int) -> None:
        """Forget all behind the first so many; those from a place on are sent again, so they are held at hand."""
        for place in [place for place in self.packed if place >= kept_from]:
            self.unpack(place)
        del self.held[length:]
        self._packed_to = min(self._packed_to, kept_from)

    def pack_to(self, end: int, pinned: Container[str]) -> None:
        """Hold some more of the long texts before a place packed: a few at a time, so that nobody waits for it."""
        last = min(end, self._packed_to + _MOST_AT_ONCE)
        for place in range(self._packed_to, last):
            entry = self.held[place]
            parts = (entry.part, *(call.id for call in entry.message.tool_calls))
            if not any(part in pinned for part in parts) and sum(map(len, _entry_texts(entry))) >= LONG_CHARS:
                self.pack(place)
        self._packed_to = max(self._packed_to, last)

    def unpack_part(self, part: str) -> None:
        """Hold a result and its call at hand again."""
        for place in self._places((part,)):
            self.unpack(place)

    def find(self, part: str) -> Entry | None:
        """Return what a part names."""
        return next((self._whole(place) for place, entry in enumerate(self.held) if part and entry.part == part), None)

    def with_parts(self, parts: Collection[str], end: int) -> list[Entry]:
        """Return what parts name before a place, in order, with the answers that results belong to."""
        return [self._whole(place) for place in self._places(parts) if place < end]

    def _places(self, parts: Collection[str]) -> list[int]:
        """Return the places of what parts name, in order, with those of the answers that results belong to."""
        found: set[int] = set()
        answer = 0
        for place, entry in enumerate(self.held if parts else ()):
            answer = answer if entry.message.role is Role.TOOL else place
            if entry.part and entry.part in parts:
                found |= {answer, place}
        return sorted(found)

    @property
    def first_task(self) -> Entry | None:
        """Return what the user said first."""
        return next((entry for entry in self.held if entry.is_task), None)

    def last_task(self, before: int | None = None) -> Entry | None:
        """Return what the user said last before a place."""
        return next((entry for entry in reversed(self.held[:before]) if entry.is_task), None)

    def has_met(self, path: str) -> bool:
        """Tell whether a file was read or written, or came with the user's words."""
        attached = f'<file path="{path}"'
        return any(
            attached in entry.message.text
            if entry.is_task
            else entry.is_ok and traits_of(entry.tool).meets_file and entry.subject.partition(" from ")[0] == path
            for entry in self.held
            if entry.is_task or path in entry.subject
        )


def _entry_texts(entry: Entry) -> list[str]:
    """Return what may be held packed of an entry: a result that went well, the arguments of calls."""
    if entry.tool:
        return [entry.message.text] if entry.is_ok else []  # what failed is told of until it is mended
    return [call.arguments for call in entry.message.tool_calls]


def _entry_with(entry: Entry, texts: Sequence[str]) -> Entry:
    """Return an entry with other texts in the places of those."""
    if entry.tool:
        return replace(entry, message=replace(entry.message, text=texts[0]))
    calls = zip(entry.message.tool_calls, texts, strict=True)
    return replace(
        entry, message=replace(entry.message, tool_calls=tuple(replace(call, arguments=text) for call, text in calls))
    )


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
    call that goes well, one that changes the file that it was about), by tool and subject; for a call that never ran the next
    one that goes well is enough.
    """

    said: list[str] = field(default_factory=list)
    answer: str = ""
    commands: dict[str, None] = field(default_factory=dict)
    errors: dict[tuple[str, str], Failure] = field(default_factory=dict)
    changed: dict[str, None] = field(default_factory=dict)
    read: dict[str, None] = field(default_factory=dict)

    def copy(self) -> TranscriptSummary:
        """Return the same, to be gone on with apart."""
        copied = (self.commands.copy(), self.errors.copy(), self.changed.copy(), self.read.copy())
        return TranscriptSummary(self.said.copy(), self.answer, *copied)

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
                outcome = f" → {entry.outcome}" if entry.outcome else ""
                _put(self.commands, f"{entry.tool} {_clipped(entry.subject, 100)}{outcome}")
        elif entry.is_ok and not entry.files:
            _put(self.changed if entry.tool in _CHANGED else self.read, entry.subject)

    def _fail(self, entry: Entry) -> None:
        key = (entry.tool, entry.subject)
        self.errors.pop(key, None)
        title, text = entry.title.removeprefix("result of "), truncate_middle(entry.message.text, _MOST_ERROR_CHARS)
        self.errors[key] = Failure(entry.part, title, text, entry.outcome in _MISREAD)
        if len(self.errors) > _MOST_ERRORS:
            del self.errors[next(iter(self.errors))]

    def _repair(self, entry: Entry) -> None:
        """Forget the errors that a call which went well is the end of."""
        self.errors.pop((entry.tool, entry.subject), None)
        if self.errors:
            mended = {*entry.files, *([entry.subject] if entry.tool in _CHANGED else [])}
            self.errors = {
                key: each
                for key, each in self.errors.items()
                if not (each.is_misread or key[1].partition(" from ")[0] in mended)
            }


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
    answer = [_clipped(gist.answer, max(40, room // 8))] if gist.answer else []
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


def _names(paths: dict[str, None]) -> Iterator[str]:
    """Return paths, the newest first; of a very long one the end, which tells more; a name ends no line of ours."""
    for name in map(sanitize_line, reversed(paths)):
        yield name if len(name) <= _MOST_NAME_CHARS else f"…{name[-_MOST_NAME_CHARS:]}"


def _put(texts: dict[str, None], text: str) -> None:
    """Put a text last, also where it is there already; of very many the oldest go."""
    texts.pop(text, None)
    texts[text] = None
    if len(texts) > _MOST_NAMED:
        del texts[next(iter(texts))]


def _clipped(text: str, limit_chars: int) -> str:
    """Return a text as it is where it fits, else on one line with its end left out."""
    return text if len(text) <= limit_chars else clipped(text, limit_chars)
