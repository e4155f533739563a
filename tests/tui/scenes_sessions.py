"""Moments of sessions side by side, of plan and agents, and of the tool log."""

from __future__ import annotations

from datetime import timedelta

from lmtui.core import events
from lmtui.core.agent_events import AgentFinished, AgentStarted
from lmtui.core.events import WaitingChanged, WaitingTask
from lmtui.core.messages import Role
from lmtui.core.plan import Plan, PlanStep, TaskState, Todo, TodoStatus
from tests.tui.driving import Driver
from tests.tui.fakes import START, FakeSession, play_work

PLAN = Plan(
    steps=(
        PlanStep(1, "read the tokenizer", TodoStatus.COMPLETED, verification="the states are listed", result="5 states"),
        PlanStep(2, "write a failing test", TodoStatus.COMPLETED),
        PlanStep(3, "count the depth of nested comments", TodoStatus.IN_PROGRESS, verification="pytest -q tests/test_lexer.py"),
        PlanStep(4, "edge cases: strings, end of file", TodoStatus.BLOCKED, notes="waits for step 3"),
        PlanStep(5, "run all tests"),
    ),
    todos=(
        Todo(1, "unicode in comments", notes="ask about U+2028 first"),
        Todo(2, "say so in the README", TodoStatus.COMPLETED),
    ),
    task=TaskState("rename the tests", total_count=212, processed_count=148),
)


def send_agents(session: FakeSession) -> None:
    """Let two sub-agents work, one of them with one of its own, and one be done."""
    session.emit(AgentStarted(agent="reviewer", title="review the change"))
    session.emit(AgentStarted(agent="tester", title="write property tests for the lexer"))
    session.emit(AgentStarted(agent="fuzzer", parent="tester", title="find inputs that break it"))
    for agent, call_id, tool, title in (
        ("reviewer", "r1", "read", "parser/lexer.py"),
        ("tester", "t1", "write", "tests/test_props.py"),
        ("fuzzer", "f1", "shell", "python -m atheris fuzz.py -runs=1000"),
    ):
        session.emit(events.TurnStarted(agent=agent, turn_id=f"turn-{agent}"))
        session.emit(events.MessageAdded(agent=agent, role=Role.USER, text=f"Please: {title}"))
        session.emit(events.ToolCallStarted(agent=agent, call_id=call_id, tool=tool, arguments={"path": title}, title=title))
    done = events.ToolCallFinished(
        agent="reviewer", call_id="r1", tool="read", ok=True, result="…", elapsed_ms=9, decision="mode"
    )
    session.emit(done)
    session.emit(events.MessageAdded(agent="reviewer", role=Role.ASSISTANT, text="Two things to change, both small."))
    session.emit(AgentFinished(agent="reviewer", outcome="done", summary="two things to change"))
    session.ask("q1", "python -m atheris fuzz.py -runs=1000", agent="fuzzer")
    nightly = WaitingTask("j1", "nightly tests", "daily 02:00", START + timedelta(hours=12))
    session.emit(WaitingChanged(jobs=(nightly, WaitingTask("j2", "mirror", "every 30m"))))


async def planned(driver: Driver) -> None:
    """Plan, todos, a task, agents and jobs."""
    session = driver.host.session
    play_work(session)
    session.emit(events.PlanChanged(plan=PLAN))
    send_agents(session)
    await driver.until_screen("Approval")
    await driver.press("l")
    await driver.press("f7")


async def agent_chat(driver: Driver) -> None:
    """A sub-agent's own conversation."""
    await planned(driver)
    await driver.press("end", *["up"] * 4, "enter", to="AgentScreen")


async def log_filtered(driver: Driver) -> None:
    """The log narrowed down."""
    await planned(driver)
    await driver.press("f8", "slash", *"shell")


async def many_sessions(driver: Driver) -> None:
    """Several sessions are open, one waits."""
    play_work(driver.host.session)
    await driver.settle()
    workbench = driver.app.workbench
    for summary in driver.host.summaries[:3]:
        await workbench.ready.session_controller.open(summary.id)
        await driver.settle()
    opened = driver.host.opened
    first, second, third = (opened[summary.id] for summary in driver.host.summaries[:3])
    first.begin_turn("Build the docs.")
    first.say("The site builds; now the search index.")
    first.ask("w1", "npm run build")
    second.begin_turn("Look at strings.")
    second.emit(events.TextDelta(text="Strings are entered in state 3.\nI'll look at how they are left."))
    third.begin_turn("Rename it everywhere.")
    third.say("212 of 212 files are renamed, and all tests pass.")
    third.end_turn()
    driver.host.clock.forward(90)


async def switcher_open(driver: Driver) -> None:
    """The list with several open ones."""
    await many_sessions(driver)
    await driver.press("f2", to="Switcher")
    await driver.until_shown("release notes")


async def fork(driver: Driver) -> None:
    """Up to where a fork goes."""
    play_work(driver.host.session)
    await driver.settle()
    await driver.type("/fork", "Picker")


SESSION_SCENES = {
    "plan": planned,
    "agent_chat": agent_chat,
    "log_filtered": log_filtered,
    "switcher_open": switcher_open,
    "fork": fork,
}
