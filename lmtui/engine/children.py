"""Sub-agents at work: each gets a brief and a desk of its own, does its task, and what it reports is checked on the disk."""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
from collections.abc import Mapping, Sequence
from functools import partial

from lmtui.core.agent_definitions import AgentDefinition
from lmtui.core.agent_events import AgentFinished, AgentStarted
from lmtui.core.children import Brief, ChildResult, Report, ReportStatus
from lmtui.core.claims import missing, path_of
from lmtui.core.errors import SandboxError
from lmtui.core.events import Level, MessageAdded, Notice, TurnReason
from lmtui.core.messages import Role
from lmtui.core.permissions import Access, Verdict, decide_all
from lmtui.engine.borrowing import borrow_model
from lmtui.engine.briefs import MAX_INLINED_BYTES, MAX_INLINED_FILES, before_text, brief_text, data_for
from lmtui.engine.desk import Desk
from lmtui.engine.guiding import SHARE, guidance_chars
from lmtui.engine.team import Team
from lmtui.engine.turn import Tally, work

_STATUS_OF = {
    TurnReason.DONE: ReportStatus.OK,
    TurnReason.WAITING: ReportStatus.PARTIAL,
    TurnReason.LIMIT: ReportStatus.PARTIAL,
    TurnReason.BLOCKED: ReportStatus.BLOCKED,
}
_MAX_FILES, _MAX_ENTRIES = 50, 10_000


