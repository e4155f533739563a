"""The editor as sessions see it: what it can do, what it is told, what it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from acp import schema
from acp.connection import Connection
from pydantic import BaseModel

from lmtui import __version__
from lmtui.acp.editor_pipe import REQUEST_ID, SENT_ID, EditorPipe

PROTOCOL_VERSION = 1
FIND_SERVER, SETUP = "find-model-server", "setup"
_FIND_TEXT = "Use the first model server that answers on this machine: LM Studio, Ollama, llama.cpp, vLLM …"
_CAPABILITIES = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {name: {} for name in ("list", "delete", "additionalDirectories", "fork", "resume", "close")},
}


def dumped(model: BaseModel | None) -> dict[str, Any]:
    """Return a value of the protocol as it is sent."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True) if model is not None else {}


class Editor:
    """The client at the other end.

    Args:
        connection: carries requests.
        pipe: carries what needs no answer, in the same order.
    """

    def __init__(self, connection: Connection, pipe: EditorPipe) -> None:
        self._connection, self._pipe = connection, pipe
        self.capabilities = schema.ClientCapabilities()

    def initialize(self, request: schema.InitializeRequest) -> schema.InitializeResponse:
        """Take what the editor can do, and say what this agent can do."""
        self.capabilities = request.client_capabilities or schema.ClientCapabilities()
        methods: list[schema.EnvVarAuthMethod | schema.TerminalAuthMethod | schema.AuthMethodAgent] = [
            schema.AuthMethodAgent(id=FIND_SERVER, name="Find a model server", description=_FIND_TEXT)
        ]
        auth = self.capabilities.auth
        if auth is not None and auth.terminal is True:
            text = "Choose the server and the model in a terminal"
            terminal = schema.TerminalAuthMethod(
                type="terminal", id=SETUP, name="Choose a model server", description=text, args=["--setup"]
            )
            methods.append(terminal)
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=schema.Implementation(name="lmtui", title="lmtui", version=__version__),
            auth_methods=methods,
            agent_capabilities=schema.AgentCapabilities.model_validate(_CAPABILITIES),
        )

    def update(self, session_id: str, update: BaseModel) -> None:
        """Tell what changed in a session."""
        params = {"sessionId": session_id, "update": dumped(update)}
        self._pipe.post({"jsonrpc": "2.0", "method": "session/update", "params": params})

    def after_answer(self, call: Callable[[], object]) -> None:
        """Call something once the request that is worked on was answered: only then the editor knows a new session."""
        self._pipe.when_answered(REQUEST_ID.get(), call)

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        """Ask something.  Where the asking is cancelled, the editor is told that its answer is no longer needed.

        Raises:
            RequestError: the editor refuses.
            ConnectionError: it is gone.
        """
        try:
            return await self._connection.send_request(method, params)
        except asyncio.CancelledError:
            cancel = {"requestId": SENT_ID.get()}
            self._pipe.post({"jsonrpc": "2.0", "method": "$/cancel_request", "params": cancel})
            raise

    async def choose(self, session_id: str, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]) -> str:
        """Let the user choose one of some options; return its id, or an empty string where the question was dismissed.

        Raises:
            RequestError: the editor refuses.
            ConnectionError: it is gone.
            ValidationError: the answer is none.
        """
        asked = schema.RequestPermissionRequest(session_id=session_id, tool_call=call, options=options)
        answer = schema.RequestPermissionResponse.model_validate(
            await self.request("session/request_permission", dumped(asked))
        ).outcome
        known = {each.option_id for each in options}
        return answer.option_id if isinstance(answer, schema.AllowedOutcome) and answer.option_id in known else ""
