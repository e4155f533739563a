"""Commands that stay: what they said since, input for them, and their end.  `shell` starts them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator

from lmtui.core.background import BackgroundCommand
from lmtui.core.errors import ToolError
from lmtui.core.permissions import Access
from lmtui.core.ports import Preview, ToolContext, ToolResult
from lmtui.tools.tool import Arguments, Tool, argument

_TITLE_CHARS = 80


def _id(given: object) -> object:
    """Return an id that was given as its number alone as it is told."""
    return f"b{given}" if isinstance(given, int) or (isinstance(given, str) and given.isdecimal()) else given


class BackgroundArguments(Arguments):
    """Which command, and what to do with it."""

    action: Literal["read", "input", "stop", "list"] = argument("read")
    id: Annotated[str, BeforeValidator(_id)] = argument("", also=("command_id", "bash_id", "shell_id", "task_id", "process_id"))
    input: str = argument("", also=("text", "stdin", "data"))
    wait: int = argument(0, also=("wait_s", "timeout"), doc="seconds to wait for output")


async def _background(arguments: BackgroundArguments, context: ToolContext) -> ToolResult:
    background = context.sandbox.background
    wait_s = min(max(arguments.wait, 0), context.sandbox.limits.max_timeout_s)
    if arguments.action == "list" or not arguments.id:
        if arguments.action not in ("list", "read"):
            raise ToolError(f"{arguments.action} needs the id of a background command", "Give id, such as b1.")
        listed = background.commands()
        return ToolResult("\n".join(map(command_line, listed)) or "No background command was started.", f"{len(listed)}")
    if arguments.action == "stop":
        stopped = await background.stop(arguments.id)
        return ToolResult(command_line(stopped), stopped.state)
    if arguments.action == "input":
        await background.send(arguments.id, arguments.input if arguments.input.endswith("\n") else f"{arguments.input}\n")
        wait_s = wait_s or 1
    text, command = await background.read(arguments.id, wait_s)
    return ToolResult(f"{text.rstrip() or '(no new output)'}\n({command.id} {command.state})", command.state)


def command_line(command: BackgroundCommand) -> str:
    """Return one command in a line."""
    return f"{command.id}  {command.state}  {command.command}"


async def _preview(arguments: BackgroundArguments, _: ToolContext) -> Preview:
    return Preview(f"{arguments.id} gets the input:\n{arguments.input}")


BACKGROUND = Tool(
    name="background",
    description="Read, feed, stop or list background commands.",
    arguments=BackgroundArguments,
    run=_background,
    access=lambda arguments: Access.EXECUTE if arguments.action == "input" else Access.NONE,
    subject=lambda _: (),
    title=lambda arguments: f"{arguments.action} {arguments.id} {' '.join(arguments.input.split())}".strip()[:_TITLE_CHARS],
    preview=_preview,
    aliases=("bash_output", "task_output", "process"),
)
