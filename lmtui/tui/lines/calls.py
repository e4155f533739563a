"""Tool calls in the conversation: one aligned line each, and what came out of it, folded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import ClassVar

from lmtui.core.events import ToolCallFinished, ToolCallStarted
from lmtui.core.sanitize import escape_invisible, sanitize, sanitize_line, sanitize_path, show_controls
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.tui.lines.blocks import FOLDED, UNFOLDED, Block, Mark, seconds, text_lines
from lmtui.tui.lines.patch import digits_of, parse_patch, unified_lines
from lmtui.tui.lines.styled_text import Line, Span, fit, fit_middle, indent, pad, row, width_of
from lmtui.tui.lines.styled_text import fold as fold_line

_SHORT_LINES = 3
_MOST_LINES = 2000
_WIDEST_NAME = 16


def value_text(value: object) -> str:
    """Return a value as a person reads it: texts as they are, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def argument_lines(arguments: Mapping[str, object], width: int, *, is_all: bool) -> list[Line]:
    """Return every argument behind its name; of a long one three lines, unless `is_all`."""
    if not arguments:
        return []
    names = [fit(sanitize_line(name), _WIDEST_NAME) for name in arguments]
    lead = min(_WIDEST_NAME, max(width_of(((name, ""),)) for name in names)) + 2
    lines: list[Line] = []
    for name, value in zip(names, arguments.values(), strict=True):
        inner = max(8, width - lead)
        text = value_text(value)
        texts = (sanitize(show_controls(text)) if "\n" in text else escape_invisible(text)).strip("\n").split("\n")
        shown = [part for each in texts[:_MOST_LINES] for part in _folded(each, inner, is_all=is_all)]
        left_out = len(texts) - _MOST_LINES
        if left_out > 0 and is_all:
            shown.append(((f"… {left_out:,} more lines", "muted"),))
        hidden = len(shown) + max(0, left_out) - _SHORT_LINES
        if not is_all and hidden > 0:
            shown = shown[:_SHORT_LINES]
            shown[-1] = row(shown[-1], ((f"{FOLDED} {hidden} more", "accent"),), inner)
        lines += indent(shown, ((pad(name, lead), "muted"),), ((" " * lead, ""),))
    return lines


def has_long(arguments: Mapping[str, object], width: int) -> bool:
    """Tell whether an argument is longer than what is shown of it at first."""
    texts = [value_text(value).strip("\n") for value in arguments.values()]
    return any(text.count("\n") >= _SHORT_LINES or len(text) > _SHORT_LINES * max(8, width - _WIDEST_NAME) for text in texts)


def search_text(arguments: Mapping[str, object]) -> str:
    """Return all that can be found in the arguments."""
    return "\n".join(f"{name} {value_text(value)}" for name, value in arguments.items())


def _folded(text: str, width: int, *, is_all: bool) -> list[Line]:
    shown = text.expandtabs(4) if is_all else text[: width * (_SHORT_LINES + 60)].expandtabs(4)
    return fold_line(((shown, ""),), width) if shown else [()]


_TOOL_COLUMN = 7
_WIDE_TOOL_COLUMN = 13
_WIDE_WIDTH = 78
_TIME_COLUMN = 7
_LIVE_LINES = 4
_PREVIEW_LINES = 2
_LIVE_CHARS = 4000
_PREVIEWED_TOOLS = frozenset({"shell"})
_DECISIONS = {
    "rule": "by rule",
    "once": "once, by you",
    "session": "this session, by you",
    "always": "always, by you",
    "no": "refused",
}
CHANGE_SIGNS = {
    FileChangeKind.ADDED: ("A", "good"),
    FileChangeKind.MODIFIED: ("M", "warn"),
    FileChangeKind.DELETED: ("D", "bad"),
}


class CallState(Enum):
    """Where a call is: its sign and the role of it."""

    RUNNING = ("●", "accent")
    WAITING = ("◐", "warn")
    OK = ("✓", "good")
    FAILED = ("✗", "bad")
    STOPPED = ("■", "muted")
    UNDONE = ("↶", "muted")


