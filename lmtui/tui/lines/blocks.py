"""What a conversation is made of on the screen: blocks that turn themselves into lines of a given width.

An answer is Markdown that arrives bit by bit, kept in blocks of a few hundred words so that no one of them gets dear.  A
finished piece is drawn once; only what is still open at the end is drawn again.  Where blocks and pieces end depends on the
text alone, so an answer that was streamed and one that was read from a log give the same lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from lmtui.core.errors import Fault
from lmtui.core.events import Level, TurnEnded, TurnReason
from lmtui.core.messages import ImageRef
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.core.verification import LATE, CheckOutcome, CheckRan
from lmtui.tui.commands import command, first_key
from lmtui.tui.lines.document import Block
from lmtui.tui.lines.markdown import LONGEST_LINE, Piece, PieceSplitter, clean_lines, piece_lines
from lmtui.tui.lines.styled_text import Line, Span, StyleRole, crop, fill, fit, fold, indent, row, width_of, wrap

FOLDED, UNFOLDED = "▸", "▾"
_OWN_BAR = "▌ "
_LONG_TEXT_LINES = 24
_SHOWN_OF_LONG = 16
_LIVE_THINKING_CHARS = 4000


class UserBlock(Block):
    """What the user said."""

    kind, has_bar = "user", True

    def __init__(self, text: str, time: datetime, images: Sequence[ImageRef] = ()) -> None:
        super().__init__()
        self._text = text
        self._time = time
        self._images = tuple(images)

    @property
    def can_fold(self) -> bool:
        """Tell whether the text is long."""
        return self._text.count("\n") >= _LONG_TEXT_LINES

    def body(self, width: int) -> list[Line]:
        """Return the text as it was typed, on its own ground, with the time at the right."""
        source = sanitize(self._text).strip("\n").split("\n")
        shown = source[:_SHOWN_OF_LONG] if self.can_fold and self.is_folded else source
        time = f"{self._time:%H:%M}"
        inner = max(8, width - len(_OWN_BAR) - len(time) - 2)
        lines = [part for text in shown for part in wrap(((text.expandtabs(4), ""),) if text else (), inner)]
        if len(shown) < len(source):
            lines.append(((f"{FOLDED} {len(source) - len(shown)} more", "accent"),))
        lines += [((fit(image_text(image), inner), "muted"),) for image in self._images]
        lines[0] = row(lines[0], ((f"{time} ", "muted"),), width - len(_OWN_BAR))
        lines = [(), *lines, ()] if self.is_padded else lines
        return [fill(line, width, "own") for line in indent(lines, ((_OWN_BAR, "accent"),))]

    def copy_text(self) -> str:
        return self._text

    def search_text(self) -> str:
        """Return the text and the names of the pictures."""
        return "\n".join((self._text, *map(image_text, self._images)))


def image_text(image: ImageRef) -> str:
    """Return a picture in a few words, such as `[picture plot.png  png  34 kB]`."""
    kind = image.media_type.removeprefix("image/")
    size = f"  {max(1, round(image.size_bytes / 1000)):,} kB" if image.size_bytes else ""
    return sanitize_line(f"[picture {image.name}".rstrip() + f"  {kind}{size}]")


class ThinkingBlock(Block):
    """The thinking before an answer, folded to one line."""

    kind = "thinking"

    def __init__(self, thinking: str = "", thinking_s: float = 0.0) -> None:
        super().__init__()
        self.thinking, self.thinking_s = thinking, thinking_s
        self.is_live = False

    @property
    def can_fold(self) -> bool:
        """Tell that there is thinking to read."""
        return True

    def think(self, text: str, elapsed_s: float) -> None:
        """Take some more thinking."""
        self.thinking += text
        self.thinking_s = elapsed_s

    def body(self, width: int) -> list[Line]:
        """Return how long the thinking took, and the thinking where it is unfolded."""
        time = f" {seconds(self.thinking_s)}" if self.thinking_s > 0 else ""
        word = "Thinking" if self.is_live else "Thought"
        head: Line = ((f"{FOLDED if self.is_folded else UNFOLDED} {word}{time}", "muted"),)
        if self.is_folded:
            return [head]
        text = sanitize(self.thinking[-_LIVE_THINKING_CHARS:] if self.is_live else self.thinking).strip()
        thought = [part for each in text.split("\n") for part in wrap(((each.expandtabs(4), "muted em"),), width - 2)]
        return [head, *indent(thought, (("│ ", "muted"),))]

    def copy_text(self) -> str:
        return self.thinking


class NoticeBlock(Block):
    """Something that the user should know, or how a turn ended."""

    kind = "notice"
    _LOOKS: ClassVar[dict[Level, Span]] = {
        Level.INFO: ("·", "muted"),
        Level.WARNING: ("!", "warn"),
        Level.ERROR: ("✗", "bad"),
    }

    def __init__(self, level: Level, text: str) -> None:
        super().__init__()
        self._level = level
        self._text = text

    def body(self, width: int) -> list[Line]:
        """Return the text behind its sign."""
        sign, role = self._LOOKS[self._level]
        text_role: StyleRole = "muted" if self._level is Level.INFO else ""
        texts = sanitize(self._text).strip("\n").split("\n")
        lines = [_with_code(text.expandtabs(4), text_role) for text in texts]
        parts = [part for line in lines for part in wrap(line, width - 2)]
        return indent(parts, ((f"{sign} ", role),), (("  ", ""),))

    def copy_text(self) -> str:
        return self._text


def _with_code(text: str, role: StyleRole) -> Line:
    """Return a text, what is in backticks as code."""
    return tuple((part, "code" if at % 2 else role) for at, part in enumerate(text.split("`")) if part)


_ENDINGS = {
    TurnReason.BLOCKED: (Level.WARNING, "Blocked"),
    TurnReason.LIMIT: (Level.WARNING, "Stopped early"),
    TurnReason.UNFINISHED: (Level.WARNING, "Stopped"),
    TurnReason.INTERRUPTED: (Level.WARNING, "Stopped"),
    TurnReason.ERROR: (Level.ERROR, "Error"),
}
_OPEN = re.compile(r"(\d+ )(todos?|plan steps?) open \(.*?\)(?=; |$)")
_FAILING = re.compile(r"the (check|goal) `.*?` (?:fails|could not be checked): .*")


OTHER_SERVER_HELPS = frozenset({Fault.UNREACHABLE, Fault.NOT_A_MODEL_SERVER, Fault.UNKNOWN_MODEL, Fault.KEY_REFUSED})


class EndingBlock(NoticeBlock):
    """How a turn ended, in one line, which later changes and checks of the files change."""

    def __init__(self, end: TurnEnded) -> None:
        super().__init__(Level.WARNING, "")
        self._end, self._after = end, ""
        self._write()

    @property
    def is_needed(self) -> bool:
        """Tell whether there is something to say: not of a turn that is simply done, or waits."""
        return bool(self._text)

    def restored(self, *, is_undone: bool) -> None:
        """Take note that the changes are undone, or done again."""
        self._after = "changes undone" if is_undone else ""
        self._write()

    def checked(self, check: CheckRan) -> None:
        """Take note of a later check of everything."""
        self._after = "checks pass now" if check.outcome.is_green else "checks fail"
        self._write()

    def _write(self) -> None:
        end = self._end
        self._level, word = _ENDINGS.get(end.reason, (Level.WARNING, "Done"))
        text = _OPEN.sub(r"\1open \2", end.error.removeprefix("not finished: "))
        parts = [_FAILING.sub(r"a failing \1", part) for part in text.split("; ")] if text else []
        if self._after:
            parts = [part for part in parts if not part.startswith("a failing")]
        if end.reason is TurnReason.UNFINISHED and parts:
            is_counted = all(part.startswith("a failing") or re.match(r"\d+ open ", part) for part in parts)
            line = f"{word} with {' and '.join(parts)}" if is_counted else f"{word}: {'; '.join(parts)}"
        else:
            line = f"{word}: {text}" if text else word
        if end.fault in OTHER_SERVER_HELPS:
            line += f" {first_key(command('model.choose'))} chooses another server here."
        doubt = {"checks fail": "" if "a failing" in line else "checks fail", "not verified": "full test run skipped"}
        more = self._after or doubt.get(end.doubt, "")
        is_silent = end.reason in (TurnReason.DONE, TurnReason.WAITING) and not more
        self._text = "" if is_silent else f"{line} · {more}" if more else line


_CHECK_LINES = 3
_CHECK_WORDS: dict[CheckOutcome, tuple[str, StyleRole, str]] = {
    CheckOutcome.PASSED: ("✓", "good", "passed"),
    CheckOutcome.FLAKY: ("!", "warn", "passed when it ran again"),
    CheckOutcome.KNOWN: ("!", "warn", "failed before the change too"),
    CheckOutcome.NOT_RUN: ("!", "warn", "not run"),
    CheckOutcome.FAILED: ("✗", "bad", "failed"),
}


class CheckBlock(Block):
    """A check of the turn's changes: its command, and the first lines of a failure."""

    kind = "call"

    def __init__(self, check: CheckRan) -> None:
        super().__init__()
        self.check = check
        self.is_sent = False  # to the model, in its words
        self.is_short = False  # a later row says the same

    def body(self, width: int) -> list[Line]:
        """Return a row as tool calls have it, and the lines that matter."""
        check = self.check
        sign, role, words = _CHECK_WORDS[check.outcome]
        words = "timed out" if check.text.startswith(LATE) else words
        left: Line = ((f"{sign} ", role), (f"{'Check':<8}", "muted"), (sanitize_line(check.command or check.rung), ""))
        took = f"  {seconds(check.elapsed_s)}" if check.elapsed_s >= 1 else ""
        lines = [row(left, ((words, role), (took, "muted"), ("  sent to the model" if self.is_sent else "", "muted")), width)]
        shown = check.text.splitlines()[:_CHECK_LINES] if not (check.outcome.is_green or self.is_short) else []
        return [*lines, *(crop((("  │ ", "muted"), (sanitize_line(line), "muted")), width) for line in shown)]

    def copy_text(self) -> str:
        """Return the command and what it said."""
        return f"{self.check.command}\n{self.check.text}".strip()


