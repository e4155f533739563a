"""What room that is made must never take: told by an oracle that only reads the events, for any history and any window."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.events import Event, FilesChanged, MessageAdded, ToolCallFinished, ToolCallStarted
from lmtui.core.messages import Message, Role, ToolCall
from lmtui.core.model_events import Compacted
from lmtui.core.plan import Plan, Todo, TodoStatus
from lmtui.core.window import bytes_by_four
from lmtui.engine.context import Conversation, ModelSettings
from lmtui.engine.context_fit import RoomNeeded, compact
from lmtui.engine.entries import LAST_FILES
from tests.sets import depth, for_each

TASK = "make it work, and keep the old tests"
LEAST_WINDOW = 2_000
MOST_FIXED_SHARE = (
    0.45  # of the limit: system prompt, first task and the user's last words; the rest is enough for all that stays
)


def size_of(message: Message) -> int:
    calls = sum(bytes_by_four(call.name + call.arguments) + 8 for call in message.tool_calls)
    return bytes_by_four(message.text) + calls + 4


@dataclass
class History:
    """A conversation that room is made in whenever it is full, and beside it what has to be there."""

    window: int
    talk: Conversation = field(default_factory=lambda: Conversation("root", lambda *_: "prompt"))
    said: list[str] = field(default_factory=list)
    files: dict[str, None] = field(default_factory=dict)
    errors: dict[tuple[str, str], str] = field(default_factory=dict)
    todos: list[Todo] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    made_room: int = 0
    calls: int = 0

    def emit(self, event: Event) -> None:
        self.events.append(event)
        self.talk.apply(event)

    def say(self, text: str) -> None:
        self.said.append(text)
        self.emit(MessageAdded(role=Role.USER, text=text))

    def step(self, kind: str, number: int, length: int) -> None:
        """Have the model make a call of a kind about one of a few subjects."""
        self.calls += 1
        tool, subject = kind.partition(" ")[0], f"src/part{number}.py"
        subject = f"pytest part{number}" if tool == "shell" else subject
        is_ok = kind.endswith("ok")
        result = f"{kind} {self.calls} " + "says so. " * (length if is_ok else length % 10)
        result += "\nnoise of it" * 200 + f"\ncause {self.calls}" if not is_ok and length % 5 == 0 else ""
        given = {"path": subject, "content": "line of it\n" * length} if tool == "write" else {"about": subject}
        call = ToolCall(f"c{self.calls}", tool, json.dumps(given))
        self.emit(MessageAdded(role=Role.ASSISTANT, text=f"step {self.calls}", tool_calls=(call,)))
        self.emit(ToolCallStarted(call_id=call.id, tool=tool, arguments={}, title=subject))
        if is_ok:
            self.errors.pop((tool, subject), None)
        else:
            self.errors.pop((tool, subject), None)
            self.errors[tool, subject] = result.strip()
        if is_ok and tool == "write":
            self._changed(call.id, subject)
        self.emit(ToolCallFinished(call_id=call.id, tool=tool, ok=is_ok, result=result, elapsed_ms=1))

    def _changed(self, call_id: str, path: str) -> None:
        self.emit(FilesChanged(call_id=call_id, files=(path,)))
        self.files.pop(path, None)
        self.files[path] = None
        self.errors = {key: text for key, text in self.errors.items() if key[1] != path}

    def plan(self) -> Plan:
        return Plan(todos=tuple(self.todos))

    def room(self) -> RoomNeeded:
        task = self.talk.entries.first_task
        kept = [self.talk.entries[0].message, *([task.message] if task else [])]
        return RoomNeeded.of(self.window, 0, sum(map(size_of, kept)))

    def make_room(self) -> None:
        """Make room where it is needed, and look at what stays."""
        tokens, room = sum(map(size_of, self.talk.messages)), self.room()
        if tokens <= room.limit:
            return
        event = compact(self.talk, self.plan(), size_of, tokens, room=room, why="test")
        unanswered = itertools.takewhile(lambda entry: entry.is_task, reversed(self.talk.entries))
        fixed = room.fixed + bytes_by_four(self.said[-1]) + sum(size_of(entry.message) for entry in unanswered)
        if event is None:
            assert fixed > MOST_FIXED_SHARE * room.limit
            return
        self.made_room += 1
        self.emit(event)
        self.check(event, room)

    def check(self, event: Compacted, room: RoomNeeded) -> None:
        messages = self.talk.request((), ModelSettings()).messages
        total = sum(map(size_of, messages))
        assert total <= room.limit
        assert 0 <= event.tokens_after - total <= 16
        check_calls(messages)
        assert messages[0].text == "prompt"
        assert messages[1].text.startswith(TASK)
        sent = "\n".join(message.text + "".join(call.arguments for call in message.tool_calls) for message in messages)
        for text in newest_within(self.said[1:-1], room.shares.words):
            assert text in sent
        assert self.said[-1] in sent
        for path in list(self.files)[-LAST_FILES:]:
            assert path in sent
        failures = [f"{tool} {subject}: {text}" for (tool, subject), text in self.errors.items()]
        for failure in newest_within(failures, room.shares.errors) if event.kept_from else []:
            assert failure.partition(": ")[2] in sent
        assert next(reversed(self.errors.values()), "").rpartition("\n")[2] in sent
        if event.kept_from and sum(len(todo.text) + 20 for todo in self.todos) <= room.shares.plan:
            assert all(todo.text in messages[1].text for todo in self.todos if todo.is_open)


def newest_within(texts: list[str], limit_chars: int) -> list[str]:
    """Return the newest texts that fit together into so many characters."""
    found: list[str] = []
    for text in reversed(texts):
        limit_chars -= len(text) + 6
        if limit_chars < 0:
            break
        found.append(text)
    return found


def check_calls(messages: tuple[Message, ...]) -> None:
    """No result without its call before it, no call without its result behind it, and arguments that are JSON objects."""
    is_open: set[str] = set()
    for message in messages:
        if message.role is Role.TOOL:
            assert message.call_id in is_open
            is_open.remove(message.call_id)
        else:
            assert not is_open
        assert all(isinstance(json.loads(call.arguments), dict) for call in message.tool_calls)
        is_open |= {call.id for call in message.tool_calls}
    assert not is_open


KINDS = ("read ok", "read fails", "write ok", "write fails", "shell ok", "shell fails", "edit fails")
STEPS = st.tuples(st.sampled_from(KINDS), st.integers(0, 30), st.integers(0, 150))
WORDS = st.tuples(st.just("say"), st.integers(0, 999), st.integers(0, 60))
TODOS = st.tuples(st.sampled_from(("todo", "done")), st.integers(0, 999), st.integers(0, 6))


def play(history: History, doings: list[tuple[str, int, int]]) -> None:
    history.say(TASK)
    for kind, number, length in doings:
        match kind:
            case "say":
                history.say(f"also mind {number} {len(history.said)} " + "and this " * length)
            case "todo" | "done":
                status = TodoStatus.PENDING if kind == "todo" else TodoStatus.COMPLETED
                history.todos.append(Todo(len(history.todos) + 1, f"todo {number} is to do " * (1 + length), status))
            case _:
                history.step(kind, number, length)
        history.make_room()


@given(st.lists(st.one_of(STEPS, STEPS, STEPS, WORDS, TODOS), min_size=20, max_size=160), st.integers(LEAST_WINDOW, 12_000))
def test_what_must_stay_is_sent_after_each_time_that_room_was_made(doings: list[tuple[str, int, int]], window: int) -> None:
    history = History(window)
    play(history, doings)
    again = Conversation("root", lambda *_: "prompt")
    for event in history.events:
        again.apply(event)
    assert again.messages == history.talk.messages


@for_each("seed", range(depth(2, 6)))
def test_what_must_stay_is_sent_in_long_histories_in_small_windows(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(12):
        history = History(chance.randrange(1_200, 3_000))
        kinds = chance.choices((*KINDS, "say", "todo"), weights=(*[3] * len(KINDS), 4, 1), k=150)
        play(history, [(kind, chance.randrange(31), chance.randrange(150 if kind in KINDS else 7)) for kind in kinds])
        assert any(isinstance(event, Compacted) and event.kept_from for event in history.events)
