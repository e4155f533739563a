"""Making room: which results are left out and where the conversation is cut.  Pure; the event that it returns does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lmtui.core.messages import Message, Role
from lmtui.core.model_events import Compacted
from lmtui.core.plan import Plan
from lmtui.engine.context import Conversation
from lmtui.engine.digest import digest
from lmtui.engine.entries import Entries, Entry
from lmtui.engine.folding import cut_places, last_said

LIMIT_SHARE, TARGET_SHARE, SUMMARY_SHARE = 0.75, 0.5, 0.12
KEPT_RESULTS = 3
_LEAST_GAIN_TOKENS = 24
_NEAR = 12
_CHARS_PER_TOKEN = 3.5
_MOST_SUMMARY_CHARS = 6_000


@dataclass(frozen=True, slots=True)
class Room:
    """How much there is, in tokens.

    `window` is served; a request above `limit` is made smaller, to `target` or less, as far as `fixed` (what cannot be made
    smaller: the system prompt, the tools, the first task) lets it.
    """

    window: int
    limit: int
    target: int
    fixed: int

    @classmethod
    def of(cls, window: int, answer_tokens: int, fixed: int, threshold: int = 0) -> Room:
        """Return the room of a window in which an answer of a size is to find its place, as far as half of it.

        With a `threshold` a request is made smaller above that many tokens, however large the window is.
        """
        limit = min(int(window * LIMIT_SHARE), window - min(answer_tokens, window // 2), threshold or window)
        target = max(int(limit * TARGET_SHARE / LIMIT_SHARE), fixed + (limit - fixed) // 2)
        return cls(window, limit, min(target, limit), fixed)


class _Sheet:
    """What is taken out so far, and what that leaves."""

    def __init__(self, talk: Conversation, size: Callable[[Message], int], tokens: int) -> None:
        self.talk, self.size, self.tokens = talk, size, tokens
        self.elided: dict[str, Entry] = {}
        self.folded: dict[str, Entry] = {}
        self.kept_from = 0
        self.summary = ""

    def shown(self, entry: Entry) -> Message:
        """Return a message as it would be sent now."""
        if entry.part in self.elided:
            return self.talk.folding.shortened(entry)
        return self.talk.folding.shown(entry)

    def elide(self, entry: Entry, *, is_folded: bool = False) -> None:
        """Leave a part out (or all but its beginning), if that is worth it."""
        gain = self.size(self.shown(entry)) - self.size(self.talk.folding.shortened(entry, is_folded=is_folded))
        if gain >= _LEAST_GAIN_TOKENS:
            (self.folded if is_folded else self.elided)[entry.part] = entry
            self.tokens -= gain


def compact(
    talk: Conversation, plan: Plan, size: Callable[[Message], int], tokens: int, *, room: Room, why: str
) -> Compacted | None:
    """Return how a conversation of so many tokens is made to fit, None where it cannot be.

    First results become a line each, the oldest first; then the beginning is summed up; then the last results become smaller,
    and at the very end all that was done is summed up.

    Args:
        talk: the conversation.
        plan: what the summary tells of the plan.
        size: returns a message's size in the server's tokens.
        tokens: the size of the whole request.
        room: how much there is.
        why: what asked for it, in words.
    """
    sheet = _Sheet(talk, size, tokens)
    parts = [entry for entry in talk.entries[talk.folding.kept_from :] if _can_go(talk, entry)]
    last = _last_few(parts, size, (room.target - room.fixed) // 2)
    for entry in parts:
        if sheet.tokens <= room.target:
            break
        if entry not in last:
            sheet.elide(entry)
    if sheet.tokens > room.target:
        _cut(sheet, plan, room, _step_of(talk.entries, last))
    if sheet.tokens > (room.target + room.limit) // 2:
        _cut(sheet, plan, room, _last_answer(talk.entries, len(talk.entries)))
    for entry in last:
        if sheet.tokens > room.limit:
            sheet.elide(entry, is_folded=entry is last[-1])
    if sheet.tokens > room.limit:
        _cut(sheet, plan, room, len(talk.entries))
    if sheet.tokens > room.limit or sheet.tokens >= tokens:
        return None
    gone = set(map(id, talk.entries[talk.folding.kept_from : sheet.kept_from]))
    return Compacted(
        why=why,
        tokens_before=tokens,
        tokens_after=sheet.tokens,
        elided=tuple(part for part, entry in sheet.elided.items() if id(entry) not in gone),
        folded=tuple(part for part, entry in sheet.folded.items() if id(entry) not in gone),
        kept_from=sheet.kept_from,
        summary=sheet.summary,
    )


def _can_go(talk: Conversation, entry: Entry) -> bool:
    folding = talk.folding
    return bool(entry.part) and entry.part not in folding.pinned and entry.part not in folding.elided


def _last_few(parts: list[Entry], size: Callable[[Message], int], share: int) -> list[Entry]:
    """Return the last results, which stay as long as there is another way: a few, the newest whatever its size."""
    taken: list[Entry] = []
    for entry in reversed(parts[-KEPT_RESULTS:]):
        share -= size(entry.message)
        if share < 0 and taken:
            break
        taken.insert(0, entry)
    return taken


def _cut(sheet: _Sheet, plan: Plan, room: Room, end: int) -> None:
    """Sum up the beginning, up to the first place that makes enough room, else to the last that is not behind `end`.

    Where one of the user's tasks begins is a better place than the middle of one.
    """
    talk = sheet.talk
    entries, before = talk.entries, max(talk.folding.kept_from, sheet.kept_from)
    places = [place for place in cut_places(entries, before) if place <= end]
    if not places:
        return
    limit_chars = summary_chars(room)
    old = sheet.summary or talk.folding.summary
    old_cost = sheet.size(_said(old)) if old else 0
    gains = _gains(sheet, before)
    wanted = sheet.tokens + int(limit_chars / _CHARS_PER_TOKEN) - old_cost - room.target
    enough = [place for place in places if gains[place] >= wanted]
    place = next(
        (each for each in enough[:_NEAR] if each < len(entries) and entries[each].is_task), enough[0] if enough else places[-1]
    )
    summary = digest(talk.gist(place), plan, limit_chars)
    last = last_said(entries, place)
    gain = gains[place] + old_cost - sheet.size(_said(summary)) - (sheet.size(sheet.shown(last)) if last else 0)
    if gain >= _LEAST_GAIN_TOKENS:
        sheet.kept_from, sheet.summary = place, summary
        sheet.tokens -= gain


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
    """Return how many tokens go when what stands before each place is summed up; the task and what is pinned stay."""
    talk = sheet.talk
    task, first = talk.entries.first_task, max(before, 1)
    gains = {first: 0}
    for place, entry in enumerate(talk.entries[first:], first):
        is_kept = entry is task or entry.part in talk.folding.pinned
        gains[place + 1] = gains[place] + (0 if is_kept else sheet.size(sheet.shown(entry)))
    return gains


def summary_chars(room: Room) -> int:
    """Return how long a summary may be, in characters."""
    return min(_MOST_SUMMARY_CHARS, int(room.window * SUMMARY_SHARE * _CHARS_PER_TOKEN))


def _said(text: str) -> Message:
    return Message(Role.USER, text)
