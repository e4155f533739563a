from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmtui.core.messages import ToolSet, ToolSpec
from lmtui.core.window import bytes_by_four
from lmtui.engine.context import system_prompt
from lmtui.features.mcp.service import search_spec
from lmtui.features.mcp.values import McpServer, ServerState
from lmtui.features.skills.service import SkillShelf
from lmtui.models.request_encoding import wire_tool
from lmtui.tools.registry import ToolRegistry
from tests.sets import encodings, tokens

SERVERS = [McpServer(name, "mcp.json", ServerState.READY) for name in ("files", "time", "git", "fetch", "issues")]


def price(specs: tuple[ToolSpec, ...], encoding: str, text: str = "") -> int:
    told = json.dumps([wire_tool(spec) for spec in specs], ensure_ascii=False)
    return sum(tokens(encoding, told, "\n\n".join((system_prompt(), text)).strip()))


@pytest.mark.parametrize("encoding", encodings())
async def test_all_that_people_bring_costs_little_as_long_as_it_is_not_used(workspace: Path, encoding: str) -> None:
    registry = ToolRegistry()
    skills, _ = await SkillShelf(workspace, bytes_by_four).told()
    full = registry.specs(ToolSet.FULL)
    skill = next(spec for spec in registry.specs(ToolSet.ALL) if spec.name == "skill")  # told as soon as there are skills
    bare = price(full, encoding)
    told = price((*full, skill, search_spec(SERVERS)), encoding, skills)
    assert told - bare <= 400
