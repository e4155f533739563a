"""What all line panes have in common."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC

import pytest

from lmtui.core.events import FilesChanged, MessageAdded, ToolCallFinished, ToolCallStarted
from lmtui.core.messages import Role
from lmtui.core.workspace import DirEntry, FileChange, FileChangeKind
from lmtui.tui.commands import Scope, of_scope
from lmtui.tui.lines.diff_view import DiffView
from lmtui.tui.lines.file_tree import FileTree
from lmtui.tui.lines.file_view import FileText, FileView
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.patch import parse_patch
from lmtui.tui.lines.tool_log import ToolLog
from lmtui.tui.lines.transcript import Transcript
from tests.tui.lines.stage import Stage, envelopes, screen_lines, settled

EVENTS = [
    MessageAdded(role=Role.USER, text="needle"),
    ToolCallStarted(call_id="a", tool="read", arguments={}, title="needle"),
    ToolCallFinished(call_id="a", tool="read", ok=True, result="", elapsed_ms=1),
    FilesChanged(call_id="a", files=("needle",), changes=(FileChange("needle", FileChangeKind.MODIFIED),)),
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


@pytest.mark.parametrize("number", range(5))
async def test_what_a_pane_is_given_before_it_is_shown_is_there(number: int) -> None:
    view = filled_panes()[number]
    async with Stage(view).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert any("needle" in line for line in screen_lines(view))


@pytest.mark.parametrize("number", range(5))
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


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("size", [(20, 5), (60, 18), (200, 50)])
async def test_every_pane_draws_at_every_size(number: int, size: tuple[int, int]) -> None:
    view = filled_panes()[number]
    async with Stage(view).run_test(size=size) as pilot:
        await settled(pilot)
        assert {view.render_line(y).cell_length for y in range(view.size.height)} == {view.size.width}


async def test_a_hidden_pane_catches_up_when_it_is_shown() -> None:
    transcript = Transcript(zone=UTC)
    async with Stage(transcript).run_test(size=(60, 10)) as pilot:
        transcript.display = False
        await settled(pilot)
        for envelope in envelopes([MessageAdded(role=Role.USER, text=f"task {number}") for number in range(30)]):
            transcript.apply(envelope)
        await settled(pilot)
        transcript.display = True
        await settled(pilot)
        assert screen_lines(transcript)[-1].startswith(" ▌ task 29")


async def test_without_colour_the_signs_still_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    log = ToolLog()
    for ok in (True, False):
        for envelope in envelopes([ToolCallStarted(call_id=str(ok), tool="x", arguments={}), ToolCallFinished(
            call_id=str(ok), tool="x", ok=ok, result="", elapsed_ms=1)]):  # fmt: skip
            log.apply(envelope)
    async with Stage(log).run_test(size=(60, 10)) as pilot:
        await settled(pilot)
        assert pilot.app.no_color
        assert [line.split()[0] for line in screen_lines(log)[:2]] == ["✓", "✗"]


def test_importing_the_panes_leaves_the_parsers_for_later() -> None:
    program = "import sys, lmtui.tui.lines.transcript, lmtui.tui.lines.file_view; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "lmtui.tui.lines.markdown" in loaded
    assert not {"markdown_it", "pygments.lexers", "pygments.lexer"} & set(loaded)
