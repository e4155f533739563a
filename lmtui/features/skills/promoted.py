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
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lmtui.core.errors import ToolError
from lmtui.core.permissions.rules import Access
from lmtui.core.ports import Preview, TokenCounter, ToolContext, ToolResult
from lmtui.core.sanitize import sanitize_line
from lmtui.core.skills import PROMOTED, PromotedTool
from lmtui.engine.syntax import python_tree, syntax_error
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
    found = [node for node in module.body if isinstance(node, Function) and node.name == function.strip()]
    if len(found) != 1:
        names = ", ".join(node.name for node in module.body if isinstance(node, Function)) or "none"
        raise ToolError(f"{path} has no one function {function[:60]!r} at its top level", f"Its functions: {names[:300]}.")
    source, unknown = _program(module, found[0], text)
    reasons = [*_reasons(found[0], source), *unknown]
    if reasons:
        raise ToolError(f"{function} cannot become a tool: {'; '.join(dict.fromkeys(reasons))}")
    described = sanitize_line((ast.get_docstring(found[0]) or "").strip().partition("\n\n")[0])[:_DESCRIPTION_CHARS]
    tool = PromotedTool(
        f"{PROMOTED}{wanted}", found[0].name, described, source, path, "", parameters=_parameters(found[0].args)
    )
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
    for argument in (*arguments.args, *arguments.kwonlyargs):
        yield from _hint_reasons(f"argument {argument.arg}", argument.annotation)
    yield from _hint_reasons("its result", function.returns)
    for default in (*arguments.defaults, *(each for each in arguments.kw_defaults if each is not None)):
        try:
            json.dumps(ast.literal_eval(default))
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            yield "a default is not a plain value"
    for node in ast.walk(function):
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield f"it keeps state in {', '.join(node.names)}"
        elif isinstance(node, ast.Yield | ast.YieldFrom):
            yield "it yields"


def _hint_reasons(what: str, hint: ast.expr | None) -> Iterator[str]:
    if hint is None:
        yield f"{what} has no type hint"
        return
    try:
        _ = _schema(hint)
    except _NoJson as why:
        yield f"{what} has a type that JSON has not: {why}"
    except RecursionError:
        yield f"{what} has a type that is nested too deep"


def _program(module: ast.Module, function: Function, text: str) -> tuple[str, list[str]]:
    """Return a program of the function and the imports that it needs, and why it would not be alone."""
    body = ast.get_source_segment(text, function) or ""
    future = [node for node in module.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    imports = [node for node in module.body if isinstance(node, ast.Import | ast.ImportFrom) and node not in future]
    bound: dict[str, ast.stmt] = {}
    for node in imports:
        for alias in node.names:
            known = (alias.asname or alias.name).partition(".")[0]
            bound[known] = type(node)(**{**dict(ast.iter_fields(node)), "names": [alias]})
    try:
        names = _free_names(body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # Python finds some mistakes only after parsing
        return body, [f"it is not Python: {sanitize_line(str(error))[:200]}"]
    used = [bound[name] for name in sorted(names & bound.keys())]
    relative = [node for node in used if isinstance(node, ast.ImportFrom) and node.level]
    unknown = sorted(names - bound.keys() - set(dir(builtins)) - {function.name})
    reasons = [f"it uses {name}, which is outside of it" for name in unknown]
    reasons += [f"it imports from the program around it: {ast.unparse(node)}" for node in relative]
    head = "\n".join(map(ast.unparse, (*future, *used)))
    return (f"{head}\n\n\n{body}\n" if head else f"{body}\n"), reasons


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


def _parameters(arguments: ast.arguments) -> dict[str, object]:
    named = [*arguments.args, *arguments.kwonlyargs]
    first_default = len(arguments.args) - len(arguments.defaults)
    required = [each.arg for each in arguments.args[:first_default]]
    required += [each.arg for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value is None]
    properties = {each.arg: _schema(each.annotation) for each in named if each.annotation is not None}
    schema: dict[str, object] = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": required} if required else {})


def _schema(hint: ast.expr) -> dict[str, object]:
    """Return the JSON Schema of a hint.

    Raises:
        _NoJson: no JSON value is of that type.
    """
    match hint:
        case ast.Constant(value=None):
            return {"type": "null"}
        case ast.Constant(value=str(text)):
            try:
                return _schema(ast.parse(text, mode="eval").body)
            except (SyntaxError, ValueError, RecursionError) as error:
                raise _NoJson(text[:60]) from error
        case ast.Name(id=name) if name in _SIMPLE:
            return {"type": _SIMPLE[name]}
        case ast.Name(id="Any") | ast.Attribute(attr="Any"):
            return {}
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _any_of((left, right))
        case ast.Subscript(value=ast.Name(id=kind) | ast.Attribute(attr=kind), slice=inner):
            return _of(kind, inner.elts if isinstance(inner, ast.Tuple) else [inner])
        case _:
            raise _NoJson(ast.unparse(hint)[:60])


def _of(kind: str, inner: list[ast.expr]) -> dict[str, object]:
    match kind.lower():
        case "list" if len(inner) == 1:
            return {"type": "array", "items": _schema(inner[0])}
        case "dict" if len(inner) == 2 and _schema(inner[0]) == {"type": "string"}:
            return {"type": "object", "additionalProperties": _schema(inner[1])}
        case "optional" if len(inner) == 1:
            return _any_of((inner[0], ast.Constant(None)))
        case "union":
            return _any_of(tuple(inner))
        case "literal":
            values = [each.value for each in inner if isinstance(each, ast.Constant)]
            if len(values) == len(inner) and all(isinstance(value, str | int | bool | None) for value in values):
                return {"enum": values}
        case _:
            pass
    raise _NoJson(f"{kind}[{', '.join(map(ast.unparse, inner))}]"[:60])


def _any_of(hints: tuple[ast.expr, ...]) -> dict[str, object]:
    return {"anyOf": [_schema(each) for each in hints]}