def seconds(value: float) -> str:
    """Return a duration in words as short as a line needs: `12 ms`, `1.9 s`, `42 s`, `3 min`."""
    if value < 0.9995:
        return f"{value * 1000:.0f} ms"
    if value < 9.95:
        return f"{value:.1f} s".replace(".0 s", " s")
    return f"{value:.0f} s" if value < 119.5 else f"{value / 60:.0f} min"


def text_lines(text: str, width: int, role: StyleRole = "") -> list[Line]:
    """Return clean text line by line, each folded to the width."""
    return [part for each in text.split("\n") for part in fold(((each.expandtabs(8), role),) if each else (), width)]


BLOCK_CHARS = 2048
CURSOR: Span = ("▌", "accent")


class AnswerBlock(Block):
    """A part of an answer: its finished pieces, and while it streams what is open behind them."""

    kind: ClassVar[str] = "answer"

    def __init__(self, stream: AnswerStream) -> None:
        super().__init__()
        self._stream = stream
        self.pieces: list[Piece] = []
        self._drawn: list[Line] = []
        self._drawn_pieces = 0
        self._drawn_width = 0
        self.size_chars = 0
        self.newlines = 0

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing would be shown."""
        return not self.pieces and not self._stream.open_pieces(self)

    def estimate(self, width: int) -> int:
        """Guess from length and newlines."""
        return 1 + self.newlines + self.size_chars // max(1, width)

    def body(self, width: int) -> list[Line]:
        """Return the lines of the finished pieces (drawn once a width) and of the open ones."""
        open_lines = [line for piece in self._stream.open_pieces(self) for line in piece_lines(piece, width)]
        if width != self._drawn_width or self._drawn_pieces > len(self.pieces):
            self._drawn, self._drawn_pieces, self._drawn_width = [], 0, width
        for piece in self.pieces[self._drawn_pieces :]:
            self._drawn += piece_lines(piece, width)
        self._drawn_pieces = len(self.pieces)
        lines = [*self._drawn, *open_lines]
        if self._stream.is_finished:
            self._drawn, self._drawn_pieces = [], 0
        elif lines and self is self._stream.blocks[-1] and width_of(lines[-1]) < width:
            lines[-1] = (*lines[-1], CURSOR)
        return lines or [()]

    def copy_text(self) -> str:
        """Return the whole answer that the block belongs to."""
        return self._stream.text

    def search_text(self) -> str:
        """Return the text of this part alone."""
        return "\n".join(line for piece in (*self.pieces, *self._stream.open_pieces(self)) for line in piece.lines)


class AnswerStream:
    """Splits an answer as it arrives.  `blocks` grows; only the last of them still changes."""

    def __init__(self) -> None:
        self.text = ""  # so far, as it came
        self.is_finished = False
        self._splitter = PieceSplitter()
        self._partial = ""
        self.blocks: list[AnswerBlock] = [AnswerBlock(self)]

    @property
    def is_blank(self) -> bool:
        """Tell whether nothing would be shown."""
        return len(self.blocks) == 1 and self.blocks[0].is_empty

    def feed(self, text: str) -> None:
        """Take some more text, cut anywhere."""
        self.text += text
        *whole, self._partial = (self._partial + text).split("\n")
        for raw in whole:
            self._line(self._cut_long(raw))
        self._partial = self._cut_long(self._partial)

    def finish(self) -> None:
        """Take the end of the text."""
        if self._partial:
            self._line(self._partial)
            self._partial = ""
        self._take()
        self.is_finished = True
        last = self.blocks[-1]
        if len(self.blocks) > 1 and last.is_empty:
            self.blocks.pop()

    def open_pieces(self, block: AnswerBlock) -> list[Piece]:
        """Return what is not finished yet, if it is at the end of this block."""
        if self.is_finished or block is not self.blocks[-1]:
            return []
        splitter = self._splitter.fork()
        found: list[Piece | None] = []
        for line in clean_lines(self._partial) if self._partial else ():
            if splitter.ends_before(line):
                found.append(splitter.take())
            splitter.add(line)
        found.append(splitter.take())
        return [piece for piece in found if piece is not None]

    def _line(self, raw: str) -> None:
        for line in clean_lines(raw):
            if self._splitter.ends_before(line):
                self._take()
                if self.blocks[-1].size_chars >= BLOCK_CHARS:
                    self.blocks.append(AnswerBlock(self))
            self._splitter.add(line)
        self.blocks[-1].size_chars += len(raw) + 1
        self.blocks[-1].newlines += 1

    def _take(self) -> None:
        piece = self._splitter.take()
        if piece is not None:
            self.blocks[-1].pieces.append(piece)

    def _cut_long(self, raw: str) -> str:
        while len(raw) > LONGEST_LINE:
            at = raw.rfind(". ", 1, LONGEST_LINE) + 2
            if at < 3:
                at = raw.rfind(" ", 1, LONGEST_LINE) + 1 or LONGEST_LINE
            self._line(raw[:at])
            self._splitter.cut()
            raw = raw[at:]
        return raw


class StoredAnswer(Block):
    """A short answer from a log: kept as text until it is seen."""

    kind: ClassVar[str] = "answer"

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def body(self, width: int) -> list[Line]:
        """Return the lines of the Markdown."""
        return split(self._text).blocks[0].body(width)

    def copy_text(self) -> str:
        return self._text


def split(text: str) -> AnswerStream:
    """Return a whole answer, split."""
    stream = AnswerStream()
    stream.feed(text)
    stream.finish()
    return stream


def answer_blocks(text: str) -> list[Block]:
    """Return the blocks of a whole answer; nothing where there is nothing to show."""
    if not text.strip():
        return []
    if len(text) <= BLOCK_CHARS:
        return [StoredAnswer(text)]
    return list(split(text).blocks)
