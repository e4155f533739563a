"""What an answer holds so far: text, thinking and calls, with what is still undecided held back.

Which calls a careful reader would run:

* Calls between marks (`<tool_call>`, `<function=…>`, `[TOOL_CALLS]`, …) are calls, wherever they are but in code, in a
  quotation, and next to words that quote or disown them (“the file contains:”, “until you agree”).
* JSON, fenced JSON and Python calls without marks are calls where they are on lines of their own (or behind a colon or a
  sentence, up to the end of the line), with at most a short remark behind them, no question behind them, and no word around
  them that makes them an example.  Those inside a longer explanation are examples: they stay text.
* Of two between which is “or”, neither; of those behind a result that the model made up, none.
* What was meant as a call and has no reading, or two, is not run and stays text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise

from lmtui.core.messages import StreamChunk, TextChunk, ThinkingChunk
from lmtui.models.parsing import quoting
from lmtui.models.parsing.call_block import ParsedEntry
from lmtui.models.parsing.call_items import CUT
from lmtui.models.parsing.call_shapes import ParsedCall, RejectedCall

EVERY_CHARS = 256
MAX_PERIOD = 400
_WINDOW_CHARS = 8192
_NEEDLE_CHARS = 24
_TRIES = 6


class RepetitionGuard:
    """Takes a stream; `period` is the length of what repeats itself at its end, 0 while nothing does.

    The one who feeds it cuts the stream at `room` characters at most.
    """

    def __init__(self) -> None:
        self.period = 0
        self.room = EVERY_CHARS
        self._parts: list[str] = []
        self._tail = ""

    def passes(self, text: str) -> bool:
        """Take a text that does not reach the next place to look at; tell whether it was taken."""
        room = self.room - len(text)
        if room <= 0:
            return False
        self.room = room
        self._parts.append(text)
        return True

    def parts(self, text: str) -> Iterator[str]:
        """Cut a text where the stream is looked at; feed each part before the next is asked for."""
        at = 0
        while at < len(text):
            end = at + self.room
            yield text[at:end]
            at = end

    def feed(self, text: str, *, is_code: bool = False) -> bool:
        """Take at most `room` characters; tell whether the stream is to be stopped.  In code and in calls more is allowed."""
        self._parts.append(text)
        self.room -= len(text)
        if self.room > 0:
            return False
        self.room = EVERY_CHARS
        self._tail = (self._tail + "".join(self._parts))[-_WINDOW_CHARS:]
        self._parts.clear()
        self.period = _period(self._tail, 2 if is_code else 1)
        return self.period > 0


def _period(tail: str, factor: int) -> int:
    """Return the period in which the end of a text repeats itself often enough, else 0."""
    end = len(tail)
    needle = tail[-_NEEDLE_CHARS:]
    at = end - len(needle)
    for _ in range(_TRIES):
        at = tail.rfind(needle, 0, at + len(needle) - 1)
        if at < 0:
            return 0
        period = end - len(needle) - at
        if period > MAX_PERIOD:
            return 0
        size = _enough(tail[-period:]) * factor
        if end >= size + period and tail[end - size :] == tail[end - size - period : end - period]:
            return period
    return 0


def _enough(unit: str) -> int:
    """Return how many characters of repetition are too many, for what is repeated."""
    blank = unit.replace("\\n", "\n")
    if blank.isspace():
        return max(120 if "\n" in blank else 600, 60 * len(unit))
    if len(unit) >= 8 and sum(map(str.isalpha, unit)) >= 4:
        return max(500, 6 * len(unit))
    return 1600


def first_of_many(text: str, period: int) -> int:
    """Return where the first of the repetitions at the end of a text ends."""
    start = max(len(text) - period, 0)
    while start >= period and text[start - period : start] == text[start : start + period]:
        start -= period
    while start > 0 and text[start - 1] == text[start - 1 + period]:
        start -= 1
    return min(start + period, len(text))


REMARK_CHARS = 300
_SAME_IN_A_ROW = 4
_IN_DATA = re.compile(r"""(?:^|[{\[,])\s*"[^"\n]{0,80}"\s*:\Z|[\]}]\s*,\Z|\[\Z""", re.MULTILINE)
_STRAY_END = re.compile(r"</(?:parameter|arg_value|param)>")


@dataclass(frozen=True, slots=True)
class Called:
    """One call of the answer: a tool's own name, its arguments as a JSON object, the shape it was found in."""

    name: str
    arguments: str
    form: str


@dataclass(slots=True)
class _Part:
    """Text, or a run of calls that nothing has decided yet; `text` is what it was."""

    text: str = ""
    entries: list[ParsedEntry] = field(default_factory=list)
    is_marked: bool = False
    is_quoted: bool = False
    is_own: bool = False


