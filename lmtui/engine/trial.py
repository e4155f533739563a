"""Commands that would be asked about run in an overlay first; the question is then about what they did."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from lmtui.core.errors import SandboxError
from lmtui.core.permissions.dangerous_commands import dangers
from lmtui.core.permissions.decide import Access, Decision, Mode, Verdict, decide_all
from lmtui.core.ports import CommandOverlay, PreparedCall, Preview, Sandbox, ToolContext, ToolResult
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.workspace import EFFECT_TOOL, CommandEffect, EffectKind, EffectPart, FileChangeKind
from lmtui.engine.agent import Agent
from lmtui.engine.permission_check import is_answered_by_typing, may_try

_MOST_LOOKED_UP, _MOST_NAMED = 500, 20
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
        text = "\n".join((self.command.subjects[0], "", *self.effect.lines()))
        parts = await with_tracked(self.effect.parts, context.sandbox)
        hunks = sum(part.hunks for part in parts)
        return Preview(text, "".join(each.diff for each in self.effect.ordered), hunks=hunks, parts=parts)

    async def run(self, context: ToolContext) -> ToolResult:
        """Keep it, or the chosen units of it, and return what the command said."""
        try:
            notes = await self.overlay.keep(self.effect, context.hunks)
        except SandboxError as error:
            return dropped(self.result, self.effect, error.full_text())
        left_out = [] if context.hunks is None else [kept_in_part(self.effect, context.hunks)]
        return replace(self.result, text="\n".join((self.result.text, *notes, *left_out)))


async def with_tracked(parts: Sequence[EffectPart], sandbox: Sandbox) -> tuple[EffectPart, ...]:
    """Return the parts of an effect, those marked that change or delete what git does not know; none without a repository."""
    old = [part.path for part in parts if part.kind in (EffectKind.DELETED, EffectKind.CHANGED)][:_MOST_LOOKED_UP]
    if not old:
        return tuple(parts)
    try:
        listed = await sandbox.run_git(["ls-files", "-z", "--", *(f":(literal){path}" for path in old)])
    except SandboxError:
        return tuple(parts)
    known = frozenset(listed.output.split("\0"))
    is_known = listed.exit_code != 0
    return tuple(
        replace(part, is_tracked=is_known or part.path in known or part.path.endswith("/")) if part.path in old else part
        for part in parts
    )


def kept_in_part(effect: CommandEffect, units: Collection[int]) -> str:
    """Return what the model is told of an effect that was kept in part."""
    choice = effect.chosen(units)
    gone = frozenset(f"{path}/" for path in (*choice.made, *choice.removed))
    kept: list[str] = []
    left: list[str] = []
    for part in effect.parts:
        name = f"{part.kind} {sanitize_line(part.path)}"
        if part.path in choice.hunks:
            kept.append(f"{name} ({len(choice.hunks[part.path])} of {part.hunks} hunks)")
        else:
            (kept if part.path in choice.paths or part.path in gone else left).append(name)
    said = f"[the user kept: {_joined(kept)}"
    return f"{said}; nothing of: {_joined(left)}]" if left else f"{said}]"


def _joined(names: Sequence[str]) -> str:
    left = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {left} more" if left > 0 else "")


class OverlayReview:
    """What commands did in an overlay that stays, part by part; implements `core.sessions.EffectReview`."""

    def __init__(self, overlay: CommandOverlay, real: Sandbox) -> None:
        self._overlay = overlay
        self._real = real
        self._seen: CommandEffect | None = None

    async def parts(self) -> Sequence[EffectPart]:
        """Look, and return what would be different now."""
        self._seen = await self._overlay.effect()
        return await with_tracked(self._seen.parts, self._real)

    async def keep(self, units: Collection[int] | None) -> Sequence[str]:
        """Make some units of what was seen last real, all with None; return notes."""
        seen = self._seen or await self._overlay.effect()
        return await self._overlay.keep(seen, units)

    async def drop(self) -> None:
        """Drop all that is not kept."""
        await self._overlay.close()


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
