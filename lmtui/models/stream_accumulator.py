"""One streamed answer, put together: text, thinking and tool calls merged by index, and how it ended.

Format: the chat-completion chunks of the OpenAI API; `reasoning_content` (LM Studio, llama.cpp) and `reasoning` (Ollama, vLLM)
are the local servers' fields for thinking, `timings` and `prompt_progress` are llama.cpp's.
"""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.messages import (
    Completion,
    FinishReason,
    Message,
    PrefillChunk,
    Role,
    StreamChunk,
    Timings,
    ToolCall,
    ToolCallChunk,
    ToolCallFormat,
    ToolSpec,
    Usage,
)
from lmtui.models.parsing.answer import AnswerParser
from lmtui.models.parsing.call_shapes import (
    ARGUMENT_KEYS,
    NAME_KEYS,
    ParsedCall,
    ToolNames,
    UnreadableLiteral,
    read_json,
    with_arguments,
)
from lmtui.models.provider_errors import stream_error

MAX_EVENT_BYTES = 16 * 1024 * 1024


class SseDecoder:
    """Turns bytes into the `data` of events; however the bytes are split, the events are the same."""

    def __init__(self) -> None:
        self._decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
        self._line: list[str] = []
        self._data: list[str] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[str]:
        """Return the data of each event that this chunk completes.

        Raises:
            ProviderError: an event is larger than 16 MiB.
        """
        begun, *lines = self._decoder.decode(chunk).split("\n")
        self._line.append(begun)
        self._size += len(chunk)
        if self._size > MAX_EVENT_BYTES:
            raise ProviderError(Fault.GARBAGE, "the server sent an event of more than 16 MiB")
        whole = ["".join(self._line), *lines]
        if lines:
            self._line = [whole.pop()]
        return [event for line in whole if (event := self._take(line)) is not None] if lines else []

    def finish(self) -> list[str]:
        """Return what the stream's end completes (servers forget the last blank line)."""
        return self.feed(b"\n") + self.feed(b"\n\n")

    def _take(self, line: str) -> str | None:
        if line:
            field, _, value = line.partition(":")
            if field == "data" or line.startswith("{"):
                self._data.append(value.removeprefix(" ") if field == "data" else line)
            return None
        self._size = 0
        data, self._data = "\n".join(self._data), []
        return data or None


def mended(name: str, arguments: str, tools: ToolNames, *, is_cut: bool = False) -> tuple[str, str]:
    """Return a call with a tool's own name and with arguments that are JSON, as far as they have one meaning.

    What has none stays as it is: whoever runs it says so.  With `is_cut` (the answer ended at its limit) none is closed.
    """
    spec = tools.find(name)
    name = spec.name if spec is not None else name
    if _is_whole(arguments):
        return name, arguments
    try:
        value = read_json(arguments, may_close=not is_cut) if arguments.strip() else None
    except UnreadableLiteral:
        return name, arguments
    if value is None:
        return name, "{}"
    found = with_arguments(spec, value) if spec is not None and isinstance(value, dict | str) else None
    return name, json.dumps(found.arguments, ensure_ascii=False) if isinstance(found, ParsedCall) else arguments


_DECODER = json.JSONDecoder()
_MOST = 10**12  # no server counts more tokens or milliseconds


_NAMELESS = "Nothing was run: the call has no name. Send the whole call again, with the name of the tool."
_NO_ARGUMENTS = ("", "{}", "null")
_CALL_KEYS = (("id",), NAME_KEYS, ARGUMENT_KEYS)


@dataclass(slots=True)
class _CallParts:
    """One of the server's calls, as far as it has come; `tools` tell a name from a piece of one."""

    tools: ToolNames
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    size_chars: int = 0

    def goes_on(self, call_id: str, name: str, arguments: str, *, is_placed: bool) -> bool:
        """Tell whether a chunk belongs to this call: it has no name, continues what is not whole, or says the same again.

        One that is not `is_placed` (it has no index and no id) says nothing again: its name begins a call.
        """
        if not name:
            return True
        text = self._text
        if text and arguments.strip() and arguments.lstrip()[0] != "{" and not _is_whole(text):
            return True
        if call_id and self.id and call_id != self.id:
            return False
        if text:
            has_none = arguments.strip() in _NO_ARGUMENTS and (is_placed or not self.name)
            return name == (self.name or name) and (has_none or not _is_whole(text) or arguments.startswith(text))
        is_piece = self.tools.find(self.name + name) or not (self.tools.find(self.name) or self.tools.find(name))
        return name.startswith(self.name) or bool(is_piece)

    def may_have(self, call_id: str, *, is_placed: bool) -> bool:
        """Tell whether a chunk without a name can belong to this call: another id can begin one."""
        text = self._text
        return not call_id or self.id in ("", call_id) or (not _is_whole(text) if text else not is_placed)

    def take(self, call_id: str, name: str, arguments: str) -> ToolCallChunk:
        """Add a chunk; some servers send all arguments so far in each, or empty ones next to the real ones."""
        self.id = self.id or call_id
        text = self._text if name or arguments.strip() in _NO_ARGUMENTS or arguments.startswith("{") else "…"
        if not text:
            self.arguments.clear()
            self.name = name if name.startswith(self.name) else self.name + name
        self.name = self.name or name
        if arguments.startswith("{") and arguments.startswith(text):
            self.arguments = [arguments]
        elif arguments.strip() not in _NO_ARGUMENTS or (text and not _is_whole(text)):
            self.arguments.append(arguments)
        self.size_chars += len(arguments)
        return ToolCallChunk(self.name, self.size_chars)

    @property
    def _text(self) -> str:
        """Return the arguments so far, empty where there are none to speak of."""
        text = "".join(self.arguments)
        return "" if text.strip() in _NO_ARGUMENTS else text


