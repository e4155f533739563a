"""Whether a Python function can become a tool: by its text alone, nothing of it is run.  Imported when somebody asks."""

from __future__ import annotations

import ast
import builtins
import json
import re
import symtable
from collections.abc import Iterator
from dataclasses import replace

from lmtui.core.errors import ToolError
from lmtui.core.sanitize import sanitize_line
from lmtui.core.skills import PROMOTED, PromotedTool
from lmtui.features.skills.promoted import digest_of

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
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ToolError(f"{path} cannot be read as Python: {sanitize_line(str(error))[:200]}") from error
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
