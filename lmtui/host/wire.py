"""The types of the HTTP API: requests are checked by them, and the OpenAPI page is made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from lmtui.core.agent_events import PlanProposed
from lmtui.core.events import ApprovalRequested
from lmtui.core.permissions.rules import Mode
from lmtui.core.plan import PlanStep, Todo
from lmtui.core.sessions import SessionSummary
from lmtui.core.workspace import DirEntry

SESSION_ID = r"^\d{8}_\d{6}_[0-9a-f]{6}$"
MOST_TEXT_CHARS = 1_000_000
_Name = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[\w .@-]+$")]
_Text = Annotated[str, Field(max_length=MOST_TEXT_CHARS)]
Words = Annotated[str, Field(max_length=4_096)]
After = Annotated[int, Field(ge=0)]
"""The number of an event: only those behind it are meant."""


class Wire(BaseModel):
    """The base of all: what a client sends that has no place is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_W = TypeVar("_W", bound=Wire)


def filled(model: type[_W], source: object, **more: Any) -> _W:
    """Return a model with a value's attributes of the same names; `more` are its other fields."""
    alike = {name: getattr(source, name) for name in model.model_fields if name not in more and hasattr(source, name)}
    return model(**alike, **more)


class OpenWire(BaseModel):
    """The base of what may have further fields."""

    model_config = ConfigDict(extra="allow")


class ErrorDetail(OpenWire):
    """What went wrong: a type for programs, words for people, and the way out."""

    type: str
    message: str
    hint: str = ""


class ErrorBody(Wire):
    """The one form of errors."""

    error: ErrorDetail


class InFolder(Wire):
    """A request about a folder; the default is the first that clients may use."""

    folder: Words = ""


class Status(Wire):
    """The state of the host; `busy` lists its work in words."""

    version: str
    pid: int
    uptime_s: float
    folders: list[str]
    sessions: int
    running: int
    waiting: int
    busy: list[str]


@dataclass(frozen=True, kw_only=True)
class SessionInfo(SessionSummary):
    """A session in a list."""

    folder: str
    is_running: bool
    needs_answer: bool
    clients: int


class Queue(Wire):
    """The messages that wait."""

    queued: list[str]
    is_paused: bool


class SessionDetail(Queue):
    """A session that is open."""

    id: str
    folder: str
    title: str
    is_running: bool
    mode: Mode
    model: str
    last_seq: int
    approvals: list[ApprovalRequested]
    plan: PlanProposed | None


class ModeInfo(Wire):
    """A permission mode and a budget in words such as `3h 200 steps 1.5M tokens`, or `off`.

    Deep work plans first and then works within the budget.
    """

    mode: Mode | Literal["deep_work"] | None = None
    budget: Words = ""


class NewSession(InFolder, ModeInfo):
    """A new session, and what it begins with."""

    message: _Text = ""
    title: Annotated[str, Field(max_length=120)] = ""
    model: Words = ""


class Rename(Wire):
    """A title."""

    title: Annotated[str, Field(min_length=1, max_length=120)]


class Fork(Wire):
    """Up to which event a session is copied; 0 is all of it."""

    seq: int = Field(0, ge=0)


class NewMessage(ModeInfo):
    """A task or a slash command.

    `steer` puts it before the next step of a running turn, `attach` names uploads, `wait` waits for the
    end of the turn.
    """

    text: _Text = Field(validation_alias=AliasChoices("text", "message"))
    steer: bool = False
    wait: bool = False
    attach: Annotated[list[str], Field(max_length=20)] = Field(default_factory=list)


class Receipt(Wire):
    """It was accepted: events after `seq` tell what comes of it.

    `turn` is the end of the turn if you waited for it, and `output` what a slash command prints.
    """

    seq: int
    is_running: bool
    turn: dict[str, Any] | None = None
    output: list[str] = Field(default_factory=list)


class ApprovalAnswer(Wire):
    """An answer; `rule` is the number (from 0) of an offered rule, for this session; `by` is shown to others."""

    outcome: Literal["once", "session", "try", "no"]
    feedback: Words = ""
    rule: Annotated[int, Field(ge=0)] = 0
    hunks: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=10_000)] | None = None
    by: _Name = "api"


class PlanReply(Wire):
    """An answer to a plan; `rules` are granted with an approval, as far as the plan names them."""

    action: Literal["approve", "revise", "reject"]
    proposal_id: Annotated[str, Field(max_length=100)] = ""
    feedback: _Text = ""
    rules: Annotated[list[Words], Field(max_length=200)] = Field(default_factory=list)
    by: _Name = "api"


class ChangedFile(Wire):
    """A file that a session changed; `kind` is that of its last change."""

    path: str
    kind: str
    added: int
    removed: int


class Tasks(Wire):
    """The todos and the plan's steps."""

    todos: list[Todo]
    steps: list[PlanStep]


class FolderListing(Wire):
    """What is in a folder."""

    folder: str
    path: str
    entries: list[DirEntry]


class FileBody(Wire):
    """A file: its text, or base64 where it is not UTF-8."""

    folder: str
    path: str
    size_bytes: int
    is_cut: bool
    encoding: Literal["utf-8", "base64"]
    content: str


class ModelInfo(Wire):
    """A model in OpenAI's form: an agent of lmtui, or a model of a server (then `url` is that server)."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    url: str = ""
    window_tokens: int = 0
    is_loaded: bool | None = None


class ModelList(Wire):
    """Agents first, then the models of servers."""

    object: Literal["list"] = "list"
    data: list[ModelInfo]


class SelectModel(InFolder):
    """A model: of one session from its next request on, or without one for those opened later."""

    url: Annotated[str, Field(max_length=2_000)] = ""
    model: Words = Field("", validation_alias=AliasChoices("model", "model_id"))
    session: Annotated[str, Field(pattern=SESSION_ID)] | None = None


class Upload(Wire):
    """What was uploaded; its id goes into `attach` of a message, once, within an hour."""

    id: str
    name: str
    media_type: str
    size_bytes: int


class ChatPart(OpenWire):
    """A part of a message in OpenAI's form."""

    type: str
    text: str = ""
    image_url: dict[str, Any] | None = None


class ChatMessage(OpenWire):
    """A message in OpenAI's form."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ChatPart] | None = None


class ChatRequest(OpenWire):
    """A request in OpenAI's form; sampling and tools of the client are ignored: the agent has its own."""

    model: str = "lmtui"
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=2_000)]
    stream: bool | None = False
    stream_options: dict[str, bool] | None = None
    n: Annotated[int, Field(ge=1, le=1)] | None = 1
