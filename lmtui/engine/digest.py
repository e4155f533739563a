"""What happened in the part of a conversation that is summed up, in words made from it alone: the same every time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lmtui.core.messages import Role
from lmtui.core.plan import Plan, PlanStep, Todo, TodoStatus
from lmtui.core.work_words import task_lines
from lmtui.engine.entries import Entry

_READ = frozenset({"read"})
_CHANGED = frozenset({"write", "edit", "mkdir"})
_LAST_WORDS, _LAST_ERRORS = 3, 2
_LEAST_CHARS = 200
_BEGINNING = "[The conversation up to here was left out to make room. What happened in it:"
_END = "Go on from there; what you did is done. Read a file again if you need what was in it.]"


@dataclass(slots=True)
class Gist:
    """What is worth telling of the beginning of a conversation; the newest stands last, and each once.

    `said` is all that the user said, `answer` the model's last words, `errors` the last two.
    """

    said: list[str] = field(default_factory=list)
    answer: str = ""
    commands: dict[str, None] = field(default_factory=dict)
    errors: dict[str, None] = field(default_factory=dict)
    changed: dict[str, None] = field(default_factory=dict)
    read: dict[str, None] = field(default_factory=dict)

    def copy(self) -> Gist:
        """Return the same, to be gone on with apart."""
        copied = (self.commands.copy(), self.errors.copy(), self.changed.copy(), self.read.copy())
        return Gist(self.said.copy(), self.answer, *copied)

    def take(self, entries: Iterable[Entry]) -> None:
        """Take up what was said next."""
        for entry in entries:
            if entry.is_task:
                self.said.append(entry.kept or entry.message.text)
            elif entry.message.role is Role.ASSISTANT:
                self.answer = entry.message.text.strip() or self.answer
            if entry.tool:
                self._take_call(entry)

    def _take_call(self, entry: Entry) -> None:
        if not entry.is_ok:
            _put(self.errors, f"{entry.title.removeprefix('result of ')}: {entry.message.text.strip()}")
            for oldest in list(self.errors)[:-_LAST_ERRORS]:
                del self.errors[oldest]
        if entry.tool in _READ | _CHANGED:
            if entry.is_ok:
                _put(self.read if entry.tool in _READ else self.changed, entry.subject)
        elif entry.subject:
            _put(self.commands, _outcome(entry))


def digest(gist: Gist, plan: Plan, limit_chars: int, words: str = "") -> str:
    """Return what happened and how the plan stands, in about `limit_chars`.

    The first task and what the user said last are not told again.  `words` is what the model itself wrote of it, told before
    and beyond that.
    """
    room = max(_LEAST_CHARS, limit_chars - len(_BEGINNING) - len(_END))
    said = gist.said[1:-1]
    answer = [_clipped(gist.answer, room // 8)] if gist.answer else []
    sections = (
        ("the plan", _plan_lines(plan), room // 4),
        ("the task", task_lines(plan.task) if plan.task is not None else [], room // 4),
        ("the user also said", _quoted(said, room), room // 3),
        ("files you changed", _newest(gist.changed), room // 6),
        ("what you ran", _newest(gist.commands), room // 6),
        ("what failed last", [_clipped(each, room // 16) for each in _newest(gist.errors)], room // 8),
        ("you said last", answer, room // 8),
        ("files you read", _newest(gist.read), room // 8),
    )
    told = [_section(title, lines, share) for title, lines, share in sections if lines]
    own = [f"- in your own words: {words}"] if words else []
    return "\n".join((_BEGINNING, *own, *told, _END))


def _section(title: str, lines: Sequence[str], limit_chars: int) -> str:
    taken: list[str] = []
    for number, line in enumerate(lines):
        limit_chars -= len(line) + 2
        if limit_chars < 0 and taken:
            taken.append(f"and {len(lines) - number} more")
            break
        taken.append(line)
    return f"- {title}: " + "; ".join(taken)


def _plan_lines(plan: Plan) -> list[str]:
    """Return steps and todos, those that are open first, with what came of the checks of those that are done."""
    tasks = sorted((*plan.steps, *plan.todos), key=lambda task: task.status is TodoStatus.COMPLETED)
    return [f"{task.id} [{task.status}] {task.text}{_came_of(task)}" for task in tasks]


def _came_of(task: Todo) -> str:
    result = task.result if isinstance(task, PlanStep) else ""
    return f" → {_clipped(result, 60)}" if result else ""


def _quoted(said: Sequence[str], room: int) -> list[str]:
    """Return what the user said, the newest first: the last few as far as there is room, the others by their beginning."""
    newest = list(reversed(said))
    last = [f"“{_clipped(each, room // 8)}”" for each in newest[:_LAST_WORDS]]
    return last + [f"“{_clipped(each, 80)}”" for each in newest[_LAST_WORDS:]]


def _outcome(entry: Entry) -> str:
    return f"{entry.tool} {_clipped(entry.subject, 100)}" + (f" → {entry.outcome}" if entry.outcome else "")


def _put(texts: dict[str, None], text: str) -> None:
    """Put a text last, also where it is there already."""
    texts.pop(text, None)
    texts[text] = None


def _newest(texts: dict[str, None]) -> list[str]:
    return list(reversed(texts))


def _clipped(text: str, limit_chars: int) -> str:
    limit = max(40, limit_chars)
    line = " ".join(text.split()) if len(text) > limit else text
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
