"""What is said between the user, the model and the tools.  Values only; the wire form belongs to the providers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from lmtui.core.errors import UsageError

MAX_IMAGE_BYTES = 5_000_000
MAX_IMAGES = 8
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def sniff(data: bytes) -> str:
    """Return the media type of a PNG, JPEG, GIF or WebP picture, else an empty string."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((name for start, name in _SIGNATURES if data.startswith(start)), "")


@dataclass(frozen=True, slots=True)
class Image:
    """A picture for the model: `media_type` as `sniff` names it, `data` the file's bytes."""

    name: str
    media_type: str
    data: bytes


def picture(name: str, data: bytes) -> Image:
    """Return the picture that some bytes are.

    Raises:
        UsageError: they are none, or too many.
    """
    if len(data) > MAX_IMAGE_BYTES:
        raise UsageError(f"picture {name} is larger than {MAX_IMAGE_BYTES // 1_000_000} MB", "Make it smaller first.")
    if not (media_type := sniff(data)):
        raise UsageError(f"{name} is not a PNG, JPEG, GIF or WebP picture", "Convert it first.")
    return Image(name, media_type, data)


@dataclass(frozen=True, slots=True)
class ImageRef:
    """A picture of a message by what it is: the SHA-256 (hex) of its bytes, which are kept next to the log."""

    sha256: str
    media_type: str
    name: str = ""
    size_bytes: int = 0


class Role(StrEnum):
    """Who speaks, in the words of the chat-completions format."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class FinishReason(StrEnum):
    """Why a model stopped, as the server told it."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"


INTERRUPTED = "(interrupted)"  # what is sent in place of an answer that never came
EXAMPLE_FILES = ("zq_demo.py", "zq_tool.sh")  # of the worked example: names that no folder has


class Priority(IntEnum):
    """Who waits for an answer: a person, the work of a sub-agent, or nobody (a title, a summary ahead of time)."""

    USER = 0
    SUBAGENT = 1
    BACKGROUND = 2


class ToolChoice(StrEnum):
    """What the server is to hold one answer to, by a schema: nothing, one call, one that looks, or the end of the task."""

    AUTO = ""
    REQUIRED = "call"
    LOOK = "look"
    NONE = "answer"


class ToolCallFormat(StrEnum):
    """How a model is told about the tools, and in which form it is to call them.

    `native`: in the request's `tools`, called by the server's own structured calls.  `text`: described in the system prompt,
    called in the text.  `schema`: as `text`, and the server holds the whole answer to a JSON schema.
    """

    NATIVE = "native"
    TEXT = "text"
    SCHEMA = "schema"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as the model sent it; `arguments` is raw text and may not even be JSON.

    `form` is empty for the server's own structured calls, else the shape in which it was found in the text (`fence`, `json`,
    `xml`, …): such a call is recovered.
    """

    id: str
    name: str
    arguments: str
    form: str = ""

    @property
    def sent_name(self) -> str:
        """Return the name that is sent back: servers refuse a conversation with signs in it that no name has."""
        return re.sub(r"[^A-Za-z0-9_-]+", "_", self.name)[:64] or "unknown"

    @property
    def sent_arguments(self) -> str:
        """Return what is sent back to the model: broken JSON, on which templates fail, as an empty object."""
        try:
            is_object = isinstance(json.loads(self.arguments), dict)
        except (ValueError, RecursionError):
            is_object = False
        return self.arguments if is_object else "{}"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation.

    `thinking` is shown and stored but never sent back.  `tool_calls` belongs to assistant messages,
    `call_id` (which call this answers) to tool messages, `images` to user messages and to results.
    """

    role: Role
    text: str
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request as the server counted them; `cached_tokens` is the reused part of the prompt."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0

    @property
    def fresh_tokens(self) -> int:
        """Return what was computed: the prompt without what came from the cache, and the answer."""
        return max(0, self.prompt_tokens - self.cached_tokens) + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
        )


