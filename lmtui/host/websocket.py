"""`WS /v1/ws`: a session's events as short messages, and calls of the client in the other direction, on one connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from lmtui.app.host import encode_event
from lmtui.core import events
from lmtui.core.agent_events import PlanProposed
from lmtui.core.errors import LmtuiError
from lmtui.core.sessions import Session
from lmtui.host import wire
from lmtui.host.access import parse_json
from lmtui.host.api_context import ApiContext
from lmtui.host.feed import NOTHING, Frame, place_behind
from lmtui.host.session_routes import change_mode, give_answer, give_plan_answer
from lmtui.host.streams import ABORT, GATHER_S

PREVIEW_CHARS = 500
_LAST_WORDS_S, _LONG_S = 1.0, 3600.0
MOST_FRAME = 1_048_576  # characters or bytes
_GOING, _TOO_LARGE, _LATER = 1001, 1009, 1013
_IDENTITY = Annotated[str, Field(max_length=200)]


class _Message(wire.Wire):
    """The base of what a client sends; one with an `id` is done once, however often it comes.

    It is about the session that it names, or else the one that is followed.
    """

    id: _IDENTITY = ""
    session: Annotated[str, Field(pattern=wire.SESSION_ID)] | None = None


class Subscribe(_Message):
    """Follow a session from now on, beginning behind one of its events; without `after` with what comes.

    Without a session it is the stored events of all sessions.
    """

    type: Literal["subscribe"]
    after: Annotated[int, Field(ge=0)] | None = None


class Said(_Message):
    """A task; without a session a new one is opened in the folder."""

    type: Literal["message"]
    content: Annotated[str, Field(min_length=1, max_length=wire.MOST_TEXT_CHARS)]
    steer: bool = False
    folder: Annotated[str, Field(max_length=4_096)] = ""


class ModeMessage(_Message):
    """A permission mode."""

    type: Literal["set_mode"]
    mode: str


class Plain(_Message):
    """Open a new session and follow it, stop the running turn, or ask for a pong."""

    type: Literal["clear", "interrupt", "ping"]
    folder: Annotated[str, Field(max_length=4_096)] = ""


class ApprovalResponse(_Message, wire.ApprovalAnswer):
    """An answer to a question."""

    type: Literal["approval_response"]
    approval_id: _IDENTITY


class PlanResponse(_Message):
    """An answer to a plan: yes, what should be different, or no."""

    type: Literal["approve_plan", "revise_plan", "reject_plan"]
    proposal_id: _IDENTITY = ""
    rules: Annotated[list[str], Field(max_length=200)] = Field(default_factory=list)
    feedback: Annotated[str, Field(max_length=wire.MOST_TEXT_CHARS)] = ""


_Incoming = Annotated[Subscribe | Said | ModeMessage | Plain | ApprovalResponse | PlanResponse, Field(discriminator="type")]
_INCOMING: TypeAdapter[Any] = TypeAdapter(_Incoming)


def _tasks(event: events.PlanChanged) -> list[dict[str, object]]:
    rows = [*(("todo", each) for each in event.plan.todos), *(("step", each) for each in event.plan.steps)]
    return [{"kind": kind, "id": each.id, "text": each.text, "status": str(each.status)} for kind, each in rows]


def _done_tasks(event: events.PlanChanged) -> str:
    rows = [*event.plan.todos, *event.plan.steps]
    return f"{sum(not each.is_open for each in rows)} of {len(rows)} done"


_Source = str | Callable[[Any], object]  # Any: an event of the row's type
_QUESTION = ("approval_id", "tool", "text", "why", "diff", "hunks", "suggested_rule")
# The earlier program's names: what a message is called, and where each of its fields comes from.
_MESSAGES: dict[type[events.Event], tuple[str, dict[str, _Source]]] = {
    events.ToolCallStarted: ("tool_call", {"tool": "tool", "input": "arguments", "tool_call_id": "call_id"}),
    events.ToolCallFinished: ("tool_result", {
        "tool": "tool", "tool_call_id": "call_id", "result_preview": lambda event: event.result[:PREVIEW_CHARS],
        "duration_ms": "elapsed_ms", "success": "ok",
    }),
    events.PlanChanged: ("task_update", {"tasks": _tasks, "summary": _done_tasks}),
    events.PrefillProgress: ("thinking", {"ratio": "ratio", "tokens": "tokens", "queued": "queued"}),
    events.TextDelta: ("text", {"text": "text"}),
    events.MessageAdded: ("message", {"role": "role", "text": "text"}),
    events.ModeChanged: ("mode_changed", {"mode": "mode"}),
    events.Notice: ("notice", {"level": "level", "message": "text"}),
    events.TurnEnded: ("done", {
        "text": "text", "status": "reason", "iterations": "iterations", "usage": lambda event: asdict(event.usage),
        "files_changed": lambda event: list(event.files_changed),
    }),
    events.ApprovalRequested: ("approval_request", dict(zip(_QUESTION, _QUESTION, strict=True))),
    events.ApprovalResolved: ("approval_resolved", {
        "approval_id": "approval_id", "decision": lambda event: "deny" if event.outcome is events.Outcome.NO else "allow",
        "outcome": "outcome", "by": "by",
    }),
    PlanProposed: ("plan_ready", {"proposal_id": "proposal_id", "plan": lambda event: asdict(event.proposal)}),
}  # fmt: skip
_FAILED: tuple[str, dict[str, _Source]] = (
    "error", {"message": lambda event: event.error or "the turn failed", "iterations": "iterations"},
)  # fmt: skip


def message_of(envelope: events.Envelope) -> dict[str, Any] | None:
    """Return an event as clients of the WebSocket get it, None where they do not."""
    event = envelope.event
    row = _MESSAGES.get(type(event))
    if row is None:
        return None
    has_failed = isinstance(event, events.TurnEnded) and event.reason is events.TurnReason.ERROR
    name, fields = _FAILED if has_failed else row
    told = {key: getattr(event, how) if isinstance(how, str) else how(event) for key, how in fields.items()}
    return {"type": name, **told, "session": envelope.session, "agent": event.agent, "seq": envelope.seq}


def _text_of(frame: Frame) -> str:
    """Return an event as text, made once for all clients; empty where they do not get it."""
    if frame.message is None:
        found = message_of(frame.envelope)
        frame.message = "" if found is None else json.dumps(found, ensure_ascii=False, default=str)
    return frame.message


def serve_websocket(api: ApiContext) -> Callable[[WebSocket], Awaitable[None]]:
    """Return the endpoint."""

    async def endpoint(websocket: WebSocket) -> None:
        await websocket.accept()
        client = _Client(api, websocket)
        try:
            if wanted := websocket.query_params.get("session", ""):
                await client.take(json.dumps({"type": "subscribe", "session": wanted}))
            await client.run()
        finally:
            client.close()

    return endpoint


class _Client:
    """One connection."""

    def __init__(self, api: ApiContext, websocket: WebSocket) -> None:
        self._api = api
        self._websocket = websocket
        self._is_log = websocket.query_params.get("form", "") == "log"
        self._session = ""
        self._reader = api.feed.open(NOTHING)  # follows nothing, and ends with the feed
        self._is_following = asyncio.Event()
        self._is_following.set()
        self._timer: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Serve the client until it goes, does not read, or the host closes."""
        sending = asyncio.ensure_future(self._send_events())
        reading = asyncio.ensure_future(self._read())
        try:
            _ = await asyncio.wait((sending, reading), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, reading):
                _ = task.cancel()
            _ = await asyncio.gather(sending, reading, return_exceptions=True)
        code, why = (_LATER, "too slow") if self._reader.has_overflowed else (_GOING, "the host is closing")
        if self._websocket.application_state is WebSocketState.CONNECTED:
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await self._websocket.close(code, why)

    def close(self) -> None:
        """Follow nothing any more."""
        self._api.feed.close(self._reader)
        if self._timer is not None:
            self._timer.cancel()

    async def _read(self) -> None:
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            data = text if text is not None else message.get("bytes") or b""
            if len(data) > MOST_FRAME:
                await self._websocket.close(_TOO_LARGE, "this message is too large")
                return
            await self.take(data)

    async def take(self, data: str | bytes) -> None:
        """Do what a message says; what is wrong with it is told, and the connection stays."""
        try:
            value = parse_json(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
            message = _INCOMING.validate_python(value)
            await self._do(message)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            await self._tell({"type": "error", "kind": "invalid_message", "message": f"{place}: {first['msg']}"[:500]})
        except (ValueError, RecursionError) as error:
            await self._tell({"type": "error", "kind": "invalid_message", "message": f"not JSON: {str(error)[:200]}"})
        except LmtuiError as error:
            await self._tell({"type": "error", "kind": "refused", "message": str(error), "hint": error.hint})

    async def _do(self, message: Any) -> None:
        if message.type == "ping":
            await self._tell({"type": "pong", **({"id": message.id} if message.id else {})})
            return
        if (
            message.id
            and not isinstance(message, Subscribe)
            and not self._api.is_first(f"ws {message.session or self._session} {message.id}")
        ):
            await self._tell({"type": "duplicate", "id": message.id})
            return
        match message:
            case Subscribe(session=None):
                await self._follow(None, None)
            case Subscribe(session=str(session_id), after=after):
                await self._follow(await self._api.hub.session(session_id), after)
            case Plain(type="clear", folder=folder):
                await self._open(folder)
            case Said(content=content, steer=steers, folder=folder):
                is_known = bool(message.session or self._session)
                session = await self._meant(message) if is_known else await self._open(folder)
                (session.steer if steers else session.submit)(content)
            case _:
                await self._change(await self._meant(message), message)

    async def _change(self, session: Session, message: Any) -> None:
        match message:
            case ModeMessage(mode=mode):
                await change_mode(session, wire.ModeInfo.model_validate({"mode": mode}).mode)
            case Plain():
                session.interrupt()
            case ApprovalResponse() as answer:
                _ = give_answer(session, answer.approval_id, answer)
            case PlanResponse(type=action):
                given = message.model_dump(include={"proposal_id", "rules", "feedback"})
                give_plan_answer(session, wire.PlanReply.model_validate({**given, "action": action.removesuffix("_plan")}))

    async def _meant(self, message: _Message) -> Session:
        """Return the session that a message is about."""
        session_id = message.session or self._session
        if not session_id:
            raise LmtuiError("no session to act on", "Name one in `session`, or send subscribe, message or clear first.")
        return await self._api.hub.session(session_id)

    async def _open(self, folder: str) -> Session:
        """Open a new session and follow it."""
        session = await self._api.new_session(await self._api.runtime(folder))
        await self._tell({"type": "cleared", "session": session.id})
        await self._follow(session, None)
        return session

    async def _follow(self, session: Session | None, after: int | None) -> None:
        """Follow another session, or all: the past behind an event, then what comes."""
        self._is_following.clear()
        self._api.feed.close(self._reader)
        self._session = session.id if session is not None else ""
        reader = self._api.feed.open(self._session)
        reader.when_overflowed = self._drop_soon
        stored = session.history() if session is not None and after is not None else ()
        past = stored[place_behind(stored, after or 0) :]
        mode = str(session.mode) if session is not None else ""
        await self._tell({"type": "subscribed", "session": self._session, "mode": mode})
        for place, envelope in enumerate(past):
            await self._send(Frame(envelope, is_stored=True))
            if place % 64 == 63:
                await asyncio.sleep(0)
        self._reader = reader
        self._is_following.set()

    def _drop_soon(self) -> None:
        """Let a client go that does not read: in a second at the latest, whatever it was sent."""
        abort = self._websocket.scope.get("extensions", {}).get(ABORT)
        if abort is not None:
            self._timer = asyncio.get_running_loop().call_later(_LAST_WORDS_S, abort)

    async def _send_events(self) -> None:
        while True:
            _ = await self._is_following.wait()
            reader = self._reader
            _ = await reader.wait(_LONG_S)
            if not self._is_following.is_set() or reader is not self._reader:
                continue
            if reader.is_over:
                return
            await asyncio.sleep(GATHER_S)
            for frame in reader.take():
                await self._send(frame)

    async def _send(self, frame: Frame) -> None:
        if text := encode_event(frame.envelope) if self._is_log else _text_of(frame):
            await self._websocket.send_text(text.encode("utf-8", "backslashreplace").decode())

    async def _tell(self, message: dict[str, Any]) -> None:
        await self._websocket.send_text(json.dumps(message, ensure_ascii=True))
