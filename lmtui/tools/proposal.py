"""The tool by which a model puts a plan before the user.  It ends nothing: what becomes of the plan is decided elsewhere."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from lmtui.core.call_values import fit_values
from lmtui.core.errors import ToolError
from lmtui.core.loose_json import read_loose_json
from lmtui.core.permissions import Access
from lmtui.core.ports import ToolContext, ToolResult
from lmtui.core.proposal_reading import FORM, read_proposal
from lmtui.tools.tool import Arguments, Tool, always

_MOST_TITLE_CHARS = 120


class ProposePlanArguments(Arguments):
    """A plan, or its fields without it; its form is told with plan mode, so that the tool costs little when it is off."""

    model_config = ConfigDict(extra="allow", populate_by_name=True, frozen=True)

    plan: Any = Field(None, json_schema_extra={"type": "object"})


def read_loosely(text: str) -> dict[str, object]:
    """Return the arguments of a plan; fences and trailing commas are taken, a bare list is that of the steps.

    Raises:
        ToolError: they are no JSON, or nested too deep.
    """
    try:
        value = read_loose_json(text or "{}")
        value = read_loose_json(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ToolError("propose_plan was not run: its arguments are no whole JSON object.", f"Give it {FORM}") from error
    return fit_values(PROPOSE_PLAN.name, value if isinstance(value, dict) else {"steps": value})


def _given(arguments: ProposePlanArguments) -> dict[str, object]:
    given = {**(arguments.model_extra or {}), "plan": arguments.plan}
    return {key: value for key, value in given.items() if value not in (None, "")}


def _title(arguments: ProposePlanArguments) -> str:
    given = _given(arguments)
    inner = given.get("plan")
    found = {**given, **inner} if isinstance(inner, dict) else given
    return " ".join(str(found.get("title", "")).split())[:_MOST_TITLE_CHARS]


async def _propose(arguments: ProposePlanArguments, context: ToolContext) -> ToolResult:
    proposal = read_proposal(_given(arguments))
    told = context.propose(proposal)
    count = len(proposal.steps)
    return ToolResult(told, f"{count} step{'s' * (count != 1)}")


PROPOSE_PLAN = Tool(
    name="propose_plan",
    description="In plan mode: propose your plan.",
    arguments=ProposePlanArguments,
    run=_propose,
    access=always(Access.NONE),
    subject=lambda _: "",
    title=_title,
    aliases=("exit_plan_mode", "submit_plan"),
    read=read_loosely,
)
