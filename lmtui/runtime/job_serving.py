"""The scheduler of this process: it is made when jobs are to be run, and says that it is there as long as it works."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from lmtui.automation.inbox_folder import InboxFolder
from lmtui.automation.scheduler import Parts, Scheduler
from lmtui.core.errors import JobsError
from lmtui.core.jobs import JobsRead
from lmtui.paths import inbox_dir
from lmtui.runtime.job_runs import JobHost, JobRuns
from lmtui.runtime.new_jobs import new_record
from lmtui.runtime.processes import is_alive, this_process
from lmtui.store.jobs import JobFile
from lmtui.store.presence import Presence


class SystemClock:
    """The clocks of this machine; implements `automation.scheduler.Clock`."""

    def wall(self) -> datetime:
        """Return the time in UTC."""
        return datetime.now(UTC)

    def mono_s(self) -> float:
        """Return seconds on the clock that only goes forward."""
        return time.monotonic()

    async def sleep(self, seconds: float, wake: asyncio.Event) -> None:
        """Wait so long, or until `wake` is set."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(wake.wait(), seconds)


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who is told: `changed` gets the table whenever it changed, `problem` a line for the user.

    `begins` is called and waited for before the first look at the table.
    """

    changed: Callable[[JobsRead], None]
    problem: Callable[[str], None]
    begins: Callable[[], Awaitable[None]]


class Serving:
    """Runs the jobs of a table as long as it is asked to.

    Args:
        host: what the jobs run on.
        table: where they are.
        runs: runs one.
        listeners: who is told.
    """

    def __init__(self, host: JobHost, table: JobFile, runs: JobRuns, listeners: Listeners) -> None:
        self._host = host
        self._table = table
        self._runs = runs
        self._listeners = listeners
        self._scheduler: Scheduler | None = None
        self._task: asyncio.Task[None] | None = None

    def is_anyone(self) -> bool:
        """Tell whether a scheduler, this process's or another's, runs what is due.  Blocks (disk)."""
        return Presence(self._host.workspace).is_anyone()

    def wake(self) -> None:
        """Look at the table now."""
        if self._scheduler is not None:
            self._scheduler.wake()

    async def serve(self, *, until_empty: bool, interval_s: float) -> None:
        """Run what is due; see `core.jobs.Jobs.serve`.

        Raises:
            JobsError: this process does that already.
        """
        if self._task is not None:
            raise JobsError("this process runs jobs already")
        self._task = asyncio.current_task()
        presence = Presence(self._host.workspace)
        entering = asyncio.ensure_future(asyncio.to_thread(presence.enter))
        try:
            is_first = await asyncio.shield(entering)
            await self._listeners.begins()
            self._scheduler = self._make_scheduler(interval_s)
            await self._scheduler.work(until_empty=until_empty, is_first=is_first)
        finally:
            self._scheduler = self._task = None
            await asyncio.wait({entering})  # who is cancelled while it enters has to leave as well
            presence.leave()

    async def stop(self) -> None:
        """Stop running jobs; what ran is run again by whoever comes next."""
        task = self._task
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait({task})

    def _make_scheduler(self, interval_s: float) -> Scheduler:
        clock, host = SystemClock(), self._host
        parts = Parts(
            table=self._table,
            run=self._runs.run,
            clock=clock,
            me=this_process(),
            is_alive=is_alive,
            new_token=lambda: secrets.token_hex(8),
            may_take=self._runs.may_take,
            inbox=InboxFolder(
                inbox_dir(host.workspace), self._add_from_inbox, self._trusts_inbox, self._say_soon(), clock.mono_s
            ),
            on_change=self._listeners.changed,
            on_problem=self._listeners.problem,
            interval_s=lambda: interval_s or host.config.scheduler_interval_s,
        )
        return Scheduler(parts)

    def _say_soon(self) -> Callable[[str], None]:
        loop = asyncio.get_running_loop()
        return lambda text: (loop.call_soon_threadsafe(self._listeners.problem, text), None)[1]

    def _trusts_inbox(self) -> bool:
        return self._host.config.inbox == "on"

    def _add_from_inbox(self, text: str, source: str) -> None:
        _ = self._table.add(replace(new_record(text, ""), due=datetime.now(UTC), source=source))
