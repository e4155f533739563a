from __future__ import annotations

from datetime import UTC, datetime

from lmtui.core.agent_events import AgentFinished, AgentStarted
from lmtui.core.events import Event, PlanChanged
from lmtui.core.jobs import JobsChanged, WaitingJob
from lmtui.core.plan import Counter, Plan, PlanStep, TaskState, Todo, TodoStatus
from lmtui.store.session_logs import decode, encode
from lmtui.tui.session_state import SessionState
from lmtui.tui.widgets.panes import PlanView
from tests.tui.lines.stage import Stage, envelopes, screen_lines, settled

PLAN = Plan(
    steps=(
        PlanStep(1, "read it", TodoStatus.COMPLETED, verification="look", result="seen"),
        PlanStep(2, "change what is there", TodoStatus.IN_PROGRESS, verification="pytest -q"),
    ),
    todos=(Todo(1, "a\x1b[2Jb", TodoStatus.BLOCKED, notes="why not"),),
    counters=(Counter("files", 6, 12), Counter("seen", 3)),
)


def state_after(*events: Event) -> SessionState:
    state = SessionState()
    for envelope in envelopes(events):
        state.apply(envelope)
    return state


async def shown(view: PlanView, *events: Event, size: tuple[int, int] = (44, 30)) -> list[str]:
    async with Stage(view).run_test(size=size) as pilot:
        view.show(state_after(*events))
        await settled(pilot)
        return [line for line in screen_lines(view) if line]


async def test_only_parts_with_something_in_them_are_there() -> None:
    assert "No plan yet." in (await shown(PlanView()))[0]
    lines = await shown(PlanView(), PlanChanged(plan=Plan(todos=(Todo(1, "x"),))))
    assert [line.split() for line in lines] == [["Todo", "0", "of", "1"], ["○", "x"]]


async def test_steps_notes_counters_agents_and_jobs_stand_one_below_the_other() -> None:
    jobs = (WaitingJob("2", "later"), WaitingJob("1", "nightly", "daily 02:00", datetime(2026, 3, 15, 2, tzinfo=UTC)))
    lines = await shown(
        PlanView(zone=UTC),
        PlanChanged(plan=PLAN),
        AgentStarted(agent="tester", title="tests"),
        AgentStarted(agent="fuzzer", parent="tester", title="fuzz"),
        AgentFinished(agent="fuzzer", outcome="done", summary="3 crashes"),
        JobsChanged(jobs=jobs),
    )
    assert [" ".join(line.split()) for line in lines] == [
        "Plan 1 of 2",
        "✓ 1 read it",
        "● 2 change what is there",
        "check: pytest -q",
        "Todo 0 of 1",
        "✗ ab",
        "why not",
        "files ██████░░░░░░ 6/12",
        "seen 3",
        "Agents 1 working",
        "● tester tests",
        "✓ fuzzer fuzz · 3 crashes",
        "Jobs",
        "◔ nightly daily 02:00 Sun 15 Mar 02:00",
        "◔ later paused",
    ]


async def test_parts_stand_below_their_todo_and_what_waits_says_for_what() -> None:
    todos = (
        Todo(1, "the parser"),
        Todo(2, "the docs", depends_on=(1,)),
        Todo(3, "its lexer", TodoStatus.COMPLETED, parent=1),
        Todo(4, "its tests", parent=1, depends_on=(3,)),
    )
    lines = await shown(PlanView(), PlanChanged(plan=Plan(todos=todos)))
    assert [line.rstrip() for line in lines[1:]] == [
        " ○ the parser", "   ✓ its lexer", "   ○ its tests", " ◌ the docs", "    waits for the parser",
    ]  # fmt: skip


async def test_a_task_tells_how_far_it_is_and_what_comes_next() -> None:
    task = TaskState(
        "rename all", total_count=300, processed_count=75, remaining_queue=("a\x1b[2J.md",), last_error="disk full"
    )
    lines = await shown(PlanView(), PlanChanged(plan=Plan(task=task)))
    assert [" ".join(line.split()) for line in lines] == [
        "Task", "● rename all", "processed ███░░░░░░░░░ 75/300", "next: a.md", "failed: disk full",
    ]  # fmt: skip
    done = TaskState("rename all", total_count=3, processed_count=3)
    assert (await shown(PlanView(), PlanChanged(plan=Plan(task=done))))[0].split() == ["Task", "done"]


async def test_choosing_unfolds_a_step_and_opens_an_agent() -> None:
    view = PlanView()
    opened: list[str] = []
    view.open_agent = opened.append
    async with Stage(view).run_test(size=(44, 30)) as pilot:
        view.show(state_after(PlanChanged(plan=PLAN), AgentStarted(agent="tester")))
        await settled(pilot)
        assert screen_lines(view, has_bar=True)[1][:1] == "▌"  # not on the heading
        await pilot.press("enter")
        assert [line.strip() for line in screen_lines(view)[2:4]] == ["check: look", "→ seen"]
        assert view.copy_text() == "read it\ncheck: look\n→ seen"
        await pilot.press("end", "enter")
        assert opened == ["tester"]


def test_a_plan_with_steps_and_counters_is_stored_and_an_old_one_still_read() -> None:
    (envelope,) = envelopes([PlanChanged(plan=PLAN)])
    line = encode(envelope)
    assert decode(line) == envelope
    old = line.replace(',"verification":"look","result":"seen"', "").replace(',"verification":"pytest -q","result":""', "")
    old = old[: old.index(',"counters"')] + "}}"
    found = decode(old).event
    assert isinstance(found, PlanChanged)
    assert found.plan.steps[0] == PlanStep(1, "read it", TodoStatus.COMPLETED)
