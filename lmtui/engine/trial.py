"""Commands that would be asked about run in an overlay first; the question is then about what they did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lmtui.core.errors import SandboxError
from lmtui.core.permissions.dangerous_commands import dangers
from lmtui.core.permissions.decide import Access, Decision, Mode, Verdict, decide_all
from lmtui.core.ports import CommandOverlay, PreparedCall, Preview, ToolContext, ToolResult
from lmtui.core.sanitize import pluralize
from lmtui.core.workspace import EFFECT_TOOL, CommandEffect, FileChangeKind
from lmtui.engine.agent import Agent
from lmtui.engine.permission_check import is_answered_by_typing, may_try

NO_OVERLAYS = "Commands are asked about before they run, as no overlay can be made here: {why}"


def is_tried(agent: Agent, prepared: PreparedCall, decision: Decision) -> bool:
    """Tell whether a command is run in an overlay before anything is asked.

    That is so where only the normal mode asks about it.  What a rule asks about, what is dangerous or names secrets, what stays
    or reaches the network is asked about first.
    """
    return (
        may_try(agent, prepared)
        and decision.verdict is Verdict.ASK
        and agent.state.mode is Mode.NORMAL
        and not (agent.state.sandbox.asks_each_command or decision.reveals)
        and is_answered_by_typing(agent, prepared)
        and not dangers(prepared.subjects[0], agent.state.sandbox.folder or "/workspace")
    )


@dataclass(frozen=True, slots=True)
class KeptEffect:
    """Keeping what a command did in an overlay, as a call that can be asked about; implements `core.ports.PreparedCall`."""

    command: PreparedCall
    overlay: CommandOverlay
    effect: CommandEffect
    result: ToolResult

    @property
    def tool(self) -> str:
        """Return the name that the question has."""
        return EFFECT_TOOL

    @property
    def arguments(self) -> Mapping[str, object]:
        """Return the arguments of the command's call."""
        return self.command.arguments

    @property
    def title(self) -> str:
        """Return the command in a few words."""
        return self.command.title

    @property
    def access(self) -> Access:
        """Return that files are written."""
        return Access.WRITE

    @property
    def subjects(self) -> tuple[str, ...]:
        """Return the paths that would be different."""
        return (*self.effect.paths, *self.effect.made)

    async def preview(self, context: ToolContext) -> Preview:
        """Return the command, what it did, and the change of each file."""
        del context
        text = "\n".join((self.command.subjects[0], "", *self.effect.lines()))
        return Preview(text, "".join(each.diff for each in self.effect.ordered))

    async def run(self, context: ToolContext) -> ToolResult:
        """Keep it, and return what the command said."""
        del context
        try:
            notes = await self.overlay.keep(self.effect, self.effect.paths)
        except SandboxError as error:
            return dropped(self.result, self.effect, error.full_text())
        return replace(self.result, text="\n".join((self.result.text, *notes)))


def is_covered(agent: Agent, effect: CommandEffect) -> bool:
    """Tell whether rules allow each change of an effect."""
    paths = (*effect.paths, *effect.made)
    return decide_all("write", Access.WRITE, paths, agent.state.mode, agent.all_rules()).verdict is Verdict.ALLOW


def asking(effect: CommandEffect) -> Decision:
    """Return the decision that an effect is asked about."""
    deleted = sum(each.kind is FileChangeKind.DELETED for each in effect.changes)
    folders = [*effect.made, *effect.removed]
    changed = pluralize(len(effect.paths), "file") if effect.paths or not folders else pluralize(len(folders), "folder")
    why = f"it ran in an overlay; keeping it would change {changed}{f', {deleted} of them deleted' if deleted else ''}"
    return Decision(Verdict.ASK, why, takes_no_rule=True)


def dropped(result: ToolResult, effect: CommandEffect, why: str) -> ToolResult:
    """Return the result of a command whose effect was not kept."""
    named = "; ".join(effect.lines())
    return replace(result, text=f"{result.text}\n[{why}, so nothing of this was kept: {named}]", ok=False, summary="not kept")
