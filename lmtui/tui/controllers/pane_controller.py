"""The sub-agents and the tool log: an agent's conversation, the log's filter, a call's page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from lmtui.core.events import ROOT
from lmtui.tui.lines.transcript import Transcript
from lmtui.tui.router import SessionView
from lmtui.tui.screens.output_screen import AgentScreen, CallPage, OutputScreen, call_output
from lmtui.tui.widgets.ask_line import AskLine
from lmtui.tui.widgets.columns import SIDE_PANES
from lmtui.tui.workbench_api import Handler, WorkbenchApi


class ChatController:
    """Answers the commands of the conversation."""

    def __init__(self, workbench: WorkbenchApi) -> None:
        self._workbench = workbench
        self._line = AskLine("chat-search")

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {"chat.find": self._find, "chat.copy_code": self._copy_code}

    @property
    def _transcript(self) -> Transcript | None:
        current = self._workbench.panes.current
        return current.transcript if current is not None else None

    async def _find(self, words: str) -> None:
        transcript = self._transcript
        if transcript is None or transcript.parent is None:
            return
        before = self._workbench.app.focused
        if not transcript.is_on_screen or self._workbench.pane != "chat":
            self._workbench.go_to("chat")
        if words:
            transcript.focus()
            transcript.search.find(words)
            return
        if self._line.parent is None:
            await self._workbench.panes.query_one("#chat-pane").mount(self._line)
        search = transcript.search

        def sent(text: str) -> None:
            if text.strip():
                transcript.focus()
                search.go(1)

        self._line.ask("search in the whole session", before or transcript, text=search.words, sent=sent, typed=self._mark)

    def _mark(self, words: str) -> None:
        """Mark what is typed, where it is in sight; Enter goes to it."""
        if self._transcript is not None:
            self._transcript.search.find(words, step=0)

    def _copy_code(self, _: str) -> None:
        transcript = self._transcript
        if transcript is None:
            return
        code, number, count = transcript.next_fence()
        if not count:
            self._workbench.say("no code fence here; y copies the whole message")
            return
        self._workbench.app.copy_to_clipboard(code)
        if count > 1:
            self._workbench.say(f"code {number} of {count}")


class PaneController:
    """Shows an agent's conversation in the side pane, narrows the log down, opens a call in the side pane."""

    def __init__(self, workbench: WorkbenchApi) -> None:
        self._workbench = workbench
        self._filter = AskLine("log-filter")
        self._last_call = ""

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {
            "log.filter": lambda _: self._open_filter(),
            "log.in_chat": lambda _: self._show_in_chat(),
            "layout.zoom": lambda _: self._workbench.panes.zoom(self._workbench.panes.focused_pane()),
            **{f"layout.{pane}": partial(self._toggle, pane) for pane in ("files", *SIDE_PANES)},
        }

    def _toggle(self, pane: str, _: str) -> None:
        panes = self._workbench.panes
        if panes.has_focus_in(pane):
            self._workbench.prompt.focus()
        panes.toggle(pane)

    # -- an agent's conversation ----------------------------------------------------------------------------------------

    def open(self, agent: str, call_id: str = "") -> None:
        """Show the conversation of an agent, with the cursor on one of its calls: the root's in the chat, others next to it."""
        panes, active = self._workbench.panes, self._workbench.active
        if panes.current is None or active is None:
            return
        view = panes.current.transcript
        if agent != ROOT:
            view = Transcript(agent)
            view.empty_text = "This agent has said nothing yet."
            while active.is_behind:  # what is in the history already must not come to the new one a second time
                active.draw((panes.plan, panes.files))
            for envelope in active.session.history():
                view.apply(envelope)
            _ = self._workbench.app.push_screen(self._agent_screen(active, view))
        else:
            if self._workbench.pane != "chat":
                self._workbench.go_to("chat")
            view.focus()
        if call_id:
            _ = view.call_after_refresh(view.show_call, call_id)

    def _agent_screen(self, active: SessionView, view: Transcript) -> AgentScreen:
        app = self._workbench.app

        def stop() -> None:
            for worker in app.workers:
                if worker.name == f"{active.session.id}/{view.agent}":
                    worker.cancel()

        def leave() -> None:
            active.panels = tuple(each for each in active.panels if each is not view)

        active.panels = (*active.panels, view)
        agents = active.state.work.agents.by_id
        screen = AgentScreen(view, lambda: agents.get(view.agent), stop, self.open_call, self._workbench.panes)
        screen.end = leave
        return screen

    # -- the log --------------------------------------------------------------------------------------------------------

    async def _open_filter(self) -> None:
        panes = self._workbench.panes
        if panes.current is None:
            return
        if self._filter.parent is None:
            await panes.log_pane.mount(self._filter, after=0)
        log = panes.current.log

        def filtered(text: str) -> None:
            if text.strip():
                log.focus()
            else:
                self._filter.action_give_up()

        what, move = "agent, tool, state or words", log.cursor.move
        self._filter.ask(what, log, stays=True, sent=filtered, typed=self._narrow, move=move)

    def _narrow(self, text: str) -> None:
        """Narrow the log down to what was typed."""
        panes = self._workbench.panes
        if panes.current is not None:
            panes.current.log.narrow(text)
            panes.draw_titles()

    # -- a call in the side pane ----------------------------------------------------------------------------------------

    def open_call(self, call_id: str) -> None:
        """Show the output of a call, or its change."""
        self._last_call = call_id
        if (make := self.tab()) is not None:
            _ = self._workbench.app.push_screen(make())

    def tab(self) -> Callable[[], OutputScreen] | None:
        """Return what shows the output of the call that was read last, else of the newest one."""
        calls = self._calls()
        return (lambda: self._output(calls[-1])) if calls else None

    def _calls(self) -> Sequence[str]:
        current = self._workbench.panes.current
        return current.log.source.call_ids if current is not None else ()

    def _output(self, newest: str) -> OutputScreen:
        active, panes = self._workbench.active, self._workbench.panes
        assert active is not None
        assert panes.current is not None
        session, transcript = active.session, panes.current.transcript

        def read(call_id: str) -> CallPage:
            self._last_call = call_id
            return call_output(session.history(), call_id, transcript.conversation.written_by(call_id))

        wanted = self._last_call if self._last_call in self._calls() else newest
        return OutputScreen(read, wanted, self._calls, panes)

    def _show_in_chat(self) -> None:
        current = self._workbench.panes.current
        entry = current.log.current if current is not None else None
        if entry is not None:
            self.open(entry.agent, entry.call_id)
