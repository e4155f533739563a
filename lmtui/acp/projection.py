"""A session's events as updates of the protocol: messages, tool calls with their places and differences, plans, usage.

And the content blocks of a prompt as a task: text, mentions, documents and pictures.

Pure; replayed events give the ids that they gave live.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acp import schema
from acp.exceptions import RequestError
from acp.helpers import plan_entry, start_tool_call, text_block, tool_content, tool_diff_content, update_plan, update_tool_call
from pydantic import BaseModel

from lmtui.core import events
from lmtui.core.agent_events import PlanProposed
from lmtui.core.budgets import ReportWritten
from lmtui.core.errors import UsageError
from lmtui.core.messages import MAX_IMAGES, Image, Role, picture
from lmtui.core.permissions.rules import MCP
from lmtui.core.plan import Plan, TodoStatus
from lmtui.core.plan_mode import proposal_lines
from lmtui.core.prompt_text import mention_text
from lmtui.core.sanitize import sanitize, sanitize_line, sanitize_path
from lmtui.core.workspace import FileChangeKind

ToolContent = schema.ContentToolCallContent | schema.FileEditToolCallContent | schema.TerminalToolCallContent
MAX_TEXT_CHARS = 30_000
_KINDS: dict[str, schema.ToolKind] = {
    "read": "read", "look": "read", "data_view": "read", "mcp_resource": "read", "git_diff": "read", "git_status": "read",
    "write": "edit", "edit": "edit", "mkdir": "edit", "merge": "edit",
    "glob": "search", "grep": "search", "ls": "search", "explore": "search",
    "shell": "execute", "background": "execute", "python": "execute", "git_add": "execute", "git_commit": "execute",
    "git_branch": "execute", "effect": "edit", "fetch": "fetch", "web_search": "fetch", "propose_plan": "switch_mode",
    "delegate": "think", "decompose": "think", "skill": "read",
}  # fmt: skip
_THINKS = re.compile(r"todo|plan|task")
_HEADER = re.compile(r"@@ -(\d{1,9})(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@")
_PATHS = ("path", "file_path", "file", "deliverable_path")


def kind_of(tool: str) -> schema.ToolKind:
    """Return what kind of work a tool does, in the protocol's words."""
    return _KINDS.get(tool, "think" if _THINKS.search(tool) and not tool.startswith("mcp__") else "other")


def title_of(call: events.ToolCallStarted) -> str:
    """Return a tool call in a line."""
    words = sanitize_path(call.title) if call.title else ""
    text = f"{sanitize_line(call.tool)} {words}".strip()
    return text if call.agent == "root" else f"{sanitize_line(call.agent)}: {text}"


def text_content(text: str) -> schema.ContentToolCallContent:
    """Return a text, cleaned, with its middle left out where it is very long."""
    shown = sanitize(text)
    if len(shown) > MAX_TEXT_CHARS:
        half = MAX_TEXT_CHARS // 2
        shown = f"{shown[:half]}\n[… {len(shown) - MAX_TEXT_CHARS:,} characters …]\n{shown[-half:]}"
    return tool_content(text_block(shown))


def absolute(workspace: Path, path: str) -> str:
    """Return the absolute path of a file of the workspace, or of an added folder."""
    return str(workspace / path.removeprefix("/workspace/")) if path else str(workspace)


def places_of(workspace: Path, call: events.ToolCallStarted) -> list[schema.ToolCallLocation]:
    """Return the file that a call names."""
    named = [found for key in _PATHS if isinstance(found := call.arguments.get(key), str) and found]
    if not named or "\0" in named[0]:
        return []
    line = call.arguments.get("offset") if call.tool == "read" else None
    return [
        schema.ToolCallLocation(path=absolute(workspace, named[0]), line=line if isinstance(line, int) and line > 0 else None)
    ]


@dataclass(frozen=True, slots=True)
class DiffHunk:
    """One hunk of a difference: the lines as they are and as they become, and the line (from 1) where it begins."""

    old: str
    new: str
    line: int


def hunks_of(diff: str) -> Iterator[DiffHunk]:
    """Yield the hunks of the unified diff of one file."""
    for part in re.split(r"^(?=@@ )", diff, flags=re.MULTILINE):
        header, *lines = part.split("\n")
        if found := _HEADER.match(header):
            old = new = ""
            for line, behind in zip(lines, [*lines[1:], ""], strict=False):
                text = line[1:] + ("" if behind.startswith("\\") else "\n")  # "\\ No newline at end of file"
                old += text if line.startswith((" ", "-")) else ""
                new += text if line.startswith((" ", "+")) else ""
            yield DiffHunk(old, new, max(1, int(found[2])))