def _is_whole(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


class StreamAccumulator:
    """Takes the data of each event of one stream and gives pieces; `finish` gives the whole.

    Args:
        new_id: makes an id for a call that the server sent without one.
        now: seconds on a clock that only goes forward.
        tools: what the model may call in its text, if the server sends no tool calls itself.
        form: how the model was asked to call.
    """

    def __init__(
        self,
        new_id: Callable[[], str],
        now: Callable[[], float],
        tools: tuple[ToolSpec, ...] = (),
        form: ToolCallFormat = ToolCallFormat.NATIVE,
    ) -> None:
        self._new_id = new_id
        self._now = now
        self._started = now()
        self._first: float | None = None
        self._parser = AnswerParser(tools, form)
        self._calls: list[_CallParts] = []  # the last is the one that a chunk without index and id belongs to
        self._by_index: dict[int, _CallParts] = {}
        self._finish: str | None = None
        self._is_done = False
        self._half = ""
        self._usage: Usage | None = None
        self._timings: Timings | None = None
        self._model = ""

    @property
    def is_over(self) -> bool:
        """Tell whether nothing that the server may still send counts: the stream can be closed."""
        return self._parser.is_over

    @property
    def has_output(self) -> bool:
        """Tell whether anything of the answer has arrived."""
        return self._first is not None

    def feed(self, data: str) -> list[StreamChunk]:
        """Take the data of one event.

        Raises:
            ProviderError: it is not JSON, not a chunk, or an error object.
        """
        data = data.strip()
        if data == "[DONE]":
            self._is_done = True
            return []
        try:
            chunk, end = _DECODER.raw_decode(data)
            if end != len(data):
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

    def finish(self) -> tuple[list[StreamChunk], Completion]:
        """Return the last pieces and the whole answer.

        Raises:
            ProviderError: the stream ended without saying why: the connection was cut.
        """
        if self._finish is None and not self._is_done and not self._parser.is_over:
            raise ProviderError(
                Fault.CUT,
                "the server's answer broke off in the middle",
                "The server may have stopped or run out of memory; look at its log.",
            )
        reason = _REASONS.get(self._finish or "")
        is_cut = self._finish is None or reason is FinishReason.LENGTH  # without a reason, what is open may have been cut
        pieces, answer = self._parser.finish(is_cut=is_cut)
        calls = self._sent_calls(is_cut=is_cut) or tuple(map(self._as_call, answer.calls))
        ended = self._now()
        first = ended if self._first is None else self._first
        return pieces, Completion(
            Message(Role.ASSISTANT, answer.text, answer.thinking, calls),
            reason or (FinishReason.TOOL_CALLS if calls else FinishReason.STOP),
            self._usage,
            first - self._started,
            ended - first,
            self._model,
            _NAMELESS if not calls and any(each.arguments for each in self._calls) else answer.problem,
            answer.stopped,
            self._timings,
            is_unknown_tool=answer.is_unknown_tool,
            quoted=None if calls or answer.quoted is None else self._as_call(answer.quoted),
        )

    def _as_call(self, found: ToolCall) -> ToolCall:
        return replace(found, id=self._new_id())

    def _sent_calls(self, *, is_cut: bool) -> tuple[ToolCall, ...]:
        """Return the server's own calls, each once; what has no name calls nothing."""
        calls: dict[tuple[str, str], ToolCall] = {}
        for parts in self._calls:
            name = parts.name if parts.name.strip() else "".join(_NAME_IN_ID.findall(parts.id))
            if not name:
                continue
            each = mended(name, "".join(parts.arguments), self._parser.names, is_cut=is_cut)
            if each not in calls:
                calls[each] = ToolCall(parts.id or self._new_id(), *each)
        return tuple(calls.values())

    def _take(self, chunk: dict[str, object]) -> list[StreamChunk]:
        pieces: list[StreamChunk] = []
        choices = chunk.get("choices")
        choice = choices[0] if choices and isinstance(choices, list) else None
        if isinstance(choice, dict):
            delta = choice.get("delta") or choice.get("message")
            if isinstance(delta, dict):
                pieces = self._take_delta(delta)
            if isinstance(choice.get("finish_reason"), str):
                self._finish = choice["finish_reason"]
        if not self._model and isinstance(chunk.get("model"), str):
            self._model = str(chunk["model"])
        if "usage" in chunk or "timings" in chunk or "prompt_progress" in chunk:
            self._measure(chunk, pieces)
        return pieces

    def _measure(self, chunk: dict[str, object], pieces: list[StreamChunk]) -> None:
        """Take what the server counted and measured."""
        if isinstance(usage := chunk.get("usage"), dict):
            self._usage = _usage(usage)
        if isinstance(timings := chunk.get("timings"), dict):
            self._timings = _timings(timings)
        if isinstance(progress := chunk.get("prompt_progress"), dict):
            total = _count(progress.get("total"))  # of llama.cpp: tokens, those of its cache included
            done = _count(progress.get("processed")) / total if total else 0.0
            pieces.append(PrefillChunk(min(done, 1.0), total))

    def _take_delta(self, delta: dict[str, object]) -> list[StreamChunk]:
        content = delta.get("content")
        if len(delta) == 1 and content and isinstance(content, str):
            if self._first is None:
                self._first = self._now()
            return self._parser.feed(self._joined(content))
        pieces: list[StreamChunk] = []
        thoughts = _parts(delta.get("reasoning_content") or delta.get("reasoning"), is_thinking=True)
        for text, is_thinking in (*thoughts, *_parts(content), *_parts(delta.get("refusal"))):
            self._mark()
            feed = self._parser.feed_thinking if is_thinking else self._parser.feed
            pieces += feed(self._joined(text))
        sent, older = delta.get("tool_calls"), delta.get("function_call")
        calls = sent if isinstance(sent, list) else [sent or older]
        for position, call in enumerate(calls):
            if isinstance(call, dict):
                pieces.append(self._take_call(call, position if len(calls) > 1 else None))
        return pieces

    def _take_call(self, call: dict[str, object], position: int | None) -> ToolCallChunk:
        """Take a chunk of a call: that of its index, else of its id, else the last; or a new one, where it begins one."""
        self._mark()
        inner, place = call.get("function"), call.get("index")
        function = {**call, "function": None, **inner} if isinstance(inner, dict) else call
        index = place if isinstance(place, int) else position
        call_id, name, arguments = (
            each if isinstance(each, str) else json.dumps(each) if isinstance(each, dict | list) else ""
            for each in (next(filter(None, map(function.get, keys)), "") for keys in _CALL_KEYS)
        )
        if name or arguments:
            self._parser.has_native_calls()
        by_id = next((each for each in self._calls if call_id and each.id == call_id), None)
        parts = (self._by_index.get(index) if index is not None else None) or by_id
        last = next((each for each in self._calls[-1:] if each.may_have(call_id, is_placed=index is not None)), None)
        if parts is None and last and (index is None or not name) and (arguments or not call_id or not last.name):
            parts = last
        if parts is None or not parts.goes_on(call_id, name, arguments, is_placed=index is not None or bool(call_id)):
            parts = _CallParts(self._parser.names)
            self._calls.append(parts)
        if index is not None:
            self._by_index[index] = parts
        return parts.take(call_id, name, arguments)

    def _joined(self, text: str) -> str:
        """Return a text in which characters that came in two halves are whole; a half at the end waits for the other."""
        if text.isascii() and not self._half:
            return text
        text, self._half = self._half + text, ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _mark(self) -> None:
        if self._first is None:
            self._first = self._now()


_NAME_IN_ID = re.compile(r"^functions\.([\w.-]+):\d+$")  # Kimi's ids
_THINKING = ("thinking", "reasoning")


def _parts(content: object, levels: int = 4, *, is_thinking: bool = False) -> list[tuple[str, bool]]:
    """Return the texts of what a server sent as content, and whether each is thinking: a text, or parts of several types.

    Parts are those of OpenAI's `content` arrays (`type`: text, output_text, refusal) and Mistral's (`thinking`, nested).
    """
    if isinstance(content, str):
        return [(content, is_thinking)] if content else []
    if isinstance(content, list) and levels:
        return [found for each in content for found in _parts(each, levels - 1, is_thinking=is_thinking)]
    if not isinstance(content, dict):
        return []
    is_thinking = is_thinking or content.get("type") in _THINKING
    names = (*_THINKING, "text", "content", "refusal")
    inner = next((content[name] for name in names if isinstance(content.get(name), str | list) and content[name]), None)
    return _parts(inner, levels, is_thinking=is_thinking)


_REASONS = dict.fromkeys(("length", "max_tokens"), FinishReason.LENGTH)
_REASONS["content_filter"] = FinishReason.CONTENT_FILTER


def _usage(usage: dict[str, object]) -> Usage:
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    return Usage(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), _count(cached))


def _timings(timings: dict[str, object]) -> Timings:
    """Return llama.cpp's measurements (tools/server/README.md: milliseconds, tokens)."""
    return Timings(
        read_tokens=_count(timings.get("prompt_n")),
        read_s=_seconds(timings.get("prompt_ms")),
        cached_tokens=_count(timings.get("cache_n")),
        written_tokens=_count(timings.get("predicted_n")),
        written_s=_seconds(timings.get("predicted_ms")),
    )


def _seconds(value: object) -> float:
    return value / 1000 if isinstance(value, int | float) and 0 < value < _MOST else 0.0


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 < value < _MOST else 0
