"""Before a request: the set of tools is chosen, and the conversation is made to fit the window."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from functools import partial

from lmtui.core.errors import ContextOverflow, ProviderError, SessionFileError, WindowFull
from lmtui.core.events import ROOT, Level, Notice
from lmtui.core.messages import Completion, Message, ModelRequest, Role, ToolCallFormat, ToolSet
from lmtui.core.model_events import Compacted, Compacting, ToolSetChanged
from lmtui.core.roles import ModelRole
from lmtui.core.sanitize import sanitize
from lmtui.core.window import ASSUMED_WINDOW_TOKENS
from lmtui.engine.agent_context import AgentContext
from lmtui.engine.compaction import RoomNeeded, compact, summed_up
from lmtui.engine.context_budget import WHOLE
from lmtui.engine.hook_calls import before_room
from lmtui.engine.inbox import UserInput
from lmtui.engine.model_roles import for_role, take_role
from lmtui.engine.usage import announce, show_usage, usage_beside

_LEAST_ROOM = 4.0  # times what they take


def offer_long_tools(desk: AgentContext, free_tokens: int) -> None:
    """Tell of them, where `free_tokens` are enough; a set that the settings name stays as it is."""
    if desk.tool_set is not ToolSet.LEAN or desk.window.tools != "auto" or desk.agent != ROOT:
        return
    long = desk.toolbox.specs(ToolSet.LONG, sees=desk.has_eyes)
    budget = desk.window.budget
    more = budget.scaled(budget.tools_size(long) - budget.tools_size(desk.specs()))
    if more * _LEAST_ROOM <= free_tokens:
        event = ToolSetChanged(agent=desk.agent, tools=ToolSet.LONG, why="the work is long", edits=desk.edits)
        desk.emit(event)


MOST_OFTEN = 20
PATIENCE_S = 60.0
_CHARS_PER_TOKEN, _CHARS_PER_WORD = 3.5, 6
_LEAST_CHARS = 40
_THINKING_TOKENS = 2_000
_ASK = (
    "[lmtui makes room in your window: what was said before will be left out. Write a summary of it for yourself now: what the "
    "user wants, what you found out (names, numbers, decisions), what is done, what failed and why, what comes next. "
    "At most {words} words, in plain text, without a tool call.{focus}]"
)


async def in_own_words(
    desk: AgentContext, event: Compacted, room: RoomNeeded, *, focus: str = "", is_asked: bool = False
) -> Compacted:
    """Return how room is made with the model's own words in the summary, or as it is where asking does not pay or work.

    Args:
        desk: the agent whose conversation it is.
        event: how room would be made without.
        room: how much there is.
        focus: what matters most, in the user's words.
        is_asked: the user asked for it, so that it pays.
    """
    limit_chars = room.shares.facts // 2
    request = _request(desk, limit_chars, focus)
    left_tokens = _left_tokens(desk, request, room)
    words_tokens = int(limit_chars / _CHARS_PER_TOKEN)
    if not (is_asked or _pays(desk, event, limit_chars)) or left_tokens <= words_tokens:
        return event
    thinking_tokens = _THINKING_TOKENS if _may_think(desk, request) else 0
    request = replace(request, max_tokens=min(words_tokens + thinking_tokens, left_tokens))
    desk.window.summaries += 1
    desk.emit(Compacting(agent=desk.agent))
    words = ""
    with contextlib.suppress(ProviderError, TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            words = await _words(desk, request)
    if len(words) < _LEAST_CHARS:
        return event
    talk, own = desk.conversation, words[:limit_chars]
    gist = talk.gist(event.kept_from).open_in(talk.gist(len(talk.entries)))
    told = summed_up(gist, desk.plan, room, partial(_size, desk), own=own, is_brief=True)
    more = _size(desk, Message(Role.USER, told)) - _size(desk, Message(Role.USER, event.summary))
    return replace(event, summary=told, tokens_after=event.tokens_after + more)


def _pays(desk: AgentContext, event: Compacted, limit_chars: int) -> bool:
    """Tell whether a request for a summary is worth its time: something is summed up, and it is asked for seldom enough."""
    book = desk.window
    is_cut = event.kept_from > desk.conversation.folding.kept_from
    is_seldom = (book.summaries + 1) * MOST_OFTEN <= book.steps
    speed = book.budget.write_tokens_per_s
    is_quick = speed == 0 or limit_chars / _CHARS_PER_TOKEN / speed < PATIENCE_S
    return book.asks_for_summaries and is_cut and is_seldom and is_quick


def _left_tokens(desk: AgentContext, request: ModelRequest, room: RoomNeeded) -> int:
    budget = desk.window.budget
    return int(room.window - budget.estimate(budget.raw(request.messages, request.tools)))


def _may_think(desk: AgentContext, request: ModelRequest) -> bool:
    """Tell whether the model thinks before it answers; of another one than the one in use nothing is known."""
    if request.model != desk.settings.model:
        return True
    is_told = desk.model.profile.thinks or (desk.model.served is not None and desk.model.served.thinks)
    return bool(is_told) or any(message.thinking for message in desk.conversation.messages)


def _request(desk: AgentContext, limit_chars: int, focus: str) -> ModelRequest:
    """Return the last request and the question; another model, where one is named for this, is asked the same."""
    settings = for_role(desk.roles, ModelRole.SUMMARISER, desk.settings)
    what = f" What matters most: {sanitize(focus)}" if focus.strip() else ""
    ask = Message(Role.USER, _ASK.format(words=max(40, limit_chars // _CHARS_PER_WORD), focus=what))
    request = desk.conversation.request(desk.specs(), settings, desk.model.calling.form)
    is_shown = request.call_form is not ToolCallFormat.NATIVE
    return replace(
        request,
        messages=(*request.messages, ask),
        sees=desk.sees is not False,
        urgency=desk.urgency,
        shows_example=is_shown,
        is_attended=desk.approvals.is_attended,
    )


async def _words(desk: AgentContext, request: ModelRequest) -> str:
    """Return what the model answers; nothing where it calls a tool in place of answering.

    Of another model nothing is learned for the one in use, and its reading tells nothing of that one's cache.
    """
    is_same = request.model == desk.settings.model
    if is_same:
        announce(desk, request)
    async with contextlib.aclosing(desk.provider.stream(request)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Completion):
                if is_same:
                    show_usage(desk, piece, desk.turn_id)
                else:
                    desk.emit(usage_beside(desk.agent, request, piece))
                return "" if piece.message.tool_calls or piece.problem else sanitize(piece.message.text).strip()
    return ""


def _size(desk: AgentContext, message: Message) -> int:
    budget = desk.window.budget
    return budget.scaled(budget.size(message))


LEAN_WINDOW_TOKENS, LEAN_READ_TOKENS_PER_S = 12_000, 200.0
_LITTLE_SHARE = 0.1
_OVERFLOW_SHARE = 0.9
_MANY_CHARS = 10_000
_UNKNOWN = (
    f"The server does not say how large its window is; {ASSUMED_WINDOW_TOKENS:,} tokens are assumed until it refuses a request."
)


async def ensure_fits(desk: AgentContext) -> None:
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


def compact_context(desk: AgentContext, overflow: ContextOverflow) -> None:
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


def _choose_tools(desk: AgentContext) -> None:
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


def measure(desk: AgentContext) -> tuple[int, RoomNeeded]:
    """Return the size of the next request and the room that there is, in the server's tokens."""
    budget, talk = desk.window.budget, desk.conversation
    tools_tokens, task = budget.tools_size(desk.specs()), talk.entries.first_task
    tokens = budget.estimate(desk.window.sent.of(talk) + tools_tokens)
    kept = (talk.entries[0], *([task] if task else []))
    fixed = budget.estimate(sum(budget.size(entry.message) for entry in kept) + tools_tokens)
    window = desk.window_tokens or ASSUMED_WINDOW_TOKENS
    return tokens, RoomNeeded.of(window, desk.settings.max_tokens or 0, min(fixed, tokens), desk.window.threshold_tokens)


