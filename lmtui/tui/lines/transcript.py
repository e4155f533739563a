"""The conversation: messages, streamed answers, thinking and tool calls in one pane of lines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import ClassVar, Unpack

from textual.binding import BindingType

from lmtui.core import events
from lmtui.core.agent_events import AgentFinished, AgentStarted, PlanDecided, PlanProposed
from lmtui.core.budgets import ReportWritten
from lmtui.core.event_text import event_line, model_words
from lmtui.core.messages import Role
from lmtui.core.model_events import Reminder
from lmtui.core.sanitize import sanitize_path
from lmtui.core.sessions import NOBODY, refusal_words
from lmtui.core.verification import CheckRan
from lmtui.tui.commands import Scope, bindings
from lmtui.tui.lines.blocks import (
    AnswerBlock,
    AnswerStream,
    CheckBlock,
    EndingBlock,
    NoticeBlock,
    StoredAnswer,
    ThinkingBlock,
    UserBlock,
    answer_blocks,
)
from lmtui.tui.lines.calls import FOLDED_FROM, CallBlock, CallsBlock, group_of
from lmtui.tui.lines.document import Block, Document
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.markdown import CODE_BLOCK
from lmtui.tui.lines.styled_text import Line, Place, fill, slice_line
from lmtui.tui.lines.table import BAR
from lmtui.tui.lines.tool_log import CallOpened
from lmtui.tui.timing import WidgetOptions

_MOST_NAMES = 5


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
        self.calls: dict[str, tuple[int, CallBlock]] = {}
        self._open: set[str] = set()
        self._group, self._in_row = "", list[str]()
        self._approvals: dict[str, events.ApprovalRequested] = {}
        self._checks: dict[str, tuple[int, CheckBlock]] = {}
        self._ended: tuple[int, EndingBlock] | None = None
        self._answered = ""
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

    def written_by(self, call_id: str) -> str:
        """Return the output so far of a call that runs."""
        return self.calls[call_id][1].written if call_id in self.calls else ""

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
                self._check(event)
            case Reminder() if self._sent(event):
                pass
            case events.TurnStarted():
                self._turns[event.turn_id] = self._stored
                self._checks, self._ended, self._answered = {}, None, ""
                self._in_row = []
                self._drop_live()
            case events.TurnEnded():
                self._end_turn(event)
            case _ if not isinstance(event, AgentStarted | AgentFinished | PlanProposed | PlanDecided):  # shown elsewhere
                self._tell(event)

    def _check(self, check: CheckRan) -> None:
        """Show a check once: a later one of its command has the lines, and the same lines add none."""
        if self._ended is not None and check.decides:
            self._ended[1].checked(check)
            self.document.touch(self._ended[0])
        if (check.decides and self._ended is None) or not check.outcome.is_green:
            said = (check.outcome, check.text)
            if any((row.check.outcome, row.check.text) == said for _, row in self._checks.values() if check.text):
                return
            if check.command in self._checks:
                index, before = self._checks[check.command]
                before.is_short = True
                self.document.touch(index)
            block = CheckBlock(check)
            self._checks[check.command] = self._stored, block
            self._store(block)

    def _sent(self, reminder: Reminder) -> bool:
        """Note on a check's row that the model knows of it; False for what neither rows nor the ending say."""
        for command, (index, block) in self._checks.items():
            if (command or block.check.rung) in reminder.text or (block.check.text and block.check.text in reminder.text):
                block.is_sent = True
                self.document.touch(index)
                return True
        return reminder.text.startswith("Not finished yet")

    def _start_call(self, event: events.ToolCallStarted) -> None:
        if event.call_id in self._open:
            self._stop_call(event.call_id)
        self._open.add(event.call_id)
        self._answered = ""
        block, group = CallBlock(event), group_of(event)
        in_row = [*(self._in_row if group == self._group else ()), event.call_id] if group else []
        last = self.document.blocks[self._stored - 1] if self._stored else None
        if not group or len(in_row) < FOLDED_FROM[group]:
            self.calls[event.call_id] = (self._stored, block)
            self._store(block)
        elif isinstance(last, CallsBlock) and len(in_row) > FOLDED_FROM[group]:
            last.calls.append(block)
            self.calls[event.call_id] = (self._stored - 1, block)
            self.document.touch(self._stored - 1)
        else:
            calls = [*(self.calls[call_id][1] for call_id in in_row[:-1]), block]
            self._stored -= len(calls) - 1
            self.calls |= {call_id: (self._stored, call) for call_id, call in zip(in_row, calls, strict=True)}
            self._store(CallsBlock(group, calls))
        self._group, self._in_row = group, in_row

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
                fresh = [path for path in event.left_out if path not in self._left_out]
                names = names_text(fresh, max(0, event.left_out_total - len(event.left_out)))
                text = f"undo does not cover: {names}" if fresh else ""
                self._left_out.update(fresh)
            case events.RuleRevoked() | events.FilesRestored():
                text = event_line(event)
                if isinstance(event, events.FilesRestored) and event.action != "restore":
                    self._mark_restored(event)
            case _:
                text = model_words(event)
        if text:
            self._store(NoticeBlock(level, text))

    def _mark_restored(self, event: events.FilesRestored) -> None:
        for call_id in {self._steps.get(each, "") for each in event.calls} & self.calls.keys():
            index, block = self.calls[call_id]
            block.undo(is_undone=event.action != "redo")
            self.document.touch(index)
        if self._ended is not None:
            self._ended[1].restored(is_undone=event.action != "redo")
            self.document.touch(self._ended[0])

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
            case events.ToolOutputDelta() if (found := self.calls.get(event.call_id)) is not None:
                found[1].write(event.text)
                self.document.touch(found[0])
                return
            case _:
                return
        self._show_live()

    def _answer(self, event: events.MessageAdded) -> None:
        stream, is_folded = self._live.stream, self._live.is_folded
        is_repeated = bool(event.text.strip()) and event.text == self._answered
        self._answered = event.text or self._answered
        if stream is not None and event.text.strip() and stream.text == event.text:
            stream.finish()
            blocks: list[Block] = [] if is_repeated else [*stream.blocks]
        else:
            blocks = [] if is_repeated else answer_blocks(event.text)
        self._live = _Live()
        self.document.truncate(self._stored)
        if event.thinking and not is_repeated:
            thinking = ThinkingBlock(event.thinking, event.thinking_s)
            thinking.is_folded = is_folded
            blocks.insert(0, thinking)
        if blocks:
            self._in_row = []
        for block in blocks:
            self._put(block)
        self._stored = len(self.document)

    def _update_call(
        self, event: events.ToolCallFinished | events.FilesChanged | events.ApprovalRequested | events.ApprovalResolved
    ) -> None:
        if isinstance(event, events.ApprovalRequested):
            self._approvals[event.approval_id] = event
        asked = self._approvals.pop(event.approval_id, None) if isinstance(event, events.ApprovalResolved) else event
        found = self.calls.get(asked.call_id) if asked is not None else None
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
                    block.hunks = f"{len(event.hunks)} of {asked.hunks} hunks"
                if event.outcome is events.Outcome.NO and event.feedback:
                    block.feedback = refusal_words(event) if event.by == NOBODY else f'"{event.feedback}"'
        self.document.touch(index)

    def _stop_call(self, call_id: str) -> None:
        index, block = self.calls[call_id]
        block.stop()
        self.document.touch(index)

    def _end_turn(self, event: events.TurnEnded) -> None:
        self._drop_live()
        for call_id in sorted(self._open):
            self._stop_call(call_id)
        self._open.clear()
        if (block := EndingBlock(event)).is_needed:
            self._ended = self._stored, block
            self._store(block)

    def _store(self, block: Block) -> None:
        self._in_row = []
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


