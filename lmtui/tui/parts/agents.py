"""The sub-agents and the tool log: an agent's own conversation in place of the root's, the log's filter, a call as a page."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from lmtui.core.clean import clean, clean_line
from lmtui.core.events import ROOT, Envelope, ToolCallFinished, ToolCallStarted
from lmtui.tui.lines.arguments import value_text
from lmtui.tui.lines.blocks import seconds
from lmtui.tui.lines.page_view import whole_text
from lmtui.tui.lines.text import Line
from lmtui.tui.lines.transcript import Transcript
from lmtui.tui.modals.reading import Reading
from lmtui.tui.router import Feed
from lmtui.tui.stage import Handler, Stage
from lmtui.tui.widgets.ask_line import AskLine
from lmtui.tui.widgets.bars import Bar
from lmtui.tui.widgets.fit import Part


class AgentPart:
    """Shows an agent's conversation until escape, narrows the log down, shows a call whole."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._line = Bar(id="agent-line")
        self._line.display = False
        self._filter = AskLine("log-filter")
        if stage.panes is not None:
            stage.panes.plan.open_agent = lambda agent: self._work(self.show(agent))

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {"log.filter": lambda _: self._open_filter(), "log.whole": lambda _: self._show_whole()}

    # -- an agent's conversation ----------------------------------------------------------------------------------------

    async def show(self, agent: str, call_id: str = "") -> None:
        """Show the conversation of an agent (the root's: the usual one), with the cursor on one of its calls."""
        stage = self._stage
        panes, active = stage.panes, stage.desk.active
        if panes is None or panes.current is None or active is None:
            return
        await self.leave(is_quiet=True)
        current = panes.current
        if agent != ROOT:
            view = current.agent = Transcript(agent, classes="transcript")
            view.empty_text = "This agent has said nothing yet."
            self._draw_what_is_pending(active)
            for envelope in active.session.history():
                view.apply(envelope)
            active.panels = (*active.panels, view)
            await panes.chat_pane.mount(view)
            current.root.display = False
        self.draw()
        if stage.pane != "chat":
            stage.go_to("chat")
        current.transcript.focus()
        if call_id:
            _ = current.transcript.show_call(call_id)

    def _draw_what_is_pending(self, feed: Feed) -> None:
        """Let the panels catch up: what is in the history already must not come to a new one a second time."""
        panes = self._stage.panes
        while feed.is_behind:
            feed.draw((panes.plan, panes.files) if panes is not None else ())

    async def leave(self, *, is_quiet: bool = False) -> bool:
        """Show the root's conversation again; False where it is shown already."""
        panes, active = self._stage.panes, self._stage.desk.active
        current = panes.current if panes is not None else None
        if current is None or current.agent is None or active is None:
            return False
        view, current.agent = current.agent, None
        active.panels = tuple(each for each in active.panels if each is not view)
        current.root.display = True
        await view.remove()
        self.draw()
        if not is_quiet:
            current.root.focus()
        return True

    def draw(self) -> None:
        """Say whose conversation it is, where it is not the root's."""
        panes, active = self._stage.panes, self._stage.desk.active
        if panes is None:
            return
        if self._line.parent is None:
            _ = panes.chat_pane.mount(self._line, before=0)
        view = panes.current.agent if panes.current is not None else None
        self._line.display = view is not None
        if view is not None and active is not None:
            agent = active.facts.agents.by_id.get(view.agent)
            title = f"{agent.title} · {agent.state}" if agent is not None else ""
            self._line.show(
                [Part(clean_line(view.agent), "bold $accent"), Part(title, "$text-muted", 1)], [Part("esc back", "$text-muted")]
            )

    # -- the log --------------------------------------------------------------------------------------------------------

    async def _open_filter(self) -> None:
        panes = self._stage.panes
        if panes is None or panes.current is None:
            return
        if self._filter.parent is None:
            await panes.log_pane.mount(self._filter, after=0)
        log = panes.current.log
        self._filter.ask(self, "words  tool:  agent:  state:", move=log.move_cursor)

    def typed(self, text: str) -> None:
        """Narrow the log down to what was typed."""
        panes = self._stage.panes
        if panes is not None and panes.current is not None:
            panes.current.log.narrow(text)
            panes.draw_titles()

    def done(self, text: str) -> None:
        """Go to the log; an empty filter is put away."""
        if not text.strip():
            self._filter.close()
        self._focus_log()

    def given_up(self) -> None:
        """Show all of the log again."""
        self.typed("")
        self._focus_log()

    def _focus_log(self) -> None:
        panes = self._stage.panes
        if panes is not None and panes.current is not None:
            panes.current.log.focus()

    def _show_whole(self) -> None:
        panes, active = self._stage.panes, self._stage.desk.active
        entry = panes.current.log.current if panes is not None and panes.current is not None else None
        if entry is None or active is None:
            return
        lines = call_page(active.session.history(), entry.call_id)
        title = f"{entry.tool}  {entry.title}".rstrip()
        _ = self._stage.app.push_screen(Reading(title, lambda width: [line for part in lines for line in part(width)]))

    def _work(self, work: Coroutine[Any, Any, None]) -> None:
        self._stage.app.run_worker(work, group="agents")


class _Section:
    """A heading with a text below it, as lines for a width."""

    def __init__(self, title: str, text: str) -> None:
        self._title, self._text = title, text

    def __call__(self, width: int) -> list[Line]:
        """Return the lines."""
        return [((self._title, "muted"),), *whole_text(self._text, width), ()]


def call_page(history: Sequence[Envelope], call_id: str) -> list[_Section]:
    """Return a call whole: who made it when, its arguments, who decided, and all of its result."""
    found: list[_Section] = []
    for envelope in history:
        match envelope.event:
            case ToolCallStarted() as event if event.call_id == call_id:
                who = f"{event.agent}, {envelope.time.astimezone():%Y-%m-%d %H:%M:%S}"
                arguments = "\n".join(f"{name}: {value_text(value)}" for name, value in event.arguments.items())
                found += [_Section("CALL", f"{event.tool} by {who}"), _Section("ARGUMENTS", arguments or "none")]
            case ToolCallFinished() as event if event.call_id == call_id:
                decided = " · ".join(part for part in (event.decision, event.rule, event.why) if part)
                took = f"{'ok' if event.ok else 'failed'} in {seconds(event.elapsed_ms / 1000)}"
                found.append(_Section("DECISION", decided or "nobody was asked"))
                found.append(_Section("RESULT", f"{took}\n{clean(event.result)}"))
            case _:
                pass
    return found
