"""The MCP servers: where each runs and stands, what its tools cost; to be switched, started again, accepted and read about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from lmtui.core.clean import clean_line, reveal_line
from lmtui.core.mcp import McpServer, McpServers, ServerState, changes_text
from lmtui.tui.commands import Scope, bindings, closing, command, first_key, of_scope
from lmtui.tui.lines.page_view import whole_text
from lmtui.tui.lines.text import Line
from lmtui.tui.modals.mcp_words import about, log_end, server_line, tool_lines
from lmtui.tui.modals.questions import Confirm
from lmtui.tui.modals.reading import Reading
from lmtui.tui.widgets.verbs import Verbs

EMPTY = """\
No MCP servers yet. They are named in .lmagent/mcp.json or .mcp.json of
this folder, or in your own mcp.json:

  {"mcpServers": {"time": {"command": "mcp-server-time"}}}"""
ASKED_ABOUT = (ServerState.WAITING, ServerState.REFUSED, ServerState.CHANGED, ServerState.LOGIN)


class McpList(ModalScreen[None]):
    """Lists the servers."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.MCP), *bindings(Scope.APP)]

    SCOPE: ClassVar[Scope] = Scope.MCP

    def __init__(self, servers: McpServers, confirm: Callable[[str, str], Confirm] = Confirm) -> None:
        super().__init__()
        self._servers, self._confirm = servers, confirm
        self._shown: Sequence[McpServer] = ()
        self._options = OptionList(compact=True, markup=False)
        self._state = Static("", id="mcp-state", markup=False)
        self._verbs = Verbs()
        self._leave: Callable[[], None] = lambda: None

    def compose(self) -> ComposeResult:
        """Lay out the list."""
        with Vertical(classes="box wide", id="mcp-box"):
            yield Static("MCP SERVERS", classes="box-title", markup=False)
            yield self._options
            yield self._state
            yield self._verbs

    def on_mount(self) -> None:
        """List the servers, and again whenever one changes."""
        self._options.focus()
        self._leave = self._servers.listen(self._fill_soon)
        self._fill()

    def on_unmount(self) -> None:
        """Stop listening."""
        self._leave()

    def on_resize(self) -> None:
        """Lay the columns out for the width."""
        self.call_after_refresh(self._fill)

    def _fill_soon(self) -> None:
        _ = self.call_later(self._fill)

    def _fill(self) -> None:
        options, marked = self._options, self._current
        self._shown = self._servers.servers()
        width = max(30, options.content_size.width)
        options.clear_options()
        options.add_options([Option(server_line(server, width), id=server.name) for server in self._shown])
        options.display = bool(self._shown)
        names = [server.name for server in self._shown]
        options.highlighted = (names.index(marked) if marked in names else 0) if names else None
        self._tell()

    @property
    def _current(self) -> str:
        marked = self._options.highlighted
        return (self._options.get_option_at_index(marked).id or "") if marked is not None else ""

    def _server(self) -> McpServer | None:
        return next((server for server in self._shown if server.name == self._current), None)

    @on(OptionList.OptionHighlighted)
    def _marked(self, _: OptionList.OptionHighlighted) -> None:
        self._tell()

    @on(OptionList.OptionSelected)
    def _selected(self, _: OptionList.OptionSelected) -> None:
        self.action_mcp_tools()

    def _tell(self) -> None:
        """Say what there is to know of the marked server, and what can be done with it."""
        server, problems = self._server(), [clean_line(each) for each in self._servers.problems()]
        text = "\n".join([*([about(server)] if server is not None else [EMPTY]), *problems])
        self._state.update(Content.styled(text, "$text-muted"))
        waits = server is not None and server.state in ASKED_ABOUT
        verbs = [each for each in of_scope(Scope.MCP) if server is not None and (waits or each.id != "mcp.accept")]
        self._verbs.show([*verbs, closing()])

    def action_mcp_tools(self) -> None:
        """Read the tools of the marked server."""
        server = self._server()
        if server is not None:
            title = f"TOOLS OF {clean_line(server.name)}"
            _ = self.app.push_screen(Reading(title, lambda width: tool_lines(server, width)))

    def action_mcp_accept(self) -> None:
        """Ask, then let the marked server start or take its changed tools."""
        server = self._server()
        if server is not None and server.state in ASKED_ABOUT:
            self.run_worker(self._ask(server), group="mcp", exclusive=True)

    def action_mcp_switch(self) -> None:
        """Switch the marked server on or off."""
        server = self._server()
        if server is not None:
            self._servers.enable(server.name, is_on=server.state is ServerState.OFF)

    def action_mcp_restart(self) -> None:
        """Start the marked server again."""
        server = self._server()
        if server is not None:
            self._servers.restart(server.name)

    def action_mcp_log(self) -> None:
        """Read the end of the marked server's log."""
        server = self._server()
        if server is not None:
            self.run_worker(self._show_log(server.name), group="mcp-log", exclusive=True)

    def action_close_or_stop(self) -> None:
        """Close."""
        _ = self.dismiss(None)

    async def _ask(self, server: McpServer) -> None:
        if server.state is ServerState.CHANGED:
            looks = first_key(command("mcp.tools"))
            title = "Take its tools as they are now?"
            text = f"{clean_line(server.name)}: {changes_text(server.changes)} ({looks} in the list shows what differs)"
        elif server.state is ServerState.LOGIN:
            title, text = "Open this in your browser, to log in?", clean_line(server.problem)
        else:
            words = f"{clean_line(server.name)}: {reveal_line(server.words)}\n{clean_line(server.source)}"
            title, text = "Let this server start?", words
        if await self.app.push_screen_wait(self._confirm(title, text)):
            self._servers.accept(server.name)

    async def _show_log(self, name: str) -> None:
        path = self._servers.log_file(name)
        said = [*await asyncio.to_thread(log_end, path), "", clean_line(str(path))]

        def lines(width: int) -> list[Line]:
            return [line for text in said for line in (whole_text(text, width) or [()])]

        _ = self.app.push_screen(Reading(f"LOG OF {clean_line(name)}", lines))
