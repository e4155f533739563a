"""A moment of the list of projects."""

from __future__ import annotations

from datetime import timedelta

from lmtui.core.project_values import KnownProject
from tests.tui.driving import Driver
from tests.tui.fakes import START, FakeHost, play_work

OTHER = KnownProject(
    "/home/ada/src/lexer", "lexer", START - timedelta(days=1), ("rust",), plans=2, done=9, tasks=14, failed=1,
    needs=("1 failed task", "2 open questions"),
)  # fmt: skip
GONE = KnownProject("/gone", "a\x1b[2Jb[red]", problem="the folder is gone")


def use_projects(host: FakeHost) -> None:
    """Let the user know three folders."""
    here = KnownProject(str(host.workspace), host.workspace.name, START, plans=1, done=3, tasks=3)
    host.extensions.projects.found = [here, OTHER, GONE]


async def projects(driver: Driver) -> None:
    """Three projects: the one here, one that needs the user, one whose folder is gone."""
    play_work(driver.host.session)
    use_projects(driver.host)
    await driver.type("/projects")
    await driver.until_screen("ProjectList")
    await driver.until_shown("lexer")
    await driver.press("home", "down")


PROJECT_SCENES = (("projects", projects),)
