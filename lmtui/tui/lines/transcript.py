"""The conversation: messages, streamed answers, thinking and tool calls in one pane of lines."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import ClassVar, Unpack

from textual.binding import BindingType

from lmtui.core import events
from lmtui.core.agent_events import AgentFinished, AgentStarted
from lmtui.core.budgets import ReportWritten
from lmtui.core.event_text import event_line, model_words
from lmtui.core.messages import Role
from lmtui.core.sanitize import sanitize_line, sanitize_path
from lmtui.core.sessions import NOBODY, refusal_words
from lmtui.core.verification import CheckRan
from lmtui.tui.commands import Scope, bindings
from lmtui.tui.lines.blocks import (
    AnswerBlock,
    AnswerStream,
    Block,
    CheckBlock,
    Mark,
    NoticeBlock,
    StoredAnswer,
    ThinkingBlock,
    UserBlock,
    answer_blocks,
    ending,
)
from lmtui.tui.lines.calls import CallBlock, ReadsBlock, is_read
from lmtui.tui.lines.document import Document
from lmtui.tui.lines.document_view import DocumentView
from lmtui.tui.lines.markdown import closes_fence
from lmtui.tui.timing import WidgetOptions

_OPENING = re.compile(r"^( {0,3})(`{3,}|~{3,})([^`\n]*)$")


@dataclass(frozen=True, slots=True)
class Fence:
    """One fence: its code, the word behind the marker, and the characters of the text that it reaches over."""

    code: str
    language: str
    start: int
    end: int


def fences_of(text: str) -> list[Fence]:
    """Return the fences of a text in order; one that is not closed reaches to the end."""
    found: list[Fence] = []
    marker, language, indent, start = "", "", 0, 0
    lines: list[str] = []
    at = 0
    for line in text.split("\n"):
        bare = line.removesuffix("\r")
        opening = _OPENING.match(bare) if not marker else None
        if opening:
            indent, marker, language, start, lines = len(opening[1]), opening[2], opening[3].strip(), at, []
        elif marker and closes_fence(bare, marker):
            found.append(Fence("\n".join(lines), language, start, at + len(line)))
            marker = ""
        elif marker:
            lines.append(bare[min(indent, len(bare) - len(bare.lstrip(" "))) :])
        at += len(line) + 1
    if marker:
        found.append(Fence("\n".join(lines).rstrip("\n"), language, start, len(text)))
    return found


def nearest(fences: list[Fence], at: int) -> int:
    """Return the number of the fence that a character is in, else of the next one, else of the last."""
    return next((number for number, fence in enumerate(fences) if fence.end > at), len(fences) - 1)


_MOST_NAMES = 5
_READS_SHOWN = 3
_WORDS = {"undo": "undone", "redo": "done again", "restore": "put back", "rewind": "put back by rewinding"}


def restored_text(event: events.FilesRestored, titles: Sequence[str]) -> str:
    """Return one line such as `undone: edit parser/lexer.py  (1 file)`; `titles` name the calls that are known."""
    word = _WORDS.get(event.action, sanitize_line(event.action))
    names = names_text(event.files if event.action == "restore" or not titles else titles)
    count = len(event.files)
    files = "no file changed" if not count else "1 file" if count == 1 else f"{count} files"
    return f"{word}: {names}  ({files})" if names else f"{word}: {files}"


def left_out_text(event: events.CheckpointCreated, known: set[str]) -> str:
    """Return which files cannot be undone, empty where all of them were named before."""
    fresh = [path for path in event.left_out if path not in known]
    if not fresh:
        return ""
    more = max(0, event.left_out_total - len(event.left_out))
    return f"undo does not cover: {names_text(fresh, more)}"


def names_text(names: Sequence[str], more: int = 0) -> str:
    """Return the first of some names, clean, and how many there are next to them."""
    shown = [sanitize_path(name) for name in names[:_MOST_NAMES]]
    rest = len(names) - len(shown) + more
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


class ConversationBlocks:
    """The blocks of one agent's conversation.  `zone` is the reader's time zone (None: the machine's)."""

    def __init__(self, document: Document, agent: str = events.ROOT, zone: tzinfo | None = None) -> None:
        self.document = document
        self._agent = agent
        self._zone = zone
        self._calls: dict[str, tuple[int, CallBlock]] = {}
        self._open: set[str] = set()
        self._reads: list[str] = []
        self._approvals: dict[str, events.ApprovalRequested] = {}
        self._stored = 0
        self._turns: dict[str, int] = {}
        self._steps: dict[str, str] = {}
        self._left_out: set[str] = set()
        self._model: tuple[str, str] | None = None
        self._sandbox = ""
        self._live = _Live()
        self._seq = 0

    def apply(self, envelope: events.Envelope) -> None:
        """Take one event; those of other agents, and those that are not shown here, change nothing."""
        event = envelope.event
        self._seq = envelope.seq
        if event.agent == self._agent:
            if isinstance(event, events.FilesChanged):
                self._steps[events.step_id(envelope.seq)] = event.call_id
            if event.durable or isinstance(event, events.Notice):  # a notice of the connection to the host is in no log
                self._apply_stored(event, envelope.time.astimezone(self._zone))
            else:
                self._apply_streamed(event, envelope.time)

    def index_of_call(self, call_id: str) -> int:
        """Return which block a tool call is, -1 if it is not here."""
        return self._calls[call_id][0] if call_id in self._calls else -1

    def written_by(self, call_id: str) -> str:
        """Return the output so far of a call that runs."""
        return self._calls[call_id][1].written if call_id in self._calls else ""

    def _apply_stored(self, event: events.Event, time: datetime) -> None:
        match event:
            case events.MessageAdded(role=Role.USER):
                self._store(UserBlock(event.text, time, event.images))
            case events.MessageAdded(role=Role.ASSISTANT):
                self._answer(event)
            case events.ToolCallStarted():
                self._start_call(event)
            case events.ToolCallFinished() | events.FilesChanged() | events.ApprovalRequested() | events.ApprovalResolved():
                self._update_call(event)
            case ReportWritten():
                for block in answer_blocks(event.text):
                    self._store(block)
            case CheckRan():
                if event.decides or not event.outcome.is_green:
                    self._store(CheckBlock(event))
            case events.TurnStarted():
                self._turns[event.turn_id] = self._stored
                self._reads = []
                self._drop_live()
            case events.TurnEnded():
                self._end_turn(event)
            case _ if not isinstance(event, AgentStarted | AgentFinished):  # these are told above the conversation
                self._tell(event)

    def _start_call(self, event: events.ToolCallStarted) -> None:
        if event.call_id in self._open:
            self._stop_call(event.call_id)
        self._open.add(event.call_id)
        block = CallBlock(event)
        reads = [*self._reads, event.call_id] if is_read(event) else []
        last = self.document.blocks[self._stored - 1] if self._stored else None
        if len(reads) > _READS_SHOWN and isinstance(last, ReadsBlock):
            last.calls.append(block)
            self._calls[event.call_id] = (self._stored - 1, block)
            self.document.touch(self._stored - 1)
        elif len(reads) > _READS_SHOWN:
            calls = [*(self._calls[call_id][1] for call_id in self._reads), block]
            self._stored -= len(self._reads)
            self._calls |= {call_id: (self._stored, call) for call_id, call in zip(reads, calls, strict=True)}
            self._store(ReadsBlock(calls))
        else:
            self._calls[event.call_id] = (self._stored, block)
            self._store(block)
        self._reads = reads

    def _tell(self, event: events.Event) -> None:
        text, level = "", events.Level.INFO
        match event:
            case events.Notice():
                level, text = event.level, event.text
            case events.Rewound():
                self._cut_off(event.turn_id)
            case events.SandboxSelected():
                level, before = events.Level.WARNING, self._sandbox
                self._sandbox = event_line(event)
                text = self._sandbox if event.is_weaker and self._sandbox != before else ""
            case events.ModelChanged():
                model, self._model = self._model, (event.model, event.url)
                if self._turns and model != self._model:
                    text = f"model: {event.model or 'the server’s own'}" + (f" ({event.role})" if event.role else "")
            case events.CheckpointCreated():
                text = left_out_text(event, self._left_out)
                self._left_out.update(event.left_out)
            case events.RuleRevoked():
                text = event_line(event)
            case events.FilesRestored():
                text = self._restore(event)
            case _:
                text = model_words(event)
        if text:
            self._store(NoticeBlock(level, text))

    def _restore(self, event: events.FilesRestored) -> str:
        calls = dict.fromkeys(self._steps.get(each, "") for each in event.calls)
        known = [self._calls[call] for call in calls if call in self._calls]
        for index, block in known if event.action != "restore" else ():
            block.undo(is_undone=event.action != "redo")
            self.document.touch(index)
        return restored_text(event, [block.title for _, block in known])

    def _cut_off(self, turn_id: str) -> None:
        for index in range(self._turns.get(turn_id, self._stored), self._stored):
            self.document.blocks[index].is_cut_off = True
            self.document.touch(index)
        self._store(NoticeBlock(events.Level.WARNING, "the conversation continues from here; dimmed messages are not sent"))

    def _apply_streamed(self, event: events.Event, time: datetime) -> None:
        live = self._live
        match event:
            case events.TextDelta():
                live.write(event.text)
            case events.ThinkingDelta():
                live.think(event.text, time)
            case events.RetryScheduled():
                times = f" ({event.attempt} of {event.attempts})" if event.attempt else ""
                note = f"{event.reason}; trying again{times}"
                self._live = _Live(note=NoticeBlock(events.Level.WARNING, note))
            case events.CallProgress():
                size = f" ({event.size_chars:,} characters)" if event.size_chars else ""
                live.note = NoticeBlock(events.Level.INFO, f"the model writes a call of {event.tool}{size}")
            case events.ToolOutputDelta() if (found := self._calls.get(event.call_id)) is not None:
                found[1].write(event.text)
                self.document.touch(found[0])
                return
            case _:
                return
        self._show_live()

    def _answer(self, event: events.MessageAdded) -> None:
        stream, is_folded = self._live.stream, self._live.is_folded
        if stream is not None and event.text.strip() and stream.text == event.text:
            stream.finish()
            blocks: list[Block] = [*stream.blocks]
        else:
            blocks = answer_blocks(event.text)
        self._live = _Live()
        self.document.truncate(self._stored)
        if event.thinking:
            thinking = ThinkingBlock(event.thinking, event.thinking_s)
            thinking.is_folded = is_folded
            blocks.insert(0, thinking)
        if blocks:
            self._reads = []
        for block in blocks:
            self._put(block)
        self._stored = len(self.document)

    def _update_call(
        self, event: events.ToolCallFinished | events.FilesChanged | events.ApprovalRequested | events.ApprovalResolved
    ) -> None:
        if isinstance(event, events.ApprovalRequested):
            self._approvals[event.approval_id] = event
        asked = self._approvals.pop(event.approval_id, None) if isinstance(event, events.ApprovalResolved) else event
        found = self._calls.get(asked.call_id) if asked is not None else None
        if found is None:
            return
        index, block = found
        match event:
            case events.ToolCallFinished():
                self._open.discard(event.call_id)
                block.finish(event)
            case events.FilesChanged():
                block.changes, block.is_tried = (*block.changes, *event.changes), event.is_tried
            case events.ApprovalRequested():
                block.wait()
            case events.ApprovalResolved():
                block.answer(event.outcome)
                block.edited = event.edited
                block.answered_by = event.by.partition(" ")[0] if "@" in event.by else ""
                if event.hunks and isinstance(asked, events.ApprovalRequested):
                    block.hunks = f"{len(event.hunks)} of {asked.hunks} hunks, by you"
                if event.outcome is events.Outcome.NO and event.feedback:
                    block.feedback = refusal_words(event) if event.by == NOBODY else f'"{event.feedback}"'
        self.document.touch(index)

    def _stop_call(self, call_id: str) -> None:
        index, block = self._calls[call_id]
        block.stop()
        self.document.touch(index)

    def _end_turn(self, event: events.TurnEnded) -> None:
        self._drop_live()
        for call_id in sorted(self._open):
            self._stop_call(call_id)
        self._open.clear()
        if (block := ending(event)) is not None:
            self._store(block)

    def _store(self, block: Block) -> None:
        self._reads = []
        self.document.truncate(self._stored)
        self._put(block)
        self._stored = len(self.document)
        self._show_live()

    def _drop_live(self) -> None:
        self._live = _Live()
        self.document.truncate(self._stored)

    def _show_live(self) -> None:
        wanted = self._live.blocks()
        shown = self.document.blocks[self._stored :]
        same = 0
        while same < min(len(shown), len(wanted)) and shown[same] is wanted[same]:
            same += 1
        self.document.truncate(self._stored + same)
        for block in wanted[same:]:
            self._put(block)
        if same:
            self.document.touch(self._stored + same - 1)
            if self._live.take_thinking_changed():
                self.document.touch(self._stored)

    def _put(self, block: Block) -> None:
        before = self.document.blocks[-1] if self.document.blocks else None
        block.seq = self._seq
        is_tight = before is not None and (before.kind, block.kind) in _TIGHT
        block.has_gap = before is not None and not (is_tight and not (isinstance(before, CallBlock) and before.is_tall))
        self.document.append(block)


class _Live:
    """What is streamed and not stored yet."""

    def __init__(self, note: NoticeBlock | None = None) -> None:
        self.stream: AnswerStream | None = None
        self.note = note
        self._thinking: ThinkingBlock | None = None
        self._began: datetime | None = None
        self._thinking_changed = False

    @property
    def is_folded(self) -> bool:
        """Tell whether the reader left the thinking folded."""
        return self._thinking is None or self._thinking.is_folded

    def write(self, text: str) -> None:
        """Take some more of the answer."""
        self.note = None
        self.stream = self.stream or AnswerStream()
        self.stream.feed(text)
        if self._thinking is not None and self._thinking.is_live:
            self._thinking.is_live = False
            self._thinking_changed = True

    def think(self, text: str, time: datetime) -> None:
        """Take some more thinking."""
        self.note = None
        self._thinking = self._thinking or ThinkingBlock()
        self._began = self._began or time
        self._thinking.is_live = True
        self._thinking.think(text, (time - self._began).total_seconds())
        self._thinking_changed = True

    def take_thinking_changed(self) -> bool:
        """Tell whether the line of the thinking changed since this was last asked."""
        changed, self._thinking_changed = self._thinking_changed, False
        return changed

    def blocks(self) -> list[Block]:
        """Return the blocks to show."""
        found: list[Block] = [self._thinking] if self._thinking is not None else []
        if self.stream is not None and not self.stream.is_blank:
            found += self.stream.blocks
        return [*found, self.note] if self.note is not None else found


_TIGHT = frozenset({("thinking", "answer"), ("thinking", "call"), ("call", "call"), ("notice", "notice"), ("answer", "answer")})


PADDED_ROWS = 30
_HOP, _REMOTE_HOP = 8, 16
_FENCE_BLOCKS = 400


class Transcript(DocumentView, can_focus=True, inherit_bindings=False):
    """Shows one agent's conversation.  Give it every event of the session, live or from the log."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.CHAT)

    empty_text = "What should we work on?"
    loads_behind = True

    def __init__(self, agent: str = events.ROOT, zone: tzinfo | None = None, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self.agent = agent
        self.conversation = ConversationBlocks(self.document, agent, zone)
        self._zone = zone
        self._behind: ConversationBlocks | None = None
        self._copied_fence: tuple[str, int] = ("", -1)

    def on_resize(self) -> None:
        is_padded = self.app.size.height >= PADDED_ROWS
        if is_padded != self.document.is_padded:
            self.document.set_width(self.content_width, is_padded=is_padded)
        super().on_resize()

    def apply(self, envelope: events.Envelope) -> None:
        """Take one event."""
        event = envelope.event
        self.conversation.apply(envelope)
        if event.agent == self.agent:
            if isinstance(event, events.TurnStarted):
                self.hop = _REMOTE_HOP if "SSH_CONNECTION" in os.environ else _HOP
            elif isinstance(event, events.TurnEnded):
                self.hop = 1
            self.touch()

    def begin_loading(self) -> None:
        """Build the whole conversation behind what is shown."""
        behind = Document(self.document.width)
        behind.is_padded = self.document.is_padded
        self._behind = ConversationBlocks(behind, self.agent, self._zone)

    def apply_behind(self, envelope: events.Envelope) -> None:
        """Take one event of the whole conversation."""
        if self._behind is not None:
            self._behind.apply(envelope)

    def finish_loading(self) -> None:
        """Put the whole conversation in the place of its end; the reader stays where he is."""
        if self._behind is not None:
            self.conversation, self._behind = self._behind, None
            self.take_document(self.conversation.document)

    def copy_text(self) -> str:
        """Return what copying the block under the cursor gives (the whole message for a part of an answer)."""
        block = self.cursor.current
        return block.copy_text() if block is not None else ""

    def next_fence(self) -> tuple[Fence | None, int, int]:
        """Return the code fence nearest the cursor, asked again the next one, with its number and how many there are."""
        blocks = self.document.blocks
        index = self.cursor.index if 0 <= self.cursor.index < len(blocks) else self.last_seen()
        for at in range(min(index, len(blocks) - 1), max(-1, index - _FENCE_BLOCKS), -1):
            block = blocks[at]
            text = block.copy_text() if isinstance(block, AnswerBlock | StoredAnswer) else ""
            fences = fences_of(text) if "```" in text or "~~~" in text else []
            if fences:
                again = self._copied_fence[0] == text
                start = block.first_char if isinstance(block, AnswerBlock) and at == index else len(text) * (at != index)
                number = (self._copied_fence[1] + 1) % len(fences) if again else nearest(fences, start)
                self._copied_fence = (text, number)
                return fences[number], number + 1, len(fences)
        return None, 0, 0

    def action_jump(self, kind: str, step: int) -> None:
        """Go to the next (or, for a negative step, previous) block of a kind: a turn, a call, an error, a change."""
        self.cursor.jump_to(Mark(kind), step)

    def place_seq(self) -> int:
        """Return the place in the session of what the cursor is on while the pane has the focus, else 0."""
        index = self.cursor.index
        return self.document.blocks[index].seq if self.has_focus and 0 <= index < len(self.document) else 0

    def show_call(self, call_id: str) -> None:
        """Put the cursor on a tool call, if it is in this conversation."""
        index = self.conversation.index_of_call(call_id)
        if index >= 0:
            self.cursor.put(index)
