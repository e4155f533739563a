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


def tell_state(desk: AgentContext, turn_id: str) -> None:
    """Tell the model how its work is, if it may not know and something is open."""
    if not desk.note.is_due:
        return
    text = note_text(desk.plan, is_shaken=desk.note.is_shaken, is_lost=desk.note.is_lost)
    if text:
        desk.emit(Reminder(agent=desk.agent, text=text, turn_id=turn_id, topic=TOPIC))
    desk.note.is_due = desk.note.is_shaken = desk.note.is_lost = False


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


async def request_completion(desk: AgentContext, turn_id: str) -> Completion:
    """Send the conversation and return the answer, its message emitted.

    Raises:
        ProviderError: the server failed for good.
        WindowFull: the conversation cannot be made to fit the window.
    """
    await take_role(desk)
    await desk.model.ready()
    await take_guidance(desk)
    await ensure_fits(desk)
    tell_state(desk, turn_id)
    request = _request(desk)
    try:
        return await _answer_fitting(desk, request, turn_id)
    except ProviderError as error:
        change = desk.model.calling.refused(error, request)
        if change is None:
            raise
        _use_form(desk, change)
        return await _answer_fitting(desk, _request(desk), turn_id)


async def _answer_fitting(desk: AgentContext, request: ModelRequest, turn_id: str) -> Completion:
    """Send a request; one that the server refuses for its size is made smaller."""
    try:
        return await _answer(desk, request, turn_id)
    except ContextOverflow as overflow:
        return await _answer_smaller(desk, overflow, request.hold, turn_id)


async def _answer_smaller(desk: AgentContext, overflow: ContextOverflow, hold: ToolChoice, turn_id: str) -> Completion:
    """Make room and ask for the same again; more than once only where the server does not say how large its window is."""
    for _ in range(_MOST_REFUSALS):
        await before_room(desk, "auto")
        compact_context(desk, overflow)
        tell_state(desk, turn_id)
        try:
            return await _answer(desk, replace(_request(desk), hold=hold), turn_id)
        except ContextOverflow as error:
            if error.window_tokens:
                raise
            overflow = error
    raise overflow


def _request(desk: AgentContext) -> ModelRequest:
    calling = desk.model.calling
    request = desk.conversation.request(desk.specs(), desk.settings, calling.form, calling.take_hold())
    is_shown = request.call_form is not ToolCallFormat.NATIVE
    return replace(
        request,
        sees=desk.sees is not False,
        urgency=desk.urgency,
        shows_example=is_shown,
        is_attended=desk.approvals.is_attended,
    )


async def _answer(desk: AgentContext, request: ModelRequest, turn_id: str) -> Completion:
    """Send one request and return its answer, the message emitted and what it shows of the model taken up."""
    announce(desk, request)
    watch = _ThinkingWatch(desk)
    partial = _Partial()
    completion: Completion | None = None
    try:
        async with contextlib.aclosing(desk.provider.stream(request)) as pieces:
            async for piece in pieces:
                watch.see(piece)
                partial.see(piece)
                if isinstance(piece, Completion):
                    completion = piece
                else:
                    _show(desk, piece)
    finally:
        if completion is None:
            _keep_partial(desk, partial.text, turn_id)
    if completion is None:
        raise ProviderError(Fault.CUT, "the model's answer has no end")
    message = _with_fresh_ids(desk, completion.message)
    desk.emit(
        MessageAdded(
            agent=desk.agent,
            role=message.role,
            text=message.text if message.tool_calls else without_token(message.text),
            thinking=message.thinking,
            tool_calls=message.tool_calls,
            turn_id=turn_id,
            thinking_s=round(watch.seconds, 1),
        )
    )
    show_usage(desk, completion, turn_id)
    if completion.stopped:
        desk.emit(Notice(agent=desk.agent, level=Level.INFO, text=f"Generation was stopped: {completion.stopped}."))
    change = desk.model.calling.see(request, completion)
    if change is not None:
        _use_form(desk, change)
    elif desk.model.calling.worked:
        desk.model.keep(call_form=desk.model.calling.form, note=desk.model.calling.why)
    return replace(completion, message=message)


def _use_form(desk: AgentContext, change: FormChange) -> None:
    """Tell the model of its tools in another form from the next request on."""
    if change.form is not desk.model.calling.form:
        desk.emit(CallFormChanged(agent=desk.agent, form=str(change.form), why=change.why))
        if change.is_proven:
            desk.model.keep(call_form=change.form, note=change.why)


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


def _keep_partial(desk: AgentContext, text: str, turn_id: str) -> None:
    """Keep what an answer that was stopped or broke off had said: it was read, so it belongs to the conversation."""
    if text.strip():
        desk.emit(MessageAdded(agent=desk.agent, role=Role.ASSISTANT, text=text, turn_id=turn_id))


def _show(desk: AgentContext, piece: StreamChunk) -> None:
    match piece:
        case TextChunk(text=text):
            desk.emit(TextDelta(agent=desk.agent, text=text))
        case ThinkingChunk(text=text):
            desk.emit(ThinkingDelta(agent=desk.agent, text=text))
        case ToolCallChunk(name=name, size_chars=size_chars):
            desk.warm_up()
            desk.emit(CallProgress(agent=desk.agent, tool=name, size_chars=size_chars))
        case PrefillChunk(ratio=ratio):
            desk.emit(PrefillProgress(agent=desk.agent, ratio=ratio))
        case QueuedChunk(before=before):
            desk.emit(PrefillProgress(agent=desk.agent, queued=before))
        case SilenceChunk(seconds=seconds):
            what = f"{desk.provider.url} has not answered for {seconds:.0f} s."
            text = f"{what} Wait (it may still be reading the prompt) or stop the turn."
            desk.emit(Notice(agent=desk.agent, level=Level.WARNING, text=text))
        case RetryChunk():
            desk.emit(
                RetryScheduled(
                    agent=desk.agent,
                    attempt=piece.attempt,
                    attempts=piece.attempts,
                    wait_s=piece.wait_s,
                    reason=piece.reason,
                )
            )
        case Completion():
            pass


def _with_fresh_ids(desk: AgentContext, message: Message) -> Message:
    """Return the message with call ids that no earlier call has: some servers count from zero in every answer."""
    taken: set[str] = set()
    calls: list[ToolCall] = []
    for call in message.tool_calls:
        free = itertools.chain((2,), itertools.count(len(desk.call_ids) + 1))  # not all that were used before, one by one
        names = itertools.chain([call.id], (f"{call.id}_{number}" for number in free))
        fresh = next(name for name in names if name and name not in taken and name not in desk.call_ids)
        taken.add(fresh)
        calls.append(replace(call, id=fresh))
    return replace(message, tool_calls=tuple(calls))


class _ThinkingWatch:
    """Measures how long the model thought: from its first thinking to what follows."""

    def __init__(self, desk: AgentContext) -> None:
        self._now = desk.monotonic
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
