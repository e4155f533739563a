"""What stands before the first answer: finding servers where there are none, and the prompt that every session begins with."""

from __future__ import annotations

import asyncio
import json
import statistics
import time

from benchmarks.report import Figure
from lmtui.core.messages import Message, ModelRequest, Role, ToolCallFormat, ToolSet
from lmtui.engine.context import system_prompt
from lmtui.models.discovery import find_servers
from lmtui.models.request_encoding import wire_messages, wire_tool
from lmtui.models.tokens import TokenCounts
from lmtui.tools.registry import ToolRegistry

_TIMES = 10
_FULL_GOAL, _LEAN_GOAL = 2000, 1000


def figures() -> list[Figure]:
    """Measure and return every figure of this part; tokens are counted with what is on this machine."""
    count = TokenCounts()
    count("begin")
    count.wait(20.0)
    registry = ToolRegistry()
    found = [Figure("finding servers, what answers on this machine", asyncio.run(_discovery_ms()), "ms", 1000.0)]
    for name, goal in ((ToolSet.FULL, _FULL_GOAL), (ToolSet.LEAN, _LEAN_GOAL), (ToolSet.LONG, _LEAN_GOAL)):
        specs = registry.specs(name)
        prompt = system_prompt(name)
        native = count(prompt) + count(json.dumps([wire_tool(spec) for spec in specs]))
        request = ModelRequest((Message(Role.SYSTEM, prompt),), specs, "", call_form=ToolCallFormat.TEXT, shows_example=True)
        text = sum(count(str(each["content"])) for each in wire_messages(request.messages, request))
        found.append(Figure(f"system prompt and tools, {name}, native", float(native), "tokens", goal))
        found.append(Figure(f"system prompt and tools, {name}, as text with the example", float(text), "tokens", goal))
    return found


async def _discovery_ms() -> float:
    taken = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        await find_servers()
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)
