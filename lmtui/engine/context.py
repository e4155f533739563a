"""The conversation as the model sees it, built from events alone: live and replayed sessions hold the same messages.

It only grows.  The request of step N+1 is the request of step N and what was added, so that servers reuse their cache; where
room is made, what was said stays here whole and only what is sent becomes smaller (`folding.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from lmtui.core import events
from lmtui.core.messages import (
    INTERRUPTED,
    Image,
    ImageRef,
    Message,
    ModelRequest,
    Role,
    ToolSet,
    ToolSpec,
)
from lmtui.core.model_events import BroughtBack, Compacted, NotesAttached, Pinned, Reminder, ToolSetChanged
from lmtui.core.prompt_parts import PromptParts, PromptPartsRead
from lmtui.core.sanitize import sanitize_line
from lmtui.core.window import bytes_by_four
from lmtui.engine.entries import Entries, Entry, TranscriptSummary, in_short, is_bulky, truncate_middle

FOLDED_CHARS = 600
_FIRST = 1


class ContextEdits:
    """What the events of one conversation say about how it is sent."""

    def __init__(self) -> None:
        self.elided: set[str] = set()
        self.folded: set[str] = set()
        self.pinned: set[str] = set()
        self._cuts: list[tuple[int, str]] = []
        self._shown: dict[tuple[str, bool], Message] = {}

    @property
    def kept_from(self) -> int:
        """Return the place of the first message that is sent as it was said, 0 where nothing was summed up."""
        return self._cuts[-1][0] if self._cuts else 0

    @property
    def summary(self) -> str:
        """Return what means what was summed up."""
        return self._cuts[-1][1] if self._cuts else ""

    def apply(self, event: Compacted | BroughtBack | Pinned) -> None:
        """Take up a change."""
        match event:
            case Compacted():
                self.elided.update(event.elided)
                self.folded.update(event.folded)
                if event.kept_from > self.kept_from:
                    self._cuts.append((event.kept_from, event.summary))
            case BroughtBack():
                self.elided.difference_update(event.parts)
                self.folded.difference_update(event.parts)
            case Pinned():
                (self.pinned.add if event.is_pinned else self.pinned.discard)(event.part)

    def rewound(self, length: int) -> None:
        """Forget the cuts behind the end of a conversation that was rewound: what they summed up is sent again."""
        self._cuts = [cut for cut in self._cuts if cut[0] <= length]

    def shown(self, entry: Entry) -> Message:
        """Return a message as it is sent, as long as it is not summed up."""
        if entry.part and (entry.part in self.elided or entry.part in self.folded):
            return self.shortened(entry, is_folded=entry.part not in self.elided)
        return entry.message

    def shortened(self, entry: Entry, *, is_folded: bool = False) -> Message:
        """Return a message with only its beginning, or only a line, in its place; always the same object for the same one.

        Of a failure what decides it stays, its end before all; of an answer only the arguments of its calls become shorter.
        """
        key = (entry.part, is_folded)
        if key not in self._shown:
            self._shown[key] = _short(entry, is_folded=is_folded)
        return self._shown[key]

    def sent(self, entries: Entries) -> list[Message]:
        """Return the messages of the next request."""
        if not self._cuts:
            return [self.shown(entry) for entry in entries]
        kept_from, summary = self._cuts[-1]
        task = entries.first_task
        if task is not None and entries.last_task(kept_from) is None:  # it was said behind the cut
            task = None
        said = self.shown(task) if task else Message(Role.USER, "")
        last = last_said(entries, kept_from)
        words = f"[The user said last:]\n{self.shown(last).text}" if last else ""
        told = replace(said, text="\n\n".join(part for part in (said.text, summary, words) if part))
        begun = entries.with_parts(self.pinned, kept_from)
        pinned = [message for entry in begun if entry is not task for message in self._pinned(entry)]
        return [entries[0].message, told, *pinned, *(self.shown(entry) for entry in entries[kept_from:])]

    def _pinned(self, entry: Entry) -> list[Message]:
        """Return what is kept of a message that was summed up: pinned ones, with the calls that pinned results belong to."""
        message = entry.message
        if message.role is Role.ASSISTANT:
            calls = tuple(call for call in message.tool_calls if call.id in self.pinned)
            return [replace(message, text="", thinking="", tool_calls=calls)] if calls else []
        return [message] if entry.part in self.pinned else []


def last_said(entries: Entries, place: int) -> Entry | None:
    """Return what the user said last before a place; None where it is the first task, which stays anyway."""
    last = entries.last_task(place)
    return last if last is not entries.first_task else None


def _short(entry: Entry, *, is_folded: bool) -> Message:
    message = entry.message
    if message.role is Role.ASSISTANT:
        return replace(message, tool_calls=tuple(map(in_short, message.tool_calls)))
    return replace(message, text=_folded_text(entry) if is_folded else _line(entry), images=())


def _folded_text(entry: Entry) -> str:
    text = entry.message.text.removeprefix(entry.kept)
    if entry.tool and not entry.is_ok:
        return truncate_middle(text, FOLDED_CHARS)
    beginning = text[:FOLDED_CHARS].rpartition("\n")[0] or text[:FOLDED_CHARS]
    rest = bytes_by_four(text[len(beginning) :])
    return f"{entry.kept}{beginning}\n[the rest of the {entry.title or 'this'}, {rest:,} tokens, left out{_way_back(entry)}]"


def _line(entry: Entry) -> str:
    size = bytes_by_four(entry.message.text.removeprefix(entry.kept))
    ended = f", {entry.outcome or 'failed'}" if entry.tool and not entry.is_ok else ""
    title = "notes from memory" if entry.recalled is not None else entry.title or "this"
    line = f"[{title}{ended}, {size:,} tokens, left out{_way_back(entry)}]"
    return f"{entry.kept}\n\n{line}" if entry.kept else line


def _way_back(entry: Entry) -> str:
    """Return how the model gets again what was left out; a change is not to be made twice for it."""
    match entry.tool:
        case "":
            return ""
        case "read":
            return "; read it again if you need it"
        case "write" | "edit":
            return "; the file has it" if entry.is_ok else ""
        case _:
            return "; call it again if you need it"


def cut_places(entries: Sequence[Entry], kept_from: int) -> list[int]:
    """Return the places from which a conversation may be kept, the last of them behind its last step.

    At none of them a result loses its call or a call its result.
    """
    last = len(entries)
    while last and entries[last - 1].message.role is Role.USER:
        last -= 1
    places = range(max(kept_from, 1) + 1, last + 1)
    return [place for place in places if place == len(entries) or entries[place].message.role is not Role.TOOL]


_NOT_RUN = "Not run: the turn was stopped before this call."
_MAX_TITLE_CHARS = 120
_MAX_RECALLED_CHARS = 600
RECALLED = "memory_"
"""How the names of parts begin that are notes from memory."""
_UNKNOWN = "The turn was stopped while this ran: its effect is unknown."


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What goes with every request; `model` empty is the server's own default."""

    model: str = ""
    temperature: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    repeat_penalty: float | None = None


