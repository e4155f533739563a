"""The routes of sessions, of folders (files, tools, models, uploads), of the host and of chats."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from mimetypes import guess_type
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from lmtui import __version__
from lmtui.app.archive import archive_of, bare_history
from lmtui.app.host import Runtime, encode_event
from lmtui.app.session_models import last_model
from lmtui.commands.command import Begin, CommandContext, Output
from lmtui.commands.session_commands import set_mode
from lmtui.commands.table import command_table, run_unasked
from lmtui.core import events
from lmtui.core.budgets import FORM
from lmtui.core.errors import LmtuiError, SandboxError, UsageError
from lmtui.core.event_text import set_budget
from lmtui.core.events import ApprovalRequested, Envelope, TurnEnded, TurnReason, pending_approvals
from lmtui.core.messages import Image, Role, ToolSpec, Usage, picture, sniff
from lmtui.core.permissions.rules import Mode
from lmtui.core.plan import Plan
from lmtui.core.prompt_text import AS_WORDS, slash_call
from lmtui.core.sanitize import sanitize_line
from lmtui.core.servers import ServerFound
from lmtui.core.sessions import Answer, Session
from lmtui.core.workspace import FileContent
from lmtui.host import wire
from lmtui.host.access import JSON
from lmtui.host.endpoints import UPLOAD_BYTES, UPLOAD_S, ApiContext, ApiError, Endpoint, Uploaded, route
from lmtui.host.feed import HEARTBEAT, EventStream, blocks, place_behind, stored
from lmtui.host.wire import Words

ROUTES: list[Endpoint] = []
_route = partial(route, ROUTES)
_ONE = "/v1/sessions/{id}"
_Limit = Annotated[int, Field(ge=1, le=1_000)]
_EventLimit = Annotated[int, Field(ge=1, le=10_000)]
_PastLimit = Annotated[int, Field(ge=0, le=200)]
# What clients may run: it acts on their session alone.
CLIENT_COMMANDS = frozenset({"status", "budget", "deep", "skill", "plan", "mode", "compact", "rename"})


def open_approvals(session: Session) -> list[ApprovalRequested]:
    """Return the questions of a session that wait for an answer."""
    return [each.event for each in pending_approvals(session.history()) if isinstance(each.event, ApprovalRequested)]


def last_seq(session: Session) -> int:
    """Return the place of the last event in the log."""
    history = session.history()
    return history[-1].seq if history else 0


def _last(session: Session, kind: type[events.Event]) -> Any:
    return next((each.event for each in reversed(bare_history(session)) if isinstance(each.event, kind)), None)


def model_of(session: Session) -> str:
    """Return the model that answers, empty where that is not known yet."""
    used = last_model(session.history())
    return used.model or used.default_model if used is not None else ""


def needs_answer(session: Session) -> bool:
    """Tell whether a session waits for the user."""
    return bool(open_approvals(session) or session.plans.open)


@_route("GET", "/v1/sessions")
async def listed(
    api: ApiContext, folder: Words = "", search: Words = "", limit: _Limit = 50
) -> dict[str, list[wire.SessionInfo]]:
    """List the sessions of a folder or of all.

    With `search`, they are those whose text has all its words.
    """
    found: list[wire.SessionInfo] = []
    for path in [api.folder(folder)] if folder else api.hub.folders:
        runtimes = [each for each in api.hub.runtimes if each.workspace == path]  # one for each set of flags
        find = (runtimes[0].archive if runtimes else archive_of(path)).sessions
        rows = api.hub.as_seen_here(await asyncio.to_thread(find, search, limit))
        is_open = {each.id: each for runtime in runtimes for each in runtime.sessions}
        for row in rows:
            session = is_open.get(row.id)
            own = {"folder": str(path), "is_open": session is not None, "clients": api.hub.watchers[row.id]}
            own["is_running"] = session is not None and session.is_running
            own["needs_answer"] = session is not None and needs_answer(session)
            found.append(wire.SessionInfo(**{**asdict(row), **own}))
    found.sort(key=lambda each: each.updated, reverse=True)
    return {"sessions": found[:limit]}


@_route("POST", "/v1/sessions", status=201)
async def created(api: ApiContext, body: wire.NewSession) -> wire.SessionDetail:
    """Open a new session, and give it its first task."""
    runtime = await api.runtime(body.folder)
    session = await api.new_session(runtime)
    try:
        if body.model:
            await api.hub.switch_model(runtime, session.id, "", body.model)
        if body.title:
            session.rename(body.title)
        await mode_set(session, body)
        if body.message.strip():
            _ = await give_task(api, session, body.message)
    except LmtuiError:
        await runtime.archive.delete(session.id)
        raise
    return await shown(api, session)


@_route("GET", _ONE)
async def shown(api: ApiContext, session: Session) -> wire.SessionDetail:
    """Return a session."""
    runtime = api.hub.runtime_of(session.id)
    renamed = _last(session, events.SessionRenamed)
    return wire.SessionDetail(
        id=session.id,
        folder=str(runtime.workspace) if runtime is not None else "",
        title=renamed.title if renamed is not None else "",
        is_running=session.is_running,
        mode=session.mode,
        model=model_of(session),
        last_seq=last_seq(session),
        approvals=open_approvals(session),
        plan=session.plans.open,
        **(await queue(session)).model_dump(),
    )


@_route("PATCH", _ONE)
async def renamed(api: ApiContext, session: Session, body: wire.Rename) -> wire.SessionDetail:
    """Give a session a title."""
    session.rename(body.title)
    return await shown(api, session)


@_route("DELETE", _ONE)
async def deleted(api: ApiContext, id_: str) -> None:
    """Delete a session for good."""
    await (await api.hub.find_runtime(id_)).archive.delete(id_)


@_route("POST", f"{_ONE}/fork", status=201)
async def forked(api: ApiContext, id_: str, body: wire.Fork) -> dict[str, str]:
    """Copy a session."""
    return {"id": await (await api.hub.find_runtime(id_)).archive.fork(id_, body.seq)}


@_route("GET", f"{_ONE}/history", answer=dict[str, Any])
async def history(session: Session, after: wire.After = 0, limit: _EventLimit = 1_000) -> Response:
    """Return stored events."""
    stored = session.history()
    first = place_behind(stored, after)
    found = stored[first : first + limit]
    next_after = found[-1].seq if first + len(found) < len(stored) else 0
    lines = await asyncio.to_thread(lambda: ",".join(map(encode_event, found)))
    page = f'{{"events": [{lines}], "next_after": {next_after}}}'
    return Response(page.encode("utf-8", "backslashreplace"), media_type="application/json")


@_route("GET", f"{_ONE}/events")
async def followed(api: ApiContext, request: Request, session: Session, after: wire.After = 0) -> Response:
    """Stream the events of a session.

    The header `Last-Event-ID` says the same as `after`, and wins.
    """
    told = request.headers.get("last-event-id", "")
    if told and not re.fullmatch(r"\d{1,15}", told):
        raise ApiError(422, "Last-Event-ID is not the id of an event of this session")
    reader = api.feed.open(session.id, request.scope)
    past = stored(session, int(told) if told else after)
    return EventStream(blocks(api.feed, reader, past, api.heartbeat_s))


@_route("GET", "/v1/activity")
async def activity(api: ApiContext, request: Request, limit: _PastLimit = 50) -> Response:
    """Stream the events of all sessions.

    It begins with `limit` past ones.
    """
    reader = api.feed.open(scope=request.scope)
    past = api.feed.recent(limit, request.headers.get("last-event-id", ""))
    return EventStream(blocks(api.feed, reader, past, api.heartbeat_s))


@_route("POST", f"{_ONE}/messages", answer=wire.Receipt, status=202, also=200)
async def said(api: ApiContext, request: Request, session: Session, body: wire.NewMessage) -> Response:
    """Give a session a task, or run a slash command.

    With `wait`, and for what a command says, the status is 200.
    """
    if body.attach and slash_call(body.text):
        raise ApiError(422, "a slash command takes no uploads", AS_WORDS)
    text, images = with_uploads(body.text, api.take(body.attach))
    if not text.strip() and not images:
        raise ApiError(422, "the message is empty")
    key = request.headers.get("idempotency-key", "")
    before, output = last_seq(session), list[str]()
    if not key or api.is_first(f"{session.id} {key[:200]}"):
        try:
            await mode_set(session, body)
            output = await give_task(api, session, text, body.text or "[attached]", images, steers=body.steer)
        except LmtuiError:
            api.done.pop(f"{session.id} {key[:200]}", None)
            raise
    await asyncio.sleep(0)
    if body.wait:
        await session.wait_idle()
    past = reversed(bare_history(session)) if body.wait else ()
    ended = next((each for each in past if each.seq > before and isinstance(each.event, events.TurnEnded)), None)
    turn = json.loads(encode_event(ended)) if ended is not None else None
    receipt = wire.Receipt(seq=before, is_running=session.is_running, turn=turn, output=output)
    return Response(receipt.model_dump_json(), 200 if body.wait or output else 202, media_type=JSON)


async def give_task(
    api: ApiContext, session: Session, text: str, typed: str = "", images: Sequence[Image] = (), *, steers: bool = False
) -> list[str]:
    """Give a session a task.  A slash command is run instead; return what it says.

    Raises:
        UsageError: it is unknown, or not for clients.
    """
    if (call := slash_call(text)) is None:
        (session.steer if steers else session.submit)(text, typed=typed, images=images)
        return []
    table = command_table()
    if call[0].lower() in table.names and call[0].lower() not in CLIENT_COMMANDS:
        raise UsageError(f"/{sanitize_line(call[0])} is not available to clients", AS_WORDS)
    result = await run_unasked(CommandContext(await api.hub.find_runtime(session.id), session, table), text)
    if isinstance(result, Begin):
        result.start(session)
    return list(result.lines) if isinstance(result, Output) else []


def with_uploads(text: str, uploads: Iterable[Uploaded]) -> tuple[str, list[Image]]:
    """Return a task with the texts that were uploaded behind it, and the pictures."""
    images: list[Image] = []
    for each in uploads:
        if isinstance(each.content, Image):
            images.append(each.content)
            continue
        fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", each.content) or [""]))
        text += f"\n\n{each.info.name or 'attached'}:\n{fence}\n{each.content}\n{fence}"
    return text, images


@_route("POST", f"{_ONE}/interrupt", status=202)
async def interrupted(session: Session) -> wire.Receipt:
    """Stop the running turn."""
    before = last_seq(session)
    session.interrupt()
    return wire.Receipt(seq=before, is_running=session.is_running)


@_route("GET", f"{_ONE}/approvals")
async def approvals(session: Session) -> dict[str, list[ApprovalRequested]]:
    """Return the open questions."""
    return {"approvals": open_approvals(session)}


@_route("POST", f"{_ONE}/approvals/{{approval_id}}")
async def answered(session: Session, approval_id: str, body: wire.ApprovalAnswer) -> dict[str, str]:
    """Answer a question.

    Raises:
        ApiError: the question is unknown, or it was answered before (the text says by whom).
        UsageError: it does not offer this answer.
    """
    asked, resolved = _question(session, approval_id)
    if asked is None:
        raise ApiError(404, "no such question", "`GET /v1/sessions/{id}/approvals` lists those that are open.")
    if resolved is not None:
        by = {"outcome": str(resolved.outcome), "by": resolved.by}
        raise ApiError(409, f"{resolved.by} has already answered: {resolved.outcome}", "No answer is needed.", **by)
    hunks = None if body.hunks is None else tuple(body.hunks)
    session.answer(approval_id, Answer(events.Outcome(body.outcome), body.feedback, body.rule, hunks=hunks, by=body.by))
    _, resolved = _question(session, approval_id)
    if resolved is None:
        raise ApiError(409, "the question is no longer open")
    return {"approval_id": approval_id, "outcome": resolved.outcome, "by": resolved.by}


def _question(session: Session, approval_id: str) -> tuple[ApprovalRequested | None, events.ApprovalResolved | None]:
    """Return a question and its answer, as far as there are any."""
    found = [each.event for each in bare_history(session) if getattr(each.event, "approval_id", "") == approval_id]
    asked = next((each for each in found if isinstance(each, ApprovalRequested)), None)
    return asked, next((each for each in found if isinstance(each, events.ApprovalResolved)), None)


@_route("POST", f"{_ONE}/mode")
async def mode_set(session: Session, body: wire.ModeInfo) -> wire.ModeInfo:
    """Change the permission mode and the budget.

    Raises:
        ApiError: the session cannot be in that mode now, or deep work has no budget.
        UsageError: the budget is none.
    """
    if body.budget:
        set_budget(session, body.budget)
    if body.mode == "deep_work" and not session.budget()[0]:
        raise ApiError(422, "deep work needs a budget", f"Add one: {FORM}.")
    if body.mode is not None:
        try:
            await set_mode(session, Mode.PLAN if body.mode == "deep_work" else body.mode)
        except UsageError as error:
            raise ApiError(409, str(error)) from error
    return wire.ModeInfo(mode=body.mode or session.mode, budget=body.budget)


@_route("POST", f"{_ONE}/plan")
async def plan_answered(api: ApiContext, session: Session, body: wire.PlanReply) -> wire.SessionDetail:
    """Answer a plan.

    Raises:
        ApiError: none is open, or another one.
        ToolError: this answer cannot be.
    """
    asked = session.plans.open
    if asked is None or body.proposal_id not in ("", asked.proposal_id):
        raise ApiError(409, "this plan is not waiting for an answer", "`GET /v1/sessions/{id}` shows the one that does.")
    if body.action == "approve":
        session.plans.approve(asked.proposal_id, rules=tuple(body.rules), by=body.by)
    elif body.action == "revise":
        session.plans.revise(asked.proposal_id, body.feedback)
    else:
        session.plans.reject(asked.proposal_id, body.feedback)
    return await shown(api, session)


@_route("GET", f"{_ONE}/queue")
async def queue(session: Session) -> wire.Queue:
    """Return the messages that wait."""
    found = _last(session, events.InboxChanged) or events.InboxChanged()
    return wire.Queue(queued=list(found.queued), is_paused=found.is_paused)


@_route("DELETE", f"{_ONE}/queue/{{place}}")
async def queue_dropped(session: Session, place: str) -> wire.Queue:
    """Remove a message that waits."""
    if not place.isdecimal() or int(place[:6]) >= len((await queue(session)).queued):
        raise ApiError(404, "no queued message at this position")
    _ = session.waiting.drop(int(place))
    return await queue(session)


@_route("POST", f"{_ONE}/queue/resume")
async def queue_resumed(session: Session) -> wire.Queue:
    """Send the messages that an interrupt left waiting."""
    session.waiting.go_on()
    await asyncio.sleep(0)
    return await queue(session)


@_route("GET", f"{_ONE}/files")
async def files(session: Session) -> dict[str, list[wire.ChangedFile]]:
    """Return the files that a session changed."""
    found: dict[str, wire.ChangedFile] = {}
    changed = (
        each.event for each in bare_history(session) if isinstance(each.event, events.FilesChanged | events.FilesRestored)
    )
    for change in (each for event in changed for each in event.changes):
        before = found.pop(change.path, None)
        added = change.added_lines + (before.added if before else 0)
        removed = change.removed_lines + (before.removed if before else 0)
        found[change.path] = wire.ChangedFile(path=change.path, kind=str(change.kind), added=added, removed=removed)
    return {"files": list(found.values())}


@_route("GET", f"{_ONE}/tasks")
async def tasks(session: Session) -> wire.Tasks:
    """Return the todos and the plan's steps."""
    changed = _last(session, events.PlanChanged)
    plan = changed.plan if changed is not None else Plan()
    return wire.Tasks(todos=list(plan.todos), steps=list(plan.steps))


