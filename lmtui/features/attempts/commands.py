"""Commands of attempts: begin some, list them, use one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from lmtui.commands.command import AskYes, Command, CommandContext, OpenView, Output, Result, Scope
from lmtui.core.errors import UsageError
from lmtui.core.sanitize import escape_invisible
from lmtui.features.attempt_values import WorkspaceAttempts, attempt_lines

DISCARD = ("Discard all attempts?", "This deletes their changes and patches. Their sessions stay.")
_USUAL = 3
_ABOUT = re.compile(r"(use|again|stop|diff)\s+(\d{1,2})")
_BEGINS = re.compile(r"(?:(\d{1,3})\s+)?(.+)", re.DOTALL)


async def attempts(context: CommandContext, words: str) -> Result:
    """Begin attempts at a task, do something with one, or show them."""
    words, known = words.strip(), context.host.extensions[WorkspaceAttempts]
    if about := _ABOUT.fullmatch(words):
        return await _do(context, about[1], int(about[2]))
    if words == "discard":
        return AskYes(*DISCARD, partial(_discard, context)) if known.listed() else Output(("No attempts to discard.",))
    if begins := _BEGINS.fullmatch(words):
        await known.begin(begins[2].strip(), int(begins[1] or _USUAL), context.session.id)

    async def lines() -> Iterable[str]:
        return attempt_lines(known.listed())

    return OpenView("attempts.show", text=lines)


async def _discard(context: CommandContext) -> Output:
    await context.host.extensions[WorkspaceAttempts].discard()
    return Output(("Discarded all attempts.",))


async def _do(context: CommandContext, verb: str, number: int) -> Output:
    known = context.host.extensions[WorkspaceAttempts]
    match verb:
        case "use":
            notes = await known.use(number, context.session.id)
            return Output((f"Attempt {number} is in your folder now; /undo reverts it.", *notes))
        case "again":
            await known.again(number)
            return Output(("Started one more attempt.",))
        case "stop":
            await known.stop(number)
            return Output((f"Stopped attempt {number}.",))
        case _:
            found = next((each for each in known.listed() if each.number == number), None)
            if found is None or found.effect is None:
                raise UsageError(f"attempt {number} has no changes yet", "/attempts lists them.")
            diffs = (escape_invisible(each.diff.rstrip("\n")) for each in found.effect.ordered if each.diff)
            return Output(
                (*found.effect.lines(), *(line for diff in diffs for line in diff.split("\n"))), title=f"Attempt {number}"
            )


COMMANDS: tuple[Command, ...] = (
    Command("attempts.show", Scope.WORKBENCH, "Attempts", "Try a task several times in overlays and compare the results.",
        slash=("attempts",), argument="[3 TASK, use 1, again 1, stop 1, diff 1 or discard]", handler=attempts,
        tab=("Runs", "Attempts"), instead='`lmtui run --attempts 3 "TASK"`'),
)  # fmt: skip
