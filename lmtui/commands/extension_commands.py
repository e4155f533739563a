"""Commands of what a folder and its user add: instructions, Markdown commands, skills, MCP servers, and jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from lmtui.commands.basic_commands import prompt_file_lines
from lmtui.commands.command import Ask, Begin, Command, CommandContext, OpenView, Output, Result, Scope
from lmtui.commands.session_commands import SCREEN
from lmtui.core.errors import UsageError
from lmtui.core.instruction_values import WHOLE_CHARS, guidance_lines, init_task, persona_lines
from lmtui.core.jobs import NewJob, job_lines
from lmtui.core.mcp import McpServer, ServerState
from lmtui.core.prompt_text import AS_WORDS, nearest
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.skills import promote_call, skill_call, skill_lines
from lmtui.core.times import LocalZone, moment_text


async def show_instructions(context: CommandContext, _: str) -> Output:
    """Show which instructions are read."""
    return Output(guidance_lines(await context.host.guide.read(WHOLE_CHARS)), "INSTRUCTIONS")


async def show_persona(context: CommandContext, _: str) -> Output:
    """Show who the agent is told to be."""
    return Output(persona_lines(await context.host.guide.read(WHOLE_CHARS)), "PERSONA")


async def draft_instructions(_context: CommandContext, focus: str) -> Begin:
    """Have the model draft an AGENTS.md."""
    return Begin(lambda session: session.submit(init_task(focus)))


async def show_prompt_files(context: CommandContext, _: str) -> OpenView:
    """List the slash commands that are Markdown files or prompts of MCP servers."""
    return OpenView("prompts.show", text=lambda: prompt_file_lines(context))


async def run_prompt_file(context: CommandContext, text: str) -> Begin:
    """Run the Markdown command that a text calls up.

    Raises:
        UsageError: there is no such command, or it cannot be used.
        LmtuiError: it is a server's, and lacks an argument, or the server does not give it.
    """
    prompt = await context.host.extensions.prompts.read(text)
    if prompt is not None:
        return Begin(lambda session: session.prompts.begin(prompt, text.strip()))
    name = text.split(maxsplit=1)[0][1:]
    files = await asyncio.to_thread(context.host.extensions.prompts.found)
    broken = next((file for file in files if file.name == name), None)
    if broken is not None:
        why = sanitize_line(f"{broken.source}: {broken.problem}")
        raise UsageError(f"/{sanitize_line(name)} cannot be used: {why}", AS_WORDS)
    near = nearest(name, [*context.commands.names, *(file.name for file in files)])
    raise UsageError(f"no command /{sanitize_line(name)}", f"{near}  {AS_WORDS}".strip())


async def use_skill(context: CommandContext, argument: str) -> Result:
    """List the skills, or have one followed."""
    skills = context.host.extensions.skills
    name, words = skill_call(argument)

    async def lines() -> Iterable[str]:
        return skill_lines(await skills.found(), skills.promoted())

    if not name:
        return OpenView("skills.show", text=lines, instead="`/skill NAME`; `lmtui skills` lists them")
    used = await skills.use(name)
    return Begin(lambda session: session.skills.begin(used, words))


async def promote(_context: CommandContext, argument: str) -> Begin:
    """Ask whether a Python function may become a tool."""
    path, function, name = promote_call(argument)
    return Begin(lambda session: session.skills.promote(path, function, name))


_MCP_FORM = "Use /mcp, or /mcp yes|on|off|restart|tools NAME."


async def control_servers(context: CommandContext, argument: str) -> Result:
    """Show the state of the MCP servers, or do something with one.

    Raises:
        UsageError: no such server, or no such verb.
    """
    servers = context.host.extensions.mcp

    async def lines() -> Iterable[str]:
        found = [*map(server_line, servers.servers()), *map(sanitize_line, servers.problems())]
        return found or ["no MCP servers configured"]

    verb, _, name = argument.strip().partition(" ")
    if not verb:
        return OpenView("mcp.show", text=lines)
    server = next((each for each in servers.servers() if each.name == name.strip()), None)
    if server is None:
        raise UsageError(f"no MCP server {name.strip()!r}", _MCP_FORM)
    match verb.lower():
        case "tools":
            tools = (*server.offered, *server.tools)
            return Output(tuple(f"{tool.name} ({tool.tokens} tokens): {tool.description}" for tool in tools))
        case "yes":
            servers.accept(server.name)
        case "on" | "off":
            servers.enable(server.name, is_on=verb.lower() == "on")
        case "restart":
            servers.restart(server.name)
        case _:
            raise UsageError(f"{verb!r} is not an action of a server", _MCP_FORM)
    return Output((f"{sanitize_line(server.name)}: {verb.lower()}",))


def server_line(server: McpServer) -> str:
    """Return where a server is, in one line."""
    tools = f", {pluralize(len(server.tools), 'tool')}, {server.tokens:,} tokens" if server.state is ServerState.READY else ""
    place = "".join(f", {part}" for part in (server.brings, server.place) if part)
    problem = f": {server.problem}" if server.problem else ""
    return sanitize_line(f"{server.name}: {server.state}{tools}{place}{problem}")


SCHEDULE_FORMS = "in 30m · at 09:00 · every 2h · daily 09:00 · hourly :05 · cron 0 9 * * mon-fri · startup · empty: now"
_SCHEDULE_WORDS = ("in", "at", "every", "daily", "hourly", "cron", "startup")


async def show_jobs(context: CommandContext, _: str) -> OpenView:
    """List the jobs."""

    async def lines() -> Iterable[str]:
        read = await context.host.jobs.read()
        return (*job_lines(read.records, context.now()), "change them with `lmtui submit` and `lmtui jobs` in a shell")

    return OpenView("jobs.show", text=lines)


async def add_job(context: CommandContext, text: str) -> Result:
    """Let a task run by itself; what is not said is asked."""

    async def add(task: str, schedule: str) -> Output:
        job = await context.host.jobs.add(NewJob(text=task, schedule=schedule))
        when = moment_text(job.due, context.now(), LocalZone()) if job.due is not None else "at the next start"
        return Output((f"job {job.id}: {sanitize_line(job.title)}, {when}; anything that needs approval is denied",))

    async def ask_when(task: str) -> Result:
        return Ask("WHEN?", lambda schedule: add(task, schedule), placeholder=SCHEDULE_FORMS) if task else None

    schedule, task = split_schedule(text)
    if task:
        return await add(task, schedule)
    return Ask("NEW JOB: TASK", ask_when, placeholder="a task, as you would type it")


def split_schedule(text: str) -> tuple[str, str]:
    """Return the schedule that a text begins with, up to a colon and a blank, and the task; `daily 09:00: read the logs`."""
    text = text.strip()
    if text.partition(" ")[0].rstrip(":").lower() not in _SCHEDULE_WORDS or ": " not in text:
        return "", text
    schedule, _, task = text.partition(": ")
    return schedule.strip(), task.strip()


async def control_background(context: CommandContext, words: str) -> Output:
    """List the background commands, or stop one."""
    background = context.session.background
    verb, _, identity = words.strip().partition(" ")
    found = [await background.stop(identity)] if verb == "stop" else background.commands()
    listed = tuple(f"{each.id}  {each.state}  {sanitize_line(each.command)}" for each in found)
    return Output(listed or ("No commands running in the background.",))


GUIDANCE: tuple[Command, ...] = (
    Command(
        "guidance.show", Scope.WORKBENCH, "Instructions",
        "Show which instruction files are read, such as AGENTS.md, and their size.", slash=("instructions",),
        handler=show_instructions, instead="`lmtui doctor`",
    ),
    Command(
        "guidance.persona", Scope.WORKBENCH, "Persona", "Show the persona that the agent is given.", slash=("soul",),
        handler=show_persona, instead=SCREEN,
    ),
    Command(
        "guidance.draft", Scope.WORKBENCH, "Draft AGENTS.md", "Ask the model to draft an AGENTS.md for this folder.",
        slash=("init",), argument="[focus]", handler=draft_instructions, instead=SCREEN,
    ),
    Command(
        "prompts.show", Scope.WORKBENCH, "Markdown commands",
        "List the slash commands that are Markdown files, and choose one.", slash=("commands",), handler=show_prompt_files,
        instead="`lmtui doctor`",
    ),
)  # fmt: skip


JOBS: tuple[Command, ...] = (
    Command(
        "jobs.show", Scope.WORKBENCH, "Jobs", "List scheduled jobs; run, pause or remove one, or open its last session.",
        slash=("jobs",), handler=show_jobs, instead="`lmtui jobs`",
    ),
    Command(
        "jobs.add", Scope.WORKBENCH, "New job", "Schedule a task: now, or at a time such as daily 09:00.", slash=("submit",),
        argument="[daily 09:00: task]", handler=add_job, instead='`lmtui submit "TASK"`',
    ),
    Command(
        "background.show", Scope.WORKBENCH, "Background commands", "List the commands running in the background, or stop one.",
        slash=("background",), argument="[stop b1]", handler=control_background, instead=SCREEN,
    ),
)  # fmt: skip


MCP: tuple[Command, ...] = (
    Command(
        "mcp.show", Scope.WORKBENCH, "MCP servers", "List MCP servers with their state, tools and token cost.", slash=("mcp",),
        argument="[yes|on|off|restart|tools NAME]", handler=control_servers, instead="`lmtui mcp`",
    ),
)  # fmt: skip


SKILLS: tuple[Command, ...] = (
    Command(
        "skills.show", Scope.WORKBENCH, "Skills", "List skills, or use one.", slash=("skill", "skills"), argument="[name text]",
        values="skills", handler=use_skill,
    ),
    Command(
        "skills.promote", Scope.WORKBENCH, "Promote function",
        "Make a Python function a tool of this folder, after you approve it.", slash=("promote",),
        argument="FILE FUNCTION [name]", handler=promote, instead=SCREEN,
    ),
)  # fmt: skip
