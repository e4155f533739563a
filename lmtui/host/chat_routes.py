"""An OpenAI-compatible façade: any chat client can use an agent as if it were a model.

A conversation is a session.  It is recognised by what was said in it so far, or by the header `X-Session-Id`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import json
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from starlette.responses import Response

from lmtui.core.events import (
    ApprovalRequested,
    ApprovalResolved,
    Envelope,
    MessageAdded,
    Outcome,
    RetryScheduled,
    TextDelta,
    TurnEnded,
    TurnReason,
    TurnStarted,
)
from lmtui.core.messages import MAX_IMAGE_BYTES, Image, Role, Usage, sniff
from lmtui.core.sanitize import sanitize_line
from lmtui.core.sessions import Answer, Session
from lmtui.host import wire
from lmtui.host.api_context import ApiContext
from lmtui.host.endpoints import ApiCall, ApiError
from lmtui.host.session_routes import last_seq
from lmtui.host.streams import HEARTBEAT, EventStream
from lmtui.host.workspace_routes import agent_folders

CHAT_BYTES = 8_000_000
_NOBODY = "nobody answered in time; the user of the chat client cannot approve this here"
_GAP = "\n\n"
_LOOK_AGAIN_S = 2.0  # between two looks at whether the client is still there


@dataclass(slots=True)
class _Turn:
    """One answer of an agent as text pieces, made of the events of its session."""

    session: Session
    wait_s: float
    pieces: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)
    sent: str = ""
    whole: str = ""
    ended: TurnEnded | None = None
    timers: dict[str, asyncio.TimerHandle] = field(default_factory=dict)

    def take(self, envelope: Envelope) -> None:
        """Take an event of the session."""
        event = envelope.event
        match event:
            case ApprovalRequested():
                self._await_answer(event)
            case ApprovalResolved(approval_id=approval_id):
                if (timer := self.timers.pop(approval_id, None)) is not None:
                    timer.cancel()
            case TurnEnded(agent="root"):
                self.ended = event
                self.pieces.put_nowait(None)
            case TextDelta(agent="root", text=text):
                self._begin()
                self.sent += text
                self._say(text)
            case RetryScheduled(agent="root") if self.sent:
                self.sent = ""
                self._say(_GAP)
            case MessageAdded(agent="root", role=Role.ASSISTANT, text=text):
                if not self.sent and text:
                    self._begin()
                    self._say(text)
                elif text.startswith(self.sent):
                    self._say(text[len(self.sent) :])
                self.sent = ""
            case _:
                pass

    def _begin(self) -> None:
        """Keep the texts of two steps apart."""
        if not self.sent and self.whole and not self.whole.endswith("\n"):
            self._say(_GAP)

    def _say(self, text: str) -> None:
        if text:
            self.whole += text
            self.pieces.put_nowait(text)

    def _await_answer(self, event: ApprovalRequested) -> None:
        """Deny a question that nobody answers, and say so."""
        what = sanitize_line(event.text)[:120]
        self._begin()
        self._say(f"[lmtui asks: {event.tool} {what}. Answer it in lmtui within {self.wait_s:.0f} s.]{_GAP}")
        loop = asyncio.get_running_loop()
        self.timers[event.approval_id] = loop.call_later(self.wait_s, self._deny, event)

    def _deny(self, event: ApprovalRequested) -> None:
        _ = self.timers.pop(event.approval_id, None)
        self._say(f"[Denied: {_NOBODY}.]{_GAP}")
        self.session.answer(event.approval_id, Answer(Outcome.NO, _NOBODY, by="chat"))

    def close(self) -> None:
        """Leave no question to a timer."""
        for timer in self.timers.values():
            timer.cancel()
        self.timers.clear()


async def chat(api: ApiContext, call: ApiCall) -> Response:
    """Answer the last message of a conversation."""
    body: wire.ChatRequest = call.body
    said, images = _said(body.messages)
    session, text = await _session(api, call, body, said)
    if session.is_running:
        raise ApiError(409, "this conversation is still being answered", "Wait for the answer, or stop it.")
    turn = _Turn(session, api.options.approval_wait_s)
    unsubscribe = session.subscribe(turn.take)
    session.submit(text, typed=said, images=images)
    identity = _Identity(f"chatcmpl-{secrets.token_hex(12)}", int(time.time()), body.model)
    headers = {"x-session-id": session.id}

    def finish() -> None:
        unsubscribe()
        turn.close()
        if turn.ended is None:
            session.interrupt()
        else:
            key = _key([*_shown(body.messages), ["assistant", _whole(turn).strip()]])
            api.keep_conversation(key, session.id, last_seq(session))

    if body.stream:
        has_usage = body.stream_options is not None and body.stream_options.include_usage
        blocks = _blocks(turn, identity, api.options.heartbeat_s, has_usage=has_usage)
        return EventStream(_finishing(blocks, finish), headers=headers)
    try:
        while not await _has_ended(turn):
            if await call.request.is_disconnected():
                raise ApiError(400, "the client has gone")
    finally:
        finish()
    assert turn.ended is not None
    if turn.ended.reason is TurnReason.ERROR and not turn.whole:
        raise ApiError(502, turn.ended.error or "the turn failed")
    found = wire.ChatCompletion(
        id=identity.id,
        created=identity.created,
        model=identity.model,
        choices=[wire.ChatChoice(message=wire.ChatAnswer(content=_whole(turn)), finish_reason=_reason(turn.ended))],
        usage=_usage(turn.ended.usage),
    )
    return Response(found.model_dump_json(), headers=headers, media_type="application/json")


async def _has_ended(turn: _Turn) -> bool:
    """Wait for a piece of the answer, or for a moment; tell whether that was the end."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LOOK_AGAIN_S):
            return await turn.pieces.get() is None
    return False