_TIGHT = frozenset({("thinking", "call"), ("call", "call"), ("notice", "notice"), ("answer", "answer")})


PADDED_ROWS = 30
_HOP, _REMOTE_HOP = 8, 16
_FENCE_BLOCKS = 400


class BlockCursor:
    """A cursor on a block of a document, -1 for none; it is drawn in the gutter."""

    def __init__(self, view: Transcript) -> None:
        self.index = -1
        self._view = view

    @property
    def current(self) -> Block | None:
        """Return the block under the cursor; without one, the last."""
        blocks = self._view.document.blocks
        return blocks[self.index if 0 <= self.index < len(blocks) else -1] if blocks else None

    def mark(self, line: int, content: Line) -> Line:
        """Return a line with the cursor's sign where it is in its block."""
        if self.index < 0 or not self._view.has_focus:
            return content
        document = self._view.document
        index, top = document.locate(line)
        first = top + document.blocks[index].has_gap
        marked = (BAR, *slice_line(content, 1)) if index == self.index and line >= first else content
        return fill(marked, self._view.content_width, "cursor") if index == self.index and line == first else marked

    def move(self, rows: int) -> None:
        """Move by a block, or scroll within one that is taller than the pane; scroll by more rows."""
        view = self._view
        if abs(rows) > 1:
            view.scroller.move(rows)
        if abs(rows) > 1 or not len(view.document):
            return
        if self.index < 0:
            self.put(view.last_seen())
            return
        top, bottom = self._span(self.index)
        view_top = view.scroll_offset.y
        view_bottom = view_top + view.size.height
        if (rows > 0 and top <= view_bottom < bottom) or (rows < 0 and top < view_top <= bottom):
            view.scroller.move(rows)
        else:
            self.put(self.index + rows)

    def to_edge(self, *, is_end: bool) -> None:
        """Go to the beginning, or to the end and follow it."""
        last = len(self._view.document) - 1
        self.index = last if is_end else min(0, last)
        self._view.scroller.to_edge(is_end=is_end)

    def put(self, index: int) -> None:
        """Go to a block and bring it into view."""
        document = self._view.document
        before, self.index = self.index, max(0, min(len(document) - 1, index))
        self._reveal()
        for each in {before, self.index}:
            if 0 <= each < len(document):
                self._view.touch(document.top(each))

    def toggle(self, index: int) -> None:
        """Fold or unfold a block where it is; it stays as the reader wants it."""
        view = self._view
        block = view.document.blocks[index]
        if block.can_fold:
            view.scroller.hold_still()
            block.is_folded = not block.is_folded
            view.document.touch(index)
            view.scroller.go(view.scroller.place)

    def can_click(self, line: int) -> bool:
        """Tell whether a line is of a block that folds."""
        document = self._view.document
        return document.blocks[document.locate(line)[0]].can_fold

    def click(self, line: int) -> None:
        """Go to a block, and fold or unfold it."""
        self.index, _ = self._view.document.locate(line)
        self.toggle(self.index)
        self._view.redraw()

    def _reveal(self) -> None:
        view = self._view
        top, bottom = self._span(self.index)
        height = view.size.height
        view_top = view.scroll_offset.y
        if top < view_top or bottom - top >= height:
            view.scroller.go((self.index, 0))
        elif bottom > view_top + height:
            view.scroller.move(bottom - view_top - height)

    def _span(self, index: int) -> tuple[int, int]:
        height = self._view.document.height(index)
        top = self._view.document.top(index)
        return top, top + height


