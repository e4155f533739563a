"""Tool calls in the conversation: one aligned line each, and what came out of it, folded."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import ClassVar

from lmtui.core.events import Outcome, ToolCallFinished, ToolCallStarted
from lmtui.core.sanitize import escape_invisible, pluralize, sanitize, sanitize_line, sanitize_path, show_controls
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.tui.lines.blocks import FOLDED, UNFOLDED, seconds, text_lines
from lmtui.tui.lines.diff_layout import DiffPainter, diff_lines
from lmtui.tui.lines.document import Block
from lmtui.tui.lines.patch import SIGN_ROLES, DiffLine, counts_line, digits_of, parse_patch
from lmtui.tui.lines.styled_text import Line, Span, crop, fill, fit, fit_path, indent, pad, row, strip_end, width_of
from lmtui.tui.wording import PATH_VERBS, call_words

_MOST_LINES, _MOST_CHARS = 2000, 100_000
_WIDEST_NAME = 16


def value_text(value: object) -> str:
    """Return a value as a person reads it: texts as they are, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def argument_lines(arguments: Mapping[str, object], width: int) -> list[Line]:
    """Return every argument behind its name, of a long one its beginning."""
    names = [fit(sanitize_line(name), _WIDEST_NAME) for name in arguments]
    lead = min(_WIDEST_NAME, max((width_of(((name, ""),)) for name in names), default=0)) + 2
    lines: list[Line] = []
    for name, value in zip(names, arguments.values(), strict=True):
        text = value_text(value)
        text = sanitize(show_controls(text[:_MOST_CHARS])) if "\n" in text else escape_invisible(text[:_MOST_CHARS])
        lines += indent(text_lines(text.strip("\n"), max(8, width - lead)), ((pad(name, lead), "muted"),), ((" " * lead, ""),))
    return lines


def search_text(arguments: Mapping[str, object]) -> str:
    """Return all that can be found in the arguments."""
    return "\n".join(f"{name} {value_text(value)}" for name, value in arguments.items())


_VERB_CELLS = 7
_LEAST_TITLE = 28
_LIVE_LINES = 4
_OUTPUT_LINES = 3
_OWN_OUTPUT_LINES = 20
_DIFF_LINES = 8
_SLOW_S = 1.0
_LIVE_CHARS = 4000
_RUNNERS = frozenset({"shell", "python", "background"})
_DECISIONS = {
    "rule": "allowed by rule",
    "once": "allowed once",
    "try": "tried first",
    "session": "allowed for session",
    "always": "always allowed",
}
_ANSWERED = frozenset({"once", "session", "always"})
_BESIDE: Line = (("│ ", "muted"),)
CHANGE_SIGNS: Mapping[FileChangeKind, Span] = {
    FileChangeKind.ADDED: ("A", "good"),
    FileChangeKind.MODIFIED: ("M", "warn"),
    FileChangeKind.DELETED: ("D", "bad"),
}