def system_prompt(tools: str = "full") -> str:
    """Return the fixed first message for a set of tools.  No clock, no counters: it is the same bytes in every session."""
    names = {"lean": ("lean",), "long": ("lean", "long")}.get(tools, ("system",))
    folder = Path(__file__).with_name("prompts")
    return "\n".join(folder.joinpath(f"{name}.md").read_text(encoding="utf-8").strip() for name in names)


@dataclass(slots=True)
class SystemPrompt:
    """The first message of a conversation: the prompt for a set of tools, and the instructions that were in it when written.

    `newest` are those read last; once the model has answered, they are told at the end and join the prompt with a compaction.
    """

    prompt: Callable[[str], str]
    tools: str = "full"
    newest: PromptParts = field(default_factory=PromptParts)
    written: PromptParts = field(default_factory=PromptParts)

    @property
    def has_room(self) -> bool:
        """Tell whether the set of tools leaves room for long instructions."""
        return self.tools not in (ToolSet.LEAN, ToolSet.LONG)

    def write(self) -> Message:
        """Write it again, with the newest instructions."""
        self.written = self.newest
        parts = (self.prompt(self.tools), self.newest.as_text(has_room=self.has_room))
        return Message(Role.SYSTEM, "\n\n".join(part for part in parts if part))


