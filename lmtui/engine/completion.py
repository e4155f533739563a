"""One request to the model: its pieces become events as they come, its end the assistant's message."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace

from lmtui.core.errors import ContextOverflow, Fault, ProviderError
from lmtui.core.events import (
    CallProgress,
    Level,
    MessageAdded,
    Notice,
    PrefillProgress,
    RetryScheduled,
    TextDelta,
    ThinkingDelta,
)
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
    ToolCallFormat,
    ToolChoice,
)
from lmtui.core.model_events import CallFormChanged, Reminder
from lmtui.core.plan import Plan
from lmtui.core.task_state import work_lines
from lmtui.engine.agent_context import AgentContext
from lmtui.engine.context_fit import compact_context, ensure_fits
from lmtui.engine.hook_calls import before_room
from lmtui.engine.instruction_events import take_guidance
from lmtui.engine.model_roles import take_role
from lmtui.engine.tool_call_policy import FormChange
from lmtui.engine.turn_outcome import without_token
from lmtui.engine.usage import announce, show_usage

TOPIC = "state"
MAX_CHARS = 1_400
_HEAD = "[How your work stands, as lmtui keeps it:"
_LOOK = "Some of what was done may not be counted yet: look at the disk before you go on, and do not repeat what is there."


def tell_state(context: AgentContext, turn_id: str) -> None:
    """Tell the model how its work is, if it may not know and something is open."""
    if not context.note.is_due:
        return
    text = note_text(context.plan, is_shaken=context.note.is_shaken, is_lost=context.note.is_lost)
    if text:
        context.emit(Reminder(agent=context.agent, text=text, turn_id=turn_id, topic=TOPIC))
    context.note.is_due = context.note.is_shaken = context.note.is_lost = False


def note_text(plan: Plan, *, is_shaken: bool, is_lost: bool = False) -> str:
    """Return the note, empty where nothing is open, unless what was done last is not known."""
    task = plan.task
    is_counting = task is not None and not task.is_finished
    if not (is_lost or plan.open_todos or plan.open_steps or is_counting) or plan == Plan():
        return ""
    lines: list[str] = []
    room = MAX_CHARS
    for line in work_lines(plan):
        room -= len(line) + 1
        if room < 0:
            lines.append("(and more)")
            break
        lines.append(line)
    look = [_LOOK] if is_shaken and task is not None else []
    return "\n".join((_HEAD, *lines, *look)) + "]"


_MOST_REFUSALS = 3


async def request_completion(context: AgentContext, turn_id: str) -> Completion:
    """Send the conversation and return the answer, its message emitted.

    Raises:
        ProviderError: the server failed for good.
        WindowFull: the conversation cannot be made to fit the window.
    """
    await take_role(context)
    await context.model.ready()
    await take_guidance(context)
    await ensure_fits(context)
    tell_state(context, turn_id)
    request = _request(context)
    try:
        return await _answer_fitting(context, request, turn_id)
    except ProviderError as error:
        change = context.model.calling.refused(error, request)
        if change is None:
            raise
        _use_form(context, change)
        return await _answer_fitting(context, _request(context), turn_id)


async def _answer_fitting(context: AgentContext, request: ModelRequest, turn_id: str) -> Completion:
    """Send a request; one that the server refuses for its size is made smaller."""
    try:
        return await _answer(context, request, turn_id)
    except ContextOverflow as overflow:
        return await _answer_smaller(context, overflow, request.hold, turn_id)


async def _answer_smaller(context: AgentContext, overflow: ContextOverflow, hold: ToolChoice, turn_id: str) -> Completion:
    """Make room and ask for the same again; more than once only where the server does not say how large its window is."""
    for _ in range(_MOST_REFUSALS):
        await before_room(context, "auto")
        compact_context(context, overflow)
        tell_state(context, turn_id)
        try:
            return await _answer(context, replace(_request(context), hold=hold), turn_id)
        except ContextOverflow as error:
            if error.window_tokens:
                raise
            overflow = error
    raise overflow


def _request(context: AgentContext) -> ModelRequest:
    calling = context.model.calling
    request = context.conversation.request(context.specs(), context.settings, calling.form, calling.take_hold())
    is_shown = request.call_form is not ToolCallFormat.NATIVE
    return replace(
        request,
        sees=context.sees is not False,
        urgency=context.urgency,
        shows_example=is_shown,
        is_attended=context.approvals.is_attended,
    )


async def _answer(context: AgentContext, request: ModelRequest, turn_id: str) -> Completion:
    """Send one request and return its answer, the message emitted and what it shows of the model taken up."""
    announce(context, request)
    watch = _ThinkingWatch(context)
    partial = _Partial()
    completion: Completion | None = None
    try:
        async with contextlib.aclosing(context.provider.stream(request)) as pieces:
            async for piece in pieces:
                watch.see(piece)
                partial.see(piece)
                if isinstance(piece, Completion):
                    completion = piece
                else:
                    _show(context, piece)
    finally:
        if completion is None:
            _keep_partial(context, partial.text, turn_id)
    if completion is None:
        raise ProviderError(Fault.CUT, "the model's answer has no end")
    message = _with_fresh_ids(context, completion.message)
    context.emit(
        MessageAdded(
            agent=context.agent,
            role=message.role,
            text=message.text if message.tool_calls else without_token(message.text),
            thinking=message.thinking,
            tool_calls=message.tool_calls,
            turn_id=turn_id,
            thinking_s=round(watch.seconds, 1),
        )
    )
    show_usage(context, completion, turn_id)
    if completion.stopped:
        context.emit(Notice(agent=context.agent, level=Level.INFO, text=f"Generation was stopped: {completion.stopped}."))
    change = context.model.calling.see(request, completion)
    if change is not None:
        _use_form(context, change)
    elif context.model.calling.worked:
        context.model.keep(call_form=context.model.calling.form, note=context.model.calling.why)
    return replace(completion, message=message)


def _use_form(context: AgentContext, change: FormChange) -> None:
    """Tell the model of its tools in another form from the next request on."""
    if change.form is not context.model.calling.form:
        context.emit(CallFormChanged(agent=context.agent, form=str(change.form), why=change.why))
        if change.is_proven:
            context.model.keep(call_form=change.form, note=change.why)


class _Partial:
    """The text of an answer so far; after a retry that brings nothing, what the attempt before had said."""

    def __init__(self) -> None:
        self._now: list[str] = []
        self._before = ""

    def see(self, piece: StreamChunk) -> None:
        """Take note of a piece."""
        if isinstance(piece, TextChunk):
            self._now.append(piece.text)
        elif isinstance(piece, RetryChunk):
            self._before = self.text
            self._now.clear()

    @property
    def text(self) -> str:
        """Return what there is to keep."""
        return "".join(self._now) or self._before


def _keep_partial(context: AgentContext, text: str, turn_id: str) -> None:
    """Keep what an answer that was stopped or broke off had said: it was read, so it belongs to the conversation."""
    if text.strip():
        context.emit(MessageAdded(agent=context.agent, role=Role.ASSISTANT, text=text, turn_id=turn_id))


def _show(context: AgentContext, piece: StreamChunk) -> None:
    match piece:
        case TextChunk(text=text):
            context.emit(TextDelta(agent=context.agent, text=text))
        case ThinkingChunk(text=text):
            context.emit(ThinkingDelta(agent=context.agent, text=text))
        case ToolCallChunk(name=name, size_chars=size_chars):
            context.warm_up()
            context.emit(CallProgress(agent=context.agent, tool=name, size_chars=size_chars))
        case PrefillChunk(ratio=ratio):
            context.emit(PrefillProgress(agent=context.agent, ratio=ratio))
        case QueuedChunk(before=before):
            context.emit(PrefillProgress(agent=context.agent, queued=before))
        case SilenceChunk(seconds=seconds):
            what = f"{context.provider.url} has not answered for {seconds:.0f} s."
            text = f"{what} Wait (it may still be reading the prompt) or stop the turn."
            context.emit(Notice(agent=context.agent, level=Level.WARNING, text=text))
        case RetryChunk():
            context.emit(
                RetryScheduled(
                    agent=context.agent,
                    attempt=piece.attempt,
                    attempts=piece.attempts,
                    wait_s=piece.wait_s,
                    reason=piece.reason,
                )
            )
        case Completion():
            pass


def _with_fresh_ids(context: AgentContext, message: Message) -> Message:
    """Return the message with call ids that no earlier call has: some servers count from zero in every answer."""
    taken: set[str] = set()
    calls: list[ToolCall] = []
    for call in message.tool_calls:
        free = itertools.chain((2,), itertools.count(len(context.call_ids) + 1))  # not all that were used before, one by one
        names = itertools.chain([call.id], (f"{call.id}_{number}" for number in free))
        fresh = next(name for name in names if name and name not in taken and name not in context.call_ids)
        taken.add(fresh)
        calls.append(replace(call, id=fresh))
    return replace(message, tool_calls=tuple(calls))


class _ThinkingWatch:
    """Measures how long the model thought: from its first thinking to what follows."""

    def __init__(self, context: AgentContext) -> None:
        self._now = context.monotonic
        self._since: float | None = None
        self.seconds = 0.0

    def see(self, piece: StreamChunk) -> None:
        """Take note of a piece."""
        if isinstance(piece, RetryChunk):
            self._since, self.seconds = None, 0.0
        elif isinstance(piece, ThinkingChunk):
            self._since = self._now() if self._since is None else self._since
        elif self._since is not None:
            self.seconds, self._since = self.seconds + self._now() - self._since, None
