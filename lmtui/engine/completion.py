"""One request to the model: its pieces become events as they come, its end the assistant's message.

Instructions, persona and skills are read when a turn begins, and told again only where they changed.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace

from lmtui.core import events
from lmtui.core.errors import ContextOverflow, Fault, ProviderError, ToolError
from lmtui.core.messages import (
    Completion,
    Message,
    ModelRequest,
    PrefillChunk,
    QueuedChunk,
    RetryChunk,
    Role,
    SilenceChunk,
    StreamChunk,
    TextChunk,
    ThinkingChunk,
    ToolCall,
    ToolCallChunk,
)
from lmtui.core.model_events import CallFormChanged
from lmtui.core.permissions.rules import Access
from lmtui.core.plan import Plan
from lmtui.core.prompt_parts import PromptPartsRead, PromptSource, cut_sources
from lmtui.core.sanitize import sanitize_line
from lmtui.core.task_state import files_in, work_lines
from lmtui.core.window import ASSUMED_WINDOW_TOKENS
from lmtui.engine.accounting import announce, show_usage
from lmtui.engine.agent import Agent
from lmtui.engine.context_fit import compact_context, ensure_fits
from lmtui.engine.model_roles import take_role
from lmtui.engine.tool_call_policy import FormChange
from lmtui.engine.turn_outcome import without_token

SHARE, MAX_GUIDANCE_CHARS = 0.15, 24_000
_CHARS_PER_TOKEN = 3.5


async def take_guidance(agent: Agent) -> None:
    """Read the instruction files once in a turn and tell the model what is new."""
    if agent.id != events.ROOT or agent.turn.has_read_instructions:
        return
    agent.turn.has_read_instructions = True
    source = agent.services.features.get(PromptSource)
    if source is None:
        return
    known = agent.conversation.prompt.newest
    found = await source.read(guidance_chars(agent.state.model.window_tokens))
    if replace(found, sources=()) == replace(known, sources=()):  # prices are no change
        return
    agent.emit(PromptPartsRead(agent=agent.id, guidance=found))
    new_cuts = [name for name in cut_sources(found.sources) if name not in cut_sources(known.sources)]
    new_problems = [sanitize_line(problem) for problem in found.problems if problem not in known.problems]
    cuts = [f"{', '.join(new_cuts)} was cut: it takes more than {SHARE:.0%} of the window"] if new_cuts else []
    for text in (*cuts, *new_problems):
        agent.notify(text)


def guidance_chars(window_tokens: int) -> int:
    """Return how much may be told, in characters: a share of the window."""
    return min(MAX_GUIDANCE_CHARS, int((window_tokens or ASSUMED_WINDOW_TOKENS) * SHARE * _CHARS_PER_TOKEN))


TOPIC = "state"
MAX_CHARS = 1_400
_HEAD = "[The state of your work, as lmtui keeps it:"
_LOOK = "Some of what was done may not be counted yet: look at the disk before you go on, and do not repeat what is there."


def tell_state(agent: Agent) -> None:
    """Tell the model how its work is, if it may not know and something is open, or what was done last is not known."""
    stale, plan = agent.state.stale_context, agent.state.plan
    if not stale.is_due:
        return
    is_counting = plan.task is not None and not plan.task.is_finished
    if (stale.is_lost or plan.open_todos or plan.open_steps or is_counting) and plan != Plan():
        lines, room = [_HEAD], MAX_CHARS
        for line in work_lines(plan):
            room -= len(line) + 1
            if room < 0:
                lines.append("(and more)")
                break
            lines.append(line)
        lines += [_LOOK] if stale.is_shaken and plan.task is not None else []
        agent.remind("\n".join(lines) + "]", TOPIC)
    agent.state = replace(agent.state, stale_context=agent.state.stale_context.cleared())


_MOST_REFUSALS = 3


async def request_completion(agent: Agent) -> Completion:
    """Send the conversation and return the answer, its message emitted.

    Raises:
        ProviderError: the server failed for good.
        WindowFull: the conversation cannot be made to fit the window.
    """
    await agent.model.known.ready()  # only then is it known whether the server has to load the model
    await take_role(agent)
    await agent.model.known.ready()
    await take_guidance(agent)
    await ensure_fits(agent)
    for each in agent.services.points.before_request:
        each(agent)
    tell_state(agent)
    request, partial = agent.request(agent.state.model.settings, agent.model.known.calling.take_hold()), _Partial(agent)
    try:
        return await _answer_fitting(agent, request, partial)
    except ProviderError as error:
        change = agent.model.known.calling.refused(error, request)
        if change is None:
            raise
        _use_form(agent, change)
        return await _answer_fitting(agent, agent.request(agent.state.model.settings), partial)
    finally:
        partial.keep()


async def _answer_fitting(agent: Agent, request: ModelRequest, partial: _Partial) -> Completion:
    """Send a request; one that the server refuses for its size is made smaller.

    More than once only where the server does not say how large its window is.
    """
    refusals = 0
    while True:
        try:
            return await _answer(agent, request, partial)
        except ContextOverflow as overflow:
            refusals += 1
            if refusals > _MOST_REFUSALS or (refusals > 1 and overflow.window_tokens):
                raise
            await agent.announce_compaction("auto")
            compact_context(agent, overflow)
            tell_state(agent)
            request = agent.request(agent.state.model.settings, request.hold)


async def _answer(agent: Agent, request: ModelRequest, partial: _Partial) -> Completion:
    """Send one request and return its answer, the message emitted and what it shows of the model taken up."""
    announce(agent, request)
    partial.begin()
    completion: Completion | None = None
    asked, is_switched = _asked(agent), False
    async with contextlib.aclosing(agent.services.provider.stream(request)) as pieces:
        async for piece in pieces:
            partial.see(piece)
            if isinstance(piece, Completion):
                completion = piece
            else:
                _show(agent, piece)
            is_switched = isinstance(piece, RetryChunk) and _asked(agent) != asked
            if is_switched:
                break
    if is_switched:  # the user chose another model meanwhile
        return await _answer(agent, agent.request(agent.state.model.settings, request.hold), partial)
    if completion is None:
        raise ProviderError(Fault.CUT, "the model's answer has no end")
    if completion.quoted and agent.is_weak and _is_meant(agent, completion.quoted):
        completion = replace(completion, message=replace(completion.message, tool_calls=(completion.quoted,)))
    message = _with_fresh_ids(agent, completion.message) if completion.message.tool_calls else completion.message
    show_usage(agent, completion)  # first: a session that is killed between the two has paid for both
    agent.emit(
        events.MessageAdded(
            agent=agent.id,
            role=message.role,
            text=message.text if message.tool_calls else without_token(message.text),
            thinking=message.thinking,
            tool_calls=message.tool_calls,
            turn_id=agent.turn.id,
            thinking_s=round(partial.thinking_s, 1),
        )
    )
    if completion.stopped:
        agent.emit(
            events.Notice(agent=agent.id, level=events.Level.INFO, text=f"Generation was stopped: {completion.stopped}.")
        )
    change = agent.model.known.calling.see(request, completion)
    if change is not None:
        _use_form(agent, change)
    elif agent.model.known.calling.worked:
        agent.model.known.keep(call_form=agent.model.known.calling.form, note=agent.model.known.calling.why)
    return replace(completion, message=message)


def _asked(agent: Agent) -> tuple[str, str]:
    """Return the server and the model that a request goes to now."""
    return agent.services.provider.url, agent.state.model.settings.model


def _use_form(agent: Agent, change: FormChange) -> None:
    """Tell the model of its tools in another form from the next request on."""
    if change.form is not agent.model.known.calling.form:
        agent.emit(CallFormChanged(agent=agent.id, form=str(change.form), why=change.why))
        if change.is_proven:
            agent.model.known.keep(call_form=change.form, note=change.why)


class _Partial:
    """An answer so far: its text (after a retry that brings nothing, that of the attempt before) and how long was thought."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._now: list[str] = []
        self._before = ""
        self._thinking_since: float | None = None
        self.thinking_s = 0.0

    def begin(self) -> None:
        """Begin another attempt."""
        self._before = "".join(self._now) or self._before
        self._now.clear()
        self._thinking_since, self.thinking_s = None, 0.0

    def see(self, piece: StreamChunk) -> None:
        """Take note of a piece; a whole answer leaves nothing to keep."""
        monotonic = self._agent.services.monotonic
        if isinstance(piece, RetryChunk):
            self.begin()
        elif isinstance(piece, ThinkingChunk):
            self._thinking_since = monotonic() if self._thinking_since is None else self._thinking_since
        elif self._thinking_since is not None:
            self.thinking_s, self._thinking_since = self.thinking_s + monotonic() - self._thinking_since, None
        if isinstance(piece, TextChunk):
            self._now.append(piece.text)
        elif isinstance(piece, Completion):
            self._now, self._before = [], ""

    def keep(self) -> None:
        """Keep what an answer that was stopped or broke off had said: it was read, so it belongs to the conversation."""
        text = "".join(self._now) or self._before
        if text.strip():
            agent = self._agent
            agent.emit(events.MessageAdded(agent=agent.id, role=Role.ASSISTANT, text=text, turn_id=agent.turn.id))


