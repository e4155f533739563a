from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lmtui.core.errors import ToolError
from lmtui.core.permissions.rules import Access
from lmtui.core.ports import AgentActions, ToolContext
from lmtui.core.proposals import Proposal
from lmtui.tools.registry import ToolRegistry
from tests.sets import for_each
from tests.tools.test_files import Bench

REGISTRY = ToolRegistry()
STEPS = [{"id": 1, "description": "a"}, {"id": 2, "description": "b", "depends_on": [1]}]
WHOLE = {"title": "t", "steps": STEPS}


def showing(shown: list[Proposal]) -> ToolContext:
    """Return a place where a plan is put before somebody."""

    def show(proposal: Proposal) -> str:
        shown.append(proposal)
        return "shown"

    return replace(Bench().context(), agent=AgentActions(propose=show))


@for_each("arguments", [
    json.dumps({"plan": WHOLE}), json.dumps(WHOLE), json.dumps({"plan": json.dumps(WHOLE)}),
    json.dumps({"title": "t", "steps": json.dumps(STEPS)}), json.dumps(WHOLE).replace("]}", "],}"),
    f"```json\n{json.dumps(WHOLE)}\n```", json.dumps(json.dumps(WHOLE)),
])  # fmt: skip
@for_each("name", ["propose_plan", "exit_plan_mode"])
async def test_a_plan_is_put_before_the_user_in_whatever_wrapping(name: str, arguments: str) -> None:
    shown: list[Proposal] = []
    call = REGISTRY.prepare(name, arguments)
    result = await call.run(showing(shown))
    assert (call.access, call.tool, result.text, result.summary) == (Access.NONE, "propose_plan", "shown", "2 steps")
    assert [(step.id, step.depends_on) for step in shown[0].steps] == [(1, ()), (2, (1,))]


@for_each("arguments", ['{"plan": {"title": "t", "st', "make it so", '{"plan": {"title": "t"}}', "{}", '{"approved": true}'])
async def test_what_is_no_plan_is_answered_with_the_form(arguments: str) -> None:
    shown: list[Proposal] = []
    with pytest.raises(ToolError) as caught:
        await REGISTRY.prepare("propose_plan", arguments).run(showing(shown))
    assert '"depends_on"' in caught.value.full_text()
    assert shown == []


async def test_where_nobody_can_be_shown_a_plan_there_is_none() -> None:
    with pytest.raises(ToolError, match="no plan can be proposed here"):
        await REGISTRY.prepare("propose_plan", json.dumps(WHOLE)).run(Bench().context())
