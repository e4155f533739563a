"""`WS /v1/ws`: a session's events as short messages, and calls of the client in the other direction, on one connection."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect

from lmtui.app.archive import bare_history
from lmtui.app.host import encode_event
from lmtui.core import events
from lmtui.core.agent_events import PlanProposed
from lmtui.core.errors import LmtuiError, UsageError
from lmtui.core.sessions import Session
from lmtui.host import wire
from lmtui.host.access import parse_json
from lmtui.host.endpoints import JSON_BYTES, ApiContext, validation_text
from lmtui.host.feed import NOTHING, Frame, Reader, stored, until_one_ends
from lmtui.host.routes import answered, give_task, mode_set, model_of, plan_answered

PREVIEW_CHARS = 500
_LONG_S = 3600.0
_GOING, _TOO_LARGE, _LATER = 1001, 1009, 1013
_Identity = Annotated[str, Field(max_length=200)]


class MessageHead(wire.Wire):
    """What every message of a client may have; one with an `id` is carried out once, however often it comes.

    It is about the session that it names, or else the one that is followed.
    """

    model_config = ConfigDict(extra="ignore")
    type: _Identity
    id: _Identity = ""
    session: Annotated[str, Field(pattern=wire.SESSION_ID)] | None = None
    approval_id: _Identity = ""


class Subscription(wire.Wire):
    """Where the past of a session begins that is sent first; without `after` there is none."""

    after: Annotated[int, Field(ge=0)] | None = None


class TaskMessage(wire.InFolder):
    """A task; without a session a new one is opened in the folder."""

    content: Annotated[str, Field(min_length=1, max_length=wire.MOST_TEXT_CHARS)]
    steer: bool = False


# What a client sends: the fields of each message next to those of its head, and those that its name stands for.
_RECEIVED: dict[str, tuple[type[wire.Wire], dict[str, str]]] = {
    "ping": (wire.Wire, {}), "interrupt": (wire.Wire, {}), "subscribe": (Subscription, {}),
    "clear": (wire.InFolder, {}), "message": (TaskMessage, {}), "set_mode": (wire.ModeInfo, {}),
    "approval_response": (wire.ApprovalAnswer, {}), "approve_plan": (wire.PlanReply, {"action": "approve"}),
    "revise_plan": (wire.PlanReply, {"action": "revise"}), "reject_plan": (wire.PlanReply, {"action": "reject"}),
}  # fmt: skip


def _tasks(event: events.PlanChanged) -> list[dict[str, object]]:
    rows = [*(("todo", each) for each in event.plan.todos), *(("step", each) for each in event.plan.steps)]
    return [{"kind": kind, "id": f"{kind}-{each.id}", "text": each.text, "status": str(each.status)} for kind, each in rows]


def _done_tasks(event: events.PlanChanged) -> str:
    rows = [*event.plan.todos, *event.plan.steps]
    return f"{sum(not each.is_open for each in rows)} of {len(rows)} done"


_Source = str | Callable[[Any], object]  # Any: an event of the row's type
_Row = tuple[str, dict[str, _Source]]


def _row(name: str, *same: str, **others: _Source) -> _Row:
    """Return what a message is called, and where its fields come from; the `same` ones have the event's names."""
    return name, {**dict(zip(same, same, strict=True)), **others}


