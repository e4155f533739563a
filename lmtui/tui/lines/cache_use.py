"""How each prompt of a session was read, as rows by turn: reused, read again, new, for how long, and why again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lmtui.core.clean import clean_line
from lmtui.core.events import ROOT, Envelope, MessageAdded, UsageUpdated
from lmtui.core.messages import Role
from lmtui.tui.lines.grouped import GroupRow
from lmtui.tui.lines.text import Line, fit, pad
from lmtui.tui.lines.window_use import seconds_text
from lmtui.tui.wording import tokens_text

NUMBER_CELLS, TIME_CELLS, SPEED_CELLS, CAUSE_CELLS = 7, 8, 6, 20
LEAST_NAME = 10
FIRST = "first request"


@dataclass(frozen=True, slots=True)
class Spent:
    """What one request, or several together, cost to read.  `is_told`: the server said what it reused."""

    reused: int = 0
    reread: int = 0
    new: int = 0
    read_s: float = 0.0
    requests: int = 0
    is_told: bool = True
    miss: str = ""
    written_per_s: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.reused + other.reused,
            self.reread + other.reread,
            self.new + other.new,
            self.read_s + other.read_s,
            self.requests + other.requests,
            is_told=self.is_told and other.is_told,
        )

    @property
    def read_per_s(self) -> float:
        """Return how many tokens were read a second, 0 where too few were read to say."""
        anew = self.reread + self.new
        return anew / self.read_s if self.read_s > 0 and anew >= 50 else 0.0

    @property
    def reused_share(self) -> float:
        """Return the share of what was sent before that was not read again, 1 where nothing was."""
        before = self.reused + self.reread
        return self.reused / before if before else 1.0


@dataclass(frozen=True, slots=True)
class TurnSpent:
    """The requests of a turn; `title` is what the user asked."""

    turn_id: str
    title: str
    requests: tuple[Spent, ...]

    @property
    def sum(self) -> Spent:
        """Return all of them together."""
        return sum(self.requests, Spent())


def turns_spent(history: Sequence[Envelope]) -> list[TurnSpent]:
    """Return what the turns of a session cost to read, oldest first; what was rewound was read all the same."""
    titles: dict[str, str] = {}
    found: dict[str, list[Spent]] = {}
    for envelope in history:
        event = envelope.event
        if event.agent != ROOT:
            continue
        if isinstance(event, MessageAdded) and event.role is Role.USER:
            titles.setdefault(event.turn_id, clean_line(event.text))
        elif isinstance(event, UsageUpdated):
            found.setdefault(event.turn_id, []).append(_spent(event))
    return [TurnSpent(turn, titles.get(turn, "earlier"), tuple(requests)) for turn, requests in found.items()]


def cache_head(turns: Sequence[TurnSpent]) -> str:
    """Return the sums in words."""
    whole = sum((turn.sum for turn in turns), Spent())
    if not whole.requests:
        return "no request yet"
    noun = "request" if whole.requests == 1 else "requests"
    read = f"{tokens_text(whole.reread + whole.new)} tokens read{seconds_text(whole.read_s, ' in ')}"
    return f"{whole.requests} {noun} · {whole.reused_share:.0%} reused · {read}, {tokens_text(whole.reread)} of them again"


def column_head(width: int) -> Line:
    """Return the names of the columns."""
    names = "".join(f"{name:>{NUMBER_CELLS}}" for name in ("reused", "again", "new"))
    return (
        (pad("", _name_cells(width) + 2) + f"{names}{'reading':>{TIME_CELLS}}{'tok/s':>{SPEED_CELLS}}  why again", "muted"),
    )


def cache_rows(turns: Sequence[TurnSpent]) -> list[GroupRow]:
    """Return a row for each turn with its sum and below it one for each request."""
    rows: list[GroupRow] = []
    number = 0
    for turn in turns:
        group = turn.turn_id or "earlier"
        rows.append(GroupRow(group, "", _line(turn.title, turn.sum, "strong")))
        for spent in turn.requests:
            number += 1
            rows.append(GroupRow(group, str(number), _line(f"  request {number}", spent, "")))
    return rows


def request_text(spent: Spent) -> str:
    """Return a request in words."""
    told = "as the server said" if spent.is_told else "inferred: the server does not say"
    again = f"{spent.reread:,} read again" + (f" ({spent.miss})" if spent.reread and spent.miss else "")
    wrote = f"; wrote {spent.written_per_s:.0f} tokens a second" if spent.written_per_s else ""
    return f"{spent.reused:,} reused, {again}, {spent.new:,} new, {told}{wrote}"


def _spent(event: UsageUpdated) -> Spent:
    prompt = event.usage.prompt_tokens
    reused = event.reused_tokens or (0 if event.reread_tokens or event.miss else event.usage.cached_tokens)
    new = max(0, prompt - reused - event.reread_tokens)
    read_s = event.read_s or event.first_token_s
    return Spent(reused, event.reread_tokens, new, read_s, 1, event.is_cache_told, clean_line(event.miss), event.tokens_per_s)


def _line(title: str, spent: Spent, role: str) -> Callable[[int], Line]:
    speed = f"{spent.read_per_s:.0f}" if spent.read_per_s else ""
    about = "" if spent.is_told or spent.requests != 1 else "~"

    def make(width: int) -> Line:
        name = _name_cells(width)
        return (
            (pad(fit(clean_line(title), name - 1), name), role),
            (f"{about + tokens_text(spent.reused):>{NUMBER_CELLS}}", "good" if spent.reused else "muted"),
            (f"{tokens_text(spent.reread):>{NUMBER_CELLS}}", "warn" if spent.reread else "muted"),
            (f"{tokens_text(spent.new):>{NUMBER_CELLS}}", ""),
            (f"{seconds_text(spent.read_s):>{TIME_CELLS}}{speed:>{SPEED_CELLS}}", "muted"),
            (f"  {fit(spent.miss, CAUSE_CELLS - 2)}", "muted" if spent.miss == FIRST else "warn"),
        )

    return make


def _name_cells(width: int) -> int:
    return max(LEAST_NAME, width - 3 * NUMBER_CELLS - TIME_CELLS - SPEED_CELLS - CAUSE_CELLS)
