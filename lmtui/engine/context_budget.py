"""What is kept of one agent's requests to tell when room is needed, which tools fit, and how much of a result does."""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from enum import StrEnum

from lmtui.core.messages import Completion, Message, ModelRequest, ToolCallFormat, ToolSpec
from lmtui.core.ports import TokenCounter
from lmtui.core.servers import ModelProfile
from lmtui.core.window import ASSUMED_WINDOW_TOKENS, IMAGE_TOKENS, bytes_by_four

_TOLD_TOKENS = 220  # in text forms: how to call, and the worked example
MESSAGE_TOKENS, CALL_TOKENS, TOOL_TOKENS = 4, 8, 8
LEAST_RATIO, MOST_RATIO = 0.4, 3.0
READING_S = 20.0
_CHARS_PER_TOKEN = 3.5
_MOST_CHARS, _LEAST_CHARS = 24_000, 1_000
_PROBE = "def probe(value): return {'tokens': value + 1}  # \u00e4\u00f6\u00fc"
_KEPT_POINTS = 6
_LEAST_SPREAD_TOKENS = 150
_LEAST_TIMED_TOKENS = 100


class Budget:
    """What is known of the sizes and speeds of one model, in tokens as its server counts them.

    `generation` goes up when everything is counted again, so that sizes from before are next to none from after.  `token_ratio`
    says how many tokens the server counts for one of ours.

    Args:
        count: our own way of counting a text; it may get better while it is used.
        form: how the model is told about its tools.
    """

    def __init__(self, count: TokenCounter = bytes_by_four, form: ToolCallFormat = ToolCallFormat.NATIVE) -> None:
        self._count = count
        self._probe = 0
        self._sizes: dict[int, tuple[object, int]] = {}
        self._summed: tuple[tuple[Message, ...], int] = ((), 0)  # what was sized last, and its size
        self._form = form
        self._model: str | None = None
        self._points: deque[tuple[int, int]] = deque(maxlen=_KEPT_POINTS)
        self._known_ratio = 0.0
        self.generation = 0
        self.image_tokens = IMAGE_TOKENS
        self.token_ratio = 1.0
        self.read_tokens_per_s = 0.0
        self.write_tokens_per_s = 0.0

    def another(self) -> Budget:
        """Return one for another conversation with the same model: speeds and ratio are known there too."""
        other = copy(self)
        other._known_ratio = self.token_ratio if self._points else self._known_ratio
        other._sizes, other._summed, other._points = {}, ((), 0), deque(maxlen=_KEPT_POINTS)
        return other

    def use(self, model: str, profile: ModelProfile) -> None:
        """Start from what is known of a model; one that is in use already continues with what was learned here."""
        if model != self._model:
            self._model = model
            self._known_ratio = 0.0
            self._begin_anew()
            self.read_tokens_per_s = self.write_tokens_per_s = 0.0
        if not self._known_ratio and not self._points and profile.token_ratio > 0:
            self._known_ratio = self.token_ratio = _clamped(profile.token_ratio)
        self.read_tokens_per_s = self.read_tokens_per_s or profile.read_tokens_per_s
        self.write_tokens_per_s = self.write_tokens_per_s or profile.write_tokens_per_s

    def use_form(self, form: ToolCallFormat) -> None:
        """Take note of the form in which tools are told: in text they are a line each, in the server's own form a schema."""
        if form is not self._form:
            self._form = form
            self._begin_anew()

    def use_sight(self, *, sees: bool) -> None:
        """Take note whether pictures are sent, or told of in a line each."""
        tokens = IMAGE_TOKENS if sees else 0
        if tokens != self.image_tokens:
            self.image_tokens = tokens
            self._begin_anew()

    def size(self, value: Message | ToolSpec) -> int:
        """Return the size of a message or a tool in our own tokens."""
        known = self._sizes.get(id(value))
        if known is None:
            if len(self._sizes) > 20_000:
                self._sizes.clear()
            size = self._measure(value) if isinstance(value, Message) else self._measure_tool(value)
            known = self._sizes[id(value)] = (value, size)  # it is held, so that its id stays its own
        return known[1]

    def tools_size(self, tools: Iterable[ToolSpec]) -> int:
        """Return the size of the tools in our own tokens; all of them together come with words on how to call them."""
        sizes = list(map(self.size, tools))
        return sum(sizes) + (_TOLD_TOKENS if len(sizes) > 1 and self._form is not ToolCallFormat.NATIVE else 0)

    def raw(self, messages: Iterable[Message], tools: Iterable[ToolSpec]) -> int:
        """Return the size of a request in our own tokens; what was sized last and only grew is not gone over."""
        messages = tuple(messages)
        count, size = self._begun(messages)
        size += sum(map(self.size, messages[count:]))
        self._summed = (messages, size)
        return size + self.tools_size(tools)

    def uncounted_chars(self, messages: tuple[Message, ...]) -> int:
        """Return how much text was not counted yet: much of it is counted in a thread, by `raw`."""
        count, _ = self._begun(messages)
        return sum(len(message.text) for message in messages[count:] if id(message) not in self._sizes)

    def _begun(self, messages: tuple[Message, ...]) -> tuple[int, int]:
        """Return how many of the first messages were sized last, and their size.

        If they did not only grow, the sizes of all others are forgotten, which are held in memory with them.
        """
        self._check_counter()
        before, size = self._summed
        if messages[: len(before)] == before:
            return len(before), size
        kept = set(map(id, messages))
        sizes = tuple(self._sizes.items())  # another thread may add to them
        self._sizes = {key: known for key, known in sizes if key in kept or isinstance(known[0], ToolSpec)}
        self._summed = ((), 0)
        return 0, 0

    def estimate(self, raw: int) -> int:
        """Return what the server will count for a request of a size in our own tokens."""
        if not self._points:
            return round(raw * self.token_ratio)
        last_raw, last_real = self._points[-1]
        return max(1, round(last_real + self.token_ratio * (raw - last_raw)))

    def least(self, raw: int) -> tuple[int, bool]:
        """Return what a server that reads all counts for a request at least, and whether that rests on a smaller one.

        The ratio may come from other text (a log full of digits has more tokens than prose): it makes nothing larger here.
        """
        ratio = min(self.token_ratio, 1.0)
        last_raw, last_real = self._points[-1] if self._points else (0, 0)
        is_grown = 0 < last_raw <= raw
        return round(ratio * raw if not is_grown else last_real + ratio * (raw - last_raw)), is_grown

    @property
    def kept_ratio(self) -> float:
        """Return the ratio to keep: of the whole last request, half way from what an earlier session showed; 0: unknown."""
        if not self._points:
            return round(self._known_ratio, 3)
        raw, real = self._points[-1]
        whole = _clamped(real / raw)
        return round(math.sqrt(whole * (self._known_ratio or whole)), 3)

    def scaled(self, raw: int) -> int:
        """Return a part of a request in the server's tokens."""
        return round(raw * self.token_ratio)

    def read_s(self, tokens: int) -> float:
        """Return how many seconds the server reads at so many tokens, 0 where its speed is not known."""
        return tokens / self.read_tokens_per_s if self.read_tokens_per_s > 0 else 0.0

    def learn_size(self, raw: int, real: int) -> None:
        """Take note that the server counted `real` tokens where we counted `raw`."""
        if raw <= 0 or real <= 0:
            return
        self._points.append((raw, real))
        self.token_ratio = _clamped(_slope(self._points))

    def learn_speed(self, completion: Completion, read_tokens: int) -> None:
        """Take note of how fast an answer came; `read_tokens` of its prompt were read again, where the server does not tell."""
        timings = completion.timings
        if timings is not None and timings.read_tokens >= _LEAST_TIMED_TOKENS and timings.read_s > 0:
            self._read_at(timings.read_tokens / timings.read_s)
        elif (timings is None or not timings.read_s) and read_tokens >= _LEAST_TIMED_TOKENS and completion.first_token_s > 0:
            self._read_at(read_tokens / completion.first_token_s)
        written = completion.usage.completion_tokens if completion.usage else 0
        if timings is not None and timings.written_tokens > 1 and timings.written_s > 0:
            self.write_tokens_per_s = timings.written_tokens / timings.written_s
        elif written > 1 and completion.decode_s > 0:
            self.write_tokens_per_s = (written - 1) / completion.decode_s

    def result_chars(self, window_tokens: int) -> int:
        """Return how much of a tool's result or of a file goes to the model, in characters.

        A quarter of the window at most, and no more than about 20 seconds of reading.
        """
        tokens = (window_tokens or ASSUMED_WINDOW_TOKENS) / 4
        if self.read_tokens_per_s > 0:
            tokens = min(tokens, READING_S * self.read_tokens_per_s)
        return max(_LEAST_CHARS, min(_MOST_CHARS, int(tokens / self.token_ratio * _CHARS_PER_TOKEN)))

    def _read_at(self, tokens_per_s: float) -> None:
        before = self.read_tokens_per_s
        self.read_tokens_per_s = (before + tokens_per_s) / 2 if before else tokens_per_s

    def _check_counter(self) -> None:
        """Count everything again once our own way of counting has become another."""
        probe = self._count(_PROBE)
        if probe != self._probe:
            self._probe = probe
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Forget all sizes, and what was learned from them here."""
        self._points.clear()
        self._sizes.clear()
        self._summed = ((), 0)
        self.token_ratio = self._known_ratio or 1.0
        self.generation += 1

    def _measure(self, message: Message) -> int:
        calls = sum(self._count(call.name + call.sent_arguments) + CALL_TOKENS for call in message.tool_calls)
        return self._count(message.text) + calls + MESSAGE_TOKENS + self.image_tokens * len(message.images)

    def _measure_tool(self, tool: ToolSpec) -> int:
        if self._form is ToolCallFormat.NATIVE:
            return self._count(tool.name + tool.description + json.dumps(tool.parameters)) + TOOL_TOKENS
        properties = tool.parameters.get("properties")
        names = ", ".join(properties) if isinstance(properties, dict) else ""
        return self._count(f"- {tool.name}({names}): {tool.description}") + names.count(",") * 2 + 2


def _clamped(ratio: float) -> float:
    return min(MOST_RATIO, max(LEAST_RATIO, ratio))


def _slope(points: Sequence[tuple[int, int]]) -> float:
    """Return how the server's count grows with ours: by least squares where the sizes differ enough, else by the last alone."""
    raws = [raw for raw, _ in points]
    last_raw, last_real = points[-1]
    if max(raws) - min(raws) < _LEAST_SPREAD_TOKENS:
        return last_real / last_raw
    middle_raw, middle_real = sum(raws) / len(points), sum(real for _, real in points) / len(points)
    spread = sum((raw - middle_raw) ** 2 for raw in raws)
    return sum((raw - middle_raw) * (real - middle_real) for raw, real in points) / spread


