"""What is known of one task of a plan, or of a question, in lines."""

from __future__ import annotations

from datetime import datetime

from lmtui.core.sanitize import sanitize_line
from lmtui.features.pipeline.screens.board import Item, checks_line, elapsed_text, lines_line
from lmtui.features.pipeline.values import WORKING, PipelinePlan, PipelineTask, TaskAttempt
from lmtui.features.pipeline.values import PipelineState as State
from lmtui.tui.lines.page_view import whole_text
from lmtui.tui.lines.styled_text import Line, Span, StyleRole, crop, fit, indent, row, wrap
from lmtui.tui.widgets.bars import Spinner
from lmtui.tui.wording import tokens_text

_FINDING_ROWS = 2


def detail_lines(plan: PipelinePlan, item: Item | None, width: int, now: datetime, most: int = 0) -> list[Line]:
    """Return what is known of a task or a question: all of it, or at most so many lines of each text."""
    width = max(20, width - 2)
    if item is None:
        return []
    if not isinstance(item, PipelineTask):
        head: Line = ((f"Question {item.id}", "warn strong"), ("  has to be answered before the plan is done", "muted"))
        return indent([head, *_wrapped(item.text, width, most)], ((" ", ""),))
    found = [_head(plan, item, width)]
    found += [line for each in _facts(item) for line in _wrapped(each, width, 0, "muted")] if not most else []
    found += _wrapped(item.spec.text, width, most) if item.spec.text.strip() else []
    found += [()] if most != 1 else []
    found += [line for each in reversed(item.attempts) for line in _attempt(item, each, width, now, most)]
    return indent(found, ((" ", ""),))


def _head(plan: PipelinePlan, task: PipelineTask, width: int) -> Line:
    last = task.attempts[-1] if task.attempts else None
    waits = plan.waits_for(task) if task.state is State.READY else ()
    why = " · ".join(each for each in (task.state.value, sanitize_line(task.why)) if each)
    notes = ["", "paused" if task.is_paused else "", f"after {', '.join(f'#{each}' for each in waits)}" if waits else ""]
    notes += (
        [sanitize_line(last.model), f"{tokens_text(last.tokens)} tokens" if last.tokens else ""] if last is not None else []
    )
    title = fit(sanitize_line(task.spec.title), max(16, width * 3 // 5))
    left: Line = ((f"#{task.id} ", "muted"), (title, "strong"), ("  ", ""))
    left = (*left, (why, "warn" if task.state is State.FAILED else "muted"))
    left = (*left, *((f" · {each}", "muted") for each in notes if each))
    return row(left, lines_line(last) if last is not None else (), width)


def _facts(task: PipelineTask) -> list[str]:
    spec = task.spec
    after = [f"#{each}" for each in spec.after]
    named = [("Phase", [spec.phase]), ("Files", spec.files), ("After", after), ("Checks", spec.checks)]
    named += [("Budget", [spec.budget])]
    return [f"{name}: {', '.join(values)}" for name, values in named if any(values)]


def _attempt(task: PipelineTask, attempt: TaskAttempt, width: int, now: datetime, most: int) -> list[Line]:
    is_under_way = attempt is task.attempts[-1] and task.state in WORKING
    sign: Span = (Spinner.sign(now), "accent") if is_under_way else ("✗", "bad") if attempt.stage else ("✓", "good")
    notes = f"failed at {sanitize_line(attempt.stage)}" if attempt.stage else task.state.value if is_under_way else ""
    time = elapsed_text(task, now, attempt).removeprefix(" · ")
    checks = checks_line(attempt, width)
    line: Line = ((f"Attempt {attempt.number:<3} ", "muted"), sign, ("  ", ""), *checks, ("   " if checks else " ", ""))
    found = [crop((*line, (" · ".join(each for each in (time, notes) if each), "muted")), width)]
    for each in attempt.findings:
        lines = _wrapped(each, width - 14, min(most, _FINDING_ROWS))
        found += indent(lines, ((" " * 12, ""), ("! ", "bad")), ((" " * 14, ""),))
    return found


def _wrapped(text: str, width: int, most: int, role: StyleRole = "") -> list[Line]:
    """Return a text in lines, at most so many (0: all of them)."""
    if not most:
        return whole_text(text, width, role)
    lines = wrap(((sanitize_line(" ".join(text.split())), role),), width)
    return lines if len(lines) <= most else [*lines[: most - 1], crop((*lines[most - 1], ("…", role)), width)]
