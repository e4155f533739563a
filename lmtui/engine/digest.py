"""What happened in the part of a conversation that is summed up, in words made from it alone: the same every time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lmtui.core.messages import Role
from lmtui.core.plan import Plan, PlanStep, Todo, TodoStatus
from lmtui.core.work_words import task_lines
from lmtui.engine.folding import Entry

_READ = frozenset({"read"})
_CHANGED = frozenset({"write", "edit", "mkdir"})
_LAST_WORDS = 3
_LEAST_CHARS = 200
_BEGINNING = "[The conversation up to here was left out to make room. What happened in it:"
_END = "Go on from there; what you did is done. Read a file again if you need what was in it.]"


def digest(entries: Sequence[Entry], plan: Plan, limit_chars: int, words: str = "") -> str:
    """Return what happened in `entries` and how the plan stands, in about `limit_chars`.

    The first task and what the user said last are not told again.  `words` is what the model itself wrote of it, told before
    and beyond that.
    """
    room = max(_LEAST_CHARS, limit_chars - len(_BEGINNING) - len(_END))
    said = [entry.kept or entry.message.text for entry in entries if entry.is_task][1:-1]
    answers = [entry.message.text.strip() for entry in entries if entry.message.role is Role.ASSISTANT]
    calls = [entry for entry in entries if entry.tool]
    commands = [_outcome(entry) for entry in calls if entry.tool not in _READ | _CHANGED and entry.subject]
    errors = [f"{entry.title.removeprefix('result of ')}: {entry.message.text.strip()}" for entry in calls if not entry.is_ok]
    sections = (
        ("the plan", _plan_lines(plan), room // 4),
        ("the task", task_lines(plan.task) if plan.task is not None else [], room // 4),
        ("the user also said", _quoted(said, room), room // 3),
        ("files you changed", _names(calls, _CHANGED), room // 6),
        ("what you ran", _newest(commands), room // 6),
        ("what failed last", [_clipped(each, room // 16) for each in _newest(errors)[:2]], room // 8),
        ("you said last", [_clipped(each, room // 8) for each in _newest(filter(None, answers))[:1]], room // 8),
        ("files you read", _names(calls, _READ), room // 8),
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


def _names(calls: Iterable[Entry], tools: frozenset[str]) -> list[str]:
    return _newest(entry.subject for entry in calls if entry.tool in tools and entry.is_ok)


def _outcome(entry: Entry) -> str:
    return f"{entry.tool} {_clipped(entry.subject, 100)}" + (f" → {entry.outcome}" if entry.outcome else "")


def _newest(texts: Iterable[str]) -> list[str]:
    """Return texts without repetitions, the newest first."""
    return list(dict.fromkeys(reversed(list(texts))))


def _clipped(text: str, limit_chars: int) -> str:
    limit = max(40, limit_chars)
    line = " ".join(text.split()) if len(text) > limit else text
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