class Conversation:
    """The messages of one agent.

    `prompt` returns the first of them for a set of tools; `picture` returns one that a message names, None where it is gone.
    `change` says in words why what was sent before was sent otherwise, the last time that it was.
    """

    def __init__(
        self,
        agent: str,
        prompt: Callable[[str], str] = system_prompt,
        picture: Callable[[ImageRef], Image | None] = lambda _: None,
    ) -> None:
        self._agent = agent
        self.prompt = SystemPrompt(prompt)
        self._has_answers = False
        self.picture = picture
        self._unanswered: dict[str, None] = {}
        self._started: dict[str, events.ToolCallStarted] = {}
        self._commands: dict[str, str] = {}  # of the user's own, by the ids of their calls
        self._files: dict[str, tuple[str, ...]] = {}  # that an open call changed
        self.entries = Entries(Entry(Message(Role.SYSTEM, prompt("full"))))
        self._sent: list[Message] = [self.entries[0].message]
        self._turns: dict[str, int] = {}
        self._said = 0
        self._is_in_turn = False
        self._gist, self._gist_to = TranscriptSummary(), 0
        self.folding = ContextEdits()
        self.change = ""

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return all messages as they are sent, the system prompt first."""
        return tuple(self._sent)

    def gist(self, place: int) -> TranscriptSummary:
        """Return what is worth telling of all before a place; what is summed up already is not gone over again."""
        if place >= self.folding.kept_from > self._gist_to:
            self._gist.take(self.entries.held[self._gist_to : self.folding.kept_from])
            self._gist_to = self.folding.kept_from
        told, begun = (self._gist.copy(), self._gist_to) if place >= self._gist_to else (TranscriptSummary(), 0)
        told.take(self.entries.held[begun:place])
        return told

    @property
    def has_new_pictures(self) -> bool:
        """Tell whether pictures joined the conversation in the last turn."""
        return any(entry.message.images for entry in self.entries.held[max(self._turns.values(), default=0) :])

    def has_met(self, path: str) -> bool:
        """Tell whether a file was read or written in this conversation, or came with the user's words."""
        return self.entries.has_met(path)

    @property
    def recalled(self) -> tuple[frozenset[str], bool]:
        """Return the notes that are sent with the conversation, and whether they are the index."""
        entries = self.entries.held[self.folding.kept_from :]
        sent = [entry.recalled for entry in entries if entry.recalled is not None]
        return frozenset(note for event in sent for note in event.notes), any(event.is_index for event in sent)

    @property
    def last_task(self) -> str:
        """Return what the user said last, without the files that came with it."""
        last = self.entries.last_task()
        return (last.kept or last.message.text) if last else ""

    @property
    def has_files(self) -> bool:
        """Tell whether files, or places in them, came with what the user said last."""
        last = self.entries.last_task()
        return bool(last and last.kept)

    def apply(self, event: events.Event) -> None:
        """Take up what an event adds; other agents' events and all that is not said to the model are passed over."""
        if event.agent != self._agent:
            return
        match event:
            case events.MessageAdded():
                self._settle()
                self._add(self._entry(event))
                self._has_answers = self._has_answers or event.role is Role.ASSISTANT
                self._unanswered = {call.id: None for call in event.tool_calls}
            case Reminder() | NotesAttached():
                self._settle()
                self._add(self._told(event))
            case PromptPartsRead(guidance=guidance):
                self._guide(guidance)
            case events.ToolCallStarted(by="user"):
                self._commands[event.call_id] = event.title
            case events.ToolCallStarted():
                self._started[event.call_id] = event
            case events.FilesChanged():
                self._files[event.call_id] = event.files
            case events.ToolCallFinished() if event.call_id in self._commands:
                self._settle()
                self._add(_ran(event, self._commands.pop(event.call_id), self._files.pop(event.call_id, ())))
            case events.TurnStarted() | events.TurnEnded():
                self._bound_turn(event)
            case events.FilesRestored() if event.action != "rewind":
                self._settle()
                self._add(Entry(Message(Role.USER, _restored(event))))
            case events.ToolCallFinished() if event.call_id in self._unanswered:
                self._answer(event.call_id, event.result, event)
            case _:
                self._change(event)

    def _change(self, event: events.Event) -> None:
        """Take up what changes messages that were sent before."""
        match event:
            case events.Rewound() if event.turn_id in self._turns:
                self._rewind(event.turn_id)
                self._write_prompt()
                self._send_anew("rewound")
            case Compacted() | BroughtBack() | Pinned():
                before = self._sent
                if isinstance(event, Compacted) and event.kept_from and self.prompt.newest != self.prompt.written:
                    self._write_prompt()
                self.folding.apply(event)
                if isinstance(event, Pinned):
                    self.entries.unpack_part(event.part)
                if self.folding.sent(self.entries) != before:
                    self._send_anew(_why(event))
            case ToolSetChanged():
                self.prompt.tools = event.tools
                self._write_prompt()
                self._send_anew("the tools changed")

    def _guide(self, guidance: PromptParts) -> None:
        """Take up the instructions: in the system prompt as long as nothing was answered, else at the end."""
        self.prompt.newest = guidance
        if self._has_answers:
            self._settle()
            self._add(Entry(Message(Role.USER, _guidance_note(guidance.as_text(has_room=self.prompt.has_room)))))
        else:
            self._write_prompt()
            self._send_anew("the instructions were read")

    def _write_prompt(self) -> None:
        self.entries.held[0] = Entry(self.prompt.write())

    def request(self, tools: tuple[ToolSpec, ...], settings: ModelSettings, **more: Any) -> ModelRequest:
        """Return the next request; `more` are its other fields."""
        self._settle()
        return ModelRequest(self.messages, tools, **asdict(settings), **more)

    def _add(self, entry: Entry) -> None:
        self.entries.held.append(entry)
        self.entries.pack_to(self.folding.kept_from, self.folding.pinned)
        self._sent.append(self.folding.shown(entry))

    def _send_anew(self, why: str) -> None:
        self._sent = self.folding.sent(self.entries)
        self.change = why

    def _told(self, event: Reminder | NotesAttached) -> Entry:
        """Return what lmtui itself says; notes can be left out."""
        if isinstance(event, Reminder):
            return Entry(Message(Role.USER, event.text))
        title = "; ".join(event.lines)[:_MAX_RECALLED_CHARS]
        return Entry(Message(Role.USER, event.text), f"{RECALLED}{self._said}", title, subject=title, recalled=event)

    def _entry(self, event: events.MessageAdded) -> Entry:
        """Return a message as the model gets it: with what it mentions, and a word in place of each picture that is gone."""
        images, gone = self._pictures(event.images)
        text = "\n\n".join((event.text, *([event.attached] if event.attached else []), *gone))
        message = Message(event.role, text, event.thinking, event.tool_calls, images=images)
        if event.role is not Role.USER:
            return Entry(message, f"args_{event.tool_calls[0].id}") if is_bulky(event.tool_calls) else Entry(message)
        self._said += 1
        part = f"message_{self._said}" if event.attached or images else ""
        title = "files and pictures that came with this" if part else ""
        return Entry(message, part, title, kept=event.text, is_task=True)

    def _pictures(self, refs: Sequence[ImageRef]) -> tuple[tuple[Image, ...], list[str]]:
        """Return the pictures of a message, and a word in place of each that is gone."""
        found = [(ref, self.picture(ref)) for ref in refs]
        gone = [f"[the picture {sanitize_line(ref.name)} is gone]" for ref, image in found if image is None]
        return tuple(image for _, image in found if image is not None), gone

    def _rewind(self, turn_id: str) -> None:
        """Forget a turn and what came after it; call ids stay used."""
        length = self._turns[turn_id]
        self.folding.rewound(length)
        self.entries.cut(length, self.folding.kept_from)
        if self._gist_to > length:
            self._gist, self._gist_to = TranscriptSummary(), 0
        self._unanswered = {}
        self._is_in_turn = False
        self._turns = {each: start for each, start in self._turns.items() if start < length}

    def _settle(self) -> None:
        """Answer calls that never ran: servers refuse a conversation with an unanswered call."""
        for call_id in tuple(self._unanswered):
            self._answer(call_id, _UNKNOWN if call_id in self._started else _NOT_RUN, None)

    def _bound_turn(self, event: events.TurnStarted | events.TurnEnded) -> None:
        """Take note that a turn begins or ends."""
        self._settle()
        is_begin = isinstance(event, events.TurnStarted)
        if is_begin:
            self._turns[event.turn_id] = len(self.entries)
        if self._is_in_turn and self.entries[-1].message.role in (Role.USER, Role.TOOL):
            self._add(Entry(Message(Role.ASSISTANT, INTERRUPTED)))
        self._is_in_turn = is_begin

    def _answer(self, call_id: str, text: str, event: events.ToolCallFinished | None) -> None:
        del self._unanswered[call_id]
        images, gone = self._pictures(event.images if event is not None else ())
        message = Message(Role.TOOL, "\n\n".join((text, *gone)), call_id=call_id, images=images)
        begun = self._started.pop(call_id, None)
        if event is None or begun is None:
            self._add(Entry(message, call_id, "result", is_ok=False))
            return
        title = f"result of {event.tool} {begun.title}".strip()[:_MAX_TITLE_CHARS]
        about = (event.tool, begun.title, event.summary or ("" if event.ok else "failed"))
        self._add(Entry(message, call_id, title, "", *about, is_ok=event.ok, files=self._files.pop(call_id, ())))