class SubAgents:
    """Implements `core.children.Children` for the agent at one desk.

    Args:
        team: the session's.
        parent: the desk of the agent that sends them.
    """

    def __init__(self, team: Team, parent: Desk) -> None:
        self._team = team
        self._parent = parent

    async def run(self, briefs: Sequence[Brief]) -> Sequence[ChildResult]:
        """Do the tasks; see `core.children.Children.run`."""
        definitions = self._team.parts.definitions
        named = {brief.agent: await definitions.named(brief.agent) for brief in briefs if brief.agent}
        done: dict[str, asyncio.Future[ChildResult]] = {
            brief.task_id: asyncio.get_running_loop().create_future() for brief in briefs
        }
        own = self._team.places.lent() if self._parent.depth else contextlib.nullcontext()
        async with own, asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._in_turn(brief, done, named.get(brief.agent))) for brief in briefs]
        return [task.result() for task in tasks]

    async def _in_turn(
        self, brief: Brief, done: Mapping[str, asyncio.Future[ChildResult]], definition: AgentDefinition | None
    ) -> ChildResult:
        """Do a task once those that it depends on are done and a place is free."""
        before = [await asyncio.shield(done[task_id]) for task_id in brief.depends_on]
        failed = [result.task_id for result in before if not result.status.is_usable]
        if failed:
            why = f"not begun: {', '.join(failed)}, which it depends on, did not succeed"
            result = ChildResult("", Report(ReportStatus.SKIPPED, error=why), task_id=brief.task_id)
        else:
            async with self._team.places.one():
                result = await self._send(brief, before, definition)
        done[brief.task_id].set_result(result)
        return result

    async def _send(self, brief: Brief, before: Sequence[ChildResult], definition: AgentDefinition | None) -> ChildResult:
        """Have one agent do one task, from its start to its end in the log."""
        parent, team = self._parent, self._team
        agent, started = team.next_id(), parent.monotonic()
        parent.emit(
            AgentStarted(agent=agent, parent=parent.agent, title=brief.title, work=str(brief.kind), turn_id=parent.turn_id)
        )
        desk, tally = team.seat(parent, agent, brief.kind, definition), Tally()
        result = ChildResult(agent, Report(ReportStatus.ERROR, error="it was stopped"), task_id=brief.task_id)
        try:
            text = await self._words(brief, before)
            team.parts.papers.put_brief(agent, brief, text, parent=parent.agent, depth=desk.depth)
            desk.children = SubAgents(team, desk) if team.can_send(desk.depth) else None
            if definition is not None:
                await self._take_up(desk, definition)
            await work(desk, tally, partial(_tell, desk, text))
            result = await self._checked(brief, desk, desk.report or _report_of(tally))
        finally:
            del team.desks[agent]
            parent.files.update(desk.files)
            team.parts.papers.put_result(agent, result)
            parent.emit(
                AgentFinished(
                    agent=agent,
                    outcome=_outcome(result, tally),
                    summary=result.report.summary or result.report.error,
                    steps=tally.iterations,
                    usage=tally.usage,
                    elapsed_s=round(parent.monotonic() - started, 3),
                )
            )
        return result

    async def _take_up(self, desk: Desk, definition: AgentDefinition) -> None:
        """Let an agent ask the model that its definition names; what is not as the definition has it is said.

        Its parent's model is asked where the server does not have that one, which is said once in a session.
        """
        model, missing = definition.model, self._team.missing_models
        if model and model not in missing:
            await borrow_model(desk, model, f"the sub-agent {definition.name}")
            missing.update({model} if model != desk.main.model else ())
        if len(definition.instructions) > guidance_chars(self._parent.window_tokens):
            text = (
                f"The instructions of the sub-agent {definition.name} were cut: they take more than {SHARE:.0%} of the window."
            )
            desk.emit(Notice(agent=desk.agent, level=Level.WARNING, text=text))

    async def _words(self, brief: Brief, before: Sequence[ChildResult]) -> str:
        talk = self._parent.conversation
        told = before_text(before, await self._texts(before)) if before else ""
        data = await asyncio.to_thread(data_for, brief.data_hint, talk.entries.copy()) if brief.data_hint else ""
        return brief_text(brief, talk.last_task, data, told)

    async def _texts(self, before: Sequence[ChildResult]) -> list[tuple[str, str]]:
        """Return the text of the first small files that came of tasks, as far as they may be read unasked."""
        desk = self._parent
        found: list[tuple[str, str]] = []
        for path in dict.fromkeys(path for result in before for path in result.report.artifacts):
            if len(found) == MAX_INLINED_FILES:
                break
            try:
                # rules hold for what a link leads to
                paths = tuple(dict.fromkeys((path, *await desk.sandbox.real_paths([path]))))
                if decide_all("read", Access.READ, paths, desk.mode, desk.all_rules()).verdict is not Verdict.ALLOW:
                    continue
                content = await desk.sandbox.read_file(path, MAX_INLINED_BYTES)
            except SandboxError:
                continue
            if content.size_bytes < MAX_INLINED_BYTES and b"\0" not in content.data:
                found.append((path, content.data.decode("utf-8", "replace")))
        return found

    async def _checked(self, brief: Brief, desk: Desk, report: Report) -> ChildResult:
        """Return a report with what is really there: a claim that does not hold makes of `ok` a `partial`."""
        wanted = brief.deliverable.paths if brief.deliverable.type in ("file", "files") else ()
        claimed = list(dict.fromkeys((*wanted, *report.artifacts)))[:_MAX_FILES]
        gone = set(await missing(self._parent.sandbox, claimed))
        found = {path: "" if path in gone else path_of(path) for path in claimed}
        found = {path: normal or _by_name(path, desk.files) for path, normal in found.items()}
        lost = [path for path, known in found.items() if not known]
        there = dict.fromkeys((*filter(None, found.values()), *desk.files))
        status, error = report.status, report.error
        if lost and status is ReportStatus.OK:
            status, error = ReportStatus.PARTIAL, f"not on the disk: {', '.join(lost)}"
        artifacts = tuple(there)[:_MAX_FILES]
        return ChildResult(
            desk.agent, Report(status, report.summary, artifacts, report.data, error), tuple(lost), brief.task_id
        )


async def _tell(desk: Desk, text: str) -> None:
    desk.emit(MessageAdded(agent=desk.agent, role=Role.USER, text=text, turn_id=desk.turn_id))


def _report_of(tally: Tally) -> Report:
    """Return the report of an agent that ended without one: its last words, judged by how it ended."""
    return Report(_STATUS_OF.get(tally.reason, ReportStatus.ERROR), tally.text, error=tally.error)


def _outcome(result: ChildResult, tally: Tally) -> str:
    if tally.reason in (TurnReason.INTERRUPTED, TurnReason.LIMIT):
        return str(tally.reason)
    return {ReportStatus.OK: "done", ReportStatus.PARTIAL: "partial", ReportStatus.BLOCKED: "blocked"}.get(
        result.status, "failed"
    )


def _by_name(path: str, files: Mapping[str, None]) -> str:
    """Return the file that the agent changed and that has the name of one that is not where it was said to be."""
    name = posixpath.basename(path)
    return next((each for each in files if posixpath.basename(each) == name), "")
