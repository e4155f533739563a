"""One streamed answer, put together: text, thinking and tool calls merged by index, and how it ended.

Format: the chat-completion chunks of the OpenAI API; `reasoning_content` (LM Studio, llama.cpp) and `reasoning` (Ollama, vLLM)
are the local servers' fields for thinking, `timings` is llama.cpp's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.messages import (
    CallPiece,
    Completion,
    FinishReason,
    Message,
    ModelPiece,
    Role,
    TextPiece,
    ThinkingPiece,
    ToolCall,
    Usage,
)
from lmtui.providers.faults import stream_error
from lmtui.providers.thinking import ThinkSplitter


@dataclass(slots=True)
class _CallParts:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    size_chars: int = 0


class Assembler:
    """Takes the data of each event of one stream and gives pieces; `finish` gives the whole.

    Args:
        new_id: makes an id for a call that the server sent without one.
        now: seconds on a clock that only goes forward.
    """

    def __init__(self, new_id: Callable[[], str], now: Callable[[], float]) -> None:
        self._new_id = new_id
        self._now = now
        self._started = now()
        self._first: float | None = None
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: dict[int, _CallParts] = {}
        self._places: dict[int, int] = {}
        self._splitter = ThinkSplitter()
        self._finish: str | None = None
        self._usage: Usage | None = None
        self._model = ""

    @property
    def has_output(self) -> bool:
        """Tell whether anything of the answer has arrived."""
        return self._first is not None

    def feed(self, data: str) -> list[ModelPiece]:
        """Take the data of one event.

        Raises:
            ProviderError: it is not JSON, not a chunk, or an error object.
        """
        if data == "[DONE]":
            return []
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ProviderError(
                Fault.GARBAGE,
                f"the server sent a line that is not JSON: {data[:80]!r}",
                "Try again; if it stays, look at the server's log.",
            ) from error
        if not isinstance(chunk, dict):
            raise ProviderError(Fault.GARBAGE, f"the server sent something that is not an answer: {data[:80]!r}")
        if chunk.get("error"):
            raise stream_error(chunk["error"])
        return self._take(chunk)

    def finish(self) -> tuple[list[ModelPiece], Completion]:
        """Return the last pieces and the whole answer.

        Raises:
            ProviderError: the stream ended without saying why: the connection was cut.
        """
        pieces = self._split(*self._splitter.finish())
        if self._finish is None:
            raise ProviderError(
                Fault.CUT,
                "the server's answer broke off in the middle",
                "The server may have stopped or run out of memory; look at its log.",
            )
        calls = tuple(
            ToolCall(parts.id or self._new_id(), parts.name, "".join(parts.arguments) or "{}")
            for _, parts in sorted(self._calls.items())
        )
        ended = self._now()
        first = ended if self._first is None else self._first
        message = Message(Role.ASSISTANT, "".join(self._text), "".join(self._thinking), calls)
        reason = _finish_reason(self._finish, has_calls=bool(calls))
        return pieces, Completion(message, reason, self._usage, first - self._started, ended - first, self._model)

    def _take(self, chunk: dict[str, object]) -> list[ModelPiece]:
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self._usage = _usage(usage)
        if isinstance(chunk.get("model"), str):
            self._model = str(chunk["model"])
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return []
        if isinstance(choice.get("finish_reason"), str):
            self._finish = str(choice["finish_reason"])
        delta = choice.get("delta") or choice.get("message")
        return self._take_delta(delta) if isinstance(delta, dict) else []

    def _take_delta(self, delta: dict[str, object]) -> list[ModelPiece]:
        pieces: list[ModelPiece] = []
        thinking = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(thinking, str) and thinking:
            pieces += self._split(thinking, "")
        content = delta.get("content")
        if isinstance(content, str) and content:
            self._mark()
            pieces += self._split(*self._splitter.feed(content))
        calls = delta.get("tool_calls")
        for position, call in enumerate(calls if isinstance(calls, list) else []):
            if isinstance(call, dict):
                pieces.append(self._take_call(call, position))
        return pieces

    def _take_call(self, call: dict[str, object], position: int) -> CallPiece:
        self._mark()
        index = call.get("index")
        key = self._key(index if isinstance(index, int) else position, call.get("id"))
        parts = self._calls.setdefault(key, _CallParts())
        if isinstance(call.get("id"), str) and not parts.id:
            parts.id = str(call["id"])
        function = call.get("function")
        if isinstance(function, dict):
            name, arguments = function.get("name"), function.get("arguments")
            if isinstance(name, str) and name and not parts.name:
                parts.name = name
            if isinstance(arguments, dict):
                arguments = json.dumps(arguments)
            if isinstance(arguments, str):
                parts.arguments.append(arguments)
                parts.size_chars += len(arguments)
        return CallPiece(key, parts.name, parts.size_chars)

    def _key(self, index: int, call_id: object) -> int:
        """Return where a call is collected: some servers send index 0 for every call, then a new id begins a new one."""
        key = self._places.get(index, index)
        known = self._calls.get(key)
        if known is not None and isinstance(call_id, str) and call_id and known.id and known.id != call_id:
            key = max(self._calls) + 1
        self._places[index] = key
        return key

    def _split(self, thinking: str, text: str) -> list[ModelPiece]:
        pieces: list[ModelPiece] = []
        if thinking:
            self._mark()
            self._thinking.append(thinking)
            pieces.append(ThinkingPiece(thinking))
        if text:
            self._text.append(text)
            pieces.append(TextPiece(text))
        return pieces

    def _mark(self) -> None:
        if self._first is None:
            self._first = self._now()


def _finish_reason(text: str, *, has_calls: bool) -> FinishReason:
    if text in ("length", "max_tokens"):
        return FinishReason.LENGTH
    if text == "content_filter":
        return FinishReason.CONTENT_FILTER
    return FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP


def _usage(usage: dict[str, object]) -> Usage:
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    return Usage(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), _count(cached))


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