class Transcript(VirtualLineView, can_focus=True, inherit_bindings=False):
    """Shows one agent's conversation, with a cursor on a block.  Give it every event of the session, live or from the log."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.CHAT)

    empty_text = "What should we work on?"
    loads_behind = True
    cursor: BlockCursor

    def __init__(self, agent: str = events.ROOT, zone: tzinfo | None = None, **options: Unpack[WidgetOptions]) -> None:
        self.document = Document()
        super().__init__(self.document, **options)
        self.scroller.is_following = True
        self.cursor = BlockCursor(self)
        self.document.changed = self.touch
        self.agent = agent
        self.conversation = ConversationBlocks(self.document, agent, zone)
        self._zone = zone
        self._behind: ConversationBlocks | None = None
        self._copied: tuple[str, int] = ("", -1)

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
        """Put the whole conversation in the place of its end, with what the reader unfolded there; he stays in his place."""
        if self._behind is None:
            return
        self.conversation, self._behind = self._behind, None
        document = self.conversation.document
        shift = len(document) - len(self.document)
        for index, block in enumerate(self.document.blocks):
            if not block.is_folded and 0 <= index + shift < len(document) and document.blocks[index + shift].kind == block.kind:
                document.blocks[index + shift].unfold_all()
        document.set_width(self.content_width, is_padded=self.document.is_padded)
        self.copy_mode.is_on = False
        if self.cursor.index >= 0:
            self.cursor.index = max(0, self.cursor.index + shift)
        scroller, (index, offset) = self.scroller, self.scroller.place
        self.document = self.source = document
        document.changed = self.touch
        scroller.place = max(0, index + shift), offset
        scroller.seen = (scroller.seen[0] + shift, scroller.seen[1]) if scroller.seen is not None else None
        self.redraw()
        if self.size and self.is_running:
            self.sync()

    def last_seen(self) -> int:
        """Return the last block in view."""
        return self.document.place_at(self.scroll_offset.y + self.size.height - 1)[0]

    def found(self, place: Place) -> None:
        """Let the cursor be where a match was gone to."""
        self.cursor.index = place[0]

    def action_select(self, is_fold: bool = False) -> None:
        """Ask for the call under the cursor to be shown; fold or unfold anything else, with `is_fold` a call too."""
        block = self.cursor.current
        if block is not None and block.call_id and not is_fold:
            self.post_message(CallOpened(block.call_id))
        elif block is not None:
            self.cursor.toggle(self.document.blocks.index(block))

    def copy_text(self) -> str:
        """Return what copying the block under the cursor gives (the whole message for a part of an answer)."""
        block = self.cursor.current
        return block.copy_text() if block is not None else ""

    def next_fence(self) -> tuple[str, int, int]:
        """Return code of the nearest answer up to the cursor, in turn, its number and their count."""
        blocks, index = self.document.blocks, self.cursor.index
        for block in reversed(blocks[: index + 1 if index >= 0 else len(blocks)][-_FENCE_BLOCKS:]):
            text = block.copy_text() if isinstance(block, AnswerBlock | StoredAnswer) else ""
            if found := CODE_BLOCK.findall(text):
                number = (self._copied[1] + 1) % len(found) if self._copied[0] == text else 0
                self._copied = text, number
                return found[number][1].rstrip("\n"), number + 1, len(found)
        return "", 0, 0

    def action_turn(self, step: int) -> None:
        """Go to the beginning of the next turn, or of the one before, if there is one."""
        blocks, index = self.document.blocks, self.cursor.index
        index = (index if index >= 0 else len(blocks)) + step
        while 0 <= index < len(blocks) and blocks[index].kind != "user":
            index += step
        if 0 <= index < len(blocks):
            self.cursor.put(index)

    def place_seq(self) -> int:
        """Return the place in the session of what the cursor is on while the pane has the focus, else 0."""
        index = self.cursor.index
        return self.document.blocks[index].seq if self.has_focus and 0 <= index < len(self.document) else 0

    def show_call(self, call_id: str) -> None:
        """Put the cursor on a tool call, if it is in this conversation."""
        if call_id in self.conversation.calls:
            self.cursor.put(self.conversation.calls[call_id][0])
