"""An OpenAI-compatible façade: any chat client can use an agent as if it were a model.

A conversation is a session.  It is recognised by what was said in it so far, or by the header `X-Session-Id`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from lmtui.core import events
from lmtui.core.errors import UsageError
from lmtui.core.events import Envelope, TurnEnded, TurnReason
from lmtui.core.messages import Image, Role, picture
from lmtui.core.sanitize import sanitize_line
from lmtui.core.sessions import Session
from lmtui.host import wire
from lmtui.host.access import JSON
from lmtui.host.endpoints import ApiContext, ApiError, Endpoint, route
from lmtui.host.feed import HEARTBEAT, EventStream, place_behind
from lmtui.host.routes import agent_folders, last_seq

ROUTES: list[Endpoint] = []
CHAT_BYTES = 8_000_000
_GAP = "\n\n"
_LOOK_AGAIN_S = 2.0  # between two looks at whether the client is still there


class _Turn:
    """One answer of an agent as pieces of text, made of the events of its session."""

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


@route(ROUTES, "POST", "/v1/chat/completions", answer=dict[str, Any], most_bytes=CHAT_BYTES)
async def chat(api: ApiContext, request: Request, body: wire.ChatRequest) -> Response:
    """Chat with an agent in OpenAI's form."""
    said, images = _text(body.messages[-1]), _images(body.messages[-1])
    shown = [(each.role, _text(each).strip()) for each in body.messages]
    if body.messages[-1].role != "user" or not (said.strip() or images):
        raise ApiError(422, "the last message must be the user's, and not empty")
    session, is_new = await _session(api, request, body.model, shown[:-1])
    if session.is_running:
        raise ApiError(409, "this conversation is still being answered", "Wait for the answer, or stop it.")

    def keep(whole: str) -> None:
        api.conversations[_key([*shown, ("assistant", whole.strip())])] = session.id, last_seq(session)

    turn = _Turn(session, keep)
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


async def _blocks(turn: _Turn, head: dict[str, Any], heartbeat_s: float, *, has_usage: bool) -> AsyncGenerator[bytes, None]:
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


async def _session(api: ApiContext, request: Request, model: str, past: Sequence[tuple[str, str]]) -> tuple[Session, bool]:
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


def _text(message: wire.ChatMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "\n".join(each.text for each in message.content or () if each.text)


def _key(said: Sequence[tuple[str, str]]) -> str:
    """Return the key of a conversation, empty for one that has not begun: the first message begins a new one."""
    has_answer = any(role == "assistant" for role, _ in said)
    return hashlib.sha256(json.dumps(said).encode()).hexdigest() if has_answer else ""
