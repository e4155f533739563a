"""Jobs in a list, for screens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from lmtui.core.errors import UsageError
from lmtui.features.jobs.values import JobRecord, NewJob


class FakeJobs:
    """Implements `features.jobs.values.Jobs`."""

    def __init__(self) -> None:
        self.known: list[JobRecord] = []
        self.wanted: list[NewJob] = []
        self.is_serving = False
        self.failure: Exception | None = None
        self._listeners: list[Callable[[Sequence[JobRecord]], None]] = []

    async def read(self) -> Sequence[JobRecord]:
        return tuple(self.known)

    async def add(self, wanted: NewJob) -> JobRecord:
        if wanted.schedule == "never":
            raise UsageError("'never' is not a schedule", "There are: daily 09:00.")
        self.wanted.append(wanted)
        created = datetime(2026, 3, 14, 14, 2, tzinfo=UTC)
        record = JobRecord(id=f"job{len(self.known)}", text=wanted.text, title=wanted.text, created=created, due=created)
        self.known.append(record)
        return record

    async def run_now(self, job_id: str) -> JobRecord:
        return self._change(job_id, lambda job: replace(job, due=datetime(2026, 3, 14, 14, 2, tzinfo=UTC)))

    async def pause(self, job_id: str) -> JobRecord:
        return self._change(job_id, lambda job: replace(job, is_enabled=False))

    async def resume(self, job_id: str) -> JobRecord:
        return self._change(job_id, lambda job: replace(job, is_enabled=True))

    async def remove(self, job_id: str) -> JobRecord:
        record = next(job for job in self.known if job.id == job_id)
        self.known.remove(record)
        return record

    def follow_changes(self, listener: Callable[[Sequence[JobRecord]], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def is_scheduled(self) -> bool:
        return self.is_serving

    async def serve(self, *, until_empty: bool = False, interval_s: float = 0.0) -> None:
        if self.failure is not None:
            raise self.failure
        self.is_serving = True
        try:
            await asyncio.Event().wait()
        finally:
            self.is_serving = False

    def _change(self, job_id: str, change: Callable[[JobRecord], JobRecord]) -> JobRecord:
        self.known = [change(job) if job.id == job_id else job for job in self.known]
        return next(job for job in self.known if job.id == job_id)
