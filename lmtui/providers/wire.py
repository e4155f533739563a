"""Requests as bytes.  `messages` stands last and grows only at its end, so the bytes of a request begin with the one before.

Format: the chat-completions request of the OpenAI API, as local servers take it.
"""

from __future__ import annotations

import base64
import json

from lmtui.core.messages import Message, ModelRequest, Role, ToolSpec


class RequestWriter:
    """Writes the requests of one conversation; what was written once is not written anew."""

    def __init__(self) -> None:
        self._messages: tuple[Message, ...] = ()
        self._parts: list[bytes] = []

    def write(self, request: ModelRequest) -> bytes:
        """Return the body of a streaming request."""
        self._extend(request.messages)
        head = json.dumps(_head(request), ensure_ascii=False, separators=(",", ":"))
        return b"".join((_utf8(head[:-1]), b',"messages":[', b",".join(self._parts), b"]}"))

    def _extend(self, messages: tuple[Message, ...]) -> None:
        known = len(self._messages)
        if len(messages) < known or any(old is not new for old, new in zip(self._messages, messages, strict=False)):
            known = 0
            self._parts.clear()
        self._parts += [
            _utf8(json.dumps(wire_message(message), ensure_ascii=False, separators=(",", ":"))) for message in messages[known:]
        ]
        self._messages = messages


def wire_message(message: Message) -> dict[str, object]:
    """Return one message as servers take it; thinking is never sent back, `content` is never null (templates fail on it)."""
    if message.role is Role.TOOL:
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
    out: dict[str, object] = {"role": str(message.role), "content": _content(message)}
    if message.tool_calls:
        out["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _arguments(call.arguments)}}
            for call in message.tool_calls
        ]
    return out


def _content(message: Message) -> str | list[dict[str, object]]:
    """Return the text, or with pictures the parts of the vision form: text first, then each picture as a data URL."""
    if not message.images:
        return message.text
    parts: list[dict[str, object]] = [{"type": "text", "text": message.text}]
    for image in message.images:
        data = base64.b64encode(image.data).decode("ascii")
        parts.append({"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{data}"}})
    return parts


def wire_tool(spec: ToolSpec) -> dict[str, object]:
    """Return one tool as servers take it."""
    return {
        "type": "function",
        "function": {"name": spec.name, "description": spec.description, "parameters": spec.parameters},
    }


def _head(request: ModelRequest) -> dict[str, object]:
    head: dict[str, object] = {}
    if request.model:
        head["model"] = request.model
    head["stream"] = True
    head["stream_options"] = {"include_usage": True}
    for name in ("temperature", "seed", "max_tokens"):
        value = getattr(request, name)
        if value is not None:
            head[name] = value
    if request.tools:
        head["tools"] = [wire_tool(spec) for spec in request.tools]
    return head


def _arguments(text: str) -> str:
    """Return arguments that chat templates can read: broken JSON is sent back as an empty object, the error result says why."""
    try:
        is_object = isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        is_object = False
    return text if is_object else "{}"


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")