# What a client gets, by the earlier program's names.
_SENT: dict[type[events.Event], _Row] = {
    events.ToolCallStarted: _row("tool_call", "tool", input="arguments", tool_call_id="call_id"),
    events.ToolCallFinished: _row(
        "tool_result", "tool", tool_call_id="call_id", result_preview=lambda event: event.result[:PREVIEW_CHARS],
        duration_ms="elapsed_ms", success="ok",
    ),
    events.PlanChanged: _row("task_update", tasks=_tasks, summary=_done_tasks),
    events.PrefillProgress: _row("thinking", "ratio", "tokens", "queued"),
    events.TextDelta: _row("text", "text"),
    events.MessageAdded: _row("message", "role", "text"),
    events.ModeChanged: _row("mode_changed", "mode"),
    events.Notice: _row("notice", "level", message="text"),
    events.TurnEnded: _row(
        "done", "text", status="reason", iterations="iterations", usage=lambda event: asdict(event.usage),
        files_changed="files_changed",
    ),
    events.ApprovalRequested: _row(
        "approval_request", "approval_id", "tool", "text", "why", "diff", "hunks", "suggested_rule"
    ),
    events.ApprovalResolved: _row(
        "approval_resolved", "approval_id",
        decision=lambda event: "deny" if event.outcome is events.Outcome.NO else "allow", outcome="outcome", by="by",
    ),
    PlanProposed: _row("plan_ready", "proposal_id", plan=lambda event: asdict(event.proposal)),
}  # fmt: skip
_FAILED = _row("error", message=lambda event: event.error or "the turn failed", iterations="iterations")


def _text_of(api: ApiContext, envelope: events.Envelope) -> str:
    """Return an event as clients get it, empty where they do not get it."""
    event = envelope.event
    has_failed = isinstance(event, events.TurnEnded) and event.reason is events.TurnReason.ERROR
    name, fields = _FAILED if has_failed else _SENT.get(type(event), ("", {}))
    found = {key: getattr(event, how) if isinstance(how, str) else how(event) for key, how in fields.items()}
    if name in ("thinking", "done") and (session := api.hub.find(envelope.session)):
        told = {"model": model_of(session), "mode": session.mode}
        found |= told if name == "done" else _progress(api, session, envelope.seq)
    found |= {"type": name, "session": envelope.session, "agent": event.agent, "seq": envelope.seq}
    return json.dumps(found, ensure_ascii=False, default=str) if name else ""


def _progress(api: ApiContext, session: Session, seq: int) -> dict[str, object]:
    """Return how far a turn was at an event, and the session's budget is."""
    own = (each for each in reversed(bare_history(session)) if each.event.agent == events.ROOT and each.seq <= seq)
    turn = itertools.takewhile(lambda each: not isinstance(each.event, events.TurnStarted), own)
    steps = 1 + sum(isinstance(each.event, events.UsageUpdated) for each in turn)
    (budget, spent), runtime = session.budget(), api.hub.runtime_of(session.id)
    most = runtime.config.max_iterations if runtime else 0
    return {"iteration": steps, "max_iterations": most, "tokens_used": spent.tokens, "token_budget": budget.tokens}


async def serve_websocket(websocket: WebSocket) -> None:
    """Serve one client."""
    await websocket.accept()
    await _Client(websocket.app.state.api, websocket).run()


