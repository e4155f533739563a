"""What the pictures show: fixed moments of the app, for snapshot tests and screenshots."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from lmtui.core.sessions import SessionSummary
from lmtui.tui.modals.approval import Approval
from tests.tui.driving import Driver
from tests.tui.fakes import DIFF, START, FakeHost, play_work

COMMAND = "rm -rf build/ && python -m build --wheel"


@dataclass(frozen=True)
class Scene:
    """A moment: the host it begins with, and the steps that lead to it."""

    name: str
    steps: Callable[[Driver], Awaitable[None]]
    setup_note: str = ""

    def host(self) -> FakeHost:
        """Return a fresh host."""
        host = FakeHost(setup_note=self.setup_note)
        host.summaries = SUMMARIES
        return host


async def at_work(driver: Driver) -> None:
    """Half-way through a turn."""
    play_work(driver.host.session)
    await driver.settle()
    await driver.pilot.pause(0.1)


async def command_approval(driver: Driver) -> None:
    """A command waits for its answer."""
    await at_work(driver)
    driver.host.session.ask("a1", COMMAND, rule=f"Shell({COMMAND})")
    await live_approval(driver)


async def edit_approval(driver: Driver) -> None:
    """A change waits for its answer."""
    await at_work(driver)
    driver.host.session.ask("a1", "edit", tool="edit", diff=DIFF, path="parser/lexer.py", rule="Edit(parser/lexer.py)")
    await live_approval(driver)


async def live_approval(driver: Driver) -> None:
    """Wait until an answer counts."""
    await driver.until_screen("Approval")
    driver.host.clock.forward(1)
    approval = driver.app.screen
    assert isinstance(approval, Approval)
    await driver.until(lambda: approval.shows_live)


async def switcher(driver: Driver) -> None:
    """All sessions."""
    await at_work(driver)
    await driver.press("f2")
    await driver.until_screen("Switcher")
    await driver.until(lambda: "rename pass" in driver.text())


async def first_run(driver: Driver) -> None:
    """No model yet."""
    await driver.until_screen("FirstRun")
    await driver.until(lambda: "llama3.2" in driver.text())


async def help_screen(driver: Driver) -> None:
    """Every key."""
    await driver.press("f1")
    await driver.until_screen("Help")
    await driver.until(lambda: "/sessions" in driver.text())


async def difference(driver: Driver) -> None:
    """What a session changed."""
    await at_work(driver)
    await driver.press("f10")
    await driver.until_screen("Viewer")


async def empty(driver: Driver) -> None:
    """Nothing said yet, a slash command begun."""
    await driver.press("/", "s")


def _summary(number: int, title: str, state: str, last_line: str, changes: int, age_s: float) -> SessionSummary:
    then = START - timedelta(seconds=age_s)
    return SessionSummary(
        f"20260314_1{number}0000_abcde{number}", title, state, "qwen2.5-coder:7b", then, then, changes, last_line
    )


SUMMARIES = [
    _summary(1, "docs", "waits", 'shell "npm run build"', 12, 120),
    _summary(2, "parser", "writing", "I'll look at how strings are entered.", 7, 1),
    _summary(3, "rename pass", "done", "212 of 212 files", 212, 3600),
    _summary(4, "try the new tokenizer on the old corpus", "interrupted", "", 0, 90000),
    _summary(5, "release notes", "error", "the server closed the connection", 1, 900000),
]

SCENES = (
    Scene("workbench", at_work),
    Scene("approval_command", command_approval),
    Scene("approval_edit", edit_approval),
    Scene("switcher", switcher),
    Scene("first_run", first_run, setup_note="No model server is chosen yet."),
    Scene("help", help_screen),
    Scene("difference", difference),
    Scene("completion", empty),
)