@_route("GET", f"{_ONE}/usage")
async def usage(session: Session) -> dict[str, int]:
    """Return the tokens that a session used."""
    past = bare_history(session)
    spent = [each.event.usage for each in past if isinstance(each.event, events.UsageUpdated)]
    turns = sum(isinstance(each.event, events.TurnEnded) and each.event.agent == "root" for each in past)
    return {**asdict(sum(spent, Usage())), "requests": len(spent), "turns": turns}


AGENT = "lmtui"
_FileName = Annotated[str, Field(max_length=200)]
_MOST_TEXT_BYTES, _MOST_FILE_BYTES, _MOST_FOUND = 262_144, 1_048_576, 200
_FIND_TIMEOUT_S = 10.0
_ALONE = {
    "content-security-policy": "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:"
}


@_route("GET", "/v1/status")
async def status(api: ApiContext) -> wire.Status:
    """Return the state of the host."""
    sessions = api.hub.sessions
    return wire.Status(
        version=__version__,
        pid=os.getpid(),
        uptime_s=round(time.monotonic() - api.begun, 1),
        folders=[str(each) for each in api.hub.folders],
        sessions=len(sessions),
        running=sum(each.is_running for each in sessions),
        waiting=sum(needs_answer(each) for each in sessions),
        busy=list(api.hub.busy()),
    )


