"""Writes docs/tools.md from the tools' own declarations: `make docs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lmtui.core.messages import ToolSet
from lmtui.features.memory.tools import TOLD
from lmtui.features.pipeline.tools import PIPELINE
from lmtui.features.web_tools.tools import SEARCH
from lmtui.tools.registry import ALL_TOOLS, ToolRegistry
from lmtui.tools.session_tools import REPORT_RESULT
from lmtui.tools.tool import Tool

PAGE = Path(__file__).with_name("tools.md")
HEAD = """\
# Tools

Made from the program's own table by `make docs`; do not edit it. These are the tools that a model may call; which
of them it is offered depends on the room there is, and all of them can be called all the same. What they may do is decided
by [permissions](permissions.md), where they run by [the sandbox](sandbox.md). MCP servers and skills bring more
([servers](mcp.md), [skills](skills.md)).

- **full**: told by default. **small**: told in windows with little room too, with fewer arguments. **long**: told there
  once room had to be made or a plan was approved. **all**: told with the setting `tools = "all"`. **known**: taken, never
  told, for models that know it from elsewhere.
- **search**: told where the setting `web_search` names what answers.
- **plans**: told in a workspace with a plan in its queue or a file in `plans/`, and with `tools = "all"`.
- Arguments that must be given are **bold**. lmtui refuses a call with an unknown argument if the call writes or
  runs something; any other call runs, and its result names the argument.

| Tool | Told | Arguments | What it does |
| --- | --- | --- | --- |
"""


def page() -> str:
    """Return the whole page."""
    return HEAD + "".join(f"{_row(tool)}\n" for tool in (*ALL_TOOLS, REPORT_RESULT))


def _row(tool: Tool[Any]) -> str:
    spec = tool.spec()
    required = spec.parameters.get("required", ())
    assert isinstance(required, (list, tuple))
    properties = spec.parameters["properties"]
    assert isinstance(properties, dict)
    arguments = ", ".join(f"**{name}**" if name in required else name for name in properties)
    cells = (f"`{tool.name}`", _told(tool), arguments, " ".join(tool.description.split()))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _told(tool: Tool[Any]) -> str:
    """Return the smallest set of tools in which a tool is told."""
    if tool in (REPORT_RESULT, PIPELINE):
        return "sub-agents" if tool is REPORT_RESULT else "plans"
    if tool is SEARCH:
        return "search"
    registry = ToolRegistry(told=TOLD)
    for tools, word in ((ToolSet.LEAN, "small"), (ToolSet.LONG, "long"), (ToolSet.FULL, "full"), (ToolSet.ALL, "all")):
        if any(spec.name == tool.name for spec in registry.specs(tools, sees=True)):
            return word
    return "known"


if __name__ == "__main__":
    _ = PAGE.write_text(page(), encoding="utf-8")