class CallState(Enum):
    """Where a call is: its sign and the role of it."""

    value: Span

    RUNNING = ("●", "accent")
    WAITING = ("▲", "warn")
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
        self.is_tried = self._is_tried_first = False
        self.feedback = ""
        self.edited = ""
        self.hunks = ""
        self.answered_by = ""  # a window of a host, where several can answer
        self.noun = _READ_NOUNS.get(started.tool) or _TODO_WORDS.get(started.tool, "")
        self._started = started
        self._finished: ToolCallFinished | None = None
        self.call_id, self.written = started.call_id, ""
        self.has_bar = started.by.startswith("user")
        self._width = 80

    @property
    def can_fold(self) -> bool:
        """Tell whether there is something to read: arguments, changes, a result."""
        return bool(self._started.arguments or self.changes or self._result().strip())

    @property
    def is_tall(self) -> bool:
        """Tell whether something is shown below the call's own line."""
        return bool(self._folded(self._width) if self.is_folded else True)

    def wait(self) -> None:
        """Show that somebody must decide."""
        if self.state is CallState.RUNNING:
            self.state = CallState.WAITING

    def answer(self, outcome: Outcome) -> None:
        """Show that somebody decided."""
        self._is_tried_first = outcome is Outcome.TRY
        if self.state in (CallState.RUNNING, CallState.WAITING):
            self.state = CallState.FAILED if outcome is Outcome.NO else CallState.RUNNING

    def write(self, text: str) -> None:
        """Take some more output of the running command."""
        if self.state in (CallState.RUNNING, CallState.WAITING):
            self.written = (self.written + text)[-_LIVE_CHARS:]

    def finish(self, finished: ToolCallFinished) -> None:
        """Take the result."""
        self.state = CallState.OK if finished.ok else CallState.FAILED
        self._finished = finished
        self.written = ""

    def undo(self, *, is_undone: bool) -> None:
        """Mark what the call did as taken back, or as done again."""
        if self._finished is not None:
            done = CallState.OK if self._finished.ok else CallState.FAILED
            self.state = CallState.UNDONE if is_undone else done

    def stop(self) -> None:
        """Mark a call that never came to a result."""
        if self._finished is None:
            self.state = CallState.STOPPED
            self.written = ""

    def body(self, width: int) -> list[Line]:
        """Return the call's line and what belongs under it."""
        inner = self._width = max(8, width - 2)
        below = self._folded(inner) if self.is_folded else self._unfolded(inner)
        if self.feedback and width_of(((self._denial(), ""),)) > inner * 2 // 3:
            below = [*text_lines(sanitize(self.feedback), inner), *below]
        if self.edited:
            below = [*text_lines(f"You ran instead: {sanitize(self.edited)}", inner), *below]
        head = self._own_head(width) if self.has_bar else self._head(width)
        return [head, *indent(below, (("  ", ""),))]

    def copy_text(self) -> str:
        """Return the call and its result."""
        return f"{self._started.title or self._started.tool}\n{self._result()}".rstrip("\n")

    def search_text(self) -> str:
        """Return the tool, its arguments, what it changed, and all of its result."""
        diffs = "\n".join(f"{change.path}\n{change.diff}" for change in self.changes)
        arguments = search_text(self._started.arguments)
        return f"{self._started.tool} {self._started.title}\n{arguments}\n{diffs}\n{self._result()}"

    def _result(self) -> str:
        return self._finished.result if self._finished is not None else self.written

    def _own_head(self, width: int) -> Line:
        """Return the line of a command of the user's own, which looks like a message of theirs."""
        sign, role = self.state.value
        left: Line = (("▌ ", "accent"), ("! ", "muted"), (sanitize_path(self._started.title), ""))
        right: Line = (*self._right_side(), (f"  {sign}" if self.state is not CallState.OK else "", role), (" ", ""))
        return fill(row(left, right, width), width, "own")

    def _head(self, width: int) -> Line:
        sign, role = self.state.value
        verb, what = call_words(self._started.tool, self._started.title)
        left: list[Span] = [(f"{sign} ", role), (pad(fit(sanitize_line(verb), _VERB_CELLS), _VERB_CELLS + 1), "muted")]
        right = self._right_side()
        if width - width_of(right) < _VERB_CELLS + 2 + min(_LEAST_TITLE, len(what)):
            right = self._right_side(is_short=True)
        summary = self._summary()
        counts: list[Span] = []
        if summary.startswith(("+", "−")):
            words = [word for word in summary.split() if word[1:] != "0"]
            counts = [(" ", ""), *((f" {word}", "good" if word.startswith("+") else "bad") for word in words)]
        room = max(8, width - width_of(right) - 2 - width_of(tuple(left)) - width_of(tuple(counts)))
        cut = fit_path if verb in PATH_VERBS else fit
        left.append((cut(sanitize_path(what), room), "muted strike" if self._denial() else ""))
        return row((*left, *counts), right, width)

    def _denial(self) -> str:
        """Return that the call was denied and why, empty for one that was not."""
        finished = self._finished
        if self.feedback:
            return f"denied: {sanitize_line(self.feedback)}"
        by = f" by {sanitize_line(self.answered_by)}" if self.answered_by else ""
        if finished is None:
            return f"denied{by}" if self.state is CallState.FAILED else ""
        if finished.ok or (finished.decision != "no" and finished.summary != "refused"):
            return ""
        return "denied by rule" if finished.decision == "rule" else f"denied{by}"

    def _right_side(self, *, is_short: bool = False) -> Line:
        finished = self._finished
        if denial := self._denial():
            return ((fit(denial, self._width * 2 // 3), "bad"),)
        if finished is None:
            return (("waiting", "warn"),) if self.state is CallState.WAITING else ()
        summary = self._summary()
        parts: list[Line] = [(("undone", "warn"),)] if self.state is CallState.UNDONE else []
        if self._started.recovered:
            parts.append((("recovered", "warn"),))
        kind = "try" if finished.decision == "mode" and self._is_tried_first else finished.decision
        by_mode = ("tried" if self.is_tried else "auto") if self.changes and kind == "mode" else ""
        decision = self.hunks or _DECISIONS.get(kind, by_mode)
        if decision and self.answered_by and finished.decision in _ANSWERED:
            decision = f"{decision} by {sanitize_line(self.answered_by)}"
        if decision and not is_short:
            parts.append(((fit(decision, 40), "muted"),))
        if self._started.tool in _RUNNERS and (counted := counted_tests(finished.result)):
            parts.append(counted)
        elif summary and not summary.startswith(("+", "−")):
            parts.append(((fit(summary, 24), "muted" if finished.ok else "bad"),))
        if finished.elapsed_ms >= 1000 * _SLOW_S:
            parts.append(((seconds(finished.elapsed_ms / 1000), "muted"),))
        return tuple(span for part in parts for span in (("  ", ""), *part))[1:]

    def _summary(self) -> str:
        return sanitize_line(self._finished.summary) if self._finished is not None else ""

    def _most_output(self) -> int:
        """Return how many lines of the result are shown while it is folded."""
        if self.has_bar:
            return _OWN_OUTPUT_LINES
        return _OUTPUT_LINES if self.state is CallState.FAILED or self._started.tool in _RUNNERS else 0

    def _folded(self, width: int) -> list[Line]:
        if self._finished is None:
            return indent(_last_lines(sanitize(self.written), _LIVE_LINES, width - 2), _BESIDE)
        if self.changes and self._started.tool not in _RUNNERS and self.state is not CallState.FAILED:
            return inline_diff(self.changes, width)
        return self._output_lines(width)

    def _output_lines(self, width: int) -> list[Line]:
        """Return the lines of the result that matter, and how many more there are."""
        most, finished = self._most_output(), self._finished
        if not most or finished is None or self._denial():
            return []
        texts = [line.expandtabs(8) for line in sanitize(finished.result).strip("\n").split("\n")]
        if self.has_bar:
            shown = texts[:most]
        elif self._started.tool not in _RUNNERS:  # why it failed comes first
            reason = text_lines(texts[0], width - 2, "muted")[:most] if texts[0] else []
            return indent([*reason, *([_more(len(texts) - 1)] if len(texts) > 1 else [])], _BESIDE)
        elif finished.ok and counted_tests(finished.result):
            shown = []
        else:
            failing = [line for line in texts if _FAILING.match(line)]
            filled = [line for line in texts if line.strip()]
            shown = failing[: most - 1] or (filled if len(filled) <= most else filled[1 - most :])
        lines: list[Line] = [((fit(line, width - 2), "" if self.has_bar else "muted"),) for line in shown]
        if (hidden := len(texts) - len(shown)) > 0 and lines:
            lines.append(_more(hidden))
        return indent(lines, _BESIDE)

    def _unfolded(self, width: int) -> list[Line]:
        lines = argument_lines(self._started.arguments, width) if not self.changes else []
        if lines and self._result().strip():
            lines.append((("─" * min(width, 12), "muted"),))
        for change in self.changes:
            lines += _change_lines(change, width)
        if self._result().strip() and (not self.changes or self.state is CallState.FAILED):
            lines += text_lines(sanitize(self._result()).strip("\n"), width, "muted")
        if len(lines) > _MOST_LINES:
            lines[_MOST_LINES:] = [((f"… {len(lines) - _MOST_LINES} more lines", "muted"),)]
        return lines


_READ_NOUNS = {"read": "file", "ls": "folder", "glob": "search", "grep": "search"}
_TODO_WORDS = {"todo_add": "added", "todo_complete": "completed", "todo_update": "updated", "todo_list": "listed"}
FOLDED_FROM = {"Read": 4, "Todo": 2}  # so many calls in a row are one row


def group_of(started: ToolCallStarted) -> str:
    """Return the verb of the calls that one folds to a row with; empty for none."""
    if started.by:
        return ""
    return "Read" if started.tool in _READ_NOUNS else "Todo" if started.tool in _TODO_WORDS else ""


class CallsBlock(Block):
    """Several calls of a kind in a row, folded to one; those that failed stay in sight."""

    kind: ClassVar[str] = "call"

    def __init__(self, verb: str, calls: list[CallBlock]) -> None:
        super().__init__()
        self.calls = calls
        self._verb = verb

    @property
    def can_fold(self) -> bool:
        """Tell that each call can be shown."""
        return True

    def body(self, width: int) -> list[Line]:
        """Return what was done how often, and the rows of the calls where they are unfolded."""
        counts = Counter(call.noun for call in self.calls)
        words = [f"{count} {noun}" if self._verb == "Todo" else _things(count, noun) for noun, count in counts.items()]
        states = [*(call.state for call in self.calls if call.state in (CallState.WAITING, CallState.RUNNING)), CallState.OK]
        sign, role = states[0].value
        head: Line = ((f"{sign} ", role), (pad(self._verb, _VERB_CELLS + 1), "muted"), (", ".join(words), ""))
        shown = [call for call in self.calls if not self.is_folded or call.state is CallState.FAILED]
        rows = [line for call in shown for line in indent(call.body(width - 2), (("  ", ""),))]
        return [crop((*head, (f"  {FOLDED if self.is_folded else UNFOLDED}", "muted")), width), *rows]

    def copy_text(self) -> str:
        """Return the calls and their results."""
        return "\n".join(call.copy_text() for call in self.calls)

    def search_text(self) -> str:
        """Return all that can be found in the calls."""
        return "\n".join(call.search_text() for call in self.calls)

    def unfold_all(self) -> None:
        """Show the calls and their results."""
        self.is_folded = False
        for call in self.calls:
            call.unfold_all()


def _things(count: int, noun: str) -> str:
    return f"{count} searches" if noun == "search" and count > 1 else pluralize(count, noun)


def _change_lines(change: FileChange, width: int) -> list[Line]:
    sign, role = CHANGE_SIGNS[change.kind]
    name = fit_path(sanitize_path(change.path), width - 16)
    head: Line = ((f"{sign} ", role), (f"{name}  ", "strong"), *counts_line(change.added_lines, change.removed_lines))
    return [head, *diff_lines(parse_patch(change.diff, change.path), width)]


_FAILING = re.compile(r"(?:FAILED |FAIL: |ERROR:? |--- FAIL:|test .+ \.\.\. FAILED|  ● )")
_TOTALS = re.compile(
    r"^(?:=* ?\d+ (?:failed|passed|skipped|errors?).* in [\d.]+ ?m?s|test result: |Tests: +\d).*", re.MULTILINE
)
_COUNTED = re.compile(r"(\d+) (failed|error|passed|skipped)")
_TAIL_CHARS = 4000


def counted_tests(result: str) -> Line:
    """Return how many tests failed and passed, as pytest, cargo and Jest sum up; empty without any."""
    counts: Counter[str] = Counter()
    for line in _TOTALS.findall(result[-_TAIL_CHARS:]):
        counts.update({word: int(number) for number, word in _COUNTED.findall(line)})
    shown: list[Span] = []
    for word in ("failed", "error", "passed", "skipped"):
        if count := counts[word]:
            words = pluralize(count, word) if word == "error" else f"{count} {word}"
            shown += [(", ", "muted"), (words, "muted" if word in ("passed", "skipped") else "bad")]
    return tuple(shown[1:])


def inline_diff(changes: Sequence[FileChange], width: int) -> list[Line]:
    """Return the first changed lines of some files, with a line of context, and how many more there are."""
    found: list[Line] = []
    for change in changes:
        files = parse_patch(change.diff, change.path)
        digits = digits_of(files)
        if len(changes) > 1:
            found.append(((fit_path(sanitize_path(change.path), width), "strong"),))
        for number, hunk in enumerate(hunk for file in files for hunk in file.hunks):
            if number:
                found.append(((" " * (digits + 1) + "⋯", "muted"),))
            found += _diff_rows(_trimmed(hunk.lines), change.path, width, digits)
    if len(found) <= _DIFF_LINES:
        return found
    return [*found[: _DIFF_LINES - 1], _more(len(found) - _DIFF_LINES + 1)]


def _more(count: int) -> Line:
    return ((f"{FOLDED} {pluralize(count, 'more line')}", "accent"),)


def _trimmed(lines: Sequence[DiffLine]) -> Sequence[DiffLine]:
    """Return the lines of a hunk with at most one of context before and behind what changed."""
    changed = [index for index, line in enumerate(lines) if line.sign != " "]
    return lines[max(0, changed[0] - 1) : changed[-1] + 2] if changed else ()


def _diff_rows(lines: Sequence[DiffLine], path: str, width: int, digits: int) -> list[Line]:
    painter = DiffPainter(width, digits, is_split=False)
    painter.text_width = 2 * width  # cut, not folded
    found: list[Line] = []
    for line in lines[: 2 * _DIFF_LINES]:
        numbers, (ground, _) = f"{line.new or line.old:>{digits}} ", SIGN_ROLES.get(line.sign, ("", ""))
        cut = line._replace(raw=line.text[: width + 1])
        whole = crop(painter.numbered(cut, None, path, numbers, width)[0], width)
        found.append(fill(whole, width, ground) if ground else strip_end(whole))
    return [*found, *[()] * (len(lines) - len(found))]  # of those no more than their number is shown


def _last_lines(text: str, count: int, width: int) -> list[Line]:
    texts = [line.expandtabs(8) for line in text.rstrip("\n").split("\n") if line.strip()][-count:]
    return [((fit(line, width), "muted"),) for line in texts]