def plan_room(desk: AgentContext, tokens: int, room: RoomNeeded, why: str) -> Compacted | None:
    """Return how the next request can be made smaller, None where it cannot."""
    budget = desk.window.budget

    def size(message: Message) -> int:
        return budget.scaled(budget.size(message))

    return compact(desk.conversation, desk.plan, size, tokens, room=room, why=why)


def _room_for(desk: AgentContext, tokens: int, room: RoomNeeded, why: str) -> Compacted:
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


def _full(tokens: int, room: RoomNeeded) -> str:
    return (
        f"the model's window of {room.window:,} tokens is full: the next request has about {tokens:,}, of which system prompt, "
        f"tools and task take {room.fixed:,}, and nothing more can be left out"
    )


_TARGET_SHARE = 0.1
_NOTHING = "There is nothing that could be summed up: the conversation is short, or was summed up just now."


async def compact_now(desk: AgentContext, said: UserInput, turn_id: str) -> None:
    """Sum up what was said so far; `said` is what matters most.  A cancel passes on, and nothing is changed then."""
    desk.turn_id = turn_id
    try:
        await take_role(desk)
        await desk.model.ready()
        await before_room(desk, "manual", said.text)
        tokens, room = measure(desk)
        least = room.fixed + int((room.limit - room.fixed) * _TARGET_SHARE)
        event = plan_room(desk, tokens, replace(room, target=min(least, tokens - 1)), "you asked for it")
        if event is None or not (event.kept_from or event.elided or event.folded):
            desk.emit(Notice(agent=desk.agent, level=Level.INFO, text=_NOTHING))
            return
        event = await in_own_words(desk, event, room, focus=said.text, is_asked=True)
        desk.emit(replace(event, agent=desk.agent))
    except SessionFileError as error:
        desk.emit(Notice(agent=desk.agent, level=Level.ERROR, text=error.full_text()))
