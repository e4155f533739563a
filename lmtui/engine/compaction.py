"""Making room: which results are left out and where the conversation is cut.  Pure; the event that it returns does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lmtui.core.messages import Message, Role
from lmtui.core.model_events import Compacted
from lmtui.core.plan import Plan
from lmtui.engine.context import Conversation, cut_places, last_said
from lmtui.engine.entries import Entries, Entry
from lmtui.engine.transcript_summary import Shares, TranscriptSummary, digest

LIMIT_SHARE, TARGET_SHARE = 0.75, 0.5
FACTS_SHARE, WORDS_SHARE, PLAN_SHARE, ERRORS_SHARE = 0.12, 0.1, 0.06, 0.06  # of the room that a request may fill
KEPT_RESULTS = 3
_LEAST_GAIN_TOKENS = 24
_NEAR = 12
_CHARS_PER_TOKEN = 3.5
_MOST_FACTS_CHARS = 6_000
_MOST_TRIES = 3
_JOINT_TOKENS = 4  # that parts sized one by one may take more as one message


@dataclass(frozen=True, slots=True)
class RoomNeeded:
    """How much there is, in tokens.

    `window` is served; a request above `limit` is made smaller, to `target` or less, as far as `fixed` (what cannot be made
    smaller: the system prompt, the tools, the first task) lets it.
    """

    window: int
    limit: int
    target: int
    fixed: int

    @classmethod
    def of(cls, window: int, answer_tokens: int, fixed: int, threshold: int = 0) -> RoomNeeded:
        """Return the room of a window in which an answer of a size is to find its place, as far as half of it.

        With a `threshold` a request is made smaller above that many tokens, however large the window is.
        """
        limit = min(int(window * LIMIT_SHARE), window - min(answer_tokens, window // 2), threshold or window)
        target = max(int(limit * TARGET_SHARE / LIMIT_SHARE), fixed + (limit - fixed) // 2)
        return cls(window, limit, min(target, limit), fixed)

    @property
    def shares(self) -> Shares:
        """Return how long a summary may be."""
        chars = self.limit * _CHARS_PER_TOKEN
        facts = min(_MOST_FACTS_CHARS, int(chars * FACTS_SHARE))
        return Shares(facts, int(chars * WORDS_SHARE), int(chars * PLAN_SHARE), int(chars * ERRORS_SHARE))


class _Sheet:
    """What is taken out so far, and what that leaves.  `open_errors` are the parts of results that nothing repaired yet."""

    def __init__(self, talk: Conversation, size: Callable[[Message], int], tokens: int) -> None:
        self.talk, self.size, self.tokens = talk, size, tokens
        self.elided: dict[str, Entry] = {}
        self.folded: dict[str, Entry] = {}
        self.kept_from = 0
        self.summary = ""
        self.gist = talk.gist(len(talk.entries))
        self.open_errors = {failure.part for failure in self.gist.errors.values()}

    def shown(self, entry: Entry) -> Message:
        """Return a message as it would be sent now."""
        if entry.part in self.elided:
            return self.talk.folding.shortened(entry)
        if entry.part in self.folded:
            return self.talk.folding.shortened(entry, is_folded=True)
        return self.talk.folding.shown(entry)

    def elide(self, entry: Entry, *, is_folded: bool = False) -> None:
        """Leave a part out (or all but what tells most), if that is worth it; what decides an open error stays."""
        is_folded = is_folded or entry.part in self.open_errors
        gain = self.size(self.shown(entry)) - self.size(self.talk.folding.shortened(entry, is_folded=is_folded))
        if gain >= _LEAST_GAIN_TOKENS:
            (self.folded if is_folded else self.elided)[entry.part] = entry
            self.tokens -= gain


def compact(
    talk: Conversation, plan: Plan, size: Callable[[Message], int], tokens: int, *, room: RoomNeeded, why: str
) -> Compacted | None:
    """Return how a conversation of so many tokens is made to fit, None where it cannot be.

    First results and the long arguments of old calls become a line each, the oldest first; then the beginning is summed up;
    then the last results become smaller, and at the very end all that was done is summed up.

    Args:
        talk: the conversation.
        plan: what the summary tells of the plan.
        size: returns a message's size in the server's tokens.
        tokens: the size of the whole request.
        room: how much there is.
        why: what asked for it, in words.
    """
    sheet = _Sheet(talk, size, tokens)
    parts = _parts(talk)
    last = _last_few(parts, size, (room.target - room.fixed) // 2)
    near = _step_of(talk.entries, last)
    late = {entry.part for entry in talk.entries[near:]} if last else set()
    for entry in parts:
        if sheet.tokens <= room.target:
            break
        if entry.part not in late:
            sheet.elide(entry)
    if sheet.tokens > room.target:
        _cut(sheet, plan, room, near)
    if sheet.tokens > (room.target + room.limit) // 2:
        _cut(sheet, plan, room, _last_answer(talk.entries, len(talk.entries)))
    gone = _gone(sheet)
    for entry in (each for each in parts if each.part in late - gone):
        if sheet.tokens > room.limit:
            sheet.elide(entry, is_folded=bool(last) and entry is last[-1])
    if sheet.tokens > room.limit:
        _cut(sheet, plan, room, len(talk.entries))
    if sheet.tokens > room.limit or sheet.tokens >= tokens:
        return None
    gone = _gone(sheet)
    return Compacted(
        why=why,
        tokens_before=tokens,
        tokens_after=sheet.tokens,
        elided=tuple(part for part in sheet.elided if part not in gone),
        folded=tuple(part for part in sheet.folded if part not in gone),
        kept_from=sheet.kept_from,
        summary=sheet.summary,
    )


def _parts(talk: Conversation) -> list[Entry]:
    """Return what may become shorter, oldest first: what came with the user's last words too, where those are summed up."""
    folding, kept_from = talk.folding, talk.folding.kept_from
    said = last_said(talk.entries, kept_from) if kept_from else None
    entries = [*([said] if said else []), *talk.entries[kept_from:]]
    return [entry for entry in entries if entry.part and entry.part not in folding.elided and not _is_pinned(talk, entry)]