@dataclass(frozen=True, slots=True)
class _Identity:
    """What each chunk of one answer says of itself."""

    id: str
    created: int
    model: str

    def chunk(self, delta: dict[str, Any] | None, finish_reason: str | None = None, **more: object) -> bytes:
        """Return a chunk as a block of a stream; without a `delta` it has no choice."""
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}]
        head = {"id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model}
        text = json.dumps({**head, "choices": choices, **more}, ensure_ascii=False)
        return b"data: %s\n\n" % text.encode("utf-8", "backslashreplace")


async def _finishing(blocks: AsyncGenerator[bytes, None], finish: Any) -> AsyncGenerator[bytes, None]:
    try:
        async for block in blocks:
            yield block
    finally:
        await blocks.aclose()
        finish()


async def _blocks(turn: _Turn, identity: _Identity, heartbeat_s: float, *, has_usage: bool) -> AsyncGenerator[bytes, None]:
    """Yield the answer as chunks."""
    yield identity.chunk({"role": "assistant", "content": ""})
    while True:
        try:
            async with asyncio.timeout(heartbeat_s):
                piece = await turn.pieces.get()
        except TimeoutError:
            yield HEARTBEAT
            continue
        if piece is None:
            break
        yield identity.chunk({"content": piece})
    assert turn.ended is not None
    for text in _ending(turn):
        yield identity.chunk({"content": text})
    yield identity.chunk({}, _reason(turn.ended))
    if has_usage:
        yield identity.chunk(None, usage=_usage(turn.ended.usage).model_dump())
    yield b"data: [DONE]\n\n"


def _ending(turn: _Turn) -> list[str]:
    """Return what is said at the end of a turn that was not done."""
    ended = turn.ended
    if ended is None or ended.reason in (TurnReason.DONE, TurnReason.INTERRUPTED) or not ended.error:
        return []
    return [f"{_GAP if turn.whole else ''}[{ended.reason.words}: {sanitize_line(ended.error)}]"]


def _whole(turn: _Turn) -> str:
    return turn.whole + "".join(_ending(turn))


def _reason(ended: TurnEnded) -> Any:
    return "length" if ended.reason is TurnReason.LIMIT else "stop"


def _usage(usage: Usage) -> wire.ChatUsage:
    total = usage.prompt_tokens + usage.completion_tokens
    return wire.ChatUsage(prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens, total_tokens=total)


async def _session(api: ApiContext, call: ApiCall, body: wire.ChatRequest, said: str) -> tuple[Session, str]:
    """Return the session of a conversation, and what it is told."""
    if wanted := call.request.headers.get("x-session-id", ""):
        return await api.hub.session(wanted[:100]), said
    if known := api.conversation(_key(_shown(body.messages[:-1]))):
        return await _continued(api, *known), said
    folders = agent_folders(api)
    if folder := call.request.headers.get("x-folder", ""):
        runtime = await api.runtime(folder)
    elif body.model in folders:
        runtime = await api.hub.runtime(folders[body.model])
    else:
        raise ApiError(404, f"no model {body.model[:100]!r}", "`GET /v1/models` lists them.", code="model_not_found")
    session = await api.new_session(runtime)
    return session, _with_past(body.messages, said)


async def _continued(api: ApiContext, session_id: str, seq: int) -> Session:
    """Return a session as it was at one of its events: a copy, where it has gone on since (the client edited a message)."""
    session = await api.hub.session(session_id)
    if not any(isinstance(each.event, TurnStarted) for each in islice(reversed(session.history()), 200) if each.seq > seq):
        return session
    runtime = await api.hub.find_runtime(session_id)
    return await runtime.open_session(await runtime.archive.fork(session_id, seq))


def _with_past(messages: Sequence[wire.ChatMessage], said: str) -> str:
    """Return what a new session is told: with a past that lmtui does not have, it is told that too."""
    past = [f"{each.role}: {_text(each)}" for each in messages[:-1] if _text(each).strip()]
    return f"{said}\n\nWhat was said before:\n\n" + "\n\n".join(past) if past else said


def _said(messages: Sequence[wire.ChatMessage]) -> tuple[str, list[Image]]:
    """Return the last message and its pictures."""
    last = messages[-1]
    if last.role != "user":
        raise ApiError(422, "the last message must be the user's")
    images = [_image(each.image_url) for each in last.content or () if isinstance(each, wire.ChatPart) and each.image_url]
    text = _text(last)
    if not text.strip() and not images:
        raise ApiError(422, "the last message is empty")
    return text, images


def _image(given: dict[str, Any]) -> Image:
    """Return a picture that is in the request itself; none is fetched."""
    head, _, data = str(given.get("url", "")).partition(",")
    if not head.startswith("data:") or not head.endswith(";base64"):
        raise ApiError(422, "pictures must be in the request, as data: addresses")
    try:
        found = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ApiError(422, "a picture is not valid base64") from error
    kind = sniff(found)
    if not kind or len(found) > MAX_IMAGE_BYTES:
        raise ApiError(422, f"a picture must be PNG, JPEG, GIF or WebP of at most {MAX_IMAGE_BYTES:,} bytes")
    return Image("picture", kind, found)


def _text(message: wire.ChatMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "\n".join(each.text for each in message.content or () if each.text)


def _shown(messages: Sequence[wire.ChatMessage]) -> list[list[str]]:
    return [[each.role, _text(each).strip()] for each in messages]


def _key(said: Sequence[Sequence[str]]) -> str:
    """Return the key of a conversation, empty for one that has not begun: the first message begins a new one."""
    if not any(role == "assistant" for role, *_ in said):
        return ""
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()
