"""Functions that the user let become tools: kept at user level, bound to one workspace, run in the sandbox and nowhere else.

Each is a JSON file with the whole program and its hash; one whose hash is another is not called.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import json
import os
import re
import shlex
import symtable
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from lmtui.core.errors import ToolError
from lmtui.core.permissions.decide import PROMOTED
from lmtui.core.ports import TokenCounter, ToolContext, ToolResult
from lmtui.core.sanitize import sanitize_line
from lmtui.engine.syntax import python_tree, syntax_error
from lmtui.features.call_arguments import BroughtCall, fitted
from lmtui.features.skills.values import PromotedTool
from lmtui.paths import state_dir
from lmtui.store.state_files import write_whole

TIMEOUT_S, MEMORY_MB = 60, 512
_MAX_BYTES = 262_144
_MOST_TOOLS = 100
_MAX_COMMAND_BYTES = 120_000  # Linux gives one word of a command line 128 KiB
_SUMMARY_CHARS = 80
_CHANGED = "its file is not the one you approved; remove it (/skills) and promote it again"
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

    @cached_property
    def known(self) -> dict[str, PromotedTool]:
        """Return the tools by name.  Blocks (disk) the first time."""
        read = map(_read, sorted(self._folder.glob("*.json"))[:_MOST_TOOLS])
        return {tool.name: self._priced(tool) for tool in read if tool is not None}

    def all(self) -> Sequence[PromotedTool]:
        """Return every tool, by name.  Blocks (disk) the first time."""
        return [self.known[name] for name in sorted(self.known)]

    def named(self, name: str) -> PromotedTool:
        """Return a tool.

        Raises:
            ToolError: there is none, or it may not be called.
        """
        if (tool := self.known.get(name.strip().lower())) is None:
            there = ", ".join(tool.name for tool in self.all()) or "none"
            raise ToolError(f"no tool {name[:64]!r}; promoted are: {there}")
        if tool.problem:
            raise ToolError(f"{tool.name} cannot be called: {tool.problem}")
        return tool

    def _priced(self, tool: PromotedTool) -> PromotedTool:
        """Return a tool with what telling it costs."""
        told = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        return replace(tool, tokens=self._count_tokens(json.dumps(told, ensure_ascii=False)))

    def keep(self, tool: PromotedTool) -> None:
        """Write a tool down; it is there from now on.

        Raises:
            ToolError: it cannot be written.
        """
        if len(self.known) >= _MOST_TOOLS and tool.name not in self.known:
            raise ToolError(f"there are {_MOST_TOOLS} promoted tools already", "The user can remove some: /skill.")
        try:
            write_whole(self._folder / f"{tool.name}.json", json.dumps(asdict(tool)))
        except OSError as error:
            raise ToolError(f"{tool.name} could not be kept: {error.strerror}") from error
        self.known[tool.name] = self._priced(tool)

    def remove(self, name: str) -> bool:
        """Forget a tool; False where there is none."""
        if self.known.pop(name, None) is None:
            return False
        (self._folder / f"{name}.json").unlink(missing_ok=True)
        return True


async def _run(tool: PromotedTool, arguments: Mapping[str, object], context: ToolContext) -> ToolResult:
    """Run the program in the sandbox."""
    mark = f"result {uuid.uuid4().hex} "
    given = (tool.source, tool.function, json.dumps(arguments), mark)
    command = shlex.join(("python3", "-I", "-X", "utf8", "-c", _RUNNER, *given))
    if len(command.encode("utf-8", "surrogatepass")) > _MAX_COMMAND_BYTES:
        raise ToolError(f"the arguments of {tool.name} are too long", "Put what is long into a file and give its path.")
    ran = await context.sandbox.run_command(
        command, timeout_s=TIMEOUT_S, memory_mb=MEMORY_MB, on_output=None, gate=context.gate
    )
    said, _, answer = ran.output.rpartition(mark)
    if ran.exit_code == 0 and mark in ran.output:
        text = "\n".join(part for part in (said.strip(), answer.strip()) if part)
        return ToolResult(text, sanitize_line(answer.strip())[:_SUMMARY_CHARS])
    why = f"was stopped after {TIMEOUT_S} s" if ran.is_timed_out else f"failed (exit code {ran.exit_code})"
    return ToolResult(f"{tool.name} {why}:\n{ran.output.strip()}", "failed", ok=False)


def prepare(tool: PromotedTool, arguments: Mapping[str, object]) -> BroughtCall:
    """Return a call of a tool; it asks like a command."""
    limits, schema = f"up to {TIMEOUT_S} s, {MEMORY_MB} MB", tool.parameters
    return BroughtCall(
        tool.name, fitted(arguments, schema), schema, schema, partial(_run, tool), shown=f"\n\n{tool.source}", limits=limits
    )


def _read(file: Path) -> PromotedTool | None:
    """Return a tool as its file has it; one that is another than was kept says so, and cannot be called."""
    try:
        with file.open("rb") as opened:
            tool = TypeAdapter(PromotedTool).validate_json(opened.read(_MAX_BYTES))
    except (OSError, ValueError):
        return None
    if tool.name != file.stem:
        return None
    return replace(tool, problem="" if digest_of(tool) == tool.digest else _CHANGED)


MAX_SOURCE_CHARS = 24_000
_DESCRIPTION_CHARS = 200
_NAME = re.compile(r"[a-z][a-z0-9_]{0,54}\Z")
_SIMPLE = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "None": "null", "list": "array",
           "dict": "object"}  # fmt: skip
Function = ast.FunctionDef | ast.AsyncFunctionDef


class _NoJson(Exception):
    """A hint that no JSON value can be made for."""


def check(path: str, text: str, function: str, name: str) -> PromotedTool:
    """Return what a function of a file would be as a tool.

    Raises:
        ToolError: it cannot be one; the text names each reason.
    """
    wanted = (name.strip() or function.strip()).lower().removeprefix(PROMOTED)
    if not _NAME.match(wanted):
        raise ToolError(f"{wanted[:60]!r} is not a name for a tool", "Take letters, digits and _ (at most 55).")
    if (module := python_tree(text)) is None:
        why = syntax_error("tool.py", text.encode("utf-8", "replace")) or "too complex"
        raise ToolError(f"{path} cannot be read as Python: {why[:200]}")
    functions = [node for node in module.body if isinstance(node, Function)]
    found = [node for node in functions if node.name == function.strip()]
    if len(found) != 1:
        names = ", ".join(node.name for node in functions) or "none"
        raise ToolError(f"{path} has no one function {function[:60]!r} at its top level", f"Its functions: {names[:300]}.")
    try:
        source, unknown = _program(module, found[0], text)
        properties, untyped = _properties(found[0])
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # Python finds some mistakes only after parsing
        raise ToolError(f"{function} cannot become a tool: invalid Python: {sanitize_line(str(error))[:200]}") from error
    if reasons := [*_reasons(found[0], source), *untyped, *(f"it uses {name}, which is outside of it" for name in unknown)]:
        raise ToolError(f"{function} cannot become a tool: {'; '.join(dict.fromkeys(reasons))}")
    described = sanitize_line((ast.get_docstring(found[0]) or "").strip().partition("\n\n")[0])[:_DESCRIPTION_CHARS]
    schema: dict[str, object] = {"type": "object", "properties": properties, "additionalProperties": False}
    given = found[0].args
    named = (each for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value is None)
    if required := [each.arg for each in (*given.args[: len(given.args) - len(given.defaults)], *named)]:
        schema["required"] = required
    tool = PromotedTool(f"{PROMOTED}{wanted}", found[0].name, described, source, path, "", parameters=schema)
    return replace(tool, digest=digest_of(tool))


def _reasons(function: Function, source: str) -> Iterator[str]:
    arguments = function.args
    if len(source) > MAX_SOURCE_CHARS:
        yield f"it has more than {MAX_SOURCE_CHARS:,} characters"
    if function.decorator_list:
        yield "it is decorated"
    if not (ast.get_docstring(function) or "").strip():
        yield "it has no docstring"
    if arguments.vararg or arguments.kwarg or arguments.posonlyargs:
        yield "it takes arguments that have no name (*args, **kwargs, or before a /)"
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function)):
        yield "it yields"


def _program(module: ast.Module, function: Function, text: str) -> tuple[str, list[str]]:
    """Return a program of the function and the imports that it needs, and the names that it would lack alone."""
    body = ast.get_source_segment(text, function) or ""
    names = _free_names(body)
    head: list[str] = []
    bound: set[str] = set()
    for node in module.body:
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level):
            known = {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
            bound |= known
            head += [ast.unparse(node)] if known & names or getattr(node, "module", "") == "__future__" else []
    unknown = sorted(names - bound - set(dir(builtins)) - {function.name})
    return "\n".join([*head, "", "", body, ""]) if head else f"{body}\n", unknown


def _free_names(source: str) -> set[str]:
    """Return the names that a program takes from around it."""
    tables = [symtable.symtable(source, "<tool>", "exec")]
    names: set[str] = set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        is_top = table.get_type() == "module"
        names |= {each.get_name() for each in table.get_symbols() if each.is_referenced() and (is_top or each.is_global())}
    return names


def _properties(function: Function) -> tuple[dict[str, object], list[str]]:
    """Return the schema of each argument, and what is wrong with the hints."""
    arguments = (*function.args.args, *function.args.kwonlyargs)
    found: dict[str, object] = {}
    wrong: list[str] = []
    for what, hint in (*((f"argument {each.arg}", each.annotation) for each in arguments), ("its result", function.returns)):
        try:
            found[what.removeprefix("argument ")] = _schema(hint)
        except _NoJson as why:
            wrong.append(f"{what} {why}")
    found.pop("its result", None)
    return found, wrong


def _schema(hint: ast.expr | None) -> dict[str, Any]:
    """Return the JSON Schema of a hint.

    Raises:
        _NoJson: no JSON value is of that type.
    """
    match hint:
        case None:
            raise _NoJson("has no type hint")
        case ast.Constant(value=None):
            return {"type": "null"}
        case ast.Name(id=name) if name in _SIMPLE:
            return {"type": _SIMPLE[name]}
        case ast.Name(id="Any") | ast.Attribute(attr="Any"):
            return {}
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return {"anyOf": [kind for each in map(_schema, (left, right)) for kind in each.get("anyOf", [each])]}
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            return {"anyOf": [_schema(inner), {"type": "null"}]}
        case ast.Subscript(value=ast.Name(id="list" | "List"), slice=inner):
            return {"type": "array", "items": _schema(inner)}
        case ast.Subscript(value=ast.Name(id="dict" | "Dict"), slice=ast.Tuple(elts=[ast.Name(id="str"), inner])):
            return {"type": "object", "additionalProperties": _schema(inner)}
        case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
            values = [getattr(each, "value", ...) for each in (inner.elts if isinstance(inner, ast.Tuple) else [inner])]
            if all(isinstance(value, str | int | bool | None) for value in values):
                return {"enum": values}
    raise _NoJson(f"has a type that JSON does not support: {ast.unparse(hint)[:60]}")
