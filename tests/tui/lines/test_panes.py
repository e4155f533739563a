"""What all line panes have in common."""

from __future__ import annotations

import re
from datetime import UTC

from lmtui import paths
from lmtui.core import events
from lmtui.core.agent_events import AgentFinished, AgentStarted, BackgroundChanged
from lmtui.core.messages import Role
from lmtui.core.plan import Plan, PlanStep, TaskState, Todo, TodoStatus
from lmtui.core.workspace import BackgroundCommand, DirEntry, FileChange, FileChangeKind, GitState
from lmtui.tui.commands import Scope, of_scope
from lmtui.tui.lines.diff_view import DiffView
from lmtui.tui.lines.file_tree import FileTree
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.patch import parse_patch
from lmtui.tui.lines.styled_text import ROLES
from lmtui.tui.lines.tool_log import ToolLog
from lmtui.tui.lines.transcript import Transcript
from lmtui.tui.screens.viewer import FileText, FileView
from lmtui.tui.session_state import SessionState
from lmtui.tui.themes import find_theme
from lmtui.tui.widgets.panes import AGENT_SIGNS, PlanView
from tests.sets import few, for_each
from tests.tui.lines.stage import NOON, Stage, envelopes, screen_lines, settled

EVENTS = [
    events.MessageAdded(role=Role.USER, text="needle"),
    events.ToolCallStarted(call_id="a", tool="read", arguments={}, title="needle"),
    events.ToolCallFinished(call_id="a", tool="read", ok=True, result="", elapsed_ms=1),
    events.FilesChanged(call_id="a", files=("needle",), changes=(FileChange("needle", FileChangeKind.MODIFIED),)),
]


def filled_panes() -> list[VirtualLineView]:
    transcript, log, tree, file, diff = Transcript(zone=UTC), ToolLog(), FileTree(), FileView(), DiffView()
    for envelope in envelopes(EVENTS):
        transcript.apply(envelope)
        log.apply(envelope)
        tree.apply(envelope)
    tree.set_listing("", [DirEntry("needle", "file")])
    file.show(FileText("a.txt", b"needle\n"))
    diff.show_patches(parse_patch("@@ -0,0 +1 @@\n+needle\n", "a.txt"))
    return [transcript, log, tree, file, diff]


@for_each("number", range(5))
async def test_every_action_works_on_an_empty_and_on_a_filled_pane(number: int) -> None:
    for view in ([Transcript(), ToolLog(), FileTree(), FileView(), DiffView()][number], filled_panes()[number]):
        async with Stage(view).run_test(size=(80, 24)) as pilot:
            await settled(pilot)
            for action in ACTIONS:
                await view.run_action(action)
                await settled(pilot)
            assert len(screen_lines(view)) == view.size.height


SCOPES = (Scope.MOVING, Scope.LINES, Scope.FILES, Scope.COPYING, Scope.FINDING, Scope.VIEWER)
ACTIONS = [each.action.removeprefix("focused.") for each in of_scope(*SCOPES) if not each.action.startswith("screen.")]


@for_each("number", range(5))
async def test_every_pane_draws_what_it_was_given_before_it_was_shown_and_at_every_size(number: int) -> None:
    view = filled_panes()[number]
    async with Stage(view).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert any("needle" in line for line in screen_lines(view))
        for size in ((20, 5), (60, 18), (200, 50)):
            await pilot.resize_terminal(*size)
            assert {view.render_line(y).cell_length for y in range(view.size.height)} == {view.size.width}, size


def every_state() -> list[events.Event]:
    """Return events that bring every todo, agent, job, command, call and notice into each state that it can have."""
    todos = tuple(Todo(at, f"todo {at}", status, notes="why") for at, status in enumerate(TodoStatus, 1))
    todos += (Todo(9, "later", depends_on=(1,)),)
    steps = tuple(
        PlanStep(at, f"step {at}", status, verification="look", result="seen", risk="high")
        for at, status in enumerate(TodoStatus, 1)
    )
    task = TaskState(
        "all", total_count=3, processed_count=1, remaining_queue=("a",), last_error="full", recovery_instruction="b"
    )
    commands = (
        BackgroundCommand("bg_1", "serve", 1),
        BackgroundCommand("bg_2", "no", 1, 1),
        BackgroundCommand("bg_3", "x", 1, 0, "left"),
    )
    found: list[events.Event] = [
        events.PlanChanged(plan=Plan(steps=steps, todos=todos, task=task)),
        events.WaitingChanged(jobs=(events.WaitingTask("1", "later"), events.WaitingTask("2", "nightly", "daily", NOON))),
        BackgroundChanged(commands=commands),
        *(events.Notice(level=level, text=level.value) for level in events.Level),
        *(AgentStarted(agent=each) for each in AGENT_SIGNS),
        *(AgentFinished(agent=each, outcome=each) for each in ("done", "partial", "failed")),
        events.ToolCallStarted(call_id="runs", tool="shell", arguments={}, title="make"),
    ]
    for ok in (True, False):
        found += [
            events.ToolCallStarted(call_id=str(ok), tool="shell", arguments={}, title="make"),
            events.ToolCallFinished(call_id=str(ok), tool="shell", ok=ok, result="all of it", elapsed_ms=1),
        ]
    return found


def full_panes() -> list[VirtualLineView]:
    """Return the panes with a row for each state."""
    plan, tree, log, transcript, diff = PlanView(zone=UTC), FileTree(), ToolLog(), Transcript(zone=UTC), DiffView()
    state = SessionState()
    changes = tuple(FileChange(kind.value, kind) for kind in FileChangeKind)
    for envelope in envelopes([*every_state(), events.FilesChanged(call_id="a", files=tuple(FileChangeKind), changes=changes)]):
        state.apply(envelope)
        for view in (tree, log, transcript):
            view.apply(envelope)
    state.work.agents.by_id["waits"].state = "waits"
    plan.show(state)
    tree.set_listing("", [DirEntry(each, "file") for each in (*GitState, *FileChangeKind)])
    tree.source.marks.take_git({each.value: each for each in GitState})
    diff.show_patches(parse_patch("@@ -1,2 +1,2 @@\n def a():\n-    x\n+    y\n", "a.py"))
    return [plan, tree, log, transcript, diff]


@for_each("number", range(5))
async def test_every_state_of_a_pane_is_drawn_in_every_theme(number: int) -> None:
    view = full_panes()[number]
    stage = Stage(view)
    async with stage.run_test(size=(80, 80)) as pilot:
        for name in few(paths.theme_files()):
            theme = find_theme(name)
            stage.register_theme(theme)
            stage.theme = theme.name
            await settled(pilot)
            assert 3 <= view.source.total() < view.size.height
            assert {view.render_line(y).cell_length for y in range(view.size.height)} == {view.size.width}


def test_every_role_of_a_line_has_a_style() -> None:
    sheet = Stage.CSS_PATH.read_text()
    assert set(re.findall(r"^VirtualLineView > \.lines--([\w-]+) \{", sheet, re.M)) == ROLES


async def test_a_hidden_pane_catches_up_when_it_is_shown() -> None:
    transcript = Transcript(zone=UTC)
    async with Stage(transcript).run_test(size=(60, 10)) as pilot:
        transcript.display = False
        await settled(pilot)
        for envelope in envelopes([events.MessageAdded(role=Role.USER, text=f"task {number}") for number in range(30)]):
            transcript.apply(envelope)
        await settled(pilot)
        transcript.display = True
        await settled(pilot)
        assert screen_lines(transcript)[-1].startswith("▌ task 29")