def _show(agent: Agent, piece: StreamChunk) -> None:
    match piece:
        case TextChunk(text=text):
            agent.emit(events.TextDelta(agent=agent.id, text=text))
        case ThinkingChunk(text=text):
            agent.emit(events.ThinkingDelta(agent=agent.id, text=text))
        case ToolCallChunk(name, size_chars):
            agent.services.start_sandbox()
            agent.emit(events.CallProgress(agent=agent.id, tool=name, size_chars=size_chars))
        case PrefillChunk(ratio=ratio):
            agent.emit(events.PrefillProgress(agent=agent.id, ratio=ratio))
        case QueuedChunk(before=before):
            agent.emit(events.PrefillProgress(agent=agent.id, queued=before))
        case SilenceChunk(seconds=seconds):
            what = f"{agent.services.provider.url} has not answered for {seconds:.0f} s."
            text = f"{what} Wait (it may still be reading the prompt) or stop the turn."
            agent.notify(text)
        case RetryChunk():
            agent.emit(
                events.RetryScheduled(
                    agent=agent.id, attempt=piece.attempt, attempts=piece.attempts, wait_s=piece.wait_s, reason=piece.reason
                )
            )
        case Completion():
            pass


def _with_fresh_ids(agent: Agent, message: Message) -> Message:
    """Return the message with call ids that no earlier call has: some servers count from zero in every answer."""
    taken: set[str] = set()
    calls: list[ToolCall] = []
    for call in message.tool_calls:
        free = itertools.chain(
            (2,), itertools.count(len(agent.services.call_ids) + 1)
        )  # not all that were used before, one by one
        names = itertools.chain([call.id], (f"{call.id}_{number}" for number in free))
        fresh = next(name for name in names if name and name not in taken and name not in agent.services.call_ids)
        taken.add(fresh)
        calls.append(replace(call, id=fresh))
    return replace(message, tool_calls=tuple(calls))


def _is_meant(agent: Agent, quoted: ToolCall) -> bool:
    """Tell whether a weak model means the call that its answer quotes: it only reads, is the first and the task names a file.

    Of a model that is not known to call yet, its words may be about what it wants to do; so may those about a change that
    failed just now and that they quote in another form.
    """
    if agent.loops.has_failed and agent.state.open_work.failed.startswith(f"{quoted.name}: "):
        return True
    is_first = agent.model.known.calling.is_unsure and not agent.loops.has_called
    if not is_first or not files_in(agent.conversation.last_task):
        return False
    try:
        return agent.services.toolbox.prepare(quoted.name, quoted.arguments).access is Access.READ
    except ToolError:
        return False
