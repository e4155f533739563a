"""The model's own words for what is summed up: asked for at the end of the conversation that it has just read, where that pays.

The request is the last one and a line more, so that a server reuses its cache and only the summary itself takes time.  What
the model leaves out is told from the log in any case, and where it does not answer that is all there is.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from functools import partial

from lmtui.core.clean import clean
from lmtui.core.errors import ProviderError
from lmtui.core.messages import CallForm, Completion, Message, ModelRequest, Role
from lmtui.core.model_events import Compacted, Compacting
from lmtui.core.roles import ModelRole
from lmtui.engine.compaction import Room, summed_up
from lmtui.engine.desk import Desk
from lmtui.engine.roles import for_role
from lmtui.engine.usage import announce, show_usage, usage_beside

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


async def in_own_words(desk: Desk, event: Compacted, room: Room, *, focus: str = "", is_asked: bool = False) -> Compacted:
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


def _pays(desk: Desk, event: Compacted, limit_chars: int) -> bool:
    """Tell whether a request for a summary is worth its time: something is summed up, and it is asked for seldom enough."""
    book = desk.window
    is_cut = event.kept_from > desk.conversation.folding.kept_from
    is_seldom = (book.summaries + 1) * MOST_OFTEN <= book.steps
    speed = book.budget.write_tokens_per_s
    is_quick = speed == 0 or limit_chars / _CHARS_PER_TOKEN / speed < PATIENCE_S
    return book.asks_for_summaries and is_cut and is_seldom and is_quick


def _left_tokens(desk: Desk, request: ModelRequest, room: Room) -> int:
    budget = desk.window.budget
    return int(room.window - budget.estimate(budget.raw(request.messages, request.tools)))


def _may_think(desk: Desk, request: ModelRequest) -> bool:
    """Tell whether the model thinks before it answers; of another one than the one in use nothing is known."""
    if request.model != desk.settings.model:
        return True
    is_told = desk.model.profile.thinks or (desk.model.served is not None and desk.model.served.thinks)
    return bool(is_told) or any(message.thinking for message in desk.conversation.messages)


def _request(desk: Desk, limit_chars: int, focus: str) -> ModelRequest:
    """Return the last request and the question; another model, where one is named for this, is asked the same."""
    settings = for_role(desk.roles, ModelRole.SUMMARISER, desk.settings)
    what = f" What matters most: {clean(focus)}" if focus.strip() else ""
    ask = Message(Role.USER, _ASK.format(words=max(40, limit_chars // _CHARS_PER_WORD), focus=what))
    request = desk.conversation.request(desk.specs(), settings, desk.model.calling.form)
    is_shown = request.call_form is not CallForm.NATIVE
    return replace(
        request,
        messages=(*request.messages, ask),
        sees=desk.sees is not False,
        urgency=desk.urgency,
        shows_example=is_shown,
        is_attended=desk.approvals.is_attended,
    )


async def _words(desk: Desk, request: ModelRequest) -> str:
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
                return "" if piece.message.tool_calls or piece.problem else clean(piece.message.text).strip()
    return ""


def _size(desk: Desk, message: Message) -> int:
    budget = desk.window.budget
    return budget.scaled(budget.size(message))
