"""The arguments of a call to a tool that people bring (a server's, a promoted one): read, fitted to its schema, checked."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Mapping
from typing import Any

from lmtui.core.errors import ToolError
from lmtui.core.lenient_json import fit_values

_CHECKER = "lmtui.json_schema"  # JSON Schema takes a while to load


def read_arguments(tool: str, text: str) -> dict[str, object]:
    """Return the arguments as the model wrote them.

    Raises:
        ToolError: they are not a JSON object, or nested too deep.
    """
    try:
        found = json.loads(text, strict=False) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise ToolError(f"the arguments of {tool[:64]} are not JSON: {error}", "Send one JSON object.") from error
    if not isinstance(found, dict):
        raise ToolError(f"the arguments of {tool[:64]} are not a JSON object", "Send one.")
    return fit_values(tool, found)


def fitted(arguments: Mapping[str, object], schema: Mapping[str, Any]) -> dict[str, object]:
    """Return arguments with texts turned into what the schema wants there, as small models write numbers in quotes."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return dict(arguments)
    return {name: _fitted(value, properties.get(name)) for name, value in arguments.items()}


def _fitted(value: object, wanted: object) -> object:
    if not isinstance(value, str) or not isinstance(wanted, Mapping):
        return value
    kind = wanted.get("type")
    if kind in ("integer", "number", "boolean", "array", "object"):
        try:
            found = fit_values("it", {"": json.loads(value.lower() if kind == "boolean" else value)})[""]
        except (ValueError, RecursionError, ToolError):  # no JSON, or too deep: the text stays, and does not fit
            return value
        fits: dict[str, tuple[type, ...]] = {
            "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,), "object": (dict,),
        }  # fmt: skip
        is_right = isinstance(found, fits[kind]) and (kind == "boolean") == isinstance(found, bool)
        return found if is_right else value
    return value


async def check_arguments(
    tool: str, arguments: Mapping[str, object], schema: Mapping[str, Any], told: Mapping[str, object]
) -> None:
    """Look whether arguments fit a schema; `told` is what the model knows of it.

    Raises:
        ToolError: they do not; the text says where, and what the tool takes.
    """
    checker = await asyncio.to_thread(importlib.import_module, _CHECKER)
    found: tuple[str, ...] = await asyncio.to_thread(checker.problems, schema, arguments)
    if found:
        takes = json.dumps(told, ensure_ascii=False)[:2000]
        raise ToolError(f"the arguments of {tool} do not fit: {'; '.join(found)}. Its schema: {takes}")