def diff_parts(
    workspace: Path, path: str, diff: str, *, is_new: bool = False
) -> tuple[list[schema.FileEditToolCallContent], list[schema.ToolCallLocation]]:
    """Return the hunks of a file's change, each as a separate difference, and where they are; a new file has no old text."""
    where, hunks = absolute(workspace, path), list(hunks_of(diff))
    contents = [tool_diff_content(where, hunk.new, None if is_new and not hunk.old else hunk.old) for hunk in hunks]
    places = [schema.ToolCallLocation(path=where, line=hunk.line) for hunk in hunks]
    return contents, places or [schema.ToolCallLocation(path=where)]


_OUTPUT_EVERY = timedelta(seconds=0.5)
_OUTPUT_CHARS = 4_000
_IDS = uuid.UUID("3f6f1f1c-7d1b-4a57-9f5e-0d6f1a0c9b52")
_STATES: dict[TodoStatus, schema.PlanEntryStatus] = {
    TodoStatus.IN_PROGRESS: "in_progress", TodoStatus.COMPLETED: "completed", TodoStatus.CANCELLED: "completed",
}  # fmt: skip
_PRIORITIES: dict[str, schema.PlanEntryPriority] = {"high": "high", "low": "low"}


@dataclass(slots=True)
class _OpenCall:
    """A tool call that is under way: its id for the editor, its changes so far, and its output's end."""

    id: str
    tool: str
    title: str
    changes: list[ToolContent] = field(default_factory=list)
    output: str = ""
    told: datetime | None = None
    is_begun: bool = False
    is_open: bool = True
    result: list[ToolContent] = field(default_factory=list)


