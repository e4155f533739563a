"""A plan in the full-screen app and in plain mode: begun, watched, a question answered, a failed task tried again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Program, Serve
from tests.e2e.test_pipeline import PLAN, A, B, writes
from tests.e2e.test_tmux import Terminal

QUESTION = "\nBLOCKING: Which greeting?\n"


def report_of(program: Program) -> dict[str, object]:
    found: dict[str, object] = json.loads((program.workspace / "plans/PLAN/quality_report.json").read_text())
    return found


@pytest.fixture
def window(program: Program) -> Iterator[Terminal]:
    window = Terminal(program)
    yield window
    window.close()


@pytest.mark.tmux
@pytest.mark.bubblewrap
async def test_a_plan_in_the_app(program: Program, serve: Serve, window: Terminal) -> None:
    (program.workspace / "PLAN.md").write_text(PLAN + QUESTION)
    server = await serve(writes("a.py", "one = 2\n", "Write a.py"), writes("b.py", B, "Write b.py"))
    window.open("--url", server.url, "--sandbox", "bubblewrap", "-c", "verify=off", width=140, height=40)
    await window.until("What should we work on?")
    window.type("/pipeline PLAN.md")
    window.keys("Enter")
    await window.until("Work through PLAN.md?")
    window.keys("y")
    shown = await window.until("no progress:", 90)
    assert "Which greeting?" in shown
    window.keys("Escape")
    await window.until(lambda screen: "What should we work on?" in screen and "2 failed" in screen)
    better = await serve(writes("a.py", A, "Write a.py"), writes("b.py", B, "Write b.py"))
    window.close()
    window.open("--url", better.url, "--sandbox", "bubblewrap", "-c", "verify=off", width=140, height=40)
    await window.until("What should we work on?")
    window.type("/pipeline")
    window.keys("Enter")
    await window.until("no progress:")
    window.keys("3")
    await window.until("AssertionError")
    window.keys("1", "a")
    await window.until("your answer")
    window.type("Good day")
    window.keys("Enter")
    await window.until(lambda screen: "Good day" in screen or "Which greeting?" not in screen)
    window.keys("r")
    await window.until(lambda screen: "0 failed" in screen or "failed" not in screen)
    window.keys("P")
    await window.until("2 of 2 tasks done", 90)
    async with asyncio.timeout(60):
        while report_of(program)["status"] != "done":
            await asyncio.sleep(0.2)
    assert (program.workspace / "b.py").read_text() == B
