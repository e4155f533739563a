"""A moment of the list of agents in the background."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from lmtui.core.sessions import AgentRow, SessionSummary
from tests.tui.driving import Driver
from tests.tui.fakes import START, play_work

_HOME = Path("/home/ada/src")


def agent(folder: str, title: str, state: str, minutes: int, last: str = "", clients: int = 0) -> AgentRow:
    """Return a row; `minutes` ago it last changed."""
    at = START - timedelta(minutes=minutes)
    is_open = state in ("waits", "writing")
    summary = SessionSummary(
        f"20260314_09{minutes:02}00_{folder[:3]:0<6}", title, state, "qwen3-coder-30b", at, at, 2, last, is_open, 3120
    )
    return AgentRow(_HOME / folder, summary, clients)


AGENTS = (
    agent("parser", "Port the parser to the new tokenizer", "writing", 1, clients=1, last="I run the tests of the lexer."),
    agent("website", "Build the contact form\x1b[2J", "waits", 4, last="The form and its handler:"),
    agent("notes", "Sort the notes by topic", "done", 40, last="All 214 notes are sorted."),
    agent("parser", "Find out why the build is slow", "interrupted", 59),
    agent("firmware", "", "new", 59),
)


def use_agents(driver: Driver, rows: Sequence[AgentRow] = AGENTS) -> None:
    """Let a host have these sessions."""

    async def read() -> Sequence[AgentRow]:
        return rows

    driver.app.options = replace(driver.app.options, agents=read)


async def agents(driver: Driver) -> None:
    """Five sessions in four folders: one needs the user, one works."""
    play_work(driver.host.session)
    use_agents(driver)
    await driver.type("/agents")
    await driver.until_screen("AgentList")
    await driver.until_shown("website")


AGENT_SCENES = (("agents", agents),)
