"""Functions that the user let become tools: kept at user level, bound to one workspace, run in the sandbox and nowhere else.

Each is a JSON file with the whole program and its hash; one whose hash is another is not called.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lmtui.core.errors import ToolError
from lmtui.core.permissions.decide import Access
from lmtui.core.ports import Preview, TokenCounter, ToolContext, ToolResult
from lmtui.core.sanitize import sanitize_line
from lmtui.core.skills import PromotedTool
from lmtui.features.call_arguments import check_arguments
from lmtui.features.folder_consent import replace_file
from lmtui.paths import state_dir

TIMEOUT_S, MEMORY_MB = 60, 512
_MAX_BYTES = 262_144
_MOST_TOOLS = 100
_MAX_COMMAND_BYTES = 120_000  # Linux gives one word of a command line 128 KiB
_TITLE_CHARS = 80
_CHANGED = "its file is not what you said yes to; remove it (/skill) and promote it again"
_TEXTS = ("name", "function", "description", "source", "origin", "digest")
_RUNNER = """\
import asyncio, inspect, json, os, sys
source, function, given, mark = sys.argv[1:5]
answer, sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8"), sys.stderr
os.dup2(2, 1)
names = {"__name__": "promoted"}
exec(compile(source, "<promoted tool>", "exec"), names)
value = names[function](**json.loads(given))
value = asyncio.run(value) if inspect.iscoroutine(value) else value
text = json.dumps(value, ensure_ascii=False)
sys.stderr.flush()
answer.write("\\n" + mark + text + "\\n")
answer.flush()
"""


def digest_of(tool: PromotedTool) -> str:
    """Return the hash over all that a tool is."""
    told = [tool.name, tool.function, tool.description, tool.source, tool.origin, tool.parameters]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


class PromotedTools:
    """The promoted tools of one workspace."""

    def __init__(self, workspace: Path, count_tokens: TokenCounter) -> None:
        self._folder = state_dir() / "promoted" / hashlib.sha256(os.fsencode(workspace)).hexdigest()[:24]
        self._count_tokens = count_tokens
        self._known: dict[str, PromotedTool] | None = None

    def all(self) -> Sequence[PromotedTool]:
        """Return every tool, by name.  Blocks (disk) the first time."""
        if self._known is None:
            files = sorted(self._folder.glob("*.json"))[:_MOST_TOOLS] if self._folder.is_dir() else []
            found = [tool for file in files if (tool := _read(file)) is not None]
            self._known = {tool.name: self.priced(tool) for tool in found}
        return [self._known[name] for name in sorted(self._known)]

    def named(self, name: str) -> PromotedTool:
        """Return a tool.

        Raises:
            ToolError: there is none, or it may not be called.
        """
        tool = next((tool for tool in self.all() if tool.name == name.strip().lower()), None)
        if tool is None:
            there = ", ".join(tool.name for tool in self.all()) or "none"
            raise ToolError(f"no tool {name[:64]!r}; promoted are: {there}")
        if tool.problem:
            raise ToolError(f"{tool.name} cannot be called: {tool.problem}")
        return tool

    def priced(self, tool: PromotedTool) -> PromotedTool:
        """Return a tool with what telling it costs."""
        told = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        return replace(tool, tokens=self._count_tokens(json.dumps(told, ensure_ascii=False)))

    def keep(self, tool: PromotedTool) -> None:
        """Write a tool down; it is there from now on.

        Raises:
            ToolError: it cannot be written.
        """
        known = {each.name: each for each in self.all()}
        if len(known) >= _MOST_TOOLS and tool.name not in known:
            raise ToolError(f"there are {_MOST_TOOLS} promoted tools already", "The user can remove some: /skill.")
        try:
            replace_file(self._folder / f"{tool.name}.json", json.dumps(asdict(tool)))
        except OSError as error:
            raise ToolError(f"{tool.name} could not be kept: {error.strerror}") from error
        self._known = known | {tool.name: self.priced(tool)}

    def remove(self, name: str) -> bool:
        """Forget a tool; False where there is none."""
        known = {each.name: each for each in self.all()}
        if known.pop(name, None) is None:
            return False
        self._known = known
        (self._folder / f"{name}.json").unlink(missing_ok=True)
        return True


@dataclass(frozen=True, slots=True)
class PromotedCall:
    """A call of a promoted tool; it asks like a command.  Implements `core.ports.PreparedCall`."""

    spec: PromotedTool
    arguments: Mapping[str, object]

    @property
    def tool(self) -> str:
        """Return the name by which the model calls it, and rules name it."""
        return self.spec.name

    @property
    def title(self) -> str:
        """Return the arguments in a few words."""
        return sanitize_line(", ".join(f"{name}={value}" for name, value in self.arguments.items()))[:_TITLE_CHARS]

    @property
    def access(self) -> Access:
        """Return that it runs code."""
        return Access.EXECUTE

    @property
    def subjects(self) -> tuple[str, ...]:
        """Return nothing: a rule is about the tool as a whole."""
        return ()

    async def preview(self, context: ToolContext) -> Preview:
        """Return the call and the program."""
        del context  # the workspace has nothing to do with what is shown
        await self._check()
        told = json.dumps(self.arguments, indent=1, ensure_ascii=False)
        return Preview(f"{self.spec.name}\n{told}\n\n{self.spec.source}", limits=f"up to {TIMEOUT_S} s, {MEMORY_MB} MB")

    async def run(self, context: ToolContext) -> ToolResult:
        """Run the program in the sandbox."""
        await self._check()
        mark = f"result {uuid.uuid4().hex} "
        given = (self.spec.source, self.spec.function, json.dumps(self.arguments), mark)
        command = shlex.join(("python3", "-I", "-X", "utf8", "-c", _RUNNER, *given))
        if len(command.encode("utf-8", "surrogatepass")) > _MAX_COMMAND_BYTES:
            raise ToolError(
                f"the arguments of {self.spec.name} are too long", "Put what is long into a file and give its path."
            )
        ran = await context.sandbox.run_command(
            command, timeout_s=TIMEOUT_S, memory_mb=MEMORY_MB, on_output=None, gate=context.gate
        )
        said, _, answer = ran.output.rpartition(mark)
        if ran.exit_code == 0 and mark in ran.output:
            text = "\n".join(part for part in (said.strip(), answer.strip()) if part)
            return ToolResult(text, sanitize_line(answer.strip())[:_TITLE_CHARS])
        why = f"was stopped after {TIMEOUT_S} s" if ran.is_timed_out else f"failed (exit code {ran.exit_code})"
        return ToolResult(f"{self.spec.name} {why}:\n{ran.output.strip()}", "failed", ok=False)

    async def _check(self) -> None:
        await check_arguments(self.spec.name, self.arguments, self.spec.parameters, self.spec.parameters)


def _read(file: Path) -> PromotedTool | None:
    """Return a tool as its file has it; one that is another than was kept says so, and cannot be called."""
    try:
        with file.open("rb") as opened:
            found = json.loads(opened.read(_MAX_BYTES))
        name, function, described, source, origin, digest = (str(found[each]) for each in _TEXTS)
        tool = PromotedTool(name, function, described, source, origin, digest, dict(found["parameters"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if tool.name != file.stem:
        return None
    return tool if digest_of(tool) == tool.digest else replace(tool, problem=_CHANGED)
