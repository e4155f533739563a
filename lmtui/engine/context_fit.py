"""Before a request: the set of tools is chosen, and the conversation is made to fit the window.

What is left out, and where the conversation is cut, is decided by pure functions; the event that they return does it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from lmtui.core.errors import ContextOverflow, ProviderError, SessionFileError, WindowFull
from lmtui.core.events import ROOT, Level
from lmtui.core.messages import Message, ModelRequest, Role, ToolSet
from lmtui.core.model_events import Compacted, Compacting, ToolSetChanged
from lmtui.core.plan import Plan
from lmtui.core.roles import ModelRole, RoleModel
from lmtui.core.sanitize import sanitize
from lmtui.core.window import ASSUMED_WINDOW_TOKENS
from lmtui.engine.accounting import announce, completed, show_usage, usage_beside
from lmtui.engine.agent import Agent
from lmtui.engine.context import Conversation, cut_places, last_said
from lmtui.engine.entries import Entries, Entry, Shares, TranscriptSummary, digest
from lmtui.engine.inbox import UserInput
from lmtui.engine.model_roles import ensure_loaded, for_role, has_model, take_role

LIMIT_SHARE, TARGET_SHARE = 0.75, 0.5
FACTS_SHARE, WORDS_SHARE, PLAN_SHARE, ERRORS_SHARE = 0.12, 0.1, 0.06, 0.06  # of the room that a request may fill
KEPT_RESULTS = 3
_LEAST_GAIN_TOKENS = 24
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


class _Compaction:
    """How a conversation is made to fit: what is taken out so far, and what that leaves.

    `open_errors` are the parts of results that nothing repaired yet.
    """

    def __init__(self, talk: Conversation, plan: Plan, size: Callable[[Message], int], tokens: int, room: RoomNeeded) -> None:
        self.talk, self.plan, self.size, self.tokens, self.room = talk, plan, size, tokens, room
        self.elided: dict[str, Entry] = {}
        self.folded: dict[str, Entry] = {}
        self.kept_from = 0
        self.summary = ""
        self.gist = talk.gist(len(talk.entries))
        self.open_errors = {failure.part for failure in self.gist.errors.values()}

    @property
    def gone(self) -> set[str]:
        """Return the parts that are summed up now."""
        entries, before = self.talk.entries, self.talk.folding.kept_from
        if self.kept_from <= before:
            return set()
        kept = {entry.part for entry in (last_said(entries, self.kept_from), entries.first_task) if entry is not None}
        return {entry.part for entry in entries[before : self.kept_from]} - kept

    def parts(self) -> list[Entry]:
        """Return what may become shorter, oldest first: what came with the user's last words too, where those are summed up."""
        folding, entries = self.talk.folding, self.talk.entries
        said = last_said(entries, folding.kept_from) if folding.kept_from else None
        found = [*([said] if said else []), *entries[folding.kept_from :]]
        return [entry for entry in found if entry.part and entry.part not in folding.elided and not self._is_pinned(entry)]

    def last_few(self, parts: list[Entry]) -> list[Entry]:
        """Return the last results, which stay as long as there is another way: a few, the newest whatever its size."""
        share, taken = (self.room.target - self.room.fixed) // 2, list[Entry]()
        results = [entry for entry in parts if entry.message.role is not Role.ASSISTANT]
        for entry in reversed(results[-KEPT_RESULTS:]):
            share -= self.size(entry.message)
            if share < 0 and taken:
                break
            taken.insert(0, entry)
        return taken

    def shown(self, entry: Entry) -> Message:
        """Return a message as it would be sent now."""
        if entry.part in self.elided or entry.part in self.folded:
            return self.talk.folding.shortened(entry, is_folded=entry.part not in self.elided)
        return self.talk.folding.shown(entry)

    def elide(self, entry: Entry, *, is_folded: bool = False) -> None:
        """Leave a part out (or all but what tells most), if that is worth it; what decides an open error stays."""
        is_folded = is_folded or entry.part in self.open_errors
        gain = self.size(self.shown(entry)) - self.size(self.talk.folding.shortened(entry, is_folded=is_folded))
        if gain >= _LEAST_GAIN_TOKENS:
            (self.folded if is_folded else self.elided)[entry.part] = entry
            self.tokens -= gain

    def cut(self, end: int) -> None:
        """Sum up the beginning, up to the first place that makes enough room, else to the last that is not behind `end`."""
        entries, before = self.talk.entries, max(self.talk.folding.kept_from, self.kept_from)
        places = [place for place in cut_places(entries, before) if place <= end]
        if not places:
            return
        old = self.summary or self.talk.folding.summary
        old_cost = self.size(Message(Role.USER, old)) + self._said_cost(before) if old else 0
        gains = self._gains(before)
        wanted = self.tokens - old_cost - self.room.target
        place, summary, cost = before, "", int((self.room.shares.facts + self.room.shares.errors) / _CHARS_PER_TOKEN)
        for _ in range(_MOST_TRIES):  # how long the summary gets is known once it is there
            if place > before and (gains[place] >= wanted + cost or place == places[-1]):
                break
            place = next((each for each in places if gains[each] >= wanted + cost), places[-1])
            summary = summed_up(self.talk.gist(place).open_in(self.gist), self.plan, self.room, self.size)
            cost = _JOINT_TOKENS + self.size(Message(Role.USER, summary)) + self._said_cost(place)
        gain = gains[place] + old_cost - cost
        if gain >= _LEAST_GAIN_TOKENS:
            self.kept_from, self.summary = place, summary
            self.tokens -= gain

    def _said_cost(self, place: int) -> int:
        """Return the size of what the user said last before a place, which a summary has in it."""
        last = last_said(self.talk.entries, place)
        return self.size(self.shown(last)) if last else 0

    def _gains(self, before: int) -> dict[int, int]:
        """Return how many tokens go when what is before each place is summed up."""
        task, first = self.talk.entries.first_task, max(before, 1)
        gains = {first: 0}
        for place, entry in enumerate(self.talk.entries[first:], first):
            is_kept = entry is task or self._is_pinned(entry)
            gains[place + 1] = gains[place] + (0 if is_kept else self.size(self.shown(entry)))
        return gains

    def _is_pinned(self, entry: Entry) -> bool:
        pinned = self.talk.folding.pinned
        return bool(pinned) and (entry.part in pinned or any(call.id in pinned for call in entry.message.tool_calls))


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
    compaction, entries = _Compaction(talk, plan, size, tokens, room), talk.entries
    parts = compaction.parts()
    last = compaction.last_few(parts)
    places = range(len(entries) - 1, -1, -1)
    near = _last_answer(entries, 1 + next((each for each in places if last and entries[each] is last[0]), len(entries) - 1))
    late = {entry.part for entry in entries[near:]} if last else set()
    for entry in parts:
        if compaction.tokens <= room.target:
            break
        if entry.part not in late:
            compaction.elide(entry)
    if compaction.tokens > room.target:
        compaction.cut(near)
    if compaction.tokens > (room.target + room.limit) // 2:
        compaction.cut(_last_answer(entries, len(entries)))
    late -= compaction.gone
    for entry in (each for each in parts if each.part in late):
        if compaction.tokens > room.limit:
            compaction.elide(entry, is_folded=bool(last) and entry is last[-1])
    if compaction.tokens > room.limit:
        compaction.cut(len(entries))
    if compaction.tokens > room.limit or compaction.tokens >= tokens:
        return None
    gone = compaction.gone
    elided, folded = (tuple(part for part in found if part not in gone) for found in (compaction.elided, compaction.folded))
    return Compacted(
        why=why,
        tokens_before=tokens,
        tokens_after=compaction.tokens,
        elided=elided,
        folded=folded,
        kept_from=compaction.kept_from,
        summary=compaction.summary,
    )


