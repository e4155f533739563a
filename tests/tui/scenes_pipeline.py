"""Moments of the page of the pipeline."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import cycle

from lmtui.features.pipeline.values import OpenQuestion, PipelinePlan, PipelineState, PipelineTask, TaskAttempt, TaskSpec
from tests.tui.driving import Driver
from tests.tui.fakes import START, play_work

GREEN = {"parse": "passed", "lint": "passed", "tests": "passed"}
RED = {**GREEN, "tests": "failed"}
LOST = "A comment sign inside a string opens a comment: parser/lexer.py:46 looks at the text, not at the state."
TEXT = "Count the depth of block comments, so that the inner one does not end the outer one. Strings keep their comment signs."


def over(
    number: int, stage: str = "", *findings: str, checks: dict[str, str] = GREEN, lines: tuple[int, int] = (62, 11)
) -> TaskAttempt:
    started = START - timedelta(minutes=60 - 10 * number)
    session = f"2026031{number}_140200_abc12{number}"
    return TaskAttempt(number, session, "qwen3-coder-30b", stage, findings, checks, 22_000, 185.0, "d", lines, "", started)


def under_way(number: int, elapsed_s: float, checks: dict[str, str], *findings: str) -> TaskAttempt:
    return TaskAttempt(number, model="qwen3-coder-30b", checks=checks, findings=findings, tokens=22_000,
        started=START - timedelta(seconds=elapsed_s), lines=(29, 4))  # fmt: skip


def task(
    number: int, title: str, state: str, *attempts: TaskAttempt, after: tuple[int, ...] = (), why: str = ""
) -> PipelineTask:
    spec = TaskSpec(title, TEXT, ("parser/lexer.py",), after, ("pytest -q tests/test_lexer.py",), "lexer")
    return PipelineTask(number, spec, PipelineState(state), attempts, why=why)


def some_plan() -> PipelinePlan:
    """Return a plan with a task in every state."""
    tasks = (
        task(23, "Remove the regex table", "done", over(1, lines=(18, 97))),
        task(24, "Typed tokens", "done", over(1, "checks", LOST, checks=RED), over(2, lines=(140, 88))),
        task(25, "Token positions", "done", over(1)),
        task(26, "Drop Python 3.10", "skipped"),
        task(27, "Line continuation", "reviewing", under_way(1, 390, GREEN)),
        task(28, "Nested comments", "coding", over(1, "checks", LOST, "Two tests are red: test_in_string, test_at_end.",
            checks=RED), under_way(2, 252, {"parse": "passed", "lint": "passed", "tests": "failed"}, LOST)),
        task(29, "Columns in every error message", "failed", *(over(each, "reviewer", "The column counts bytes.", LOST)
            for each in (1, 2, 3)), why="3 attempts failed at the reviewer"),
        task(30, "Unicode names", "checking", under_way(1, 48, {"parse": "passed"})),
        task(31, "Escape sequences", "ready"),
        task(32, "Column in every warning", "ready", after=(29,)),
        replace(task(33, "Faster keyword lookup", "ready"), is_paused=True),
        task(34, "Fuzz the lexer", "ready", after=(28, 30)),
    )  # fmt: skip
    question = OpenQuestion("Should an unclosed comment at the end of a file be an error, or a warning with the rest skipped?")
    return PipelinePlan("7f3a", "A lexer for version 2", "PLAN.md", START, tasks, (OpenQuestion("Which?", "Both."), question))


def large_plan(count: int = 1000) -> PipelinePlan:
    """Return a plan of many tasks."""
    tasks: list[PipelineTask] = []
    for each, state in zip(range(1, count + 1), cycle(PipelineState), strict=False):
        tried = () if state in ("ready", "skipped") else (over(1, "checks", LOST, checks=RED), over(2))
        after = (each - 1,) if each > 1 else ()
        tasks.append(task(each, f"Task number {each} of a long plan", state, *tried, after=after))
    return PipelinePlan("large", "A long plan", "PLAN.md", START, tuple(tasks))


async def opened(driver: Driver, *plans: PipelinePlan) -> None:
    """Open the page over some plans."""
    driver.host.extensions.pipeline.show(*plans)
    await driver.type("/pipeline", "PipelineList")


async def pipeline(driver: Driver) -> None:
    """A plan with a task in every state; the cursor is on one that is worked on."""
    play_work(driver.host.session)
    driver.host.clock.time = START
    await opened(driver, some_plan())
    await driver.press("home", "down", "down")


PIPELINE_SCENES = {"pipeline": pipeline}
