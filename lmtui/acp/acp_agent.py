"""The agent's methods: what an editor may ask of it, over all folders and sessions of this process."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from acp import schema
from acp.exceptions import RequestError

from lmtui.acp.acp_server import FIND_SERVER, Editor
from lmtui.acp.editor_session import EditorSession, mode_state, trust_note
from lmtui.acp.projection import read_blocks
from lmtui.app.archive import archive_of, known_folders
from lmtui.app.host import Runtime
from lmtui.app.model_servers import Servers
from lmtui.commands.session_commands import set_mode
from lmtui.config import load_config
from lmtui.core.errors import LmtuiError, ProviderError, SessionFileError, UsageError
from lmtui.core.sanitize import sanitize_line, sanitize_path
from lmtui.core.sessions import SessionSummary
from lmtui.core.tool_servers import Form
from lmtui.core.tool_servers import ToolServers as ServersInUse
from lmtui.host.hub import GivenSettings, SessionHub

AUTH_REQUIRED, NOT_FOUND, INVALID_PARAMS = -32000, -32002, -32602
_MOST_LISTED = 1_000
_WAY_OUT = "Or run `lmtui acp --setup` in a terminal, and try again."
McpServers = Sequence[schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio]
Opening = schema.NewSessionRequest | schema.LoadSessionRequest | schema.ResumeSessionRequest | schema.ForkSessionRequest


class AcpAgent:
    """Implements the agent's side of the protocol, version 1: each method is named as the SDK's `AGENT_METHODS` have it.

    The type of its `request` says what the parameters are.

    Args:
        editor: the client.
        flags: settings from the command line.
    """

    def __init__(self, editor: Editor, flags: Mapping[str, object]) -> None:
        self._editor, self._flags = editor, flags
        self._hub = SessionHub()
        self._sessions: dict[str, EditorSession] = {}
        self._noted: set[Path] = set()

    async def authenticate(self, request: schema.AuthenticateRequest) -> None:
        """Find a model server."""
        if request.method_id != FIND_SERVER:
            raise RequestError(INVALID_PARAMS, f"Unknown authentication method: {sanitize_line(request.method_id)!r}.")
        servers = Servers(load_config(Path.cwd(), os.environ, self._flags).config)  # wherever this was started
        try:
            _ = await servers.choose()
        except (ProviderError, UsageError) as error:
            raise RequestError(AUTH_REQUIRED, f"{sanitize_line(error.full_text())} {_WAY_OUT}") from error
        finally:
            await servers.close()

    # -- sessions -------------------------------------------------------------------------------------------------------

    async def session_new(self, request: schema.NewSessionRequest) -> schema.NewSessionResponse:
        """Open a fresh session."""
        runtime = await self._runtime(request)
        await _require_server(runtime)
        opened = await self._opened(runtime, "")
        return schema.NewSessionResponse(session_id=opened.session.id, **_state(opened))

    async def session_load(self, request: schema.LoadSessionRequest) -> schema.LoadSessionResponse:
        """Open an earlier session and tell all that was said in it."""
        opened = await self._open_earlier(request, replays=True)
        await opened.tell_commands()
        return schema.LoadSessionResponse(**_state(opened))

    async def session_resume(self, request: schema.ResumeSessionRequest) -> schema.ResumeSessionResponse:
        """Open an earlier session; the editor knows what was said in it."""
        opened = await self._open_earlier(request)
        return schema.ResumeSessionResponse(**_state(opened))

    async def session_fork(self, request: schema.ForkSessionRequest) -> schema.ForkSessionResponse:
        """Open a copy of a session."""
        runtime = await self._runtime(request)
        await self._require_session(runtime, request.session_id)
        copy = await runtime.archive.fork(request.session_id)
        opened = await self._opened(runtime, copy)
        return schema.ForkSessionResponse(session_id=copy, **_state(opened))

    async def session_list(self, request: schema.ListSessionsRequest) -> schema.ListSessionsResponse:
        """Return the newest sessions of one folder, or of those that are known."""
        folders = [_absolute(request.cwd)] if request.cwd else await self._known_folders()
        found = await asyncio.to_thread(_summaries, folders)
        return schema.ListSessionsResponse(sessions=[_info(folder, each) for folder, each in found[:_MOST_LISTED]])

    async def session_delete(self, request: schema.DeleteSessionRequest) -> None:
        """Delete a session; one that is not there is none to delete."""
        session_id = request.session_id
        if (opened := self._sessions.pop(session_id, None)) is not None:
            await opened.close()
            await opened.host.archive.delete(session_id)
            return
        for archive in map(archive_of, await self._known_folders()):
            if await asyncio.to_thread(_has, archive, session_id):
                await archive.delete(session_id)

    async def session_close(self, request: schema.CloseSessionRequest) -> None:
        """Cancel what runs in a session and let go of it; it stays in the list."""
        opened = self._session(request.session_id)
        await opened.close()
        del self._sessions[opened.session.id]
        await opened.session.close()

    async def session_set_mode(self, request: schema.SetSessionModeRequest) -> None:
        """Change the mode of a session."""
        await set_mode(self._session(request.session_id).session, request.mode_id)

    async def session_set_config_option(
        self, request: schema.SetSessionConfigOptionSelectRequest | schema.SetSessionConfigOptionBooleanRequest
    ) -> schema.SetSessionConfigOptionResponse:
        """Set a selector of a session and return all of them."""
        opened = self._session(request.session_id)
        await opened.choose(request.config_id, request.value)
        return schema.SetSessionConfigOptionResponse(config_options=opened.options())

    async def session_prompt(self, request: schema.PromptRequest) -> schema.PromptResponse:
        """Answer a prompt."""
        opened = self._session(request.session_id)
        return await opened.prompt(read_blocks(request.prompt, opened.host.workspace))

    def cancel(self, session_id: str) -> None:
        if (opened := self._sessions.get(session_id)) is not None:
            opened.cancel()

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._sessions.values()))
        self._sessions.clear()
        await self._hub.close()

    # -- what they need -------------------------------------------------------------------------------------------------

    def _session(self, session_id: str) -> EditorSession:
        found = self._sessions.get(session_id)
        if found is None:
            raise RequestError(NOT_FOUND, f"Session {sanitize_line(session_id)[:60]} is not open.")
        return found

    async def _runtime(self, request: Opening) -> Runtime:
        """Return the runtime of a folder with what the editor brings; other servers or folders make another one."""
        folder = _absolute(request.cwd)
        if not folder.is_dir():
            raise RequestError(INVALID_PARAMS, f"The folder {sanitize_path(request.cwd)} does not exist.")
        entries = _entries(request.mcp_servers or ())
        flags = dict(self._flags)
        if request.additional_directories:
            given = flags.get("add_dirs")
            more = [f"{_absolute(each)}:rw" for each in request.additional_directories]
            flags["add_dirs"] = (*(given if isinstance(given, tuple) else ()), *more)
        environment = {"LMTUI_EDITOR_SERVERS": json.dumps(entries, sort_keys=True)} if entries else {}
        runtime = await self._hub.runtime(folder, GivenSettings(flags, environment))
        if ServersInUse not in runtime.extensions:
            return runtime
        mcp = runtime.extensions[ServersInUse]
        mcp.answer_with(lambda form: self._elicit(runtime, form))
        if entries:
            mcp.bring(entries, "your editor")
        return runtime

    async def _open_earlier(
        self, request: schema.LoadSessionRequest | schema.ResumeSessionRequest, *, replays: bool = False
    ) -> EditorSession:
        session_id, runtime = request.session_id, None
        if (known := self._sessions.pop(session_id, None)) is not None:
            await known.close()
            runtime = self._hub.runtime_of(session_id)
        if runtime is None:
            runtime = await self._runtime(request)
            await self._require_session(runtime, session_id)
            runtime.take_server_of(session_id)
            await _require_server(runtime)
        return await self._opened(runtime, session_id, replays=replays)

    async def _require_session(self, runtime: Runtime, session_id: str) -> None:
        if not await asyncio.to_thread(_has, runtime.archive, session_id):
            where = sanitize_path(str(runtime.workspace))
            raise RequestError(NOT_FOUND, f"Session {sanitize_line(session_id)[:60]} not found in {where}.")

    async def _opened(self, runtime: Runtime, session_id: str, *, replays: bool = False) -> EditorSession:
        session = await (runtime.open_session(session_id) if session_id else runtime.new_session())
        note = "" if runtime.workspace in self._noted else trust_note(runtime)
        self._noted.add(runtime.workspace)
        opened = self._sessions[session.id] = EditorSession(self._editor, runtime, session, [note] if note else [])
        await opened.look()
        opened.open(replays=replays)
        if not replays:
            opened.tell_after_answer()  # in a task, which begins once the answer is written
        return opened

    async def _elicit(self, runtime: Runtime, form: Form) -> Mapping[str, object] | None:
        """Put a form of a server before the user, in the session that called the server."""
        mine = [each for each in self._sessions.values() if each.host is runtime]
        asking = [each for each in mine if each.calls_server] or [each for each in mine if each.is_answering]
        return await asking[-1].elicit(form) if asking else None

    async def _known_folders(self) -> list[Path]:
        """Return the folders that are open here and those that the user works in, the open ones first."""
        found = [each.workspace for each in self._hub.runtimes]
        found += await asyncio.to_thread(known_folders)
        return list(dict.fromkeys(found))


def _state(opened: EditorSession) -> dict[str, Any]:
    return {"modes": mode_state(opened.session), "config_options": opened.options()}


async def _require_server(runtime: Runtime) -> None:
    """Make sure that a model server is chosen."""
    if not runtime.setup_note:
        return
    try:
        _ = await runtime.choose_server()
    except (ProviderError, UsageError) as error:
        text = f"{runtime.setup_note} {error.full_text()}"
        raise RequestError(AUTH_REQUIRED, f"{sanitize_line(text)} {_WAY_OUT}") from error


def _absolute(path: str) -> Path:
    if not path.startswith("/") or "\0" in path:
        raise RequestError(INVALID_PARAMS, f"The path {sanitize_path(path)!r} is not absolute.")
    return Path(os.path.realpath(path))


def _entries(servers: McpServers) -> dict[str, dict[str, object]]:
    """Return what the editor brings as entries of mcp.json."""
    found: dict[str, dict[str, object]] = {}
    for each in servers:
        match each:
            case schema.McpServerStdio():
                env = {pair.name: pair.value for pair in each.env}
                found[each.name] = {"command": each.command, "args": list(each.args), "env": env}
            case schema.HttpMcpServer() | schema.SseMcpServer():
                headers = {pair.name: pair.value for pair in each.headers}
                found[each.name] = {"type": each.type, "url": str(each.url), "headers": headers}
            case _:
                raise RequestError(INVALID_PARAMS, f"The transport of MCP server {sanitize_line(each.name)} is not supported.")
    return found


def _has(archive: Any, session_id: str) -> bool:
    try:
        return any(each.id == session_id for each in archive.look_up([session_id]))
    except SessionFileError:
        return False


def _summaries(folders: Sequence[Path]) -> list[tuple[Path, SessionSummary]]:
    found: list[tuple[Path, SessionSummary]] = []
    for folder in folders:
        try:
            found += [(folder, each) for each in archive_of(folder).sessions(limit=_MOST_LISTED)]
        except LmtuiError:  # one folder that cannot be read does not hide the others
            continue
    return sorted(found, key=lambda each: (each[1].updated, each[1].id), reverse=True)


def _info(folder: Path, row: SessionSummary) -> schema.SessionInfo:
    title, updated = sanitize_line(row.title) or None, row.updated.isoformat()
    return schema.SessionInfo(session_id=row.id, cwd=str(folder), title=title, updated_at=updated)
