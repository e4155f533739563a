"""The tools of one session: our own, and those of servers behind them.  The model's list of them stays.

The list is settled at the first request of a conversation, since each change of it makes the model read everything anew; it is
looked at again where room is made, as everything is read anew then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lmtui.core.errors import ToolError
from lmtui.core.events import ROOT, Envelope, ModelChanged, TurnStarted
from lmtui.core.mcp import PREFIX, READ_RESOURCE, McpTool
from lmtui.core.messages import ToolSet, ToolSpec
from lmtui.core.model_events import Compacted
from lmtui.core.ports import PreparedCall, Toolbox
from lmtui.extensions.call_arguments import fitted, read_arguments
from lmtui.extensions.mcp_calls import SearchCall, ServerCall
from lmtui.extensions.mcp_names import server_key
from lmtui.extensions.mcp_room import McpRoom
from lmtui.extensions.mcp_search import SEARCH, found_text, search_spec

_SHARE = 0.05
_ASSUMED_WINDOW_TOKENS = 32_768
_PATIENCE_S = 10.0


class McpToolbox:
    """Implements `core.ports.Toolbox`.

    Args:
        base: our own tools; none of a server's stands in the place of one of them.
        room: the servers.
        is_ours: tells whether a name is that of one of our own tools.
        is_begun: the conversation has begun, so that the list is settled when it is first told.
    """

    def __init__(self, base: Toolbox, room: McpRoom, is_ours: Callable[[str], bool], *, is_begun: bool = False) -> None:
        self._base = base
        self._room = room
        self._is_ours = is_ours
        self._window_tokens = 0
        self._is_begun = is_begun
        self._settled: dict[ToolSet, tuple[ToolSpec, ...]] = {}

    def begin_with(self, past: Sequence[Envelope]) -> None:
        """Take note of what was there before: the size of the window."""
        events = (each.event for each in reversed(past))
        changes = (event for event in events if isinstance(event, ModelChanged) and event.agent == ROOT)
        last = next(changes, None)
        self._window_tokens = last.window_tokens if last is not None else 0

    def follow(self, envelope: Envelope) -> None:
        """Take note of an event of the session."""
        match envelope.event:
            case ModelChanged(agent=agent, window_tokens=tokens) if agent == ROOT:
                self._window_tokens = tokens
            case TurnStarted():
                self._is_begun = True
            case Compacted():
                self._settled.clear()
            case _:
                pass

    def specs(self, tools: ToolSet = ToolSet.FULL, *, sees: bool = False) -> tuple[ToolSpec, ...]:
        """Return what the model is told of the tools."""
        own = self._settled.get(tools)
        if own is None:
            own = self._offer()
            if self._is_begun:
                self._settled[tools] = own
        return (*self._base.specs(tools, sees=sees), *own)

    def prepare(self, name: str, arguments: str) -> PreparedCall:
        """Check one call; see `core.ports.Toolbox.prepare`."""
        wanted = name.strip()
        if wanted.lower() == SEARCH:
            return self._search(arguments)
        if wanted == READ_RESOURCE:
            return self._read(read_arguments(wanted, arguments))
        if wanted.lower().startswith(PREFIX):
            return self._call(wanted, read_arguments(wanted, arguments))
        if not self._is_ours(wanted):
            alone = [tool for tool in self._room.tools() if _folded(tool.own_name) == _folded(wanted)]
            if len(alone) == 1:
                return self._call(alone[0].name, read_arguments(wanted, arguments))
        return self._base.prepare(name, arguments)

    def _offer(self) -> tuple[ToolSpec, ...]:
        """Return the tools with their schemas as far as they are worth their price, else one that finds them."""
        tools = self._room.tools()
        share = int((self._window_tokens or _ASSUMED_WINDOW_TOKENS) * _SHARE)
        is_fitting = sum(tool.tokens for tool in tools) <= share
        told = tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in tools) if is_fitting else ()
        is_all = is_fitting and not self._room.is_unknown()
        servers = [server for server in self._room.servers() if server.is_open]
        return told if is_all or not servers else (*told, search_spec(servers))

    def _search(self, arguments: str) -> PreparedCall:
        given = read_arguments(SEARCH, arguments)
        if called := given.get("call") or given.get("name") or given.get("tool"):
            inner = given.get("arguments")
            return self._call(str(called), inner if isinstance(inner, dict) else read_arguments(SEARCH, str(inner or "")))
        query = given.get("query")
        if not isinstance(query, str) or not query.strip():
            raise ToolError(f"{SEARCH} needs query: a few words for what the tool should do, such as create issue")
        return SearchCall(SEARCH, query, self._found)

    async def _found(self, query: str) -> str:
        await self._room.settle(_PATIENCE_S if self._room.is_unknown() else 0)
        return found_text(query, self._room.tools())

    def _call(self, name: str, arguments: Mapping[str, object]) -> PreparedCall:
        return self._prepared(self._named(name), arguments)

    def _read(self, given: Mapping[str, object]) -> PreparedCall:
        tool = self._room.reader(str(given.get("server", "")))
        if tool is None:
            raise ToolError(f"no MCP server {str(given.get('server', ''))[:40]!r} with resources is ready")
        return self._prepared(tool, {"uri": given.get("uri", "")})

    def _prepared(self, tool: McpTool, arguments: Mapping[str, object]) -> PreparedCall:
        schema, place = self._room.details(tool)
        return ServerCall(tool, fitted(arguments, schema), schema, place, self._room.call)

    def _named(self, name: str) -> McpTool:
        tools = self._room.tools()
        for fold in (str, _folded):
            found = [tool for tool in tools if fold(tool.name) == fold(name) or fold(tool.own_name) == fold(name)]
            exact = next((tool for tool in found if fold(tool.name) == fold(name)), None)
            if exact is not None or len(found) == 1:
                return exact or found[0]
        closed = next(
            (server for server in self._room.servers() if name.startswith(f"{PREFIX}{server_key(server.name)}__")), None
        )
        if closed is not None and not closed.is_open:
            raise ToolError(
                f"{name[:64]} cannot be called now; server {closed.name}: {closed.state}", "The user can look: /mcp."
            )
        raise ToolError(f"there is no tool {name[:64]!r}. Find one with {SEARCH}, by words for what it should do.")


def _folded(name: str) -> str:
    return name.lower().replace("-", "_")
