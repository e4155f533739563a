"""Reading skills, and asking the user to let a function become a tool."""

from __future__ import annotations

import json

from lmtui.core.errors import ToolError
from lmtui.core.permissions.rules import Access
from lmtui.core.ports import AgentActions, Preview, ToolContext, ToolResult
from lmtui.core.tool_scopes import SkillEnded
from lmtui.features.skills.promoted import PromotedTools, check
from lmtui.features.skills.values import OFF, PROMOTE_TOOL, PromotedTool, Skills
from lmtui.tools.tool import Arguments, EmptyArguments, OtherTool, Told, Tool, WorkspacePath, always, argument, path_argument

_MAX_SOURCE_BYTES = 262_144


class SkillArguments(Arguments):
    """Which skill, and which of its files."""

    name: str = argument("", also=("skill", "skill_name", "command"))
    file: str = argument("", also=("path", "file_path", "filename"))


class PromoteArguments(Arguments):
    """Which function of which file, and what the tool is to be called."""

    path: WorkspacePath = path_argument()
    function_name: str = argument(also=("function",))
    tool_name: str = argument("", also=("name",))


async def _skill(arguments: SkillArguments, context: ToolContext) -> ToolResult:
    name = arguments.name.strip()
    if name.lower() == OFF:
        return ToolResult(_end_skills(context.agent), "ended")
    if not name:
        return ToolResult(await context.features[Skills].listing(), "all skills")
    if arguments.file.strip():
        return ToolResult(
            await context.features[Skills].read_file(name, arguments.file.strip()), f"{name}/{arguments.file.strip()}"
        )
    used = await context.features[Skills].use(name)
    context.agent.emit(used.event())
    return ToolResult(used.text, used.name)


def _end_skills(agent: AgentActions) -> str:
    """End what the model of an agent took up, and return what it is told."""
    before = agent.followed()
    own = [each.name for each in before if not each.is_users]
    users = [each.name for each in before if each.is_users]
    if own:
        agent.emit(SkillEnded(by="model"))
    told = [f"Ended: {', '.join(own)}."] if own else []
    if any(not each.stays for each in agent.followed()):
        told.append("Its tool limits hold until this turn ends.")
    if users:
        told.append(f"The user chose {', '.join(users)}: only they can end it, with /skill {OFF}.")
    return " ".join(told) or "No skill is in use."


async def _draft(arguments: PromoteArguments, context: ToolContext) -> PromotedTool:
    """Return what would become of the function as the file has it now.

    Raises:
        ToolError: it cannot become a tool; the text names each reason.
    """
    content = await context.sandbox.read_file(arguments.path, _MAX_SOURCE_BYTES)
    if content.size_bytes > len(content.data):
        raise ToolError(f"{arguments.path} is too long")
    text = content.data.decode("utf-8", "replace")
    return check(arguments.path, text, arguments.function_name, arguments.tool_name)


async def _preview(arguments: PromoteArguments, context: ToolContext) -> Preview:
    drafted = await _draft(arguments, context)
    context.seen[drafted.name] = drafted.digest
    lines = drafted.source.splitlines()
    diff = "\n".join((f"--- /dev/null\n+++ b/{drafted.name}.py\n@@ -0,0 +1,{len(lines)} @@", *(f"+{line}" for line in lines)))
    text = f"keep {arguments.function_name} of {arguments.path} as the tool {drafted.name}"
    limits = "it runs in the sandbox only; each call asks like a command; /skill removes it"
    return Preview(text, f"{diff}\n", arguments.path, limits)


async def _promote(arguments: PromoteArguments, context: ToolContext) -> ToolResult:
    drafted = await _draft(arguments, context)
    if context.seen.get(drafted.name) != drafted.digest:
        raise ToolError(f"{arguments.path} was changed after the user saw it, so nothing was kept", "Ask again.")
    context.features[PromotedTools].keep(drafted)
    form = json.dumps(drafted.parameters, ensure_ascii=False)
    return ToolResult(f"{drafted.name} is a tool now: {drafted.description}\nIts arguments: {form}", drafted.name)


SKILL = Tool(
    name="skill",
    description="Read a skill.",
    arguments=SkillArguments,
    run=_skill,
    access=always(Access.NONE),
    subject=lambda arguments: arguments.name,
    title=lambda arguments: f"{arguments.name} {arguments.file}".strip(),
    aliases=("use_skill", "read_skill", "skill_run", "skill_list", "load_skill", "activate_skill"),
    told=Told.SELDOM,
    others=(OtherTool(("skill_clear", "clear_skill", "end_skill"), EmptyArguments, "skill", lambda _: {"name": OFF}),),
)
PROMOTE = Tool(
    name=PROMOTE_TOOL,
    description="Let a Python function with hints and a docstring become a tool, if the user says yes.",
    arguments=PromoteArguments,
    run=_promote,
    access=always(Access.WRITE),
    subject=lambda arguments: arguments.path,
    title=lambda arguments: f"{arguments.function_name} of {arguments.path}",
    preview=_preview,
    aliases=("promote", "promote_tool"),
    told=Told.NEVER,
)
