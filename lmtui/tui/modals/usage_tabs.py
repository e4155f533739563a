"""What fills the model's window, and where the time of the turns went: two tabs of the page of usage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content

from lmtui.core.event_text import calls_words
from lmtui.core.events import (
    ROOT,
    ApprovalResolved,
    Envelope,
    MessageAdded,
    ToolCallFinished,
    ToolCallStarted,
    UsageUpdated,
)
from lmtui.core.messages import Role
from lmtui.core.sanitize import pluralize, sanitize_line, sanitize_path
from lmtui.core.sessions import Session
from lmtui.core.window import WindowItem, WindowPart
from lmtui.tui.commands import Command
from lmtui.tui.lines.styled_text import Line, Span
from lmtui.tui.modals.list_dialog import Cell, Column, ListDialog, content_of
from lmtui.tui.session_state import SessionState
from lmtui.tui.wording import call_words, tokens_text, window_text

TOOLS = "tools"
FIXED = "Only results and what came with your messages can be folded, excluded or pinned."
FREE = "free"


def seconds_text(seconds: float) -> str:
    """Return seconds in few characters, an empty text where they are not known."""
    return "" if seconds <= 0 else f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


@dataclass(frozen=True, slots=True)
class ContextRow:
    """A part of the window, or one message or result in it; its number there makes it unlike the others."""

    part: WindowPart
    item: WindowItem | None = None
    number: int = 0

    @property
    def id(self) -> str:
        """Return what names a message or result, empty where nothing can be done with it."""
        return self.item.id if self.item is not None else ""


class ContextList(ListDialog[ContextRow, None]):
    """Shows each part of the next request and lets single ones be folded, excluded, restored and pinned."""

    NAME, HEADING, TAB, CHOOSING = "window", "Context", "window.show", "group"
    COLUMNS = (
        Column("part"), Column("tokens", 8, is_right=True), Column("share", 6, is_right=True),
        Column("read time", 9, is_right=True, from_width=50), Column("state", 20, from_width=50),
    )  # fmt: skip
    VERBS = (("stop", "fold"), ("delete", "exclude"), ("run", "restore"), ("switch", "pin"))

    def __init__(self, session: Session, state: SessionState) -> None:
        super().__init__()
        self._use, self._session, self._session_state = session.window_use, session, state
        self._shut = {part.name for part in self._use.parts() if not part.name.startswith("results")}
        self._whole = 1

    async def rows(self) -> Sequence[ContextRow]:
        """Return parts and messages as they are now; of the parts that are folded, their own rows."""
        parts, window = self._use.parts(), self._session_state.model.window_tokens
        total = sum(part.tokens for part in parts)
        self._whole = max(window, total, 1)
        size = f" of {window_text(window)}" if window else "; the server does not say how large it is"
        usage = self._session_state.usage
        last = "" if usage is None or usage.is_estimate else f"; {tokens_text(usage.usage.prompt_tokens)} in the last request"
        self.box.show_head(f"about {tokens_text(total)} tokens{size}{last}")
        found = [
            row
            for part in parts
            for row in (ContextRow(part), *(ContextRow(part, item, at) for at, item in enumerate(part.items, 1)))
            if row.item is None or part.name not in self._shut
        ]
        return [*found, ContextRow(WindowPart(FREE, window - total))] if window > total else found

    def key(self, row: ContextRow) -> tuple[str, int]:
        """Return the part and the place in it."""
        return row.part.name, row.number

    def cells(self, row: ContextRow) -> Sequence[Cell]:
        """Return a row with its price."""
        part, item = row.part, row.item
        what = part if item is None else item
        seconds = 0.0 if part.name == FREE else self._use.read_s(what.tokens)
        share, read = f"{what.tokens / self._whole:.0%}", seconds_text(seconds)
        if item is None:
            sign = "▸ " if part.name in self._shut and part.items else "▾ " if part.items else "  "
            times = f"  {part.count:,}×" if part.count > 1 else ""
            name: Line = ((sign, "muted"), (sanitize_line(part.name) + times, "strong"))
            return name, tokens_text(part.tokens), share, read, ""
        state = " · ".join(filter(None, (item.state.replace("left out", "excluded"), "pinned" * item.is_pinned)))
        title: Span = (f"    {sanitize_line(item.title)}", "muted" if item.state else "")
        return title, tokens_text(item.tokens), share, read, (state, "accent")

    def about(self, row: ContextRow | None) -> tuple[str, Sequence[Command]]:
        """Return what a change costs: all behind a message in the middle of what was sent is read again."""
        item = row.item if row is not None else None
        if item is None or not item.id:
            tools = f"{calls_words(self._session)}; /calls changes it." if row is not None and row.part.name == TOOLS else ""
            return tools or FIXED * (item is not None), self.verbs(*self.verb_names)
        behind = max(0, item.reread_tokens - item.tokens)
        seconds = f" ({seconds_text(self._use.read_s(behind))})" if self._use.read_s(behind) > 0 else ""
        text = f"Changing this re-reads {behind:,} tokens{seconds}." if behind else "Changing this costs no reading."
        return text, self.verbs(*(() if item.state else ("run",)))

    def act(self) -> None:
        """Fold the marked part, or unfold it."""
        if self.current is not None:
            self._shut ^= {self.current.part.name}
            self.reload()

    def do_stop(self, row: ContextRow) -> None:
        """Send only the beginning of a result."""
        self._use.fold(row.id)

    def do_delete(self, row: ContextRow) -> None:
        """Send one line in place of a result."""
        self._use.leave_out(row.id)

    def do_run(self, row: ContextRow) -> None:
        """Send the whole result again."""
        self._use.bring_back(row.id)

    def do_switch(self, row: ContextRow) -> None:
        """Pin or unpin a result; a pinned one is never compacted."""
        self._use.pin(row.id, is_pinned=row.item is not None and not row.item.is_pinned)


@dataclass(slots=True)
class TraceStep:
    """A request, and the tool calls behind it: how long each part took, in seconds, and what the cache saved."""

    number: int
    usage: UsageUpdated
    what: str = ""
    tool_s: float = 0.0
    wait_s: float = 0.0

    @property
    def reused(self) -> int:
        """Return how many tokens of the prompt came from the cache."""
        usage = self.usage
        return usage.reused_tokens or (0 if usage.reread_tokens or usage.miss else usage.usage.cached_tokens)

    @property
    def parts(self) -> tuple[float, ...]:
        """Return the seconds of queue, prefill, decode, tools and waiting."""
        usage = self.usage
        read_s = usage.read_s or usage.first_token_s
        decode_s = usage.elapsed_s - usage.first_token_s if usage.elapsed_s else 0.0
        if not decode_s and usage.tokens_per_s:
            decode_s = usage.usage.completion_tokens / usage.tokens_per_s
        return (
            max(0.0, usage.first_token_s - read_s),
            read_s,
            max(0.0, decode_s),
            max(0.0, self.tool_s - self.wait_s),
            self.wait_s,
        )

    @property
    def total_s(self) -> float:
        """Return how long it took."""
        return sum(self.parts)


def trace_of(history: Sequence[Envelope]) -> list[tuple[str, list[TraceStep]]]:
    """Return the steps of each turn of the main agent, the newest turn first, below what the user asked."""
    titles: dict[str, str] = {}
    turns: dict[str, list[TraceStep]] = {}
    step: TraceStep | None = None
    for envelope in history:
        event = envelope.event
        if event.agent != ROOT:
            continue
        match event:
            case MessageAdded(role=Role.USER):
                titles.setdefault(event.turn_id, sanitize_line(event.text))
            case UsageUpdated():
                step = TraceStep(sum(map(len, turns.values())) + 1, event)
                turns.setdefault(event.turn_id, []).append(step)
            case ToolCallStarted() if step is not None and not event.by and not step.what:
                verb, about = call_words(event.tool, event.title)
                step.what = sanitize_path(f"{verb} {about}".strip())
            case ToolCallFinished() if step is not None:
                step.tool_s += event.elapsed_ms / 1000
            case ApprovalResolved() if step is not None:
                step.wait_s += event.elapsed_ms / 1000
            case _:
                pass
    return [(titles.get(turn, "earlier"), steps) for turn, steps in reversed(turns.items())]


PARTS: tuple[tuple[str, Span], ...] = (
    ("queue", ("▂", "muted")), ("prefill", ("▄", "code")), ("decode", ("▇", "accent")), ("tool", ("▆", "good")),
    ("waiting for you", ("─", "warn")),
)  # fmt: skip
LEAST_BAR, BAR_SHARE = 20, 0.4


class TraceList(ListDialog[TraceStep, None]):
    """Shows a bar for each step of the turns, all on one scale, and why the marked one took its time."""

    NAME, HEADING, TAB, CHOOSING = "trace", "Trace", "cache.show", ""
    COLUMNS = (
        Column("step", 5, is_right=True), Column("what", 28, from_width=60), Column(),
        Column("tok/s", 6, is_right=True, from_width=70), Column("cache", 6, is_right=True), Column("time", 8, is_right=True),
    )  # fmt: skip

    def __init__(self, history: Sequence[Envelope]) -> None:
        super().__init__()
        self._turns = trace_of(history)
        self.table.empty_text = "No request yet."

    async def rows(self) -> Sequence[TraceStep | str]:
        """Return turns and steps."""
        steps = [step for _, turn in self._turns for step in turn]
        if steps:
            reused, reread = sum(step.reused for step in steps), sum(step.usage.reread_tokens for step in steps)
            read = sum(step.usage.usage.prompt_tokens for step in steps) - reused
            share = reused / (reused + reread) if reused + reread else 1.0
            sums = f"{pluralize(len(steps), 'request')} · {share:.0%} from cache · {tokens_text(read)} read"
            sums += f", {tokens_text(reread)} re-read" if reread else ""
            legend = [span for name, (sign, role) in PARTS for span in ((sign * 3, role), (f" {name}   ", "muted"))]
            scale: Span = (f"one column = {self._scale_s:.2g} s", "muted")
            self.box.show_head(content_of([((sums, ""),), (*legend, scale)]))
        found: list[TraceStep | str] = []
        for title, turn in self._turns:
            found += [title, *turn]
        return found

    @property
    def _scale_s(self) -> float:
        longest = max((step.total_s for _, turn in self._turns for step in turn), default=0.0)
        return max(0.01, longest / max(LEAST_BAR, int(self.app.size.width * BAR_SHARE)))

    def key(self, row: TraceStep) -> int:
        """Return its number."""
        return row.number

    def cells(self, row: TraceStep) -> Sequence[Cell]:
        """Return a step and its bar."""
        bar = tuple(
            (sign * round(part / self._scale_s), role) for part, (_, (sign, role)) in zip(row.parts, PARTS, strict=True)
        )
        rate = (
            f"{row.usage.tokens_per_s:.0f}" if row.usage.tokens_per_s and row.usage.usage.completion_tokens > LEAST_BAR else ""
        )
        cached = f"{row.reused / max(1, row.usage.usage.prompt_tokens):.0%}"
        return str(row.number), row.what or "Answer", bar, rate, cached, f"{row.total_s:.1f} s"

    def about(self, row: TraceStep | None) -> tuple[str | Content, Sequence[Command]]:
        """Return where the time of a step went, and that of its turn."""
        if row is None:
            return "", self.verbs()
        usage, turn = row.usage, next(turn for _, turn in self._turns if row in turn)
        miss = f": {sanitize_line(usage.miss)}" if usage.miss else ""
        source = "" if usage.is_cache_told else ", inferred"
        tokens = usage.usage.prompt_tokens
        notes = {
            "prefill": f"{usage.reread_tokens:,} of {tokens:,} tokens re-read{miss}, {row.reused:,} from cache{source}",
            "decode": f"{usage.usage.completion_tokens:,} tokens",
        }
        lines: list[Line] = [
            ((f"Step {row.number}  ", "strong"), (f"{tokens:,} tokens in · {usage.usage.completion_tokens:,} out", "muted"))
        ]
        whole = sum(step.total_s for step in turn) or 1.0
        for at, (name, (sign, role)) in enumerate(PARTS):
            of_turn = sum(step.parts[at] for step in turn)
            if of_turn > 0 or name == "prefill":
                share = f"turn {seconds_text(of_turn)}, {of_turn / whole:.0%}"
                lines.append(
                    (
                        (f"{sign * 2} ", role),
                        (f"{name:<16}{seconds_text(row.parts[at]) or '–':>8}  {share:<20}{notes.get(name, '')}", "muted"),
                    )
                )
        return content_of(lines), self.verbs()