@_route("GET", "/v1/files")
async def folder_listed(api: ApiContext, folder: Words = "", path: Words = "") -> wire.FolderListing:
    """List a folder of the workspace."""
    runtime, path = await api.runtime(folder), _inside(path)
    try:
        found = await runtime.files.list(path)
    except SandboxError as error:
        raise ApiError(404, str(error)) from error
    return wire.FolderListing(folder=str(runtime.workspace), path=path, entries=list(found))


@_route("GET", "/v1/files/content")
async def file_read(api: ApiContext, folder: Words = "", path: Words = "") -> wire.FileBody:
    """Read a file of the workspace."""
    runtime, path, found = await _read(api, folder, path)
    is_text = True
    try:
        content = found.data.decode()
    except UnicodeDecodeError:
        is_text, content = False, base64.b64encode(found.data).decode()
    return wire.FileBody(
        folder=str(runtime.workspace),
        path=path,
        size_bytes=found.size_bytes,
        is_cut=found.size_bytes > len(found.data),
        encoding="utf-8" if is_text else "base64",
        content=content,
    )


@_route("GET", "/v1/serve", media="text/html")
async def page_served(api: ApiContext, folder: Words = "", path: Words = "index.html") -> Response:
    """Return a file of the workspace as a browser shows it.

    A page has no origin, and reaches neither this API nor any other address.
    """
    _, path, found = await _read(api, folder, path)
    return Response(found.data, media_type=guess_type(path)[0] or "text/plain", headers=_ALONE)