_FEW_TOKENS = 160  # servers keep their cache in blocks, of up to 128 tokens


class CacheMissReason(StrEnum):
    """Why something that was sent before is read again; what changed the conversation is told in its own words.

    `RESTART`: the server was restarted or unloaded the model.  `TAKEN`: another request took the slot and its cache.
    """

    NONE = ""
    FIRST = "first request"
    MODEL = "model changed"
    FORM = "call form changed"
    TOOLS = "tools changed"
    RESTART = "server restarted"
    PICTURE = "picture"
    TAKEN = "slot was taken"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A request next to the one before, in our own tokens.

    `common` is the beginning that both have, `resent` what else was in the one before and is elsewhere now.  `pictures` of it
    have a size that is only assumed.
    """

    total: int
    common: int
    resent: int
    cause: str
    pictures: int = 0


@dataclass(frozen=True, slots=True)
class PromptCacheUsage:
    """How a prompt was read, in the server's tokens."""

    reused: int
    reread: int
    new: int
    is_told: bool
    miss: str

    @property
    def anew(self) -> int:
        """Return what the server had to read."""
        return self.reread + self.new


class PromptCacheTracker:
    """Compares each request with the one before; the cost is that of what was added, as long as nothing else changed.

    `now` is how the request that was begun last compares.

    Args:
        budget: sizes messages and tools, and knows what the server makes of that.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._generation = 0
        self._before: ModelRequest | None = None
        self._stayed: tuple[Message, ...] = ()
        self._tells = False
        self._counted = (0, 0)
        self.now = Comparison(0, 0, 0, CacheMissReason.FIRST)

    def begin(self, request: ModelRequest, change: str) -> Comparison:
        """Compare a request that is about to be sent; `change` is the conversation's."""
        budget, before, messages = self._budget, self._before, request.messages
        total = budget.raw(messages, request.tools)
        if self._generation != budget.generation:  # what was counted in another way is not compared with this
            self._generation, self._counted = budget.generation, (0, 0)
        old = before.messages if before else ()
        stays = _shared(old, messages)
        shared = total - sum(map(budget.size, messages[stays:])) if stays else 0
        head = _head_cause(before, request)
        if head:
            common, resent, cause = 0, shared, head
        elif stays < len(old):
            moved = set(map(id, old[stays:]))
            common, cause = shared, change or CacheMissReason.UNKNOWN
            resent = sum(budget.size(message) for message in messages[stays:] if id(message) in moved)
        else:
            common, resent, cause = shared, 0, CacheMissReason.NONE
        self._before, self._stayed = request, messages[:stays]
        pictures = sum(len(message.images) for message in messages)
        self.now = Comparison(total, common, 0 if before is None else resent, str(cause), pictures)
        return self.now

    def settle(self, prompt_tokens: int, told: int | None, is_slow: Callable[[int], bool]) -> PromptCacheUsage:
        """Say how the request that was begun last was read, once the server has counted it.

        Args:
            prompt_tokens: the whole prompt.
            told: how many of them the server says it reused, None where it says nothing.
            is_slow: tells whether the reading took much longer than so many tokens take.
        """
        now = self.now
        self._tells = self._tells or bool(told)
        common = self._in_servers(now.common, prompt_tokens)
        resent = self._budget.scaled(now.resent) if common else self._in_servers(now.resent, prompt_tokens)
        resent = min(resent, prompt_tokens - common)
        self._counted = now.total, prompt_tokens
        if told is not None and self._tells:
            reused = min(told, prompt_tokens)
            reread = max(0, min(common + resent - reused, prompt_tokens - reused))
            if not now.cause and reread <= max(_FEW_TOKENS, common // 20):
                reread = 0
            miss = now.cause or (self._who_took(reused, common) if reread else "")
            return PromptCacheUsage(reused, reread, prompt_tokens - reused - reread, is_told=True, miss=miss)
        if not now.cause and common > prompt_tokens // 2 and is_slow(prompt_tokens - common):
            return PromptCacheUsage(0, common, prompt_tokens - common, is_told=False, miss=CacheMissReason.UNKNOWN)
        return PromptCacheUsage(common, resent, max(0, prompt_tokens - common - resent), is_told=False, miss=now.cause)

    def _in_servers(self, size: int, most: int) -> int:
        """Return a beginning of the request before in the server's tokens, which counted that one as a whole."""
        (total, counted), scaled = self._counted, self._budget.scaled
        return max(0, min(most, counted - scaled(total - size) if counted else scaled(size))) if size else 0

    def _who_took(self, reused: int, common: int) -> str:
        if reused <= common // 20:
            return CacheMissReason.RESTART
        return CacheMissReason.PICTURE if any(message.images for message in self._stayed) else CacheMissReason.TAKEN


def _shared(old: Sequence[Message], new: Sequence[Message]) -> int:
    """Return how many messages both begin with."""
    if new[: len(old)] == old:
        return len(old)
    pairs = enumerate(zip(old, new, strict=False))
    return next((place for place, (one, other) in pairs if one is not other), min(len(old), len(new)))


def _head_cause(before: ModelRequest | None, now: ModelRequest) -> str:
    """Return what changed in what is before the messages, an empty text where nothing did."""
    if before is None:
        return CacheMissReason.FIRST
    if before.model != now.model:
        return CacheMissReason.MODEL
    if before.call_form is not now.call_form:
        return CacheMissReason.FORM
    if before.tools is not now.tools and before.tools != now.tools:
        return CacheMissReason.TOOLS
    return CacheMissReason.NONE


@dataclass(slots=True)
class ContextBudget:
    """What one agent's requests are measured by.  `tools` is the user's choice of a set: auto, full or lean.

    Room is made above `threshold_tokens` (0: by the window alone).  `summaries` counts those that the model was asked for,
    `steps` the answers, `compacted_at` is when room was made last, `little` how often in a row that brought little.
    """

    budget: Budget = field(default_factory=Budget)
    tools: str = "auto"
    threshold_tokens: int = 0
    asks_for_summaries: bool = False
    summaries: int = 0
    steps: int = 0
    compacted_at: int = -1
    little: int = 0
    short_counts: int = 0
    is_told: bool = False
    chosen_for: str | None = None
    ledger: PromptCacheTracker = field(init=False)

    def another(self) -> ContextBudget:
        """Return one for another conversation with the same model."""
        asks = self.asks_for_summaries
        return ContextBudget(self.budget.another(), self.tools, self.threshold_tokens, asks, chosen_for=self.chosen_for)

    def __post_init__(self) -> None:
        self.ledger = PromptCacheTracker(self.budget)


_NUMBERED = re.compile(r"^ *(\d{1,9})  ")
_LEFT_OUT = re.compile(r"… ([\d,]{1,15}) (?:bytes|characters) left out")
_REST = {
    "grep": "narrow the pattern, or give path or glob",
    "glob": "narrow the pattern",
    "ls": "list a folder below, with depth 1",
    "shell": "send the output through head, tail or grep to see the part you need",
    "git_diff": "ask for one path",
}


def truncate_result(tool: str, text: str, limit_chars: int) -> str:
    """Return a result, or as much of it as `limit_chars` hold with a line that says how to get the rest.

    Of a file and a listing the beginning stays, in whole lines; of all else the beginning and the end, where errors are.
    """
    if len(text) <= limit_chars:
        return text
    if tool == "read":
        return _cut_file(text, limit_chars)
    rest = _REST.get(tool, "ask for a smaller part")
    if tool in ("grep", "glob", "ls"):
        head = _whole_lines(text[:limit_chars])
        return f"{head}\n[… {text.count(chr(10), len(head)):,} more lines left out; {rest}]"
    head, tail = text[: limit_chars // 3], text[-(limit_chars * 2 // 3) :]
    middle = text[len(head) : -len(tail)]
    left_out = len(middle) + sum(int(each.replace(",", "")) for each in _LEFT_OUT.findall(middle))
    return f"{head}\n[… {left_out:,} characters left out; {rest} …]\n{tail}"


def _cut_file(text: str, limit_chars: int) -> str:
    """Return the first lines of a file as the read tool shows them, with the line to go on from."""
    head = _whole_lines(text[:limit_chars])
    last = _NUMBERED.match(head.rpartition("\n")[2])
    total = text.rpartition("\n")[2] if text.endswith(")") else ""
    where = f" {total}" if total.startswith("(lines ") else ""
    how = f"go on with offset={int(last[1]) + 1}, or use grep" if last else "use grep, or shell with head or cut"
    return f"{head}\n[… cut here: {len(text) - len(head):,} more characters{where}; {how}]"


def _whole_lines(text: str) -> str:
    return text.rpartition("\n")[0] or text