class _Client:
    """One connection."""

    def __init__(self, api: ApiContext, websocket: WebSocket) -> None:
        self._api, self._websocket = api, websocket
        is_log = websocket.query_params.get("form", "") == "log"
        self._text_of = encode_event if is_log else lambda each: _text_of(api, each)
        self._session = ""
        self._over = asyncio.Event()
        self._reader = api.feed.open(NOTHING)  # follows nothing, and ends with the feed
        self._sending = asyncio.ensure_future(self._send_events(self._reader))

    async def run(self) -> None:
        """Serve the client until it goes, does not read, or the host closes."""
        try:
            await until_one_ends(self._read(), self._over.wait())
        finally:
            _ = self._sending.cancel()
            _ = await asyncio.gather(self._sending, return_exceptions=True)
            self._api.feed.close(self._reader)
        code, why = (_LATER, "too slow") if self._reader.has_overflowed else (_GOING, "the host is closing")
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # it was closed before
            await self._websocket.close(code, why)

    async def _read(self) -> None:
        wanted = self._websocket.path_params.get("id", self._websocket.query_params.get("session", ""))
        if wanted:
            named = {} if wanted == "activity" else {"session": wanted}
            await self._take(json.dumps({"type": "subscribe", **named}).encode())
        while (message := await self._websocket.receive())["type"] != "websocket.disconnect":
            data = message.get("bytes") or (message.get("text") or "").encode("utf-8", "surrogatepass")
            if len(data) > JSON_BYTES:
                await self._websocket.close(_TOO_LARGE, "this message is too large")
                return
            await self._take(data)

    async def _take(self, data: bytes) -> None:
        """Do what a message says; what is wrong with it is told, and the connection stays."""
        try:
            value = parse_json(data)
            head = MessageHead.model_validate(value)
            if head.type not in _RECEIVED:
                raise UsageError(f"unknown type of message; send one of {', '.join(_RECEIVED)}")
            model, named = _RECEIVED[head.type]
            rest = {name: each for name, each in value.items() if name not in MessageHead.model_fields}
            await self._do(head, model.model_validate({**rest, **named}))
        except ValueError as error:
            text = validation_text(error) if isinstance(error, ValidationError) else f"not JSON: {error}"
            await self._tell({"type": "error", "kind": "invalid_message", "message": text[:500]})
        except LmtuiError as error:
            await self._tell({"type": "error", "kind": "refused", "message": str(error), "hint": error.hint})

    async def _do(self, head: MessageHead, body: wire.Wire) -> None:
        if head.type == "ping":
            await self._tell({"type": "pong", **({"id": head.id} if head.id else {})})
            return
        key, follows = f"ws {head.session or self._session} {head.id}", isinstance(body, Subscription)
        if head.id and not follows and not self._api.is_first(key):
            await self._tell({"type": "duplicate", "id": head.id})
            return
        session_id = head.session or ("" if follows or head.type == "clear" else self._session)
        session = await self._api.hub.session(session_id) if session_id else None
        match body:
            case Subscription(after=after):
                await self._follow(session, after)
            case TaskMessage(content=content, steer=steers):
                session = session or await self._open(body.folder)
                if lines := await give_task(self._api, session, content, steers=steers):
                    said = {"level": "info", "message": "\n".join(lines), "session": session.id}
                    await self._tell({"type": "notice", **said})
            case wire.InFolder(folder=folder):
                _ = await self._open(folder)
            case _ if session is None:
                raise UsageError("no session to act on", "Name one in `session`, or send subscribe, message or clear first.")
            case wire.ModeInfo():
                _ = await mode_set(session, body)
            case wire.ApprovalAnswer():
                _ = await answered(session, head.approval_id, body)
            case wire.PlanReply():
                _ = await plan_answered(self._api, session, body)
            case _:
                session.interrupt()

    async def _open(self, folder: str) -> Session:
        """Open a new session and follow it."""
        session = await self._api.new_session(await self._api.runtime(folder))
        await self._tell({"type": "cleared", "session": session.id})
        await self._follow(session, None)
        return session

    async def _follow(self, session: Session | None, after: int | None) -> None:
        """Follow another session, or all: the past behind an event, then what comes."""
        _ = self._sending.cancel()
        self._api.feed.close(self._reader)
        self._session, mode = (session.id, str(session.mode)) if session is not None else ("", "")
        self._reader = self._api.feed.open(self._session, self._websocket.scope)
        past = stored(session, after) if session is not None and after is not None else ()
        await self._tell({"type": "subscribed", "session": self._session, "mode": mode})
        self._sending = asyncio.ensure_future(self._send_events(self._reader, past))

    async def _send_events(self, reader: Reader, past: Iterable[Frame] = ()) -> None:
        """Send the past, then what comes, until there is no more or the client is gone."""
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            async for frames in reader.follow(past, _LONG_S):
                for frame in frames:
                    if text := self._text_of(frame.envelope):
                        await self._websocket.send_text(text.encode("utf-8", "backslashreplace").decode())
        self._over.set()

    async def _tell(self, message: dict[str, Any]) -> None:
        await self._websocket.send_text(json.dumps(message, ensure_ascii=True))
