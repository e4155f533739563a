"""What fills the window: the next request by parts, in estimated tokens (bytes by four, as servers count about that)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from lmtui.core.messages import Message, Role, ToolSpec
from lmtui.core.sessions import WindowPart

IMAGE_TOKENS = 1000
_SYSTEM, _TOOLS, _YOU, _PICTURES, _ANSWERS, _CALLS = "system prompt", "tools", "you", "pictures", "answers", "tool calls"


class RequestParts:
    """Implements `core.sessions.WindowUse` over what the next request would be made of."""

    def __init__(self, request: Callable[[], tuple[Sequence[Message], Sequence[ToolSpec]]]) -> None:
        self._request = request

    def parts(self) -> Sequence[WindowPart]:
        """Return the parts that there are."""
        messages, tools = self._request()
        sizes: dict[str, list[int]] = {name: [] for name in (_SYSTEM, _TOOLS, _YOU, _PICTURES, _ANSWERS, _CALLS)}
        sizes[_TOOLS] = [_tokens(each.name + each.description + json.dumps(each.parameters)) for each in tools]
        tool_of = {call.id: call.name for message in messages for call in message.tool_calls}
        for message in messages:
            sizes.setdefault(_part_of(message, tool_of), []).append(_tokens(message.text))
            sizes[_PICTURES] += [IMAGE_TOKENS] * len(message.images)
            sizes[_CALLS] += [_tokens(call.name + call.arguments) for call in message.tool_calls]
        return [WindowPart(name, sum(found), len(found)) for name, found in sizes.items() if sum(found)]


def _part_of(message: Message, tool_of: dict[str, str]) -> str:
    match message.role:
        case Role.SYSTEM:
            return _SYSTEM
        case Role.USER:
            return _YOU
        case Role.ASSISTANT:
            return _ANSWERS
        case Role.TOOL:
            return f"results of {tool_of.get(message.call_id, 'tools')}"


def _tokens(text: str) -> int:
    return (len(text.encode("utf-8", "replace")) + 3) // 4