class Projection:
    """Makes the updates of one session.

    Args:
        workspace: its folder.
        session_id: names its messages.
    """

    def __init__(self, workspace: Path, session_id: str) -> None:
        self._workspace, self._session_id = workspace, session_id
        self._calls: dict[tuple[str, str], _OpenCall] = {}
        self._call_ids: set[str] = set()
        self._answers = self._said = self._void = 0
        self._streamed = self._thought = ""
        self._has_waited = False
        self.expected = 0
        """How many messages of the user the editor has shown itself already."""

    def server_call(self) -> str:
        """Return the id of the tool call of an MCP server that began last and is under way, empty for none."""
        return next((call.id for call in reversed(self._calls.values()) if call.is_open and call.tool.startswith(MCP)), "")

    def call_id(self, agent: str, call_id: str) -> str:
        """Return the id of a tool call for the editor."""
        call = self._calls.get((agent, call_id))
        return call.id if call is not None else call_id

    def updates(self, envelope: events.Envelope) -> Iterator[BaseModel]:
        """Yield what one event changes for the editor."""
        event = envelope.event
        call = self._calls.get((event.agent, getattr(event, "call_id", "")))
        match event:
            case events.ToolCallStarted():
                yield self._call_began(event)
            case events.ToolOutputDelta() if call is not None:
                yield from self._output(call, event.text, envelope.time)
            case events.CheckpointCreated() if call is not None:
                yield from self._begun(call)
            case events.FilesChanged() if call is not None:
                yield self._files(call, event)
            case events.ToolCallFinished() if call is not None:
                yield self._call_ended(call, event)
            case PlanProposed(agent=events.ROOT, proposal=proposal):
                yield self.say("\n".join(proposal_lines(proposal)) + "\n", f"plan {envelope.seq}")
            case ReportWritten(agent=events.ROOT, text=text):
                yield self.say(sanitize(text), f"report {envelope.seq}")
            case _ if event.agent == events.ROOT:
                yield from self._root(event, envelope)

    def _root(self, event: events.Event, envelope: events.Envelope) -> Iterator[BaseModel]:
        match event:
            case events.TextDelta(text=text):
                self._streamed += text
                yield self._answer(text)
            case events.ThinkingDelta(text=text):
                self._thought += text
                yield self._thinking(text)
            case events.RetryScheduled(reason=reason):
                self._void += 1 if self._streamed or self._thought else 0
                self._streamed = self._thought = ""
                yield self.note(f"{sanitize_line(reason)}\n", f"note {envelope.seq}")
            case events.PrefillProgress(queued=queued) if queued > 0 and not self._has_waited:
                self._has_waited = True
                yield self.note("The model server is busy with another request.\n", f"queue {self._answers}")
            case events.MessageAdded():
                yield from self._message(event)
            case events.PlanChanged(plan=plan):
                yield update_plan(plan_entries(plan))
            case events.UsageUpdated(usage=usage, window_tokens=window) if window:
                used = usage.prompt_tokens + usage.completion_tokens
                yield schema.UsageUpdate(session_update="usage_update", used=used, size=window)
            case events.ModeChanged(mode=mode):
                yield schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode)
            case events.SessionRenamed(title=title):
                at = envelope.time.isoformat()
                yield schema.SessionInfoUpdate(session_update="session_info_update", title=sanitize_line(title), updated_at=at)
            case events.Notice(level=level, text=text) if level is not events.Level.INFO:
                yield self.note(f"{level}: {sanitize_line(text)}\n", f"note {envelope.seq}")

    def say(self, text: str, key: str) -> schema.AgentMessageChunk:
        """Return words of lmtui's own as a message; `key` names it."""
        return schema.AgentMessageChunk(session_update="agent_message_chunk", content=_text(text), message_id=self._id(key))

    def note(self, text: str, key: str) -> schema.AgentThoughtChunk:
        """Return a remark of lmtui's own, which is not part of the answer."""
        return schema.AgentThoughtChunk(session_update="agent_thought_chunk", content=_text(text), message_id=self._id(key))

    # -- messages -------------------------------------------------------------------------------------------------------

    def _id(self, key: str) -> str:
        return str(uuid.uuid5(_IDS, f"{self._session_id} {key}"))

    def _answer(self, text: str) -> schema.AgentMessageChunk:
        return self.say(text, f"answer {self._answers} {self._void}".removesuffix(" 0"))

    def _thinking(self, text: str) -> schema.AgentThoughtChunk:
        return self.note(text, f"thought {self._answers} {self._void}".removesuffix(" 0"))

    def _message(self, event: events.MessageAdded) -> Iterator[BaseModel]:
        if event.role is Role.USER:
            self._said += 1
            if self.expected:
                self.expected -= 1
                return
            names = [f"[picture: {sanitize_line(image.name) or image.media_type}]" for image in event.images]
            text = "\n".join([*([event.text] if event.text else []), *names])
            if text:
                message_id = self._id(f"user {self._said}")
                yield schema.UserMessageChunk(session_update="user_message_chunk", content=_text(text), message_id=message_id)
            return
        if event.role is not Role.ASSISTANT:
            return
        if event.thinking and not self._thought.strip():
            yield self._thinking(event.thinking)
        if rest := _rest(event.text, self._streamed):
            yield self._answer(rest)
        self._answers += 1
        self._void = 0
        self._has_waited = False
        self._streamed = self._thought = ""

    # -- tool calls -----------------------------------------------------------------------------------------------------

    def _call_began(self, event: events.ToolCallStarted) -> schema.ToolCallStart:
        own = event.call_id if event.agent == events.ROOT else f"{event.agent}/{event.call_id}"
        wire = own if own not in self._call_ids else f"{own}~{len(self._call_ids)}"
        self._call_ids.add(wire)
        call = self._calls[event.agent, event.call_id] = _OpenCall(wire, event.tool, title_of(event))
        kind, places = kind_of(event.tool), places_of(self._workspace, event)
        return start_tool_call(wire, call.title, kind=kind, status="pending", locations=places, raw_input=event.arguments)

    def begun(self, agent: str, call_id: str) -> Iterator[BaseModel]:
        """Yield that a call is carried out now, once somebody let it; the question had another title and status."""
        call = self._calls.get((agent, call_id))
        if call is not None:
            call.is_begun = True
            yield update_tool_call(call.id, status="in_progress", title=call.title)

    def _begun(self, call: _OpenCall) -> Iterator[schema.ToolCallProgress]:
        if not call.is_begun:
            call.is_begun = True
            yield update_tool_call(call.id, status="in_progress")

    def _output(self, call: _OpenCall, text: str, now: datetime) -> Iterator[BaseModel]:
        yield from self._begun(call)
        call.output = (call.output + text)[-_OUTPUT_CHARS:]
        if call.told is None or now - call.told >= _OUTPUT_EVERY:
            call.told = now
            yield update_tool_call(call.id, content=[text_content(call.output)])

    def _files(self, call: _OpenCall, event: events.FilesChanged) -> BaseModel:
        places = []
        for change in event.changes:
            is_new = change.kind is FileChangeKind.ADDED
            contents, where = diff_parts(self._workspace, change.path, change.diff, is_new=is_new)
            call.changes += contents
            places += where
        return update_tool_call(call.id, content=[*call.result, *call.changes] or None, locations=places or None)

    def _call_ended(self, call: _OpenCall, event: events.ToolCallFinished) -> BaseModel:
        call.is_open = False
        is_shown = not (event.ok and kind_of(event.tool) == "edit" and call.changes)
        call.result = [text_content(event.result)] if is_shown and event.result else []
        status: schema.ToolCallStatus = "completed" if event.ok else "failed"
        content = [*call.result, *call.changes] or None
        return update_tool_call(call.id, status=status, content=content, title=call.title)


