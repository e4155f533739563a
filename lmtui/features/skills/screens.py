"""Skills in the full screen: their list, and their names for completion."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from lmtui.core.errors import ToolError
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.core.subagents import FileState
from lmtui.features.skills.commands import SIGNS, skill_facts, skill_state, tool_facts
from lmtui.features.skills.values import OFF, PromotedTool, Skill, Skills
from lmtui.tui.commands import Command
from lmtui.tui.lines.page_view import whole_text
from lmtui.tui.lines.styled_text import Line, Span, StyleRole
from lmtui.tui.modals.list_dialog import Cell, Column, ListDialog
from lmtui.tui.modals.picker import Confirm, Reading
from lmtui.tui.workbench_api import FeatureController, Handler


class SkillList(ListDialog[Skill | PromotedTool, str | None]):
    """Lists the skills; the result is the name of one that is to be used."""

    NAME, HEADING, TAB, CHOOSING = "skills", "Skills", "skills.show", "read"
    COLUMNS = (Column(most=1), Column("skill", 24), Column("from", 12), Column("state"))
    VERBS = (("yes", "use"), ("delete", "remove tool"))

    def __init__(self, skills: Skills, session: str) -> None:
        super().__init__()
        self._skills, self._session = skills, session
        self._in_use: Sequence[str] = ()

    async def rows(self) -> Sequence[Skill | PromotedTool]:
        """Read the skills and the tools."""
        self._in_use = await self._skills.in_use(self._session) if self._session else ()
        return [*await self._skills.found(), *await asyncio.to_thread(self._skills.promoted)]

    def key(self, row: Skill | PromotedTool) -> str:
        """Return the name, and whether it is a skill's or a tool's."""
        return f"{type(row).__name__} {row.name}"

    def cells(self, row: Skill | PromotedTool) -> Sequence[Cell]:
        """Return one in columns."""
        style: StyleRole
        if isinstance(row, PromotedTool):
            sign, style = ("✗", "bad") if row.problem else ("✓", "good")
            source, state = "tool", row.problem or f"{row.tokens:,} tokens"
        else:
            (sign, style), source, state = SIGNS[row.state], str(row.source), skill_state(row, self._in_use)
        shown: Span = (sanitize_line(state), "muted" if sign == "✓" else style)
        return (sign, style), sanitize_line(row.name), (source, "muted"), shown

    def about(self, row: Skill | PromotedTool | None) -> tuple[str, Sequence[Command]]:
        """Return what there is to know of one, and what can be done with it."""
        facts = skill_facts(row) if isinstance(row, Skill) else tool_facts(row) if row is not None else ("Looking …",)
        left_out = {
            "yes": not (isinstance(row, Skill) and row.state is FileState.READY),
            "delete": not isinstance(row, PromotedTool),
        }
        return "\n".join(facts), self.verbs(*(name for name in left_out if left_out[name])) if row is not None else ()

    def act(self) -> None:
        """Read the marked one."""
        if self.current is not None:
            self.run_worker(self._read(self.current), group="skills", exclusive=True)

    def do_yes(self, row: Skill | PromotedTool) -> None:
        """Close, and use a skill."""
        _ = self.dismiss(row.name)

    async def _read(self, each: Skill | PromotedTool) -> None:
        if isinstance(each, PromotedTool):
            text = each.source
        elif each.state is FileState.READY:
            try:
                text = (await self._skills.use(each.name)).text
            except ToolError as error:
                text = error.full_text()
        else:
            text = "\n\n".join(skill_facts(each))

        def lines(width: int) -> list[Line]:
            return [line for part in sanitize(text).splitlines() for line in (whole_text(part, width) or [()])]

        _ = self.app.push_screen(Reading(sanitize_line(each.name), lines))

    async def do_delete(self, tool: PromotedTool) -> None:
        """Ask, then forget a tool."""
        origin = sanitize_line(tool.origin)
        text = f"{tool.name}: {sanitize_line(tool.description)}\nThe model can no longer call it. {origin} stays."
        if await self.app.push_screen_wait(Confirm("Remove this tool?", text)):
            _ = await asyncio.to_thread(self._skills.remove, tool.name)


class SkillController(FeatureController):
    """Answers the commands of skills."""

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {"skills.show": lambda _: self._show()}

    def start(self) -> None:
        """Offer the names of the skills to who types."""
        self.workbench.app.run_worker(self._offer(), group="skill-names", exclusive=True)

    async def _offer(self) -> None:
        ready = [each for each in await self.host.extensions[Skills].found() if each.state is FileState.READY]
        names = [(each.name, each.description) for each in ready]
        self.workbench.prompt.completing.values["skills"] = [*names, (OFF, "End the skills in use.")]

    def _show(self) -> None:
        session = self.workbench.active.session.id if self.workbench.active is not None else ""
        _ = self.workbench.app.push_screen(SkillList(self.host.extensions[Skills], session), self._take)

    def _take(self, name: str | None) -> None:
        """Write the skill that was chosen into the prompt."""
        if name:
            self.workbench.prompt.put_before(f"/skill {name} ")
