"""`lmtui models --exam NAME`: each step a line on standard error while it runs, the result as a table or as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict

from lmtui.config import Config
from lmtui.core.clean import clean_line
from lmtui.core.errors import UsageError
from lmtui.core.exams import ExamState, Grade
from lmtui.runtime.exam import examine_named

_SIGNS = {Grade.GOOD: "✓", Grade.WEAK: "!", Grade.FAILED: "✗", Grade.SKIPPED: "-"}
_STOPPED = "stopped before its end"


class Progress:
    """Writes a line for each step; `last` is the exam as it stands."""

    def __init__(self) -> None:
        self.last: ExamState | None = None

    def __call__(self, state: ExamState) -> None:
        """Take a step."""
        if state.doing and (self.last is None or state.doing != self.last.doing):
            print(f"{state.elapsed_s:6.1f} s  {clean_line(state.doing)}", file=sys.stderr, flush=True)
        self.last = state


async def report(config: Config, arguments: argparse.Namespace) -> int:
    """Examine a model; 0: something works with it, 1: nothing does, or it cannot be examined.  A cancel prints what there is.

    Raises:
        UsageError: there is no such model.
    """
    if not arguments.exam.strip():
        raise UsageError("--exam wants the name of a model", "`lmtui models` lists them.")
    progress = Progress()
    is_whole = False
    try:
        state = await examine_named(config, arguments.exam.strip(), progress, is_quick=arguments.quick)
        is_whole = True
    finally:
        if progress.last is not None:
            print(
                as_json(progress.last) if arguments.json else "\n".join(as_table(progress.last, is_whole=is_whole)), flush=True
            )
    return 1 if state.has_failed else 0


def as_json(state: ExamState) -> str:
    """Return everything that was found."""
    return json.dumps(asdict(state), indent=2, ensure_ascii=False)


def as_table(state: ExamState, *, is_whole: bool = True) -> Iterator[str]:
    """Yield the lines of the report."""
    yield f"{clean_line(state.model)}  {clean_line(state.url)}  {state.elapsed_s:.0f} s"
    width = max((len(row.name) for row in state.rows), default=0)
    for row in state.rows:
        yield f"{_SIGNS[row.grade]} {row.name:<{width}}  {row.seconds:5.1f} s  {clean_line(row.text)}"
        if row.hint:
            yield f"{'':{width + 13}}{clean_line(row.hint)}"
    how = "" if is_whole else f"{_STOPPED}; "
    yield f"{how}{clean_line(state.kept)}"
