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


def offer_long_tools(context: AgentContext, free_tokens: int) -> None:
    """Tell of them, where `free_tokens` are enough; a set that the settings name stays as it is."""
    if context.tool_set is not ToolSet.LEAN or context.window.tools != "auto" or context.agent != ROOT:
        return
    long = context.toolbox.specs(ToolSet.LONG, sees=context.has_eyes)
    budget = context.window.budget
    more = budget.scaled(budget.tools_size(long) - budget.tools_size(context.specs()))
    if more * _LEAST_ROOM <= free_tokens:
        event = ToolSetChanged(agent=context.agent, tools=ToolSet.LONG, why="the work is long", edits=context.edits)
        context.emit(event)


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
    context: AgentContext, event: Compacted, room: RoomNeeded, *, focus: str = "", is_asked: bool = False
) -> Compacted:
    """Return how room is made with the model's own words in the summary, or as it is where asking does not pay or work.

    Args:
        context: the agent whose conversation it is.
        event: how room would be made without.
        room: how much there is.
        focus: what matters most, in the user's words.
        is_asked: the user asked for it, so that it pays.
    """
    limit_chars = room.shares.facts // 2
    request = _request(context, limit_chars, focus)
    left_tokens = _left_tokens(context, request, room)
    words_tokens = int(limit_chars / _CHARS_PER_TOKEN)
    if not (is_asked or _pays(context, event, limit_chars)) or left_tokens <= words_tokens:
        return event
    thinking_tokens = _THINKING_TOKENS if _may_think(context, request) else 0
    request = replace(request, max_tokens=min(words_tokens + thinking_tokens, left_tokens))
    context.window.summaries += 1
    context.emit(Compacting(agent=context.agent))
    words = ""
    with contextlib.suppress(ProviderError, TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            words = await _words(context, request)
    if len(words) < _LEAST_CHARS:
        return event
    talk, own = context.conversation, words[:limit_chars]
    gist = talk.gist(event.kept_from).open_in(talk.gist(len(talk.entries)))
    told = summed_up(gist, context.plan, room, partial(_size, context), own=own, is_brief=True)
    more = _size(context, Message(Role.USER, told)) - _size(context, Message(Role.USER, event.summary))
    return replace(event, summary=told, tokens_after=event.tokens_after + more)


def _pays(context: AgentContext, event: Compacted, limit_chars: int) -> bool:
    """Tell whether a request for a summary is worth its time: something is summed up, and it is asked for seldom enough."""
    book = context.window
    is_cut = event.kept_from > context.conversation.folding.kept_from
    is_seldom = (book.summaries + 1) * MOST_OFTEN <= book.steps
    speed = book.budget.write_tokens_per_s
    is_quick = speed == 0 or limit_chars / _CHARS_PER_TOKEN / speed < PATIENCE_S
    return book.asks_for_summaries and is_cut and is_seldom and is_quick


def _left_tokens(context: AgentContext, request: ModelRequest, room: RoomNeeded) -> int:
    budget = context.window.budget
    return int(room.window - budget.estimate(budget.raw(request.messages, request.tools)))


def _may_think(context: AgentContext, request: ModelRequest) -> bool:
    """Tell whether the model thinks before it answers; of another one than the one in use nothing is known."""
    if request.model != context.settings.model:
        return True
    is_told = context.model.profile.thinks or (context.model.served is not None and context.model.served.thinks)
    return bool(is_told) or any(message.thinking for message in context.conversation.messages)


def _request(context: AgentContext, limit_chars: int, focus: str) -> ModelRequest:
    """Return the last request and the question; another model, where one is named for this, is asked the same."""
    settings = for_role(context.roles, ModelRole.SUMMARISER, context.settings)
    what = f" What matters most: {sanitize(focus)}" if focus.strip() else ""
    ask = Message(Role.USER, _ASK.format(words=max(40, limit_chars // _CHARS_PER_WORD), focus=what))
    request = context.conversation.request(context.specs(), settings, context.model.calling.form)
    is_shown = request.call_form is not ToolCallFormat.NATIVE
    return replace(
        request,
        messages=(*request.messages, ask),
        sees=context.sees is not False,
        urgency=context.urgency,
        shows_example=is_shown,
        is_attended=context.approvals.is_attended,
    )


async def _words(context: AgentContext, request: ModelRequest) -> str:
    """Return what the model answers; nothing where it calls a tool in place of answering.

    Of another model nothing is learned for the one in use, and its reading tells nothing of that one's cache.
    """
    is_same = request.model == context.settings.model
    if is_same:
        announce(context, request)
    async with contextlib.aclosing(context.provider.stream(request)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Completion):
                if is_same:
                    show_usage(context, piece, context.turn_id)
                else:
                    context.emit(usage_beside(context.agent, request, piece))
                return "" if piece.message.tool_calls or piece.problem else sanitize(piece.message.text).strip()
    return ""


def _size(context: AgentContext, message: Message) -> int:
    budget = context.window.budget
    return budget.scaled(budget.size(message))


LEAN_WINDOW_TOKENS, LEAN_READ_TOKENS_PER_S = 12_000, 200.0
_LITTLE_SHARE = 0.1
_OVERFLOW_SHARE = 0.9
_MANY_CHARS = 10_000
_UNKNOWN = (
    f"The server does not say how large its window is; {ASSUMED_WINDOW_TOKENS:,} tokens are assumed until it refuses a request."
)


async def ensure_fits(context: AgentContext) -> None:
    """Choose the tools and make room, so that the next request fits.

    Raises:
        WindowFull: it cannot be made to fit.
        SessionFileError: what was done could not be written down.
    """
    book = context.window
    book.budget.use(context.settings.model, context.model.profile)
    _choose_tools(context)
    uncounted = book.sent.uncounted(context.conversation)
    if book.budget.uncounted_chars(uncounted) > _MANY_CHARS:
        await asyncio.to_thread(book.budget.raw, uncounted, context.specs())
    if not context.window_tokens and context.model.served is not None and not book.is_told:
        book.is_told = True
        context.emit(Notice(agent=context.agent, level=Level.INFO, text=_UNKNOWN))
    tokens, room = measure(context)
    if tokens > room.limit:
        await before_room(context, "auto")
        is_window = room.limit != book.threshold_tokens
        why = "the window was three quarters full" if is_window else f"more than {room.limit:,} tokens were in use"
        event = await in_own_words(context, _room_for(context, tokens, room, why), room)
        context.emit(replace(event, agent=context.agent))
        offer_long_tools(context, room.limit - event.tokens_after)
    elif context.plan.open_steps:
        offer_long_tools(context, room.limit - tokens)


def compact_context(context: AgentContext, overflow: ContextOverflow) -> None:
    """Make a request smaller that the server refused for its size, and take up what that says of the window.

    Raises:
        WindowFull: it cannot be made smaller.
    """
    tokens, _ = measure(context)
    window = overflow.window_tokens or int(min(tokens, context.window_tokens or tokens) * _OVERFLOW_SHARE)
    if window != context.window_tokens:
        context.emit(context.with_window(window))
        if overflow.window_tokens:  # a guess holds for this session alone
            context.model.keep(window_tokens=window)
    book = context.window
    if tokens < window:
        book.budget.learn_size(book.ledger.now.total, int(window * (2 - _OVERFLOW_SHARE)))
    if context.tool_set is ToolSet.FULL:  # room is made, so the prefix changes anyway
        book.chosen_for = None
        _choose_tools(context)
    tokens, room = measure(context)
    event = _room_for(context, max(tokens, room.limit + 1), room, "the server refused a request of this size")
    context.emit(replace(event, agent=context.agent))


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


def _choose_tools(context: AgentContext) -> None:
    """Choose once for a model: another set in the middle of a session would change the whole prefix."""
    book = context.window
    if book.chosen_for == context.settings.model:
        return
    book.chosen_for = context.settings.model
    tools, why = choose_tools(book.tools, context.window_tokens, book.budget.read_tokens_per_s)
    if tools is ToolSet.LEAN and context.tool_set is ToolSet.LONG:
        tools = ToolSet.LONG
    edits = WHOLE if context.model.profile.edit_form == WHOLE else ""
    if edits:
        why = f"{why}; its edits did not fit when it was examined, so it writes files whole"
    if (tools, edits) != (context.tool_set, context.edits):
        context.emit(ToolSetChanged(agent=context.agent, tools=tools, why=why, edits=edits))


def measure(context: AgentContext) -> tuple[int, RoomNeeded]:
    """Return the size of the next request and the room that there is, in the server's tokens."""
    budget, talk = context.window.budget, context.conversation
    tools_tokens, task = budget.tools_size(context.specs()), talk.entries.first_task
    tokens = budget.estimate(context.window.sent.of(talk) + tools_tokens)
    kept = (talk.entries[0], *([task] if task else []))
    fixed = budget.estimate(sum(budget.size(entry.message) for entry in kept) + tools_tokens)
    window = context.window_tokens or ASSUMED_WINDOW_TOKENS
    return tokens, RoomNeeded.of(window, context.settings.max_tokens or 0, min(fixed, tokens), context.window.threshold_tokens)


def plan_room(context: AgentContext, tokens: int, room: RoomNeeded, why: str) -> Compacted | None:
    """Return how the next request can be made smaller, None where it cannot."""
    budget = context.window.budget

    def size(message: Message) -> int:
        return budget.scaled(budget.size(message))

    return compact(context.conversation, context.plan, size, tokens, room=room, why=why)


def _room_for(context: AgentContext, tokens: int, room: RoomNeeded, why: str) -> Compacted:
    """Return how room is made.

    Raises:
        WindowFull: no way, or the last ones brought too little.
    """
    book = context.window
    event = None if book.little > 1 else plan_room(context, tokens, room, why)
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


async def compact_now(context: AgentContext, said: UserInput, turn_id: str) -> None:
    """Sum up what was said so far; `said` is what matters most.  A cancel passes on, and nothing is changed then."""
    context.turn_id = turn_id
    try:
        await take_role(context)
        await context.model.ready()
        await before_room(context, "manual", said.text)
        tokens, room = measure(context)
        least = room.fixed + int((room.limit - room.fixed) * _TARGET_SHARE)
        event = plan_room(context, tokens, replace(room, target=min(least, tokens - 1)), "you asked for it")
        if event is None or not (event.kept_from or event.elided or event.folded):
            context.emit(Notice(agent=context.agent, level=Level.INFO, text=_NOTHING))
            return
        event = await in_own_words(context, event, room, focus=said.text, is_asked=True)
        context.emit(replace(event, agent=context.agent))
    except SessionFileError as error:
        context.emit(Notice(agent=context.agent, level=Level.ERROR, text=error.full_text()))