class CallBlock(Block):
    """One tool call."""

    kind: ClassVar[str] = "call"

    def __init__(self, started: ToolCallStarted) -> None:
        super().__init__()
        self.state = CallState.RUNNING
        self.changes: tuple[FileChange, ...] = ()
        self.feedback = ""
        self.edited = ""
        self.hunks = ""
        self._started = started
        self._finished: ToolCallFinished | None = None
        self._output = ""
        self._is_all = False
        self._width = 80

    @property
    def title(self) -> str:
        """Return the tool and what it worked on, clean and on one line."""
        return sanitize_path(f"{self._started.tool} {self._started.title}".strip())

    @property
    def marks(self) -> frozenset[Mark]:
        """Return that a call is here, an error if it failed, and a change if it changed files."""
        found = {Mark.CALL}
        if self.state is CallState.FAILED:
            found.add(Mark.ERROR)
        if self.changes:
            found.add(Mark.CHANGE)
        return frozenset(found)

    @property
    def can_fold(self) -> bool:
        """Tell whether there is something to read: arguments, changes, a result."""
        return bool(self._started.arguments or self.changes or self._result().strip())

    def turn_over(self) -> None:
        """Unfold; once more all of long arguments too; then fold again."""
        if not self.is_folded and not self._is_all and has_long(self._started.arguments, self._width):
            self._is_all = True
        else:
            self.is_folded, self._is_all = not self.is_folded, False

    def unfold_like(self, other: Block) -> None:
        """Show as much as another call does."""
        super().unfold_like(other)
        self._is_all = isinstance(other, CallBlock) and other._is_all

    def unfold_all(self) -> None:
        """Show the arguments, all of them, and the result."""
        self.is_folded, self._is_all = False, True

    def wait(self, *, is_waiting: bool) -> None:
        """Show that somebody must decide, or that somebody did."""
        if self.state in (CallState.RUNNING, CallState.WAITING):
            self.state = CallState.WAITING if is_waiting else CallState.RUNNING

    def write(self, text: str) -> None:
        """Take some more output of the running command."""
        if self.state in (CallState.RUNNING, CallState.WAITING):
            self._output = (self._output + text)[-_LIVE_CHARS:]

    def finish(self, finished: ToolCallFinished) -> None:
        """Take the result."""
        self.state = CallState.OK if finished.ok else CallState.FAILED
        self._finished = finished
        self._output = ""

    def undo(self, *, is_undone: bool) -> None:
        """Mark what the call did as taken back, or as done again."""
        if self._finished is not None:
            done = CallState.OK if self._finished.ok else CallState.FAILED
            self.state = CallState.UNDONE if is_undone else done

    def stop(self) -> None:
        """Mark a call that never came to a result."""
        if self._finished is None:
            self.state = CallState.STOPPED
            self._output = ""

    def estimate(self, width: int) -> int:
        """Guess: one line, and what is shown of the result."""
        if self.is_folded:
            return 1 + (_PREVIEW_LINES if self._has_preview() else 0)
        result = self._result()
        diffs = sum(change.diff.count("\n") for change in self.changes)
        return 3 + len(self._started.arguments) + diffs + result.count("\n") + len(result) // max(1, width)

    def body(self, width: int) -> list[Line]:
        """Return the call's line and what belongs under it."""
        inner = self._width = max(8, width - 2)
        below = self._folded(inner) if self.is_folded else self._unfolded(inner)
        if self.feedback:
            below = [*text_lines(sanitize(self.feedback), inner), *below]
        if self.edited:
            below = [*text_lines(f"run instead, by you: {sanitize(self.edited)}", inner), *below]
        return [self._head(width), *indent(below, (("  ", ""),))]

    def copy_text(self) -> str:
        """Return the call and its result."""
        title = self._started.title or self._started.tool
        return f"{title}\n{self._result()}".rstrip("\n")

    def search_text(self) -> str:
        """Return the tool, its arguments, what it changed, and all of its result."""
        diffs = "\n".join(f"{change.path}\n{change.diff}" for change in self.changes)
        arguments = search_text(self._started.arguments)
        return f"{self._started.tool} {self._started.title}\n{arguments}\n{diffs}\n{self._result()}"

    def _result(self) -> str:
        return self._finished.result if self._finished is not None else self._output

    def _head(self, width: int) -> Line:
        sign, role = self.state.value
        tool = pad(sanitize_line(self._started.tool), _WIDE_TOOL_COLUMN if width >= _WIDE_WIDTH else _TOOL_COLUMN)
        left: list[Span] = [(f"{sign} ", role), (tool, "muted"), (" ", "")]
        right = self._right_side()
        summary = self._summary()
        counts: list[Span] = []
        if summary.startswith(("+", "−")):
            counts = [(" ", ""), *((f" {word}", "good" if word.startswith("+") else "bad") for word in summary.split())]
        room = width - width_of(right) - 2 - width_of(tuple(left)) - width_of(tuple(counts))
        left.append((fit_middle(sanitize_path(self._started.title), max(8, room)), ""))
        return row((*left, *counts), right, width)

    def _right_side(self) -> Line:
        finished = self._finished
        if finished is None:
            return (("waits for you", "warn"),) if self.state is CallState.WAITING else ()
        summary = self._summary()
        spans: list[Span] = [("undone  ", "warn")] if self.state is CallState.UNDONE else []
        if self._started.recovered:
            spans.append(("recovered  ", "warn"))
        decision = self.hunks or _DECISIONS.get(finished.decision, "")
        if decision and decision != summary:
            spans.append((f"{decision}  ", "muted"))
        if summary and not summary.startswith(("+", "−")):
            spans.append((f"{fit_middle(summary, 24)}  ", "" if finished.ok else "bad"))
        spans.append((f"{seconds(finished.elapsed_ms / 1000):>{_TIME_COLUMN}}", "muted"))
        if self.can_fold:
            spans.append((f" {FOLDED if self.is_folded else UNFOLDED}", "muted"))
        else:
            spans.append(("  ", ""))
        return tuple(spans)

    def _summary(self) -> str:
        return sanitize_line(self._finished.summary) if self._finished is not None else ""

    def _has_preview(self) -> bool:
        return self.state is CallState.FAILED or self._started.tool in _PREVIEWED_TOOLS

    def _folded(self, width: int) -> list[Line]:
        if self._finished is None:
            return _last_lines(sanitize(self._output), _LIVE_LINES, width)
        if not self._has_preview():
            return []
        text = sanitize(self._finished.result).strip("\n")
        shown = _last_lines(text, _PREVIEW_LINES, width)
        hidden = text.count("\n") + 1 - len(shown)
        if hidden > 0 and shown:
            shown[-1] = row(shown[-1], ((f"{FOLDED} {hidden} more", "accent"),), width)
        return shown

    def _unfolded(self, width: int) -> list[Line]:
        lines = argument_lines(self._started.arguments, width, is_all=self._is_all)
        if lines and (self.changes or self._result().strip()):
            lines.append((("─" * min(width, 12), "muted"),))
        for change in self.changes:
            lines += _change_lines(change, width)
        if not self.changes or self.state is CallState.FAILED:
            lines += text_lines(sanitize(self._result()).strip("\n"), width, "muted")
        if len(lines) > _MOST_LINES:
            lines[_MOST_LINES:] = [((f"… {len(lines) - _MOST_LINES} more lines", "muted"),)]
        return lines


def _change_lines(change: FileChange, width: int) -> list[Line]:
    sign, role = CHANGE_SIGNS[change.kind]
    counts = f"  +{change.added_lines} −{change.removed_lines}"
    head: Line = ((f"{sign} ", role), (fit_middle(sanitize_path(change.path), width - 16), "strong"), (counts, "muted"))
    files = parse_patch(change.diff, change.path)
    digits = digits_of(files)
    lines = [head]
    for file in files:
        for hunk in file.hunks:
            if hunk.skipped:
                lines.append(((" " * (2 * digits + 2) + f"⋯ {hunk.skipped} equal lines", "muted"),))
            lines += unified_lines(hunk, width, digits)
    return lines


def _last_lines(text: str, count: int, width: int) -> list[Line]:
    texts = [line.expandtabs(8) for line in text.rstrip("\n").split("\n") if line.strip()][-count:]
    return [((fit(line, width), "muted"),) for line in texts]
