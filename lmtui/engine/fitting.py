"""Before a request: the set of tools is chosen, and the conversation is made to fit the window."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from lmtui.core.errors import ContextOverflow, WindowFull
from lmtui.core.events import Level, Notice
from lmtui.core.messages import Message, ToolSet
from lmtui.core.model_events import Compacted, ToolSetChanged
from lmtui.core.window import ASSUMED_WINDOW_TOKENS
from lmtui.engine.compaction import Room, compact
from lmtui.engine.desk import Desk
from lmtui.engine.hooking import before_room
from lmtui.engine.long_tools import offer_long_tools
from lmtui.engine.summaries import in_own_words
from lmtui.engine.window_book import WHOLE

LEAN_WINDOW_TOKENS, LEAN_READ_TOKENS_PER_S = 12_000, 200.0
_LITTLE_SHARE = 0.1
_OVERFLOW_SHARE = 0.9
_MANY_CHARS = 10_000
_UNKNOWN = (
    f"The server does not say how large its window is; {ASSUMED_WINDOW_TOKENS:,} tokens are assumed until it refuses a request."
)


async def fit(desk: Desk) -> None:
    """Choose the tools and make room, so that the next request fits.

    Raises:
        WindowFull: it cannot be made to fit.
        SessionFileError: what was done could not be written down.
    """
    book = desk.window
    book.budget.use(desk.settings.model, desk.model.profile)
    _choose_tools(desk)
    uncounted = book.sent.uncounted(desk.conversation)
    if book.budget.uncounted_chars(uncounted) > _MANY_CHARS:
        await asyncio.to_thread(book.budget.raw, uncounted, desk.specs())
    if not desk.window_tokens and desk.model.served is not None and not book.is_told:
        book.is_told = True
        desk.emit(Notice(agent=desk.agent, level=Level.INFO, text=_UNKNOWN))
    tokens, room = measure(desk)
    if tokens > room.limit:
        await before_room(desk, "auto")
        is_window = room.limit != book.threshold_tokens
        why = "the window was three quarters full" if is_window else f"more than {room.limit:,} tokens were in use"
        event = await in_own_words(desk, _room_for(desk, tokens, room, why), room)
        desk.emit(replace(event, agent=desk.agent))
        offer_long_tools(desk, room.limit - event.tokens_after)
    elif desk.plan.open_steps:
        offer_long_tools(desk, room.limit - tokens)


def make_room(desk: Desk, overflow: ContextOverflow) -> None:
    """Make a request smaller that the server refused for its size, and take up what that says of the window.

    Raises:
        WindowFull: it cannot be made smaller.
    """
    tokens, _ = measure(desk)
    window = overflow.window_tokens or int(min(tokens, desk.window_tokens or tokens) * _OVERFLOW_SHARE)
    if window != desk.window_tokens:
        desk.emit(desk.with_window(window))
        if overflow.window_tokens:  # a guess holds for this session alone
            desk.model.keep(window_tokens=window)
    book = desk.window
    if tokens < window:
        book.budget.learn_size(book.ledger.now.total, int(window * (2 - _OVERFLOW_SHARE)))
    if desk.tool_set is ToolSet.FULL:  # room is made, so the prefix changes anyway
        book.chosen_for = None
        _choose_tools(desk)
    tokens, room = measure(desk)
    event = _room_for(desk, max(tokens, room.limit + 1), room, "the server refused a request of this size")
    desk.emit(replace(event, agent=desk.agent))


def choose_tools(setting: str, window_tokens: int, read_tokens_per_s: float) -> tuple[ToolSet, str]:
    """Return which set of tools fits a model (all or the few), and why, in words."""
    if setting in (ToolSet.FULL, ToolSet.ALL, ToolSet.LEAN):
        return ToolSet(setting), "the settings say so"
    if 0 < window_tokens < LEAN_WINDOW_TOKENS:
        return ToolSet.LEAN, f"the window has only {window_tokens:,} tokens"
    if 0 < read_tokens_per_s < LEAN_READ_TOKENS_PER_S:
        return ToolSet.LEAN, f"the model reads only {read_tokens_per_s:.0f} tokens a second"
    known = f"the window of {window_tokens:,} tokens has room" if window_tokens else "the window is not known yet"
    return ToolSet.FULL, known


def _choose_tools(desk: Desk) -> None:
    """Choose once for a model: another set in the middle of a session would change the whole prefix."""
    book = desk.window
    if book.chosen_for == desk.settings.model:
        return
    book.chosen_for = desk.settings.model
    tools, why = choose_tools(book.tools, desk.window_tokens, book.budget.read_tokens_per_s)
    if tools is ToolSet.LEAN and desk.tool_set is ToolSet.LONG:
        tools = ToolSet.LONG
    edits = WHOLE if desk.model.profile.edit_form == WHOLE else ""
    if edits:
        why = f"{why}; its edits did not fit when it was examined, so it writes files whole"
    if (tools, edits) != (desk.tool_set, desk.edits):
        desk.emit(ToolSetChanged(agent=desk.agent, tools=tools, why=why, edits=edits))


def measure(desk: Desk) -> tuple[int, Room]:
    """Return the size of the next request and the room that there is, in the server's tokens."""
    budget, talk = desk.window.budget, desk.conversation
    tools_tokens, task = budget.tools_size(desk.specs()), talk.entries.first_task
    tokens = budget.estimate(desk.window.sent.of(talk) + tools_tokens)
    kept = (talk.entries[0], *([task] if task else []))
    fixed = budget.estimate(sum(budget.size(entry.message) for entry in kept) + tools_tokens)
    window = desk.window_tokens or ASSUMED_WINDOW_TOKENS
    return tokens, Room.of(window, desk.settings.max_tokens or 0, min(fixed, tokens), desk.window.threshold_tokens)


def plan_room(desk: Desk, tokens: int, room: Room, why: str) -> Compacted | None:
    """Return how the next request can be made smaller, None where it cannot."""
    budget = desk.window.budget

    def size(message: Message) -> int:
        return budget.scaled(budget.size(message))

    return compact(desk.conversation, desk.plan, size, tokens, room=room, why=why)


def _room_for(desk: Desk, tokens: int, room: Room, why: str) -> Compacted:
    """Return how room is made.

    Raises:
        WindowFull: there is no way, or the last ones brought too little.
    """
    book = desk.window
    event = None if book.little > 1 else plan_room(desk, tokens, room, why)
    if event is None:
        book.little = 0
        raise WindowFull(_full(tokens, room), _WAY_OUT)
    is_little = tokens - event.tokens_after < room.window * _LITTLE_SHARE
    is_soon = book.steps - book.compacted_at <= 2
    book.little = book.little + 1 if is_little and is_soon else 0
    book.compacted_at = book.steps
    return event


_WAY_OUT = (
    "Give the model a larger window in its server, take files or results out (/context), unpin what is pinned, "
    "or start a new session with a smaller task."
)


def _full(tokens: int, room: Room) -> str:
    return (
        f"the model's window of {room.window:,} tokens is full: the next request has about {tokens:,}, of which system prompt, "
        f"tools and task take {room.fixed:,}, and nothing more can be left out"
    )
