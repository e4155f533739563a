"""Moments of long work: parts and what waits, the state of a task, a loop that was stopped."""

from __future__ import annotations

from lmtui.core import events
from lmtui.core.events import TurnReason
from lmtui.core.messages import Role
from lmtui.core.model_events import LoopSuspected, Reminder
from lmtui.core.plan import Plan, TaskState, Todo, TodoStatus
from tests.tui.driving import Driver
from tests.tui.fakes import play_work

WORK = Plan(
    todos=(
        Todo(1, "translate the manual", TodoStatus.IN_PROGRESS),
        Todo(2, "collect the terms", TodoStatus.COMPLETED, parent=1),
        Todo(3, "translate the chapters", TodoStatus.IN_PROGRESS, parent=1, depends_on=(2,)),
        Todo(4, "check the links", parent=1, depends_on=(3,)),
        Todo(5, "ask for a reading", TodoStatus.BLOCKED, notes="nobody is named yet"),
    ),
    task=TaskState(
        "translate docs/**/*.md into German",
        total_count=212,
        processed_count=148,
        remaining_queue=tuple(f"docs/part_{number}.md" for number in range(149, 213)),
        last_error="docs/part_140.md: not UTF-8",
        recovery_instruction="convert it from Latin-1 first",
        next_action="translate docs/part_149.md",
    ),
)
LOOP = "the same call with the same result, 5 times: read docs/part_140.md"


async def batch(driver: Driver) -> None:
    """Parts below their todo, what waits, and the state of a task over many files."""
    session = driver.host.session
    play_work(session)
    session.emit(events.PlanChanged(plan=WORK))
    await driver.press("f7")


async def loop_stopped(driver: Driver) -> None:
    """A model that went round in a circle, and a turn that is not finished."""
    session = driver.host.session
    play_work(session)
    await driver.until_shown("Two cases end")  # how high it is counts only once it was drawn
    await driver.settle()
    session.emit(events.MessageAdded(role=Role.ASSISTANT, text="Let me read the file again."))
    session.emit(LoopSuspected(what=LOOP.replace("5", "3"), count=3))
    session.emit(Reminder(text="Not finished yet: 64 of 212 left. Go on with it, and mark what is done."))
    session.emit(LoopSuspected(what=LOOP, count=5, is_over=True))
    error = f"the model goes round in a circle ({LOOP}); say what it should do instead, or “go on” to let it try again"
    session.emit(events.TurnEnded(turn_id="turn_1", reason=TurnReason.LIMIT, status="limit", exit_code=2, error=error))


TASK_SCENES = (("batch", batch), ("loop_stopped", loop_stopped))