def summed_up(gist: TranscriptSummary, plan: Plan, room: RoomNeeded, size: Callable[[Message], int], own: str = "") -> str:
    """Return a summary that takes at most its shares of the room, whatever the tokenizer makes of its letters.

    Args:
        gist: what is summed up.
        plan: how the work is.
        room: how much there is.
        size: returns a message's size in the server's tokens.
        own: the model's own words, for which what is told in few words is half as long.
    """
    shares = room.shares
    shares = text_shares = replace(shares, facts=shares.facts // 2) if own else shares
    text = digest(gist, plan, shares)
    for _ in range(_MOST_TRIES):
        density = size(Message(Role.USER, text)) * _CHARS_PER_TOKEN / len(text)
        if density <= 1 or len(text) * density <= shares.total:
            break
        text_shares = text_shares.scaled(shares.total / (len(text) * density))
        text = digest(gist, plan, text_shares)
    return digest(gist, plan, text_shares, own) if own else text


def _last_answer(entries: Entries, end: int) -> int:
    """Return the place of the last answer before a place, 0 where there is none."""
    places = range(end - 1, 0, -1)
    return next((place for place in places if entries[place].message.role is Role.ASSISTANT), 0)


_LEAST_ROOM = 4.0  # times what they take


def offer_long_tools(agent: Agent, free_tokens: int) -> None:
    """Tell of them, where `free_tokens` are enough; a set that the settings name stays as it is."""
    if agent.state.model.tool_set is not ToolSet.LEAN or agent.model.window.tools != "auto" or agent.id != ROOT:
        return
    long = agent.services.toolbox.specs(ToolSet.LONG, sees=agent.supports_vision)
    budget = agent.model.window.budget
    more = budget.scaled(budget.tools_size(long) - budget.tools_size(agent.specs()))
    if more * _LEAST_ROOM <= free_tokens:
        agent.emit(ToolSetChanged(agent=agent.id, tools=ToolSet.LONG, why="the work is long"))


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
    agent: Agent, event: Compacted, room: RoomNeeded, *, focus: str = "", is_asked: bool = False
) -> Compacted:
    """Return how room is made with the model's own words in the summary, or as it is where asking does not pay or work.

    Args:
        agent: the agent whose conversation it is.
        event: how room would be made without.
        room: how much there is.
        focus: what matters most, in the user's words.
        is_asked: the user asked for it, so that it pays.
    """
    limit_chars = room.shares.facts // 2
    request = _request(agent, limit_chars, focus)
    if not await has_model(agent, ModelRole.SUMMARISER):
        request = replace(request, model=agent.state.model.settings.model)
    budget = agent.model.window.budget
    left_tokens = room.window - budget.estimate(budget.raw(request.messages, request.tools))
    words_tokens = int(limit_chars / _CHARS_PER_TOKEN)
    if not (is_asked or _pays(agent, event, limit_chars)) or left_tokens <= words_tokens:
        return event
    thinking_tokens = _THINKING_TOKENS if _may_think(agent, request) else 0
    most_tokens = agent.model.roles.get(ModelRole.SUMMARISER, RoleModel()).max_completion or words_tokens + thinking_tokens
    request = replace(request, max_tokens=min(most_tokens, left_tokens))
    agent.model.window.summaries += 1
    agent.emit(Compacting(agent=agent.id))
    await ensure_loaded(agent, ModelRole.SUMMARISER, request.model, agent.priority)
    words = ""
    with contextlib.suppress(ProviderError, TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            words = await _words(agent, request)
    if request.model != agent.state.model.settings.model:
        await take_role(agent)  # the summariser may have taken its place in memory
    if len(words) < _LEAST_CHARS:
        return event
    talk, own = agent.conversation, words[:limit_chars]
    gist = talk.gist(event.kept_from).open_in(talk.gist(len(talk.entries)))
    told = summed_up(gist, agent.state.plan, room, partial(_size, agent), own)
    more = _size(agent, Message(Role.USER, told)) - _size(agent, Message(Role.USER, event.summary))
    return replace(event, summary=told, tokens_after=event.tokens_after + more)


def _pays(agent: Agent, event: Compacted, limit_chars: int) -> bool:
    """Tell whether a request for a summary is worth its time: something is summed up, and it is asked for seldom enough."""
    book = agent.model.window
    is_cut = event.kept_from > agent.conversation.folding.kept_from
    is_seldom = (book.summaries + 1) * MOST_OFTEN <= book.steps
    speed = book.budget.write_tokens_per_s
    is_quick = speed == 0 or limit_chars / _CHARS_PER_TOKEN / speed < PATIENCE_S
    return book.asks_for_summaries and is_cut and is_seldom and is_quick


def _may_think(agent: Agent, request: ModelRequest) -> bool:
    """Tell whether the model thinks before it answers."""
    if request.model != agent.state.model.settings.model:
        return True
    served = agent.model.known.served
    is_told = served is not None and bool(served.thinks)
    return is_told or any(message.thinking for message in agent.conversation.messages)


def _request(agent: Agent, limit_chars: int, focus: str) -> ModelRequest:
    """Return the last request and the question; another model, where one is named for this, is asked the same."""
    settings = for_role(agent.model.roles, ModelRole.SUMMARISER, agent.state.model.settings)
    what = f" What matters most: {sanitize(focus)}" if focus.strip() else ""
    ask = Message(Role.USER, _ASK.format(words=max(40, limit_chars // _CHARS_PER_WORD), focus=what))
    request = agent.request(settings)
    return replace(request, messages=(*request.messages, ask))


async def _words(agent: Agent, request: ModelRequest) -> str:
    """Return what the model answers; nothing where it calls a tool in place of answering.

    Of another model nothing is learned for the one in use, and its reading tells nothing of that one's cache.
    """
    is_same = request.model == agent.state.model.settings.model
    if is_same:
        announce(agent, request)
    answer = await completed(agent.services.provider, request)
    if is_same:
        show_usage(agent, answer)
    else:
        agent.emit(usage_beside(agent.id, request, answer))
    return "" if answer.message.tool_calls or answer.problem else sanitize(answer.message.text).strip()


def _size(agent: Agent, message: Message) -> int:
    budget = agent.model.window.budget
    return budget.scaled(budget.size(message))


LEAN_WINDOW_TOKENS, LEAN_READ_TOKENS_PER_S = 12_000, 200.0
_LITTLE_SHARE = 0.1
_OVERFLOW_SHARE = 0.9
_MANY_CHARS = 10_000
_UNKNOWN = "The server does not say how large its window is: the conversation grows until the server refuses a request."


async def ensure_fits(agent: Agent) -> None:
    """Choose the tools and make room, so that the next request fits.

    Raises:
        WindowFull: it cannot be made to fit.
        SessionFileError: what was done could not be written down.
    """
    book = agent.model.window
    settle_tools(agent)
    messages = agent.conversation.messages
    if book.budget.uncounted_chars(messages) > _MANY_CHARS:
        await asyncio.to_thread(book.budget.raw, messages, agent.specs())
    if not agent.state.model.window_tokens and agent.model.known.served is not None and not book.is_told:
        book.is_told = True
        agent.notify(_UNKNOWN, Level.INFO)
    tokens, room = measure(agent)
    if tokens > room.limit:
        await agent.announce_compaction("auto")
        is_window = room.limit != book.threshold_tokens
        why = "the window was three quarters full" if is_window else f"more than {room.limit:,} tokens were in use"
        event = await in_own_words(agent, _room_for(agent, tokens, room, why), room)
        agent.emit(replace(event, agent=agent.id))
        offer_long_tools(agent, room.limit - event.tokens_after)
    elif agent.state.plan.open_steps:
        offer_long_tools(agent, room.limit - tokens)


def compact_context(agent: Agent, overflow: ContextOverflow) -> None:
    """Make a request smaller that the server refused for its size, and take up what that says of the window.

    Raises:
        WindowFull: it cannot be made smaller.
    """
    tokens, _ = measure(agent)
    window = overflow.window_tokens or int(min(tokens, agent.state.model.window_tokens or tokens) * _OVERFLOW_SHARE)
    if window != agent.state.model.window_tokens:
        agent.emit(agent.with_window(window))
        if overflow.window_tokens:  # a guess holds for this session alone
            agent.model.known.keep(window_tokens=window)
    book = agent.model.window
    if tokens < window:
        book.budget.learn_size(book.ledger.now.total, int(window * (2 - _OVERFLOW_SHARE)))
    if agent.state.model.tool_set is ToolSet.FULL:  # room is made, so the prefix changes anyway
        book.chosen_for = None
        settle_tools(agent)
    tokens, room = measure(agent)
    event = _room_for(agent, max(tokens, room.limit + 1), room, "the server refused a request of this size")
    agent.emit(replace(event, agent=agent.id))


_SMALL_BYTES = 2_300_000_000  # below about 4 billion parameters at four bits


def choose_tools(setting: str, window_tokens: int, read_tokens_per_s: float, size_bytes: int = 0) -> tuple[ToolSet, str]:
    """Return which set of tools fits a model (all or the few), and why, in words."""
    if setting in (ToolSet.FULL, ToolSet.ALL, ToolSet.LEAN):
        return ToolSet(setting), "the settings say so"
    if 0 < window_tokens < LEAN_WINDOW_TOKENS:
        return ToolSet.LEAN, f"small context, {window_tokens:,} tokens"
    if 0 < read_tokens_per_s < LEAN_READ_TOKENS_PER_S:
        return ToolSet.LEAN, f"slow model, it reads {read_tokens_per_s:.0f} tokens/s"
    if not read_tokens_per_s and 0 < size_bytes < _SMALL_BYTES:
        return ToolSet.LEAN, "small model"
    known = f"the window of {window_tokens:,} tokens has room" if window_tokens else "the window is not known yet"
    return ToolSet.FULL, known


def settle_tools(agent: Agent) -> None:
    """Choose once for a model: another set during a session would change the whole prefix."""
    book = agent.model.window
    book.budget.use(agent.state.model.settings.model, agent.model.known.profile)
    if book.chosen_for == agent.state.model.settings.model:
        return
    book.chosen_for = agent.state.model.settings.model
    served = agent.model.known.served
    size_bytes = served.size_bytes if served is not None else 0
    tools, why = choose_tools(book.tools, agent.state.model.window_tokens, book.budget.read_tokens_per_s, size_bytes)
    if tools is ToolSet.LEAN and agent.state.model.tool_set is ToolSet.LONG:
        tools = ToolSet.LONG
    if tools != agent.state.model.tool_set:
        agent.emit(ToolSetChanged(agent=agent.id, tools=tools, why=why))


def measure(agent: Agent) -> tuple[int, RoomNeeded]:
    """Return the size of the next request and the room that there is, in the server's tokens."""
    budget, talk = agent.model.window.budget, agent.conversation
    tools_tokens, task = budget.tools_size(agent.specs()), talk.entries.first_task
    tokens = budget.estimate(budget.raw(talk.messages, ()) + tools_tokens)
    kept = (talk.entries[0], *([task] if task else []))
    fixed = budget.estimate(sum(budget.size(entry.message) for entry in kept) + tools_tokens)
    window = agent.state.model.window_tokens or max(ASSUMED_WINDOW_TOKENS, 2 * tokens)  # unknown: what is sent has room
    return tokens, RoomNeeded.of(
        window, agent.state.model.settings.max_tokens or 0, min(fixed, tokens), agent.model.window.threshold_tokens
    )


def plan_room(agent: Agent, tokens: int, room: RoomNeeded, why: str) -> Compacted | None:
    """Return how the next request can be made smaller, None where it cannot."""
    return compact(agent.conversation, agent.state.plan, partial(_size, agent), tokens, room=room, why=why)


def _room_for(agent: Agent, tokens: int, room: RoomNeeded, why: str) -> Compacted:
    """Return how room is made.

    Raises:
        WindowFull: no way, or the last ones freed too little.
    """
    book = agent.model.window
    event = None if book.little > 1 else plan_room(agent, tokens, room, why)
    if event is None:
        book.little = 0
        raise WindowFull(
            f"the model's window of {room.window:,} tokens is full: the next request has about {tokens:,}, of which system "
            f"prompt, tools and task take {room.fixed:,}, and nothing more can be left out",
            _WAY_OUT,
        )
    is_little = tokens - event.tokens_after < room.window * _LITTLE_SHARE
    is_soon = book.steps - book.compacted_at <= 2
    book.little = book.little + 1 if is_little and is_soon else 0
    book.compacted_at = book.steps
    return event


_WAY_OUT = (
    "Give the model a larger window in its server, remove files or results with /context, or unpin some, "
    "or start a new session with a smaller task."
)


_TARGET_SHARE = 0.1
_NOTHING = "There is nothing that could be summed up: the conversation is short, or was summed up just now."


async def compact_now(agent: Agent, said: UserInput, turn_id: str) -> None:
    """Sum up what was said so far; `said` is what matters most.  A cancel passes on, and nothing is changed then."""
    if agent.turn.id != turn_id:  # else it is asked for between two steps of a turn
        agent.begin(turn_id)
    try:
        await take_role(agent)
        await agent.model.known.ready()
        await agent.announce_compaction("manual", said.text)
        tokens, room = measure(agent)
        least = room.fixed + int((room.limit - room.fixed) * _TARGET_SHARE)
        event = plan_room(agent, tokens, replace(room, target=min(least, tokens - 1)), "you asked for it")
        if event is None or not (event.kept_from or event.elided or event.folded):
            agent.notify(_NOTHING, Level.INFO)
            return
        event = await in_own_words(agent, event, room, focus=said.text, is_asked=True)
        agent.emit(replace(event, agent=agent.id))
    except SessionFileError as error:
        agent.notify(error.full_text(), Level.ERROR)