def _ran(event: events.ToolCallFinished, command: str, files: tuple[str, ...]) -> Entry:
    """Return what the model is told about a command of the user's own."""
    told = f"[The user ran a command: {command}]"
    message = Message(Role.USER, f"{told}\n{event.result}")
    return Entry(message, event.call_id, "its output", told, "", command, event.summary, is_ok=event.ok, files=files)


def _guidance_note(told: str) -> str:
    """Return what the model is told about instructions that are others than those it knows."""
    if not told:
        return "[Ignore the earlier instructions, persona and skills.]"
    return f"[What you were given of instructions, persona and skills has changed. From now on this holds:]\n\n{told}"


def _why(event: Compacted | BroughtBack | Pinned) -> str:
    """Return in few words why what was sent is sent otherwise."""
    if isinstance(event, Compacted):
        return event.why if event.why.startswith("you ") else "compaction"
    return "you brought it back" if isinstance(event, BroughtBack) else "you unpinned it"


def _restored(event: events.FilesRestored) -> str:
    """Return what the model is told about files that the user put back: it would trust what it read before."""
    files = ", ".join(map(sanitize_line, event.files[:20])) + (" and more" if len(event.files) > 20 else "")
    did = "did your change again to" if event.action == "redo" else "put back to an earlier state"
    return f"[The user {did}: {files}. Read a file again before you edit it.]"
