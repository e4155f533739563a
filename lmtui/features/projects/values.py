"""The projects of a user, as front ends see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Protocol

from lmtui.core.folders import KnownProject
from lmtui.core.sanitize import sanitize_line

NO_PROJECTS = "No projects yet. lmtui adds a folder when a session is opened in it; `lmtui projects scan DIR` finds others."


class Projects(Protocol):
    """The projects of the user, as front ends see them."""

    async def read(self) -> Sequence[KnownProject]:
        """Return them with the state of their plans and sessions, the one used last first."""


def project_lines(projects: Sequence[KnownProject], now: datetime) -> Iterator[str]:
    """Yield projects in lines for people."""
    names = [sanitize_line(each.name)[:40] for each in projects]
    width = max(map(len, names), default=0)
    for name, each in zip(names, projects, strict=True):
        tags = "".join(f"  #{sanitize_line(tag)}" for tag in each.tags)
        failed = f", {each.failed} failed" if each.failed else ""
        line = f"{name:<{width}}  {each.used_text(now):<16}  {each.plans_text + failed:<24}  {sanitize_line(each.path)}{tags}"
        yield line
        if each.state_text:
            yield f"{'':<{width}}  {each.state_text}"
