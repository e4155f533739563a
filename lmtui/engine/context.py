"""The conversation as the model sees it, built from events alone: live and replayed sessions hold the same messages.

It only grows.  The request of step N+1 is the request of step N and what was added, so that servers reuse their cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources

from lmtui.core.events import Event, MessageAdded, ToolCallFinished, ToolCallStarted, TurnStarted
from lmtui.core.file_events import FilesRestored, Rewound
from lmtui.core.messages import Message, ModelRequest, Role, ToolSpec
from lmtui.core.pictures import Image, ImageRef

_NOT_RUN = "Not run: the turn was stopped before this call."
_IMAGE_TOKENS = 1000
_MAX_COMMAND_CHARS = 8000
_UNKNOWN = "The turn was stopped while this ran: its effect is unknown."


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What goes with every request; `model` empty is the server's own default."""

    model: str = ""
    temperature: float | None = None
    seed: int | None = None
    max_tokens: int | None = None


def system_prompt() -> str:
    """Return the fixed first message.  No clock, no counters: it is the same bytes in every session."""
    return resources.files("lmtui.engine").joinpath("prompts/system.md").read_text(encoding="utf-8").strip()


class Conversation:
    """The messages of one agent; `picture` returns one that a message names, None where it is gone."""

    def __init__(self, agent: str, prompt: str, picture: Callable[[ImageRef], Image | None] = lambda _: None) -> None:
        self._agent = agent
        self._picture = picture
        self._commands: dict[str, str] = {}
        self._messages: list[Message] = [Message(Role.SYSTEM, prompt)]
        self._unanswered: dict[str, None] = {}
        self._call_ids: set[str] = set()
        self._started: set[str] = set()
        self._turns: dict[str, int] = {}

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return all messages, the system prompt first."""
        return tuple(self._messages)

    def has_call(self, call_id: str) -> bool:
        """Tell whether a call id was used before."""
        return call_id in self._call_ids

    def apply(self, event: Event) -> None:
        """Take up what an event adds; other agents' events and all that is not said to the model are passed over."""
        if event.agent != self._agent:
            return
        match event:
            case MessageAdded():
                self._settle()
                self._messages.append(self._message(event))
                self._unanswered = {call.id: None for call in event.tool_calls}
                self._call_ids.update(self._unanswered)
            case ToolCallStarted(by="user"):
                self._commands[event.call_id] = event.title
            case ToolCallStarted():
                self._started.add(event.call_id)
            case ToolCallFinished() if event.call_id in self._commands:
                self._settle()
                self._messages.append(Message(Role.USER, _ran(self._commands.pop(event.call_id), event.result)))
            case TurnStarted():
                self._settle()
                self._turns[event.turn_id] = len(self._messages)
            case Rewound() if event.turn_id in self._turns:
                self._rewind(event.turn_id)
            case FilesRestored() if event.action != "rewind":
                self._settle()
                self._messages.append(Message(Role.USER, _restored(event)))
            case ToolCallFinished() if event.call_id in self._unanswered:
                self._answer(event.call_id, event.result)
            case _:
                pass

    def request(self, tools: tuple[ToolSpec, ...], settings: ModelSettings) -> ModelRequest:
        """Return the next request."""
        self._settle()
        return ModelRequest(self.messages, tools, settings.model, settings.temperature, settings.seed, settings.max_tokens)

    def size_tokens(self) -> int:
        """Return a rough size (characters by four), for when the server does not count."""
        calls = (call.arguments for message in self._messages for call in message.tool_calls)
        pictures = sum(len(message.images) for message in self._messages) * _IMAGE_TOKENS
        return (sum(len(message.text) for message in self._messages) + sum(map(len, calls))) // 4 + pictures

    def _message(self, event: MessageAdded) -> Message:
        """Return a message as the model gets it: with what it mentions, and a word in place of each picture that is gone."""
        found = [(ref, self._picture(ref)) for ref in event.images]
        gone = (f"[the picture {ref.name} is gone]" for ref, image in found if image is None)
        text = "\n\n".join((event.text, *([event.attached] if event.attached else []), *gone))
        images = tuple(image for _, image in found if image is not None)
        return Message(event.role, text, event.thinking, event.tool_calls, images=images)

    def _rewind(self, turn_id: str) -> None:
        """Forget a turn and what came after it; call ids stay used."""
        del self._messages[self._turns[turn_id] :]
        self._unanswered = {}
        self._turns = {each: start for each, start in self._turns.items() if start < len(self._messages)}

    def _settle(self) -> None:
        """Answer calls that never ran: servers refuse a conversation with an unanswered call."""
        for call_id in tuple(self._unanswered):
            self._answer(call_id, _UNKNOWN if call_id in self._started else _NOT_RUN)

    def _answer(self, call_id: str, text: str) -> None:
        del self._unanswered[call_id]
        self._messages.append(Message(Role.TOOL, text, call_id=call_id))


def _ran(command: str, result: str) -> str:
    """Return what the model is told of a command of the user's own."""
    half = _MAX_COMMAND_CHARS // 2
    if len(result) > _MAX_COMMAND_CHARS:
        result = f"{result[:half]}\n[… {len(result) - 2 * half} characters left out …]\n{result[-half:]}"
    return f"[The user ran a command: {command}]\n{result}"


def _restored(event: FilesRestored) -> str:
    """Return what the model is told of files that the user put back: it would trust what it read before."""
    files = ", ".join(event.files[:20]) + (" and more" if len(event.files) > 20 else "")
    did = "did your change again to" if event.action == "redo" else "put back to an earlier state"
    return f"[The user {did}: {files}. Read a file again before you edit it.]"