def _is_pinned(talk: Conversation, entry: Entry) -> bool:
    pinned = talk.folding.pinned
    return bool(pinned) and (entry.part in pinned or any(call.id in pinned for call in entry.message.tool_calls))


def _gone(sheet: _Sheet) -> set[str]:
    """Return the parts that are summed up now; the first task and the user's last words are sent all the same."""
    talk = sheet.talk
    if sheet.kept_from <= talk.folding.kept_from:
        return set()
    last, task = last_said(talk.entries, sheet.kept_from), talk.entries.first_task
    kept = {entry.part for entry in (last, task) if entry is not None}
    return {entry.part for entry in talk.entries[talk.folding.kept_from : sheet.kept_from]} - kept


def _last_few(parts: list[Entry], size: Callable[[Message], int], share: int) -> list[Entry]:
    """Return the last results, which stay as long as there is another way: a few, the newest whatever its size."""
    taken: list[Entry] = []
    results = [entry for entry in parts if entry.message.role is not Role.ASSISTANT]
    for entry in reversed(results[-KEPT_RESULTS:]):
        share -= size(entry.message)
        if share < 0 and taken:
            break
        taken.insert(0, entry)
    return taken


def _cut(sheet: _Sheet, plan: Plan, room: RoomNeeded, end: int) -> None:
    """Sum up the beginning, up to the first place that makes enough room, else to the last that is not behind `end`."""
    talk = sheet.talk
    entries, before = talk.entries, max(talk.folding.kept_from, sheet.kept_from)
    places = [place for place in cut_places(entries, before) if place <= end]
    if not places:
        return
    old = sheet.summary or talk.folding.summary
    old_last = last_said(entries, before) if old else None
    old_cost = sheet.size(_said(old)) + (sheet.size(sheet.shown(old_last)) if old_last else 0) if old else 0
    gains = _gains(sheet, before)
    wanted = sheet.tokens - old_cost - room.target
    place = _best(entries, places, gains, wanted + int((room.shares.facts + room.shares.errors) / _CHARS_PER_TOKEN))
    summary, cost = _told_at(sheet, plan, room, place)
    for _ in range(_MOST_TRIES):  # how long the summary gets is known once it is there
        if gains[place] >= wanted + cost or place == places[-1]:
            break
        place = _best(entries, places, gains, wanted + cost)
        summary, cost = _told_at(sheet, plan, room, place)
    gain = gains[place] + old_cost - cost
    if gain >= _LEAST_GAIN_TOKENS:
        sheet.kept_from, sheet.summary = place, summary
        sheet.tokens -= gain