class ToolSet(StrEnum):
    """How much a model is told about the tools.

    Those that most work needs, all (the web, data and Python too), the few that a small window has room for, or these and some
    for long work.  Of the hidden ones it is told nothing, and calls of them are taken.
    """

    FULL = "full"
    ALL = "all"
    LEAN = "lean"
    LONG = "long"
    HIDDEN = "hidden"


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What the model is told about a tool: `parameters` is a JSON Schema object.

    `aliases` and `argument_aliases` (by the argument's own name) are what other programs call it and them: taken, never told.
    So is a whole tool that `is_hidden`, where a call of it is plain.
    """

    name: str
    description: str
    parameters: dict[str, object]
    aliases: tuple[str, ...] = ()
    argument_aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_hidden: bool = False


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request for a completion.  `messages` only ever grows within a session, so that servers reuse their cache.

    `messages` and `tools` are the same whatever `call_form` is: the provider writes them in that form.  `hold` is what this one
    answer is held to.  If the model cannot see (`sees`), pictures are described in words. `shows_example`: a short worked
    example goes before the conversation, for weak models.  `is_attended`: a user is present who can stop the wait for the first
    token; otherwise that wait has the same limit as silence in the middle of an answer.  `hidden` are tools that the model is
    not told of and whose calls are taken.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    model: str
    temperature: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    call_form: ToolCallFormat = ToolCallFormat.NATIVE
    hold: ToolChoice = ToolChoice.AUTO
    shows_example: bool = False
    top_p: float | None = None
    repeat_penalty: float | None = None
    urgency: Priority = Priority.USER
    sees: bool = True
    is_attended: bool = True
    hidden: tuple[ToolSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaRequest(ModelRequest):
    """A request without tools whose answer matches a JSON schema, where the server holds it to one."""

    answer_schema: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TextChunk:
    """Some more of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingChunk:
    """Some more of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallChunk:
    """A tool call is being written: `size_chars` of its arguments have arrived so far."""

    name: str
    size_chars: int


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    """The server says how far it has read the prompt; `ratio` is 0 to 1, `tokens` the whole prompt (0 is unknown)."""

    ratio: float
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class QueuedChunk:
    """The request waits for a slot of the server; `before` others are served first."""

    before: int


@dataclass(frozen=True, slots=True)
class SilenceChunk:
    """The server has not started its answer for this long; the request still waits."""

    seconds: float


@dataclass(frozen=True, slots=True)
class RetryChunk:
    """The request failed in a way that passes; it is sent again after `wait_s`.  What was streamed before is void."""

    attempt: int
    attempts: int
    wait_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Timings:
    """What a server measured itself: tokens that it read again (not those of its cache) and wrote, and the seconds of each."""

    read_tokens: int = 0
    read_s: float = 0.0
    cached_tokens: int = 0
    written_tokens: int = 0
    written_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Completion:
    """The last piece of every stream: the whole message, why it ended, and what it cost.

    `first_token_s` is the wait for the first token (prefill), `decode_s` the time from there to the end.
    `model` is the name the server answered with.  `problem` says, in words for the model, why something that was meant as a
    call is none (`is_unknown_tool`: for its tool does not exist); `stopped` says, in words for the user, why lmtui itself ended
    the generation (it repeated itself, …).  `quoted` is the only call of an answer that calls nothing: by its words an example.
    """

    message: Message
    finish_reason: FinishReason
    usage: Usage | None
    first_token_s: float = 0.0
    decode_s: float = 0.0
    model: str = ""
    problem: str = ""
    stopped: str = ""
    timings: Timings | None = None
    is_unknown_tool: bool = False
    quoted: ToolCall | None = None


StreamChunk = TextChunk | ThinkingChunk | ToolCallChunk | PrefillChunk | QueuedChunk | SilenceChunk | RetryChunk | Completion