@dataclass(slots=True)
class _Kept:
    """Calls that count, with the text they were, and where in the text they was."""

    place: int
    entries: list[ParsedEntry]
    raw: str


class AnswerBuilder:
    """Collects what the scanner finds and gives it out as pieces.

    Args:
        remark_chars: how much text may be behind calls without marks.
    """

    def __init__(self, remark_chars: int = REMARK_CHARS) -> None:
        self.pieces: list[StreamChunk] = []
        self.thinking: list[str] = []
        self.is_native = False
        self._remark_chars = remark_chars
        self._text: list[str] = []
        self._space = ""
        self.ends_with_call = False  # no text is behind the last call
        self.skips_space = False  # the white space that comes next is dropped
        self._held: list[_Part] = []
        self._remark_size = 0
        self._kept: list[_Kept] = []
        self._seen: set[tuple[str, str]] = set()
        self._repeated = 0  # how many of the last calls in a row were repetitions
        self._since = 0
        self._quoted: list[ParsedEntry] = []  # the calls that stay text
        self._was_quoted = False  # the last calls were
        self._is_invented = False  # all that follows answers to invented results

    @property
    def has_meant(self) -> bool:
        """Tell whether the last calls, as far as can be told yet, are the model's own."""
        return (bool(self._kept) or any(part.entries for part in self._held)) and not self._was_quoted

    @property
    def quoted(self) -> list[ParsedCall | RejectedCall]:
        """Return the calls that stay text."""
        return [each for entry in self._quoted for each in entry.found]

    @property
    def is_blank(self) -> bool:
        """Tell whether the text is empty."""
        return not any(each.strip() for each in self._text)

    def say(self, text: str) -> None:
        """Take text of the answer."""
        if not self._held:
            if self._space or self.ends_with_call or self.skips_space or text[-1:].isspace():
                self._out(text)
            else:
                self._text.append(text)
                self.pieces.append(TextChunk(text))
            return
        self._held.append(_Part(text))
        self._remark_size += len(text if self._remark_size else text.lstrip())
        if self._remark_size > self._remark_chars:
            self._release(are_calls=False)

    def think(self, text: str) -> None:
        """Take thinking."""
        if text:
            self.thinking.append(text)
            self.pieces.append(ThinkingChunk(text))

    def call(self, entries: list[ParsedEntry], raw: str, *, is_marked: bool) -> None:
        """Take a run of calls and the text that they were."""
        before = self._before()
        is_quoted = quoting.is_quoted(before, is_marked=is_marked)
        is_quoted = is_quoted or (self._was_quoted and (quoting.is_joint(before) or quoting.goes_on(before)))
        if not is_marked and not is_quoted:
            is_quoted = _IN_DATA.search(before[-200:].rstrip().rpartition("\n\n")[2]) is not None
        self._was_quoted = is_quoted
        self._held.append(_Part(raw, entries, is_marked, is_quoted, quoting.acts(before)))
        self._remark_size = 0

    def recall_as_thinking(self) -> None:
        """Make all text so far thinking: only the end of the thinking was marked, and it comes now."""
        self._release(are_calls=True)
        self.thinking.append(self._whole(with_calls=True) + self._space)
        self._text.clear()
        self._kept.clear()
        self._seen.clear()
        self._since, self._quoted, self._was_quoted, self._is_invented = 0, [], False, False
        self._space, self.ends_with_call = "", False

    def finish(self, *, is_over: bool = False) -> None:
        """Decide what is held; `is_over`: what came behind does not count, nor does the white space before it."""
        behind = "".join(part.text for part in self._held[self._last_call() + 1 :])
        self._release(are_calls="?" not in behind)
        if self._space and not self.ends_with_call and not is_over:
            self._append(self._space)
            self._space = ""

    def text(self) -> str:
        """Return the text; with the server's own calls, what looked like calls is text too."""
        return self._whole(with_calls=self.is_native)

    def found(self) -> list[tuple[ParsedEntry, ParsedCall | RejectedCall]]:
        """Return the calls that count, and those that were refused."""
        if self.is_native:
            return []
        return [(entry, each) for kept in self._kept for entry in kept.entries for each in entry.found]

    def trim(self, period: int) -> None:
        """Keep the text up to the end of the first of its repetitions at the end."""
        text = "".join(self._text)
        self._text = [text[: first_of_many(text, period)].rstrip()]

    def _out(self, text: str) -> None:
        if self.skips_space:
            text = text.lstrip()
            self.skips_space = not text
        if self.ends_with_call and text:
            text = text.lstrip()
            if not text:
                return
            self.ends_with_call = False
            self._space = "\n\n" if self._text else ""
        if self._space:
            text, self._space = self._space + text, ""
        if text[-1:].isspace():
            body = text.rstrip()
            self._space = text[len(body) :]
            text = body
        if text:
            self._append(text)

    def _append(self, text: str) -> None:
        self._text.append(text)
        self.pieces.append(TextChunk(text))

    def _keep(self, entries: list[ParsedEntry], raw: str) -> None:
        """Count calls; what was refused among them stays text."""
        good = [all(isinstance(each, ParsedCall) for each in entry.found) for entry in entries]
        self._kept.append(_Kept(len(self._text), entries, raw))
        if not any(good):
            self._out(raw)
            return
        for entry, is_good in zip(entries, good, strict=True):
            if not is_good and not all(isinstance(each, RejectedCall) and each.why == CUT for each in entry.found):
                self.ends_with_call = True
                self._out(entry.raw)
        self.ends_with_call, self._space = True, ""

    def _last_call(self) -> int:
        return max((place for place, part in enumerate(self._held) if part.entries), default=-1)

    def _release(self, *, are_calls: bool) -> None:
        self._judge()
        held, self._held, self._remark_size = self._held, [], 0
        for part in held:
            if not part.entries:
                self._out(part.text)
            elif not part.is_quoted and (part.is_marked or are_calls):
                self._keep(part.entries, part.text)
                self._since = len(self._text)
            else:
                self._quoted += part.entries
                self._out(part.text)
                self._since = len(self._text)

    def _judge(self) -> None:
        """Judge the calls that are held by what is behind each of them."""
        was_disowned, behind = False, ""
        runs = [place for place, part in enumerate(self._held) if part.entries]
        has_choice = len(runs) > 1 and bool(quoting.CHOOSES.search(self._between(runs[-1], len(self._held))))
        for place, after in pairwise([*runs, len(self._held)]):
            part = self._held[place]
            part.is_quoted = part.is_quoted or has_choice or self._is_invented or (was_disowned and not quoting.acts(behind))
            behind = self._between(place, after)
            follower = self._held[after] if after < len(self._held) else None
            if follower is not None and quoting.OR.match(behind):
                part.is_quoted = follower.is_quoted = True
            elif not has_stray_end(behind) and (follower is None or not quoting.is_joint(behind)):
                was_disowned = not part.is_quoted and quoting.is_disowned(behind, is_own=part.is_own)
                part.is_quoted = part.is_quoted or was_disowned
            self._is_invented = self._is_invented or (not part.is_quoted and quoting.claims_result(behind))

    def _between(self, place: int, after: int) -> str:
        """Return the text behind a held run of calls, as much as is looked at however it came."""
        text = "".join(each.text for each in self._held[place + 1 : after])
        return text[: len(text) - len(text.lstrip()) + REMARK_CHARS]

    def _before(self) -> str:
        """Return the end of the text since the last calls."""
        size, parts = 0, [self._space]
        held = self._held[self._last_call() + 1 :]
        said = () if len(held) < len(self._held) else islice(reversed(self._text), len(self._text) - self._since)
        for text in chain((part.text for part in reversed(held)), said):
            parts.append(text)
            size += len(text)
            if size > quoting.LEAD_CHARS:
                break
        return "".join(reversed(parts))

    def is_loop(self, entry: ParsedEntry) -> bool:
        """Take note of a call as soon as it is whole; tell whether the model writes the same ones over and over."""
        for each in entry.found:
            if isinstance(each, ParsedCall):
                key = identity(each)
                self._repeated = self._repeated + 1 if key in self._seen else 0
                self._seen.add(key)
        return self._repeated >= _SAME_IN_A_ROW

    def _whole(self, *, with_calls: bool) -> str:
        if not with_calls or not self._kept:
            return "".join(self._text)
        parts: list[str] = []
        done = 0
        for kept in self._kept:
            parts += self._text[done : kept.place]
            done = kept.place
            if any(isinstance(each, ParsedCall) for entry in kept.entries for each in entry.found):
                parts.append(f"\n{kept.raw.strip()}\n")
        return "".join([*parts, *self._text[done:]]).strip("\n")


def identity(call: ParsedCall) -> tuple[str, str]:
    """Return what makes two calls the same call."""
    return call.spec.name, json.dumps(call.arguments, sort_keys=True)


def has_stray_end(text: str) -> bool:
    """Tell whether a parameter's closing tag is in the text: a value was longer than it seemed."""
    return bool(_STRAY_END.search(text))