def _told_at(sheet: _Sheet, plan: Plan, room: RoomNeeded, place: int) -> tuple[str, int]:
    """Return the summary of all before a place, and how large it is together with the user's last words."""
    summary = summed_up(sheet.talk.gist(place).open_in(sheet.gist), plan, room, sheet.size)
    last = last_said(sheet.talk.entries, place)
    return summary, _JOINT_TOKENS + sheet.size(_said(summary)) + (sheet.size(sheet.shown(last)) if last else 0)


def _best(entries: Entries, places: list[int], gains: dict[int, int], wanted: int) -> int:
    """Return the first place that makes enough room, or a near one where a task of the user's begins; else the last."""
    enough = [place for place in places if gains[place] >= wanted]
    if not enough:
        return places[-1]
    return next((each for each in enough[:_NEAR] if each < len(entries) and entries[each].is_task), enough[0])


def summed_up(
    gist: TranscriptSummary,
    plan: Plan,
    room: RoomNeeded,
    size: Callable[[Message], int],
    *,
    own: str = "",
    is_brief: bool = False,
) -> str:
    """Return a summary that takes at most its shares of the room, whatever the tokenizer makes of its letters.

    Args:
        gist: what is summed up.
        plan: how the work is.
        room: how much there is.
        size: returns a message's size in the server's tokens.
        own: the model's own words, which come next to that.
        is_brief: what is told in few words is to be half as long, for the sake of the model's own.
    """
    shares = room.shares
    shares = text_shares = replace(shares, facts=shares.facts // 2) if is_brief else shares
    text = digest(gist, plan, shares)
    for _ in range(_MOST_TRIES):
        density = size(_said(text)) * _CHARS_PER_TOKEN / len(text)
        if density <= 1 or len(text) * density <= shares.total:
            break
        text_shares = text_shares.scaled(shares.total / (len(text) * density))
        text = digest(gist, plan, text_shares)
    return digest(gist, plan, text_shares, own) if own else text


def _step_of(entries: Entries, last: list[Entry]) -> int:
    """Return where the step begins that the first of the last results belongs to."""
    places = range(len(entries) - 1, -1, -1)
    first = next((place for place in places if last and entries[place] is last[0]), len(entries) - 1)
    return _last_answer(entries, first + 1)


def _last_answer(entries: Entries, end: int) -> int:
    """Return the place of the last answer before a place, 0 where there is none."""
    places = range(end - 1, 0, -1)
    return next((place for place in places if entries[place].message.role is Role.ASSISTANT), 0)


def _gains(sheet: _Sheet, before: int) -> dict[int, int]:
    """Return how many tokens go when what is before each place is summed up; the task and what is pinned stay."""
    talk = sheet.talk
    task, first = talk.entries.first_task, max(before, 1)
    gains = {first: 0}
    for place, entry in enumerate(talk.entries[first:], first):
        is_kept = entry is task or _is_pinned(talk, entry)
        gains[place + 1] = gains[place] + (0 if is_kept else sheet.size(sheet.shown(entry)))
    return gains


def _said(text: str) -> Message:
    return Message(Role.USER, text)
