"""The folders that the user works in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.times import LocalZone, moment_text


@dataclass(frozen=True, slots=True)
class KnownProject:
    """A folder that the user works in; `last_used` is None where no session was opened in it.

    `done` of `tasks` are those of all its plans, `failed` of them need the user.  `needs` says in words what does, `problem`
    why the folder cannot be looked at.
    """

    path: str
    name: str
    last_used: datetime | None = None
    tags: tuple[str, ...] = ()
    plans: int = 0
    done: int = 0
    tasks: int = 0
    failed: int = 0
    needs: tuple[str, ...] = ()
    problem: str = ""

    def used_text(self, now: datetime) -> str:
        """Return when it was used last."""
        return moment_text(self.last_used, now, LocalZone()) if self.last_used else "not used yet"

    @property
    def plans_text(self) -> str:
        """Return how far its plans are, empty where it has none."""
        return f"{pluralize(self.plans, 'plan')}, {self.done}/{self.tasks} done" if self.plans else ""

    @property
    def state_text(self) -> str:
        """Return what is wrong with it, or what it needs the user for, on one line."""
        return sanitize_line(self.problem) or (f"needs you: {', '.join(self.needs)}" if self.needs else "")


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
        yield f"{name:<{width}}  {each.used_text(now):<16}  {each.plans_text + failed:<24}  {sanitize_line(each.path)}{tags}"
        if each.state_text:
            yield f"{'':<{width}}  {each.state_text}"