async def _read(api: ApiContext, folder: str, path: str) -> tuple[Runtime, str, FileContent]:
    runtime, path = await api.runtime(folder), _inside(path)
    try:
        return runtime, path, await runtime.files.read(path, _MOST_FILE_BYTES)
    except SandboxError as error:
        raise ApiError(404, str(error)) from error


def _inside(path: str) -> str:
    """Return a path that stays in its folder; the sandbox would refuse others too.

    Raises:
        ApiError: it does not.
    """
    if "\0" in path or path.startswith(("/", "~")) or ".." in path.split("/"):
        raise ApiError(422, "this path leads out of the folder", "Name it relative to the folder.")
    return path.strip("/")


@_route("GET", "/v1/tools")
async def tools(api: ApiContext, folder: Words = "") -> dict[str, list[ToolSpec]]:
    """Return the tools of lmtui's own."""
    return {"tools": list((await api.runtime(folder)).tools())}


@_route("GET", "/v1/models")
async def models(api: ApiContext, search: Words = "") -> wire.ModelList:
    """Return agents and the models of servers, in OpenAI's form."""
    agents = [wire.ModelInfo(id=name, created=0, owned_by=AGENT) for name in agent_folders(api)]
    found: Iterable[ServerFound] = ()
    if api.hub.folders:
        runtime = await api.runtime()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIND_TIMEOUT_S):
                found = await runtime.servers.find()
    served = [
        wire.filled(wire.ModelInfo, model, id=model.name, created=0, owned_by=server.kind, url=server.url)
        for server in found
        for model in server.chat_models
    ]
    words = search.lower().split()
    rows = [each for each in (*agents, *served) if all(word in each.id.lower() for word in words)]
    return wire.ModelList(data=rows[:_MOST_FOUND])


