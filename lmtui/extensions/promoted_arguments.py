"""The arguments of a promoted tool against its schema."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Mapping

from lmtui.core.errors import ToolError
from lmtui.core.skills import PromotedTool

_CHECKER = "lmtui.extensions.mcp_schema"  # JSON Schema takes a while to load


def read(tool: PromotedTool, arguments: str) -> dict[str, object]:
    """Return the arguments as the model wrote them, numbers and lists in quotes taken for what they are.

    Raises:
        ToolError: they are no JSON object.
    """
    try:
        found = json.loads(arguments, strict=False) if arguments.strip() else {}
    except (ValueError, RecursionError) as error:
        raise ToolError(f"the arguments of {tool.name} are no JSON: {error}", "Send one JSON object.") from error
    if not isinstance(found, dict):
        raise ToolError(f"the arguments of {tool.name} are no JSON object", "Send one.")
    return {str(name): value for name, value in found.items()}


async def checked(tool: PromotedTool, arguments: Mapping[str, object]) -> None:
    """Look whether arguments fit.

    Raises:
        ToolError: they do not; the text says where, and what the tool takes.
    """
    checker = await asyncio.to_thread(importlib.import_module, _CHECKER)
    found: tuple[str, ...] = await asyncio.to_thread(checker.problems, tool.parameters, arguments)
    if found:
        told = json.dumps(tool.parameters, ensure_ascii=False)
        raise ToolError(f"the arguments of {tool.name} do not fit: {'; '.join(found)}. Its schema: {told[:2000]}")
