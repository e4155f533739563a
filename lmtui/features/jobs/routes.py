"""What the host's API does with jobs."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated

from pydantic import Field

from lmtui.core.permissions.rules import Mode
from lmtui.features.jobs.values import JobRecord, Jobs, Missed, NewJob, shown_schedule
from lmtui.host.endpoints import ApiContext, ApiError, Endpoint, route
from lmtui.host.wire import SESSION_ID, InFolder, Wire, Words, filled

ROUTES: list[Endpoint] = []
_route = partial(route, ROUTES)


class JobInfo(Wire):
    """A job."""

    id: str
    title: str
    text: str
    schedule: str
    state: str
    next_time: datetime | None
    session: str
    runs: int
    last_outcome: str
    last_session: str


class NewJobBody(InFolder):
    """A job; `schedule` as `lmtui schedule` takes it, empty for as soon as possible."""

    text: Annotated[str, Field(min_length=1, max_length=100_000)]
    schedule: Annotated[str, Field(max_length=200)] = ""
    zone: Annotated[str, Field(max_length=100)] = ""
    title: Annotated[str, Field(max_length=80)] = ""
    session: Annotated[str, Field(pattern=SESSION_ID)] | None = None
    mode: Mode | None = None
    deny: Annotated[list[Annotated[str, Field(max_length=4_096)]], Field(max_length=100)] = Field(default_factory=list)
    missed: Missed = Missed.RUN


@_route("GET", "/v1/jobs")
async def jobs(api: ApiContext, folder: Words = "") -> dict[str, list[JobInfo]]:
    """List jobs.

    Without a folder they are those of all.
    """
    folders = [api.folder(folder)] if folder else api.hub.folders
    reads = [await (await api.hub.runtime(path)).extensions[Jobs].read() for path in folders]
    return {"jobs": [_job(each) for read in reads for each in read]}


@_route("POST", "/v1/jobs", status=201)
async def job_added(api: ApiContext, body: NewJobBody) -> JobInfo:
    """Add a job."""
    runtime = await api.runtime(body.folder)
    given = body.model_dump(exclude={"folder"})
    given |= {"session": body.session or "", "mode": str(body.mode or ""), "deny": tuple(body.deny)}
    return _job(await runtime.extensions[Jobs].add(NewJob(**given)))


@_route("DELETE", "/v1/jobs/{job_id}")
async def job_removed(api: ApiContext, job_id: str) -> None:
    """Remove a job."""
    _ = await (await _jobs_with(api, job_id)).remove(job_id)


@_route("POST", "/v1/jobs/{job_id}/run")
async def job_run(api: ApiContext, job_id: str) -> JobInfo:
    """Run a job."""
    return _job(await (await _jobs_with(api, job_id)).run_now(job_id))


@_route("POST", "/v1/jobs/{job_id}/pause")
async def job_paused(api: ApiContext, job_id: str) -> JobInfo:
    """Pause a job."""
    return _job(await (await _jobs_with(api, job_id)).pause(job_id))


@_route("POST", "/v1/jobs/{job_id}/resume")
async def job_resumed(api: ApiContext, job_id: str) -> JobInfo:
    """Resume a job."""
    return _job(await (await _jobs_with(api, job_id)).resume(job_id))


@_route("POST", "/v1/jobs/{job_id}/toggle")
async def job_toggled(api: ApiContext, job_id: str) -> JobInfo:
    """Pause a job, or resume a paused one."""
    known = await _jobs_with(api, job_id)
    is_on = any(each.id == job_id and each.is_enabled for each in await known.read())
    return _job(await (known.pause if is_on else known.resume)(job_id))


async def _jobs_with(api: ApiContext, job_id: str) -> Jobs:
    """Return where a job is, by its whole id."""
    for folder in api.hub.folders:
        known = (await api.hub.runtime(folder)).extensions[Jobs]
        if any(each.id == job_id for each in await known.read()):
            return known
    raise ApiError(404, "no such job", "`GET /v1/jobs` lists them.")


def _job(job: JobRecord) -> JobInfo:
    return filled(JobInfo, job, schedule=shown_schedule(job))