def agent_folders(api: ApiContext) -> dict[str, Path]:
    """Return the folders that clients may use by the name of their agent, of those of one name the first.

    The first of all is also the agent without a folder.
    """
    found: dict[str, Path] = {}
    for folder in api.hub.folders:
        found.setdefault(AGENT, folder)
        found.setdefault(f"{AGENT}@{folder.name}", folder)
    return found


@_route("POST", "/v1/models/select")
async def model_selected(api: ApiContext, body: wire.SelectModel) -> wire.Receipt:
    """Use another model."""
    session = await api.hub.session(body.session) if body.session else None
    runtime = await (api.hub.find_runtime(session.id) if session else api.runtime(body.folder))
    await api.hub.switch_model(runtime, body.session or "", body.url, body.model)
    return wire.Receipt(seq=last_seq(session) if session else 0, is_running=bool(session and session.is_running))


@_route("POST", "/v1/uploads", status=201, most_bytes=UPLOAD_BYTES)
async def uploaded(api: ApiContext, data: bytes, name: _FileName = "") -> wire.Upload:
    """Keep a picture or a text until a message names it."""
    name = Path(name or "upload").name
    if not data or not name.isprintable():
        raise ApiError(422, "the body is empty" if not data else "the name has characters that cannot be shown")
    if kind := sniff(data):
        content: Image | str = Image(name, kind, data)
    else:
        kind, content = "text/plain", _text(data)
    info = wire.Upload(id=secrets.token_urlsafe(12), name=name, media_type=kind, size_bytes=len(data))
    api.uploads[info.id] = Uploaded(info, content)
    asyncio.get_running_loop().call_later(UPLOAD_S, api.uploads.pop, info.id, None)
    return info


