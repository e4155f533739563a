"""What fills the window: the next request by parts and single messages, and what the user does with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lmtui.core.events import Event
from lmtui.core.messages import Message, Role
from lmtui.core.model_events import BroughtBack, Compacted, Pinned
from lmtui.core.window import WindowItem, WindowPart
from lmtui.engine.budget import CALL_TOKENS
from lmtui.engine.entries import Entry

if TYPE_CHECKING:
    from lmtui.engine.desk import Desk

_SYSTEM, _TOOLS, _YOU, _PICTURES, _ANSWERS, _CALLS = "system prompt", "tools", "you", "pictures", "answers", "tool calls"
_SUMMARY, _BROUGHT = "summary of the beginning", "instructions"
_TITLE_CHARS = 80


class RequestParts:
    """Implements `core.window.WindowUse` over what the next request of an agent would be made of.

    Args:
        desk: returns the agent.
        emit: takes the events by which something is folded, left out, brought back or pinned; must not raise.
    """

    def __init__(self, desk: Callable[[], Desk], emit: Callable[[Event], None]) -> None:
        self._desk = desk
        self._emit = emit

    def parts(self) -> Sequence[WindowPart]:
        """Return the parts that there are."""
        desk = self._desk()
        talk, budget = desk.conversation, desk.window.budget
        found: dict[str, list[WindowItem]] = {
            name: [] for name in (_SYSTEM, _BROUGHT, _TOOLS, _YOU, _PICTURES, _ANSWERS, _CALLS, _SUMMARY)
        }
        found[_TOOLS] = [WindowItem("", tool.name, budget.scaled(budget.tools_size([tool]))) for tool in desk.specs()]
        kept_from, pinned = talk.folding.kept_from, talk.folding.pinned
        begun = [entry for entry in talk.entries.with_parts(pinned, kept_from) if entry.part in pinned]
        by_id = {id(talk.folding.shown(entry)): entry for entry in (*begun, *talk.entries[kept_from:])}
        behind = budget.scaled(budget.raw(talk.messages, ()))
        for message in talk.messages:
            tokens = budget.scaled(budget.size(message))
            entry = by_id.get(id(message))
            item = self._item(entry, message, tokens, behind)
            behind -= tokens
            for name, size in self._divided(entry, message, tokens):
                found.setdefault(name, []).append(_sized(item, size, self._sources() if name == _BROUGHT else item.title))
        sums = ((name, tuple(items), sum(item.tokens for item in items)) for name, items in found.items())
        return [WindowPart(name, tokens, len(items), items) for name, items, tokens in sums if tokens]

    def read_s(self, tokens: int) -> float:
        """Return how many seconds the model needs to read so many tokens, 0 where its speed is not known yet."""
        return self._desk().window.budget.read_s(tokens)

    def fold(self, item_id: str) -> None:
        """Send only the beginning of a result from the next request on."""
        self._shorten(item_id, is_folded=True)

    def leave_out(self, item_id: str) -> None:
        """Send a line in place of a result from the next request on."""
        self._shorten(item_id, is_folded=False)

    def bring_back(self, item_id: str) -> None:
        """Send a result whole again."""
        if self._entry(item_id) is not None:
            self._emit(BroughtBack(agent=self._desk().agent, parts=(item_id,)))

    def pin(self, item_id: str, *, is_pinned: bool = True) -> None:
        """Keep something when room is made, or do not any more."""
        if (entry := self._entry(item_id)) is not None:
            calls = [call.id for call in entry.message.tool_calls]  # of an answer those, with their results
            for part in calls or [item_id]:
                self._emit(Pinned(agent=self._desk().agent, part=part, is_pinned=is_pinned))

    def _shorten(self, item_id: str, *, is_folded: bool) -> None:
        desk, entry = self._desk(), self._entry(item_id)
        if entry is None:
            return
        budget, folding = desk.window.budget, desk.conversation.folding
        before = budget.scaled(budget.raw(desk.conversation.messages, desk.specs()))
        shorter = budget.size(folding.shortened(entry, is_folded=is_folded))
        gain = budget.scaled(budget.size(folding.shown(entry)) - shorter)
        parts = (item_id,)
        self._emit(
            Compacted(
                agent=desk.agent,
                why="you folded it" if is_folded else "you left it out",
                tokens_before=before,
                tokens_after=before - gain,
                elided=() if is_folded else parts,
                folded=parts if is_folded else (),
            )
        )

    def _entry(self, item_id: str) -> Entry | None:
        return self._desk().conversation.entries.find(item_id)

    def _item(self, entry: Entry | None, message: Message, tokens: int, behind: int) -> WindowItem:
        if entry is None or not entry.part:
            return WindowItem("", _first_line(message), tokens, behind)
        folding = self._desk().conversation.folding
        state = "left out" if entry.part in folding.elided else "folded" if entry.part in folding.folded else ""
        title = entry.subject or entry.tool or _first_line(message)
        is_pinned = any(part in folding.pinned for part in (entry.part, *(call.id for call in message.tool_calls)))
        return WindowItem(entry.part, title, tokens, behind, state, is_pinned)

    def _sources(self) -> str:
        return ", ".join(source.name for source in self._desk().conversation.in_prompt.sources)

    def _divided(self, entry: Entry | None, message: Message, tokens: int) -> list[tuple[str, int]]:
        """Return the parts that a message belongs to, with how much of it."""
        budget = self._desk().window.budget
        match message.role:
            case Role.SYSTEM:
                text = self._desk().conversation.in_prompt.text
                brought = budget.scaled(budget.size(Message(Role.SYSTEM, text))) if text else 0
                return [(_SYSTEM, tokens - brought), *([(_BROUGHT, brought)] if brought else [])]
            case Role.TOOL:
                return [(f"results of {entry.tool if entry and entry.tool else 'tools'}", tokens)]
            case Role.USER:
                pictures = budget.scaled(budget.image_tokens * len(message.images))
                name = _YOU if entry is not None or not self._desk().conversation.folding.summary else _SUMMARY
                return [(name, tokens - pictures), *([(_PICTURES, pictures)] if pictures else [])]
            case Role.ASSISTANT:
                size = budget.size(Message(Role.ASSISTANT, "", tool_calls=message.tool_calls)) if message.tool_calls else 0
                calls = budget.scaled(max(0, size - CALL_TOKENS // 2))
                return [(_ANSWERS, tokens - calls), *([(_CALLS, calls)] if calls else [])]


def _sized(item: WindowItem, tokens: int, title: str) -> WindowItem:
    return WindowItem(item.id, title, tokens, item.reread_tokens, item.state, item.is_pinned)


def _first_line(message: Message) -> str:
    """Return the beginning of what was said, or the names of the tools that were called."""
    text = " ".join(message.text[: 4 * _TITLE_CHARS].split())[:_TITLE_CHARS]
    return text or ", ".join(call.name for call in message.tool_calls) or "…"
