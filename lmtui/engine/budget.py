"""How large a request will be, in the server's own tokens, and how long it takes to read: estimates that learn.

Our count of a request and the server's differ by a ratio (another tokenizer) and a constant (the chat template).  Both follow
from the `usage` of the requests before; the next one is told from the last and what was added to it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Sequence

from lmtui.core.messages import CallForm, Completion, Message, ToolSpec
from lmtui.core.ports import TokenCounter
from lmtui.core.profiles import ModelProfile
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

    `generation` goes up when everything is counted anew, so that sizes from before stand beside none from after.

    Args:
        count: our own way of counting a text; it may get better while it is used.
        form: how the model is told of its tools.
    """

    def __init__(self, count: TokenCounter = bytes_by_four, form: CallForm = CallForm.NATIVE) -> None:
        self._count = count
        self._probe = 0
        self._sizes: dict[int, tuple[object, int]] = {}
        self._form = form
        self._model: str | None = None
        self._points: deque[tuple[int, int]] = deque(maxlen=_KEPT_POINTS)
        self._known_ratio = 0.0
        self.generation = 0
        self.image_tokens = IMAGE_TOKENS
        self.token_ratio = 1.0
        self.is_ratio_known = False
        self.read_tokens_per_s = 0.0
        self.write_tokens_per_s = 0.0

    def another(self) -> Budget:
        """Return one for another conversation with the same model: speeds and ratio are known there too."""
        other = Budget(self._count, self._form)
        other._model, other._known_ratio = self._model, self.token_ratio if self.is_ratio_known else self._known_ratio
        other.token_ratio, other.is_ratio_known = other._known_ratio or 1.0, bool(other._known_ratio)
        other.image_tokens = self.image_tokens
        other.read_tokens_per_s, other.write_tokens_per_s = self.read_tokens_per_s, self.write_tokens_per_s
        return other

    def use(self, model: str, profile: ModelProfile) -> None:
        """Start from what is known of a model; one that is in use already goes on with what was learned here."""
        if model != self._model:
            self._model = model
            self._known_ratio = 0.0
            self._begin_anew()
            self.read_tokens_per_s = self.write_tokens_per_s = 0.0
        if not self._known_ratio and profile.token_ratio > 0:
            self._known_ratio = _clamped(profile.token_ratio)
            if not self._points:
                self.token_ratio, self.is_ratio_known = self._known_ratio, True
        self.read_tokens_per_s = self.read_tokens_per_s or profile.read_tokens_per_s
        self.write_tokens_per_s = self.write_tokens_per_s or profile.write_tokens_per_s

    def use_form(self, form: CallForm) -> None:
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

    def size(self, message: Message) -> int:
        """Return the size of a message in our own tokens."""
        return self._sized(message)

    def tools_size(self, tools: Iterable[ToolSpec]) -> int:
        """Return the size of the tools in our own tokens; all of them together come with words on how to call them."""
        sizes = list(map(self._sized, tools))
        return sum(sizes) + (_TOLD_TOKENS if len(sizes) > 1 and self._form is not CallForm.NATIVE else 0)

    def raw(self, messages: Iterable[Message], tools: Iterable[ToolSpec]) -> int:
        """Return the size of a request in our own tokens."""
        self.check_counter()
        return sum(map(self.size, messages)) + self.tools_size(tools)

    def uncounted_chars(self, messages: Iterable[Message]) -> int:
        """Return how much text was not counted yet: much of it is counted in a thread, by `raw`."""
        self.check_counter()
        return sum(len(message.text) for message in messages if id(message) not in self._sizes)

    def hold_only(self, messages: Iterable[Message]) -> None:
        """Forget the sizes of all other messages, which are held in memory with them."""
        kept = set(map(id, messages))
        self._sizes = {key: known for key, known in self._sizes.items() if key in kept or isinstance(known[0], ToolSpec)}

    def estimate(self, raw: int) -> int:
        """Return what the server will count for a request of a size in our own tokens."""
        if not self._points:
            return round(raw * self.token_ratio)
        last_raw, last_real = self._points[-1]
        return max(1, round(last_real + self.token_ratio * (raw - last_raw)))

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
        self.token_ratio, self.is_ratio_known = _clamped(_slope(self._points)), True

    def learn_speed(self, completion: Completion, read_tokens: int) -> None:
        """Take note of how fast an answer came; `read_tokens` of its prompt were read anew, where the server does not tell."""
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

    def check_counter(self) -> None:
        """Count everything anew once our own way of counting has become another."""
        probe = self._count(_PROBE)
        if probe != self._probe:
            self._probe = probe
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Forget all sizes, and what was learned from them here; a ratio that was known before is taken up again."""
        self._points.clear()
        self._sizes.clear()
        self.generation += 1
        self.token_ratio, self.is_ratio_known = self._known_ratio or 1.0, bool(self._known_ratio)

    def _sized(self, value: Message | ToolSpec) -> int:
        known = self._sizes.get(id(value))
        if known is None:
            if len(self._sizes) > 20_000:
                self._sizes.clear()
            size = self._measure(value) if isinstance(value, Message) else self._measure_tool(value)
            known = self._sizes[id(value)] = (value, size)  # it is held, so that its id stays its own
        return known[1]

    def _measure(self, message: Message) -> int:
        calls = sum(self._count(call.name + call.sent_arguments) + CALL_TOKENS for call in message.tool_calls)
        return self._count(message.text) + calls + MESSAGE_TOKENS + self.image_tokens * len(message.images)

    def _measure_tool(self, tool: ToolSpec) -> int:
        if self._form is CallForm.NATIVE:
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
