"""Running a command in the sandbox."""

from __future__ import annotations

import re
import shlex
from typing import Any

from pydantic import PrivateAttr, ValidationInfo, model_validator

from lmtui.core.errors import ToolError
from lmtui.core.permissions import Access
from lmtui.core.ports import Preview, ToolContext, ToolResult
from lmtui.core.workspace import CommandLimits, ExecResult, FileChange, FileChangeKind
from lmtui.paths import MOUNT_POINT
from lmtui.tools.tool import Arguments, Tool, always, argument, below_root

_MIN_MEMORY_MB = 64
_PLAIN_PATH = re.compile(r"/[\w./@%+:,-]+")  # what a shell takes as it is
_FIRST_OUTPUT_S = 2.0
_HOW_TO_GO_ON = '; the tool background goes on with it: {{"id": "{id}"}} reads, {{"id": "{id}", "action": "stop"}} ends it'


TIMEOUT_DOC = "seconds; default {limits.timeout_s}, limit {limits.max_timeout_s}"


class ShellArguments(Arguments):
    """What to run."""

    command: str = argument(also=("cmd", "script", "code"))
    timeout: int = argument(0, also=("timeout_s", "timeout_seconds"), doc=TIMEOUT_DOC.format(limits=CommandLimits()))
    background: bool = argument(default=False, also=("run_in_background", "is_background"))
    network: bool = argument(default=False, also=("allow_network", "needs_network"), doc="to install packages")
    memory_mb: int = argument(0, also=("max_memory_mb",), is_told=False)
    _subject: str = PrivateAttr("")
    cwd: str = argument("", also=("workdir", "work_dir", "working_directory", "working_dir", "directory"), is_told=False)

    @model_validator(mode="before")
    @classmethod
    def _in_its_folder(cls, given: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Put the folder into the command, so that rules, questions and the log show the line that runs."""
        cwd, command = given.get("cwd"), given.get("command")
        if not isinstance(cwd, str) or not isinstance(command, str):
            return given
        folder = below_root(cwd.strip(), info)
        folder = f"./{folder}" if folder.startswith("-") else folder
        then = " || exit\n" if "\n" in command.strip() else " && "
        whole = f"cd {shlex.quote(folder)}{then}{command}" if folder else command
        return {name: value for name, value in given.items() if name != "cwd"} | {"command": whole}

    @model_validator(mode="after")
    def _with_one_name_for_the_folder(self, info: ValidationInfo) -> ShellArguments:
        """Let rules see one name of the workspace, whichever of its names a command uses."""
        text = self.command
        for root in info.context or ():
            if _PLAIN_PATH.fullmatch(root):
                text = re.sub(rf"(?<![\w./-]){re.escape(root)}(?![\w.-])", MOUNT_POINT, text)
        self._subject = text
        return self

    @property
    def subject(self) -> str:
        """Return the command as rules see it."""
        return self._subject


async def _shell(arguments: ShellArguments, context: ToolContext) -> ToolResult:
    limits = context.sandbox.limits
    if arguments.background:
        if arguments.network:
            raise ToolError("a background command has no network", "Install first, with network=true and without background.")
        return await _start(arguments.command, context)
    result = await context.sandbox.run_command(
        arguments.command,
        timeout_s=_timeout_s(arguments, limits),
        memory_mb=_memory_mb(arguments, limits),
        on_output=context.on_output,
        gate=context.gate,
        with_packages=arguments.network,
    )
    changes = tuple(FileChange(path, FileChangeKind.MODIFIED) for path in result.changed)
    is_ok = result.exit_code == 0
    return ToolResult(command_text(result, limits), _summary(result), ok=is_ok, changes=changes)


async def _start(command: str, context: ToolContext) -> ToolResult:
    """Start a command that stays, and tell what it says at once."""
    started = await context.sandbox.background.start(command)
    text, now = await context.sandbox.background.read(started.id, _FIRST_OUTPUT_S)
    text = text.rstrip() or "(no output yet)"
    return ToolResult(
        f"{text}\n({now.id} {now.state}{_HOW_TO_GO_ON.format(id=now.id) if now.exit_code is None else ''})",
        f"{now.id} {now.state}",
    )


async def _preview(arguments: ShellArguments, context: ToolContext) -> Preview:
    limits = context.sandbox.limits
    if arguments.background:
        memory = f"{limits.memory_mb:,} MB"
        return Preview(arguments.command, limits=f"in the background until it is stopped or the session ends, {memory}")
    shown = f"up to {_timeout_s(arguments, limits)} s, {_memory_mb(arguments, limits):,} MB"
    if arguments.network:
        hosts = await context.sandbox.package_hosts()
        shown += f"; reaches {', '.join(hosts)} and where it keeps its files" if hosts else "; asks for each host"
    return Preview(arguments.command, limits=shown)


def _timeout_s(arguments: ShellArguments, limits: CommandLimits) -> int:
    return min(arguments.timeout, limits.max_timeout_s) if arguments.timeout > 0 else limits.timeout_s


def _memory_mb(arguments: ShellArguments, limits: CommandLimits) -> int:
    return min(max(arguments.memory_mb, _MIN_MEMORY_MB), limits.memory_mb) if arguments.memory_mb > 0 else limits.memory_mb


def command_text(result: ExecResult, limits: CommandLimits) -> str:
    """Return what the model gets of a command: the output, and how it ended where that was not well."""
    parts = [result.output.rstrip("\n")] if result.output.strip() else []
    if result.is_timed_out:
        parts.append(_stopped(result.elapsed_ms / 1000, limits))
    elif result.exit_code != 0:
        parts.append(f"(exit code {result.exit_code}{_killed(result.exit_code)})")
    if result.saved_path:
        parts.append(f"(output was long: {result.total_bytes:,} bytes; the first megabyte is in {result.saved_path})")
    return "\n".join(parts) or "(no output)"


def _stopped(elapsed_s: float, limits: CommandLimits) -> str:
    stopped = f"stopped after {elapsed_s:.0f} s; everything it started is gone"
    return f"({stopped}; timeout can be up to {limits.max_timeout_s}, background=true has no limit)"


def _killed(exit_code: int) -> str:
    return ": killed, often for memory" if exit_code == 137 else ""


def _summary(result: ExecResult) -> str:
    if result.is_timed_out:
        return "timed out"
    return "" if result.exit_code == 0 else f"exit {result.exit_code}"


SHELL = Tool(
    name="shell",
    description="Run a bash command.",
    arguments=ShellArguments,
    run=_shell,
    access=always(Access.EXECUTE),
    subject=lambda arguments: arguments.subject,
    title=lambda arguments: " ".join(arguments.command.split()),
    preview=_preview,
    aliases=("bash", "shell_exec", "run_shell_command", "exec_command", "run_command", "terminal", "shell_command", "execute"),
)
