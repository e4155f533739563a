"""What the host's API does with jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from lmtui.core.permissions.rules import Mode
from lmtui.features.jobs.values import JobRecord, Jobs, Missed, NewJob, shown_schedule
from lmtui.host.api_context import ApiContext
from lmtui.host.endpoints import ApiCall, ApiError, Endpoint
from lmtui.host.wire import SESSION_ID, FolderQuery, Wire, filled


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


class AllJobs(Wire):
    """The jobs of a folder."""

    jobs: list[JobInfo]


class NewJobBody(FolderQuery):
    """A job; `schedule` as `lmtui schedule` takes it, empty for as soon as possible."""

    text: Annotated[str, Field(min_length=1, max_length=100_000)]
    schedule: Annotated[str, Field(max_length=200)] = ""
    zone: Annotated[str, Field(max_length=100)] = ""
    title: Annotated[str, Field(max_length=80)] = ""
    session: Annotated[str, Field(pattern=SESSION_ID)] | None = None
    mode: Mode | None = None
    deny: Annotated[list[Annotated[str, Field(max_length=4_096)]], Field(max_length=100)] = Field(default_factory=list)
    missed: Missed = Missed.RUN


async def jobs(api: ApiContext, call: ApiCall) -> AllJobs:
    """Return the jobs of a folder, or of all."""
    folders = [api.folder(call.query.folder)] if call.query.folder else api.hub.folders
    found: list[JobInfo] = []
    for folder in folders:
        runtime = await api.hub.runtime(folder)
        found += [_job(each) for each in (await runtime.extensions[Jobs].read()).records]
    return AllJobs(jobs=found)


async def job_added(api: ApiContext, call: ApiCall) -> JobInfo:
    """Add a job."""
    body: NewJobBody = call.body
    runtime = await api.runtime(body.folder)
    given = body.model_dump(exclude={"folder"})
    given |= {"session": body.session or "", "mode": str(body.mode or ""), "deny": tuple(body.deny)}
    return _job(await runtime.extensions[Jobs].add(NewJob(**given)))


async def job_changed(api: ApiContext, call: ApiCall) -> JobInfo:
    """Run a job now, pause it or resume it."""
    found, job_id = await _find_job(api, call.path["job_id"])
    change: dict[str, Any] = {"run": found.run_now, "pause": found.pause, "resume": found.resume}
    return _job(await change[call.request.url.path.rpartition("/")[2]](job_id))


async def job_removed(api: ApiContext, call: ApiCall) -> None:
    """Remove a job."""
    found, job_id = await _find_job(api, call.path["job_id"])
    _ = await found.remove(job_id)


async def _find_job(api: ApiContext, job_id: str) -> tuple[Jobs, str]:
    """Return where a job is, by its whole id."""
    for folder in api.hub.folders:
        known = (await api.hub.runtime(folder)).extensions[Jobs]
        if any(each.id == job_id for each in (await known.read()).records):
            return known, job_id
    raise ApiError(404, "no such job", "`GET /v1/jobs` lists them.")


def _job(job: JobRecord) -> JobInfo:
    history = job.history
    ran = {"runs": history.runs, "last_outcome": history.last_outcome, "last_session": history.last_session}
    return filled(JobInfo, job, schedule=shown_schedule(job), **ran)


ROUTES = (
    Endpoint("GET", "/v1/jobs", "List jobs", jobs, FolderQuery, answer=AllJobs),
    Endpoint("POST", "/v1/jobs", "Add a job", job_added, body=NewJobBody, answer=JobInfo, status=201),
    Endpoint("DELETE", "/v1/jobs/{job_id}", "Remove a job", job_removed, status=204),
    *(
        Endpoint("POST", f"/v1/jobs/{{job_id}}/{verb}", f"{verb.capitalize()} a job", job_changed, answer=JobInfo)
        for verb in ("run", "pause", "resume")
    ),
)
