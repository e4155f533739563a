"""Skills in the app: their list, one that is to be followed, and functions that are to become tools."""

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

from lmtui.core.errors import ToolError
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.core.skills import (
    PromotedTool,
    Skill,
    Skills,
    SkillState,
    skill_facts,
    skill_state,
    tool_facts,
)
from lmtui.tui.commands import Scope, bindings, closing, of_scope
from lmtui.tui.lines.page_view import whole_text
from lmtui.tui.lines.styled_text import Line, fit, pad
from lmtui.tui.modals.picker import Confirm, Reading
from lmtui.tui.widgets.bars import Verbs
from lmtui.tui.workbench_api import Handler, WorkbenchApi

SIGNS = {
    SkillState.READY: ("✓", "$success"),
    SkillState.WAITING: ("?", "$warning"),
    SkillState.REFUSED: ("–", "$text-muted"),
    SkillState.HIDDEN: ("–", "$text-muted"),
    SkillState.BROKEN: ("✗", "$error"),
}
_NAME_CELLS, _SOURCE_CELLS = 24, 12


class SkillList(ModalScreen[str | None]):
    """Lists the skills; the result is the name of one that is to be used."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.SKILLS), *bindings(Scope.APP)]

    SCOPE: ClassVar[Scope] = Scope.SKILLS

    def __init__(self, skills: Skills, confirm: Callable[[str, str], Confirm] = Confirm) -> None:
        super().__init__()
        self._skills, self._confirm = skills, confirm
        self._shown: Sequence[Skill | PromotedTool] = ()
        self._options = OptionList(compact=True, markup=False)
        self._state = Static("", id="skills-state", markup=False)
        self._verbs = Verbs()

    def compose(self) -> ComposeResult:
        """Lay out the list."""
        with Vertical(classes="box wide", id="skills-box"):
            yield Static("SKILLS", classes="box-title", markup=False)
            yield self._options
            yield self._state
            yield self._verbs

    def on_mount(self) -> None:
        """Look for the skills."""
        self._options.focus()
        self.run_worker(self._look(), group="skills", exclusive=True)

    def on_resize(self) -> None:
        """Lay the columns out for the width."""
        self.call_after_refresh(self._fill)

    async def _look(self) -> None:
        tools = await asyncio.to_thread(self._skills.promoted)
        self._shown = [*await self._skills.found(), *tools]
        self._fill()

    def _fill(self) -> None:
        options, marked = self._options, self._options.highlighted or 0
        width = max(30, options.content_size.width)
        options.clear_options()
        options.add_options([Option(_line(each, width)) for each in self._shown])
        options.highlighted = min(marked, len(self._shown) - 1) if self._shown else None
        self._tell()

    @property
    def _current(self) -> Skill | PromotedTool | None:
        marked = self._options.highlighted
        return self._shown[marked] if marked is not None and marked < len(self._shown) else None

    @on(OptionList.OptionHighlighted)
    def _marked(self, _: OptionList.OptionHighlighted) -> None:
        self._tell()

    @on(OptionList.OptionSelected)
    def _selected(self, _: OptionList.OptionSelected) -> None:
        self.action_skills_read()

    def _tell(self) -> None:
        """Say what there is to know of the marked one, and what can be done with it."""
        each = self._current
        facts = skill_facts(each) if isinstance(each, Skill) else tool_facts(each) if each is not None else ("Looking …",)
        self._state.update(Content.styled("\n".join(facts), "$text-muted"))
        left_out = {
            "skills.use": not (isinstance(each, Skill) and each.state is SkillState.READY),
            "skills.remove": not isinstance(each, PromotedTool),
        }
        verbs = [verb for verb in of_scope(Scope.SKILLS) if each is not None and not left_out.get(verb.id)]
        self._verbs.show([*verbs, closing()])

    def action_skills_read(self) -> None:
        """Read the marked one."""
        if self._current is not None:
            self.run_worker(self._read(self._current), group="skills", exclusive=True)

    def action_skills_use(self) -> None:
        """Close, and use the marked skill."""
        each = self._current
        if isinstance(each, Skill) and each.state is SkillState.READY:
            _ = self.dismiss(each.name)

    def action_skills_remove(self) -> None:
        """Ask, then forget the marked tool."""
        if isinstance(self._current, PromotedTool):
            self.run_worker(self._remove(self._current), group="skills", exclusive=True)

    def action_close_or_stop(self) -> None:
        """Close."""
        _ = self.dismiss(None)

    async def _read(self, each: Skill | PromotedTool) -> None:
        if isinstance(each, PromotedTool):
            text = each.source
        elif each.state is SkillState.READY:
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
        if await self.app.push_screen_wait(self._confirm("Remove this tool?", text)):
            _ = await asyncio.to_thread(self._skills.remove, tool.name)
            await self._look()


def _line(each: Skill | PromotedTool, width: int) -> Content:
    """Return one in aligned columns."""
    if isinstance(each, PromotedTool):
        sign, style = ("✗", "$error") if each.problem else ("✓", "$success")
        source, state = "tool", each.problem or f"{each.tokens:,} tokens"
    else:
        (sign, style), source, state = SIGNS[each.state], str(each.source), skill_state(each)
    room = max(12, width - _NAME_CELLS - _SOURCE_CELLS - 6)
    return Content.assemble(
        (f" {sign} ", style),
        (f"{pad(fit(sanitize_line(each.name), _NAME_CELLS), _NAME_CELLS)} ", "$text"),
        (f"{pad(fit(source, _SOURCE_CELLS), _SOURCE_CELLS)} ", "$text-muted"),
        (fit(sanitize_line(state), room), "$text-muted" if sign == "✓" else style),
    )


class SkillController:
    """Answers the commands of skills."""

    def __init__(self, workbench: WorkbenchApi) -> None:
        self._workbench = workbench

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {"skills.show": lambda _: self._show()}

    def _show(self) -> None:
        host = self._workbench.sessions.host
        if host is not None:
            _ = self._workbench.app.push_screen(SkillList(host.extensions.skills), self._take)

    def _take(self, name: str | None) -> None:
        """Write the skill that was chosen into the prompt."""
        if name:
            self._workbench.prompt.put_before(f"/skill {name} ")
