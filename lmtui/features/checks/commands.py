"""Commands of checks: run them, list them, and set a goal."""

from __future__ import annotations

from lmtui.commands.command import AskYes, Begin, Command, CommandContext, Output, Result, Scope
from lmtui.core.errors import UsageError
from lmtui.core.sanitize import sanitize_line
from lmtui.core.sessions import Session
from lmtui.core.verification import (
    CheckEvent,
    GoalState,
    WorkspaceChecks,
    check_goal,
)
from lmtui.features.checks.values import check_lines, command_lines, lacks_suite, started_line

LIST = "list"
_HOW = "/goal COMMAND works until it exits with 0; /goal pause, resume, clear"


def unquoted_command(words: str) -> str:
    """Return a command without the quotes around all of it, as one writes them in a shell."""
    first = words[0]
    is_quoted = len(words) > 2 and first in "\"'`" and words[-1] == first and first not in words[1:-1]
    return words[1:-1].strip() if is_quoted else words


async def run_checks(context: CommandContext, words: str) -> Output:
    """Check what is changed in the workspace, or stop that where it already runs; `list` lists the commands that decide."""
    if words.startswith(LIST):
        return await list_checks(context, words.removeprefix(LIST))
    checks, shown = context.host.extensions[WorkspaceChecks], set[str]()
    if checks.cancel():
        return Output(("The checks are stopped.",))

    def tell(event: CheckEvent) -> None:
        if line := started_line(event, shown):
            context.say(f"{line}  (/check again stops it)")

    ran = await checks.run(tell)
    lines = [*check_lines(ran), *([checks.why_nothing()] if lacks_suite(ran) else [])]
    return Output(tuple(lines), title="Checks" if ran else "")


async def list_checks(context: CommandContext, words: str) -> Output:
    """List the commands that decide, before they have run; a word is the profile to use from now on."""
    checks = context.host.extensions[WorkspaceChecks]
    if words.strip():
        checks.choose(words.strip())
    listed = await checks.listed()
    nothing = (checks.why_nothing(),) if lacks_suite(listed) else ()
    return Output((*nothing, *command_lines(listed, checks.rules())), title="Checks")


async def goal(context: CommandContext, words: str) -> Result:
    """Set a goal, show the goals, or pause, resume and drop them."""
    words = words.strip()
    if context.active is None and words in ("", "pause", "resume", "clear"):
        raise UsageError("no session has a goal", _HOW)
    if not words:
        listed = [f"{state}: {sanitize_line(command)}" for command, state in context.session.goals.listed()]
        return Output(tuple(listed) or (f"No goal. {_HOW}",))
    if words in ("pause", "resume", "clear"):
        goals = context.session.goals
        if not goals.listed():
            raise UsageError("no goal is set", _HOW)
        {"pause": goals.pause, "resume": goals.resume, "clear": goals.clear}[words]()
        if words == "resume":
            return Begin(lambda session: session.submit("Go on."))
        return Output(tuple(f"{state}: {sanitize_line(command)}" for command, state in goals.listed()) or ("No goal.",))

    command = unquoted_command(words)
    check_goal(command)

    def start(session: Session) -> None:
        is_first = GoalState.ACTIVE not in dict(session.goals.listed()).values()
        session.goals.set(command)
        if is_first or not session.is_running:
            session.submit(f"Work until `{command}` exits with 0.")

    async def begin() -> Begin:
        return Begin(start)

    if command != words:  # in quotes it is a command beyond doubt
        return Begin(start)
    return AskYes("Run this command until it exits with 0?", sanitize_line(command), begin, "`--goal COMMAND`")


COMMANDS: tuple[Command, ...] = (
    Command("checks.run", Scope.WORKBENCH, "Check", "Lint and test the changes in this folder, or list what checks them.",
        slash=("check",), argument="[list [profile]]", aliases={"checks": LIST, "gates": LIST}, handler=run_checks),
    Command("checks.goal", Scope.WORKBENCH, "Goal", "Work until a command exits with 0; pause, resume or clear it.",
        slash=("goal",), argument="[command, pause, resume or clear]", handler=goal),
)  # fmt: skip
