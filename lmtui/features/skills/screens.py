"""Skills in the full screen: their list, and their names for completion."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from lmtui.core.errors import ToolError
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.core.subagents import FileState
from lmtui.features.skills.commands import SCOPE, SIGNS, skill_facts, skill_state, tool_facts
from lmtui.features.skills.values import OFF, PromotedTool, Skill, Skills
from lmtui.tui.commands import Command, Scope, bindings
from lmtui.tui.lines.page_view import whole_text
from lmtui.tui.lines.styled_text import Line, StyleRole, fit, pad
from lmtui.tui.modals.list_dialog import ListDialog
from lmtui.tui.modals.picker import Confirm, Reading
from lmtui.tui.workbench_api import FeatureController, Handler

_NAME_CELLS, _SOURCE_CELLS = 24, 12


class SkillList(ListDialog[Skill | PromotedTool, str | None]):
    """Lists the skills; the result is the name of one that is to be used."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(SCOPE, Scope.APP)
    NAME, HEADING, SCOPE, CHOOSING = "skills", "Skills", SCOPE, "read"

    def __init__(self, skills: Skills, session: str) -> None:
        super().__init__()
        self._skills, self._session = skills, session
        self._in_use: Sequence[str] = ()

    def on_mount(self) -> None:
        self.run_worker(self._look(), group="skills", exclusive=True)

    async def _look(self) -> None:
        self._in_use = await self._skills.in_use(self._session) if self._session else ()
        self.show([*await self._skills.found(), *await asyncio.to_thread(self._skills.promoted)])

    def key(self, row: Skill | PromotedTool) -> str:
        """Return the name, and whether it is a skill's or a tool's."""
        return f"{type(row).__name__} {row.name}"

    def line(self, row: Skill | PromotedTool, width: int) -> Line:
        """Return one in aligned columns."""
        style: StyleRole
        if isinstance(row, PromotedTool):
            sign, style = ("✗", "bad") if row.problem else ("✓", "good")
            source, state = "tool", row.problem or f"{row.tokens:,} tokens"
        else:
            (sign, style), source, state = SIGNS[row.state], str(row.source), skill_state(row, self._in_use)
        room = max(12, width - _NAME_CELLS - _SOURCE_CELLS - 6)
        return (
            (f" {sign} ", style),
            (f"{pad(fit(sanitize_line(row.name), _NAME_CELLS), _NAME_CELLS)} ", ""),
            (f"{pad(fit(source, _SOURCE_CELLS), _SOURCE_CELLS)} ", "muted"),
            (fit(sanitize_line(state), room), "muted" if sign == "✓" else style),
        )

    def about(self, row: Skill | PromotedTool | None) -> tuple[str, Sequence[Command]]:
        """Return what there is to know of one, and what can be done with it."""
        facts = skill_facts(row) if isinstance(row, Skill) else tool_facts(row) if row is not None else ("Looking …",)
        left_out = {
            "skills.use": not (isinstance(row, Skill) and row.state is FileState.READY),
            "skills.remove": not isinstance(row, PromotedTool),
        }
        return "\n".join(facts), self.verbs(*(name for name in left_out if left_out[name])) if row is not None else ()

    def act(self) -> None:
        """Read the marked one."""
        if self.current is not None:
            self.run_worker(self._read(self.current), group="skills", exclusive=True)

    def action_skills_use(self) -> None:
        """Close, and use the marked skill."""
        each = self.current
        if isinstance(each, Skill) and each.state is FileState.READY:
            _ = self.dismiss(each.name)

    def action_skills_remove(self) -> None:
        """Ask, then forget the marked tool."""
        if isinstance(self.current, PromotedTool):
            self.run_worker(self._remove(self.current), group="skills", exclusive=True)

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

    async def _remove(self, tool: PromotedTool) -> None:
        origin = sanitize_line(tool.origin)
        text = f"{tool.name}: {sanitize_line(tool.description)}\nThe model can no longer call it. {origin} stays."
        if await self.app.push_screen_wait(Confirm("Remove this tool?", text)):
            _ = await asyncio.to_thread(self._skills.remove, tool.name)
            await self._look()


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
