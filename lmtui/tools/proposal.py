"""The tool by which a model puts a plan before the user.  It ends nothing: what becomes of the plan is decided elsewhere."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from lmtui.core.errors import ToolError
from lmtui.core.permissions import Access
from lmtui.core.ports import ToolContext, ToolResult
from lmtui.core.proposal_reading import FORM, read_loose_json, read_proposal
from lmtui.tools.tool import Arguments, Tool, always


class ProposePlanArguments(Arguments):
    """A plan in whatever words; `core.proposal_reading` makes sense of them."""

    model_config = ConfigDict(extra="allow", populate_by_name=True, frozen=True)

    title: Any = Field("", json_schema_extra={"type": "string"})
    goal: Any = Field("", json_schema_extra={"type": "string"})
    steps: Any = Field(None, json_schema_extra={"type": "array", "items": {"type": "object"}})
    risks: Any = Field(None, json_schema_extra={"type": "array", "items": {"type": "string"}})


def read_loosely(text: str) -> dict[str, object]:
    """Return the arguments of a plan; fences and trailing commas are taken, a bare list is that of the steps.

    Raises:
        ToolError: they are no JSON.
    """
    try:
        value = read_loose_json(text or "{}")
        value = read_loose_json(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ToolError("propose_plan was not run: its arguments are no whole JSON object.", f"Give it {FORM}") from error
    return {str(key): each for key, each in value.items()} if isinstance(value, dict) else {"steps": value}


async def _propose(arguments: ProposePlanArguments, context: ToolContext) -> ToolResult:
    given = {**arguments.model_dump(), **(arguments.model_extra or {})}
    proposal = read_proposal({key: value for key, value in given.items() if value not in (None, "")})
    told = context.propose(proposal)
    count = len(proposal.steps)
    return ToolResult(told, f"{count} step{'s' * (count != 1)}")


PROPOSE_PLAN = Tool(
    name="propose_plan",
    description="In plan mode: put your plan before the user.",
    arguments=ProposePlanArguments,
    run=_propose,
    access=always(Access.NONE),
    subject=lambda _: "",
    title=lambda arguments: str(arguments.title)[:120],
    aliases=("exit_plan_mode", "submit_plan"),
    read=read_loosely,
)