def plan_entries(plan: Plan) -> list[schema.PlanEntry]:
    """Return the steps of a plan, or else the todos, as the editor's plan."""
    return [
        plan_entry(
            sanitize_line(each.text),
            priority=_PRIORITIES.get(getattr(each, "risk", ""), "medium"),
            status=_STATES.get(each.status, "pending"),
        )
        for each in plan.steps or plan.todos
    ]


def _text(text: str) -> schema.TextContentBlock:
    return text_block(sanitize(text))


def _rest(text: str, streamed: str) -> str:
    """Return what of a message was not streamed."""
    if not streamed.strip():
        return text
    shown = streamed.strip()
    return text.strip()[len(shown) :] if text.strip().startswith(shown) else ""


Block = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)
_LINE_RANGE = re.compile(r"L?(\d{1,9})(?:[:-]L?(\d{1,9}))?\Z")


@dataclass(slots=True)
class PromptText:
    """A task: `typed` is what the user wrote, with mentions; `text` has what else they name, and the embedded documents."""

    typed: str = ""
    named: str = ""
    documents: list[str] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Return all that the model reads."""
        return "\n\n".join(part for part in (self.named, *self.documents) if part)


def read_blocks(blocks: Sequence[Block], workspace: Path) -> PromptText:
    """Return the task that some blocks are.

    Raises:
        RequestError: there is nothing in them, or something that lmtui does not take.
    """
    found = PromptText()
    for block in blocks:
        match block:
            case schema.TextContentBlock(text=text):
                found.typed, found.named = found.typed + text, found.named + text
            case schema.ResourceContentBlock(uri=uri, name=name):
                link = _link(uri, name, workspace)
                found.typed += _beside(found.typed, link) if path_of(uri) and link.startswith("@") else ""
                found.named += _beside(found.named, link)
            case schema.EmbeddedResourceContentBlock(resource=schema.TextResourceContents(uri=uri, text=text)):
                found.named += _beside(found.named, _named(uri, workspace))
                found.documents.append(f'<document uri="{sanitize_line(uri)}">\n{text}\n</document>')
            case schema.EmbeddedResourceContentBlock(resource=schema.BlobResourceContents(uri=uri, blob=blob)):
                _add_image(found, blob, uri)
            case schema.ImageContentBlock(data=data, uri=uri):
                _add_image(found, data, uri or "")
            case schema.AudioContentBlock():
                raise _refused("audio is not supported")
            case _:
                raise _refused("this content block is not supported")
    if not found.text.strip() and not found.images:
        raise _refused("the prompt is empty")
    return found


def _refused(why: str) -> RequestError:
    return RequestError(-32602, f"Invalid prompt: {why}.")


def _beside(before: str, text: str) -> str:
    return text if not before or before[-1].isspace() else f" {text}"


def _link(uri: str, name: str, workspace: Path) -> str:
    """Return a link as a mention, which attaches the file, where it is one of the workspace."""
    path = path_of(uri)
    if path is None:
        return f"{sanitize_line(name)} ({sanitize_line(uri)})"
    lines = _LINE_RANGE.match(urlsplit(uri).fragment)
    if not path.is_relative_to(workspace):
        return str(path)
    shown = mention_text(path.relative_to(workspace).as_posix())
    if lines is None or shown == "@.":
        return shown
    return f"{shown}:{lines[1]}" + (f"-{lines[2]}" if lines[2] else "")


def _named(uri: str, workspace: Path) -> str:
    """Return how an embedded document is called in the text: without a mention, as its text is there already."""
    path = path_of(uri)
    if path is None:
        return sanitize_line(uri)
    return path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else str(path)


def path_of(uri: str) -> Path | None:
    """Return the file that an address names, None for any other address."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(parts.path)
    if parts.scheme not in ("file", "") or not path.startswith("/") or "\0" in path:
        return None
    return Path(path)


def _add_image(found: PromptText, data: str, uri: str) -> None:
    if len(found.images) >= MAX_IMAGES:
        raise _refused(f"at most {MAX_IMAGES} pictures")
    path = path_of(uri) if uri else None
    try:
        content = base64.b64decode(data, validate=True)
        found.images.append(picture(path.name if path else f"picture {len(found.images) + 1}", content))
    except ValueError as error:
        raise _refused("a picture is not valid base64") from error
    except UsageError as error:
        raise _refused(sanitize_line(str(error))) from error