def _text(data: bytes) -> str:
    if len(data) > _MOST_TEXT_BYTES:
        raise ApiError(413, f"a text may have {_MOST_TEXT_BYTES:,} bytes, a picture {UPLOAD_BYTES:,}")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ApiError(415, "this is neither a picture (PNG, JPEG, GIF, WebP) nor text in UTF-8") from error


CHAT_BYTES = 8_000_000
_GAP = "\n\n"
_LOOK_AGAIN_S = 2.0  # between two looks at whether the client is still there


class _Answer:
    """One answer of an agent as pieces of text, made of the events of its session; its chat is as OpenAI's API has it.

    A conversation is a session, recognised by what was said in it so far, or by the header `X-Session-Id`.
    """

    def __init__(self, session: Session, keep: Callable[[str], None]) -> None:
        self._session, self._keep = session, keep
        self._pieces: asyncio.Queue[str | None] = asyncio.Queue()
        self._sent = self.whole = ""
        self.ended: TurnEnded | None = None
        self.has_failed = False
        self._leave = session.subscribe(self._take)

    def _take(self, envelope: Envelope) -> None:
        event = envelope.event
        match event:
            case events.ApprovalRequested():
                what = f"{event.tool} {sanitize_line(event.text)[:120]}"
                self._say(f"[lmtui asks: {what}. Answer it in lmtui or through the API.]{_GAP}", begins=True)
            case TurnEnded(agent=events.ROOT, reason=reason, error=error):
                self.ended, self.has_failed = event, reason is TurnReason.ERROR and not self.whole
                if error and reason not in (TurnReason.DONE, TurnReason.INTERRUPTED):
                    self._say(f"[{reason.words}: {sanitize_line(error)}]", begins=True)
                self._pieces.put_nowait(None)
            case events.TextDelta(agent=events.ROOT, text=text):
                self._say(text, begins=not self._sent)
                self._sent += text
            case events.RetryScheduled(agent=events.ROOT) if self._sent:
                self._sent = ""
                self._say(_GAP)
            case events.MessageAdded(agent=events.ROOT, role=Role.ASSISTANT, text=text):
                if text.startswith(self._sent):
                    self._say(text[len(self._sent) :], begins=not self._sent)
                self._sent = ""

    def _say(self, text: str, *, begins: bool = False) -> None:
        """Add a piece; the texts of two steps are kept apart."""
        if text:
            piece = _GAP + text if begins and self.whole and not self.whole.endswith("\n") else text
            self.whole += piece
            self._pieces.put_nowait(piece)

    async def piece(self, wait_s: float) -> str | None:
        """Return the next piece, an empty one if none comes in that time, and None at the end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                return await self._pieces.get()
        return ""

    def summary(self) -> tuple[str, dict[str, int]]:
        """Return why it ended and its tokens, in OpenAI's form."""
        assert self.ended is not None
        sent, made = self.ended.usage.prompt_tokens, self.ended.usage.completion_tokens
        usage = {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": sent + made}
        return "length" if self.ended.reason is TurnReason.LIMIT else "stop", usage

    def close(self) -> None:
        """Leave the session; a turn that nobody reads is stopped, the text of another one kept."""
        self._leave()
        self._session.interrupt() if self.ended is None else self._keep(self.whole)


@_route("POST", "/v1/chat/completions", answer=dict[str, Any], most_bytes=CHAT_BYTES)
async def chat(api: ApiContext, request: Request, body: wire.ChatRequest) -> Response:
    """Chat with an agent in OpenAI's form."""
    said, images = _words_of(body.messages[-1]), _images(body.messages[-1])
    shown = [(each.role, _words_of(each).strip()) for each in body.messages]
    if body.messages[-1].role != "user" or not (said.strip() or images):
        raise ApiError(422, "the last message must be the user's, and not empty")
    session, is_new = await _conversation(api, request, body.model, shown[:-1])
    if session.is_running:
        raise ApiError(409, "this conversation is still being answered", "Wait for the answer, or stop it.")

    def keep(whole: str) -> None:
        api.conversations[_key([*shown, ("assistant", whole.strip())])] = session.id, last_seq(session)

    turn = _Answer(session, keep)
    past = "\n\n".join(f"{role}: {text}" for role, text in shown[:-1] if text) if is_new else ""
    session.submit(f"{said}\n\nWhat was said before:\n\n{past}" if past else said, typed=said, images=images)
    head: dict[str, Any] = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": body.model}
    headers = {"x-session-id": session.id}
    if body.stream:
        has_usage = bool(body.stream_options and body.stream_options.get("include_usage"))
        return EventStream(_blocks(turn, head, api.heartbeat_s, has_usage=has_usage), headers=headers)
    try:
        while await turn.piece(_LOOK_AGAIN_S) is not None:
            if await request.is_disconnected():
                raise ApiError(400, "the client has gone")
    finally:
        turn.close()
    if turn.has_failed and turn.ended is not None:
        raise ApiError(502, turn.ended.error or "the turn failed")
    reason, usage = turn.summary()
    choice = _choice(reason, message={"role": "assistant", "content": turn.whole})
    found = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
    return Response(json.dumps(found), headers=headers, media_type=JSON)


def _choice(finish_reason: str | None, **more: object) -> dict[str, object]:
    return {"index": 0, "finish_reason": finish_reason, "logprobs": None, **more}


async def _blocks(turn: _Answer, head: dict[str, Any], heartbeat_s: float, *, has_usage: bool) -> AsyncGenerator[bytes, None]:
    """Yield the answer as chunks."""

    def chunk(*choices: object, **more: object) -> bytes:
        text = json.dumps({**head, "object": "chat.completion.chunk", "choices": choices, **more}, ensure_ascii=False)
        return b"data: %s\n\n" % text.encode("utf-8", "backslashreplace")

    try:
        yield chunk(_choice(None, delta={"role": "assistant", "content": ""}))
        while (piece := await turn.piece(heartbeat_s)) is not None:
            yield chunk(_choice(None, delta={"content": piece})) if piece else HEARTBEAT
        reason, usage = turn.summary()
        yield chunk(_choice(reason, delta={}))
        if has_usage:
            yield chunk(usage=usage)
        yield b"data: [DONE]\n\n"
    finally:
        turn.close()


async def _conversation(api: ApiContext, request: Request, model: str, past: Sequence[tuple[str, str]]) -> tuple[Session, bool]:
    """Return the session of a conversation, and whether it is a new one.

    It is a copy, where the session has gone on since: then the client edited a message.
    """
    folders = agent_folders(api)
    if wanted := request.headers.get("x-session-id", ""):
        return await api.hub.session(wanted[:100]), False
    if known := api.conversations.get(_key(past)):
        session = await api.hub.session(known[0])
        history = session.history()
        if not any(isinstance(each.event, events.TurnStarted) for each in history[place_behind(history, known[1]) :]):
            return session, False
        runtime = await api.hub.find_runtime(known[0])
        return await runtime.open_session(await runtime.archive.fork(*known)), False
    if model not in folders:
        raise ApiError(404, f"no model {model[:100]!r}", "`GET /v1/models` lists them.", code="model_not_found")
    return await api.new_session(await api.hub.runtime(folders[model])), True


def _images(message: wire.ChatMessage) -> list[Image]:
    """Return the pictures of a message, which are in the request itself: none is fetched."""
    images: list[Image] = []
    for part in message.content or ():
        if isinstance(part, wire.ChatPart) and part.image_url:
            head, _, data = str(part.image_url.get("url", "")).partition(",")
            is_inside = head.startswith("data:") and head.endswith(";base64")
            try:
                images.append(picture("picture", base64.b64decode(data if is_inside else "", validate=True)))
            except (ValueError, UsageError) as error:
                limits = "PNG, JPEG, GIF or WebP of at most 5 MB, as data: addresses in base64"
                raise ApiError(422, f"pictures must be in the request: {limits}") from error
    return images


def _words_of(message: wire.ChatMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "\n".join(each.text for each in message.content or () if each.text)


def _key(said: Sequence[tuple[str, str]]) -> str:
    """Return the key of a conversation, empty for one that has not begun: the first message begins a new one."""
    has_answer = any(role == "assistant" for role, _ in said)
    return hashlib.sha256(json.dumps(said).encode()).hexdigest() if has_answer else ""
