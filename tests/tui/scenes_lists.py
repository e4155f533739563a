"""Moments of the pages that list something, and what stands in the lists."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from lmtui.core.folders import KnownProject
from lmtui.core.sessions import AgentRow, SessionSummary
from lmtui.core.tool_servers import Form
from lmtui.features.jobs.values import JobKind, JobRecord
from lmtui.features.usage.values import LogUsage, UsageSum, slot_name
from tests.tui.driving import Driver
from tests.tui.fake_batches import PROGRESS, ROWS
from tests.tui.fake_mcp import NOW, some_servers
from tests.tui.fake_memory import some_notes, some_proposals
from tests.tui.fake_skills import some_skills, some_tools
from tests.tui.fakes import START, FakeHost, play_work


def agent(folder: str, title: str, state: str, minutes: int, last: str = "", clients: int = 0) -> AgentRow:
    """Return a row; `minutes` ago it last changed."""
    at = START - timedelta(minutes=minutes)
    is_open = state in ("waits", "writing")
    summary = SessionSummary(
        f"20260314_09{minutes:02}00_{folder[:3]:0<6}", title, state, "qwen3-coder-30b", at, at, 2, last, is_open, 3120
    )
    return AgentRow(Path("/home/ada/src") / folder, summary, clients)


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


def some_jobs(now: datetime) -> list[JobRecord]:
    """Return one job of each kind."""
    return [
        JobRecord(
            id="3fa2b1c0", text="Run all tests and mend what fails.", title="Nightly tests", created=now,
            schedule="daily 02:30", zone="Europe/Berlin", due=now + timedelta(hours=11, minutes=28),
            mode="auto", allow=("Shell(pytest*)",),
            runs=14, last_run=now - timedelta(hours=12), last_outcome="done", last_session="20260314_013000_0a0a0a",
        ),
        JobRecord(
            id="77aa01b2", text="Read the logs of the last hour.", title="Read the logs", created=now, schedule="hourly :05",
            due=now + timedelta(minutes=3),
            runs=211, last_run=now - timedelta(minutes=57), last_outcome="blocked",
            last_session="20260314_130500_0b0b0b",
        ),
        JobRecord(
            id="9c01d2e3", text="Update the changelog from git log.", title="Changelog", created=now, due=now,
            last_run=now - timedelta(minutes=2), attempts=1, last_session="20260314_140000_0c0c0c", claim="a",
        ),
        JobRecord(
            id="aa11bb22", text="the wheel on the build server", title="the wheel on the build server", created=now,
            kind=JobKind.WAKE, schedule="at 2026-03-14T18:00:00Z", due=now + timedelta(hours=4),
            session="20260314_120000_0d0d0d",
        ),
        JobRecord(
            id="bb22cc33", text="Sort my notes.", title="Sort my notes", created=now, schedule="every 2h", is_enabled=False,
            due=now, last_run=now - timedelta(days=2), runs=3,
            last_outcome="given up: lmtui ended 3 times while it ran",
        ),
        JobRecord(
            id="cc33dd44", text="Say which tests are slow.", title="Slow tests", created=now,
            runs=1, last_run=now - timedelta(days=1), last_outcome="done",
            last_session="20260313_101010_0e0e0e",
        ),
    ]  # fmt: skip


OTHER = KnownProject(
    "/home/ada/src/lexer", "lexer", START - timedelta(days=1), ("rust",), plans=2, done=9, tasks=14, failed=1,
    needs=("1 failed task", "2 open questions"),
)  # fmt: skip
GONE = KnownProject("/gone", "a\x1b[2Jb[red]", problem="the folder is gone")


def use_projects(host: FakeHost) -> None:
    """Let the user know three folders."""
    here = KnownProject(str(host.workspace), host.workspace.name, START, plans=1, done=3, tasks=3)
    host.extensions.projects.found = [here, OTHER, GONE]


DAYS_AGO = (0, 0, 1, 2, 3, 5, 6, 9, 12, 13, 20, 33, 40)
MODELS = ("qwen3-coder-30b-a3b-instruct", "devstral-24b", "\x1b[2Ja[red]-tiny")


def use_usage(host: FakeHost) -> None:
    """Let three models have worked in two folders for a month."""
    for number, days in enumerate(DAYS_AGO):
        slot = slot_name(NOW - timedelta(days=days), MODELS[number % 3])
        spent = UsageSum(
            7 + number, 40_000 * (number % 5 + 1), 3_100 * (number % 4 + 1), 31_000 * (number % 5 + 1), 2, 95.5 * (number + 1),
            400.0 * (number + 1),
        )  # fmt: skip
        folder = str(host.workspace) if number % 3 else "/home/ada/src/lexer"
        session = f"202603{number:02}_030405_abcdef"
        host.extensions.usage.logs.append(LogUsage(session, folder, f"Task {number}: nested comments", {slot: spent}))


FORM = Form(
    "crm",
    "Which customer is this about?",
    {
        "properties": {
            "name": {"type": "string", "title": "Name of the customer", "description": "as in the contract"},
            "kind": {"type": "string", "title": "Kind", "enum": ["company", "person"], "enumNames": ["A company", "A person"]},
            "since": {"type": "integer", "title": "Customer since (year)", "minimum": 1950, "maximum": 2100},
        },
        "required": ["name"],
    },
)


async def at_list(driver: Driver, typed: str, screen: str, words: str, *keys: str) -> None:
    """Open a list half-way through a turn."""
    play_work(driver.host.session)
    await driver.type(typed, screen)
    await driver.until_shown(words)
    await driver.press(*keys)


async def batch(driver: Driver) -> None:
    """Eight tasks, while one runs."""
    driver.host.extensions.batches.rows, driver.host.extensions.batches.progress = ROWS, PROGRESS
    await at_list(driver, "/batch", "BatchList", "lexer.py", "down")


async def jobs(driver: Driver) -> None:
    """Six jobs: one runs, one waits for a build, one is paused."""
    driver.host.extensions.jobs.known = some_jobs(START)
    await at_list(driver, "/jobs", "JobList", "Nightly", "home", "down", "down")


async def servers(driver: Driver) -> None:
    """Seven servers, one in each state; the marked one runs."""
    driver.host.extensions.mcp.put(*some_servers())
    await at_list(driver, "/mcp", "McpList", "schema", "home", "down")


async def tools(driver: Driver) -> None:
    """The tools of a server are read."""
    await servers(driver)
    await driver.press("enter", to="Reading")


async def form(driver: Driver) -> None:
    """A server asks the user in the middle of a call: the first field."""
    play_work(driver.host.session)
    asking = asyncio.ensure_future(driver.host.extensions.mcp.ask(FORM))
    asking.add_done_callback(lambda task: task.cancelled() or task.exception())
    await driver.until_screen("AskText")
    await driver.press(*"Lovelace & Co")


async def memory_inbox(driver: Driver) -> None:
    """Four proposals, the first one marked."""
    driver.host.extensions.memory.kept, driver.host.extensions.memory.proposed = some_notes(), some_proposals()
    await at_list(driver, "/memory", "MemoryList", "proposed")


async def skills(driver: Driver) -> None:
    """Seven skills and two tools; the marked one names its tools."""
    driver.host.extensions.skills.known, driver.host.extensions.skills.tools = some_skills(), some_tools()
    await at_list(driver, "/skill", "SkillList", "skill__draw", "home")


async def usage(driver: Driver) -> None:
    """What a week cost, by model."""
    use_usage(driver.host)
    await at_list(driver, "/usage", "UsageList", "devstral-24b")


LIST_SCENES = {
    "batch_tasks": batch, "jobs": jobs, "mcp": servers, "mcp_tools": tools, "mcp_form": form,
    "memory_inbox": memory_inbox, "skills": skills, "usage": usage,
}  # fmt: skip
