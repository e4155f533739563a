"""Commands of the work in a session: plan, changes, model, window and budget."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from lmtui.commands.command import (
    Begin,
    Choose,
    Command,
    CommandContext,
    ConfirmRestore,
    OpenView,
    Output,
    Result,
    ReviewEffect,
    Scope,
)
from lmtui.commands.session_commands import SCREEN
from lmtui.core.connection_profiles import PROFILES_URL
from lmtui.core.errors import NotFound, SandboxError, ToolError, UsageError
from lmtui.core.event_text import (
    INDENT,
    begin_deep,
    budget_words,
    calls_words,
    changes_text,
    plan_lines,
    quoted,
    set_budget,
    set_calls,
)
from lmtui.core.events import ModelChanged, PlanChanged
from lmtui.core.permissions.rules import Mode
from lmtui.core.proposals import Proposal, read_proposal
from lmtui.core.sanitize import sanitize_line, sanitize_path
from lmtui.core.servers import server_lines, server_with
from lmtui.core.workspace import Changes

_PLAN_HEAD = "# The plan as YAML. Change, add, move or delete what you like; lines that begin with # are ignored.\n\n"
_HEAD = ("title", "goal", "risks", "steps")
_STEP = ("id", "text", "files", "commands", "verification", "risk", "depends_on")


def plan_text(proposal: Proposal) -> str:
    """Return a plan as YAML, to be edited."""
    yaml = importlib.import_module("yaml")  # few plans are edited, and every start is timed
    steps = [{name: found for name in _STEP if (found := getattr(step, name))} for step in proposal.steps]
    head = {name: found for name in _HEAD[:-1] if (found := getattr(proposal, name))}
    is_plain = not any(each in repr(proposal) for each in (r"\x85", r"\u202"))  # PyYAML folds these
    return _PLAN_HEAD + str(yaml.safe_dump(head | {"steps": steps}, sort_keys=False, allow_unicode=is_plain, width=10_000))


def read_plan(text: str) -> Proposal:
    """Return the plan that was edited.

    Raises:
        UsageError: it is not YAML (the text names the line), or cannot be carried out.
    """
    yaml = importlib.import_module("yaml")
    try:
        found = yaml.BaseLoader(text).get_single_data()  # all values are texts: no date, no truth
        given = found if isinstance(found, dict) else {"steps": found}
        listed = given["steps"] if isinstance(given.get("steps"), list) else []
        steps = [step for step in listed if isinstance(step, dict)]
        for names, known in ((given, _HEAD), *((step, _STEP) for step in steps)):
            if unknown := [str(name) for name in names if name not in known]:
                raise UsageError(f"{unknown[0]!r} is not allowed here; use {', '.join(known)}")
        return read_proposal(given)
    except (yaml.YAMLError, RecursionError) as error:
        where = f"line {mark.line + 1}: " if (mark := getattr(error, "problem_mark", None)) else ""
        raise UsageError(f"{where}the plan is not valid YAML: {getattr(error, 'problem', error)}") from error
    except ToolError as error:
        raise UsageError(str(error)) from error


DEEP = "--deep"  # `/plan --deep BUDGET TASK` is `/deep`
NO_CHANGES = "undo is not available here: no checkpoints can be made in this session"


async def show_plan(context: CommandContext, _: str, view: str = "pane.plan") -> OpenView:
    """Show the plan and the todos."""
    session = context.session

    async def lines() -> Iterable[str]:
        events = (envelope.event for envelope in reversed(session.history()))
        changed = next((event for event in events if isinstance(event, PlanChanged)), None)
        if changed is None:
            return ("no plan and no todos yet",)
        items = (*changed.plan.steps, *changed.plan.todos)
        found = (f"{INDENT}{item.status.value.replace('_', ' ')}: {sanitize_line(item.text)}" for item in items)
        return (*plan_lines(changed), *found)

    return OpenView(view, text=lines)


async def plan_first(context: CommandContext, task: str) -> Result:
    """Plan a task in plan mode, or for deep work; without one, show the plan that waits, else the plan and the todos."""
    if task.partition(" ")[0] == DEEP:
        return await work_deep(context, task.removeprefix(DEEP).strip())
    if not task:
        return await show_plan(context, "", "plan.ask")
    if context.session.mode is not Mode.PLAN:
        context.session.set_mode(Mode.PLAN)
    return Begin(lambda session: session.submit(task))


async def work_deep(context: CommandContext, words: str) -> Begin:
    """Set a budget and plan a task, which is then carried out under it."""
    task = begin_deep(context.session, words)
    context.session.set_mode(Mode.PLAN)
    return Begin(lambda session: session.submit(task))


def _changes(context: CommandContext) -> Changes:
    if context.session.changes is None:
        raise SandboxError(NO_CHANGES)
    return context.session.changes


async def show_changes(context: CommandContext, path: str) -> OpenView:
    """Show which files the session changed, or how it changed one."""

    async def lines() -> Iterable[str]:
        total = await _changes(context).total()
        if not path:
            return [changes_text([change]) for change in total] or ["no changes"]
        found = [line for change in total if change.path == path for line in quoted(change.diff or "no text diff")]
        return found or [f"this session did not change {sanitize_path(path)}", *(changes_text([change]) for change in total)]

    return OpenView("changes.show", path, lines)


def _count(typed: str) -> int:
    count = int(typed[:9]) if typed.isascii() and typed.isdigit() else 0
    if typed and not count:
        raise UsageError(f"not a number of steps: {sanitize_line(typed)!r}")
    return count or 1


async def undo(context: CommandContext, typed: str) -> ConfirmRestore:
    """Take back what the last steps did to files."""
    changes = _changes(context)
    count = min(_count(typed), max(1, sum(not step.is_undone for step in changes.steps())))
    return ConfirmRestore(lambda: changes.plan_undo(count), "last step" if count == 1 else f"last {count} steps")


async def redo(context: CommandContext, typed: str) -> ConfirmRestore:
    """Do again what was taken back last."""
    count, changes = _count(typed), _changes(context)
    what = "what was undone last" if count == 1 else f"the last {count} steps undone"
    return ConfirmRestore(lambda: changes.plan_redo(count), what)


async def merge(context: CommandContext, _: str) -> ReviewEffect:
    """Review the unmerged changes of try mode."""
    if not context.session.trial.waiting:
        raise UsageError("nothing to merge: no changes from try mode", "To start it, use F5 or /mode try.")
    return ReviewEffect(context.session.trial, "Merge")


async def choose_model(context: CommandContext, name: str) -> Result:
    """Use another model in this session, or list the models of all servers; set the profile or the form of its calls."""
    verb, _, rest = name.partition(" ")
    if verb in _OF_MODELS:
        return await _OF_MODELS[verb](context, rest.strip())

    async def lines() -> Iterable[str]:
        found = await context.host.servers.find()
        return [*server_lines(found), "/model NAME switches to another model"]

    if not name or context.active is None:
        return OpenView("model.choose", text=lines)
    used = next((each.event.url for each in reversed(context.session.history()) if isinstance(each.event, ModelChanged)), "")
    found = await context.host.servers.find()
    try:
        _ = server_with(found, name, used)
    except NotFound:
        await context.host.switch_model(context.session.id, server_with(found, name), name)
    else:
        context.session.set_model(name)
    return None


async def choose_profile(context: CommandContext, name: str) -> Result:
    """Connect this session as a profile says, and ask for one where none is named."""
    session = context.session

    async def take(chosen: str) -> Result:
        await context.host.switch_model(session.id, PROFILES_URL, chosen)
        return Output((f"connected with the profile {sanitize_line(chosen)}",))

    if name:
        return await take(name)
    found = await context.host.servers.find()
    notes = {each.name: each.instance for server in found if server.url == PROFILES_URL for each in server.models}
    if not notes:
        raise UsageError("there are no profiles", "Add some to the setting profiles; see docs/servers.md.")
    return Choose("Profile", notes, take)


async def show_calls(context: CommandContext, form: str) -> Output:
    """Say in which form the model calls tools, or set it."""
    if form:
        set_calls(context.session, form)
    return Output((calls_words(context.session),))


_OF_MODELS = {"profile": choose_profile, "calls": show_calls}


async def compact(_context: CommandContext, focus: str) -> Begin:
    """Summarise the conversation to make room in the model's window."""
    return Begin(lambda session: session.waiting.make_room(focus))


async def show_budget(context: CommandContext, words: str) -> Output:
    """Say what the session may spend, or set it."""
    if words.strip():
        set_budget(context.session, words)
    return Output((budget_words(context.session),))


async def control_background(context: CommandContext, words: str) -> Output:
    """List the background commands, or stop one."""
    background = context.session.background
    verb, _, identity = words.strip().partition(" ")
    found = [await background.stop(identity)] if verb == "stop" else background.commands()
    listed = tuple(f"{each.id}  {each.state}  {sanitize_line(each.command)}" for each in found)
    return Output(listed or ("No commands running in the background.",))


WORK: tuple[Command, ...] = (
    Command("pane.files", Scope.WORKBENCH, "Files", "Go to the workspace files.", ("f6",), "files", is_first=True,
        aliases={"files": ""}),
    Command("pane.plan", Scope.WORKBENCH, "Plan and todos", "Go to the plan and the todos.", ("f7",), "plan",
        is_first=True, aliases={"todo": "", "todos": ""}, handler=show_plan, instead=SCREEN),
    Command("pane.log", Scope.WORKBENCH, "Tool log", "Go to the tool log.", ("f8",), "log", is_first=True, aliases={"log": ""},
        instead="`lmtui show --audit ID`"),
    Command("pane.chat", Scope.WORKBENCH, "Chat", "Go to the conversation.", ("f9",), "chat", is_first=True,
        is_rare=True),
    Command("changes.show", Scope.WORKBENCH, "Changes", "Show what this session changed, file by file.", ("f10",), "changes",
        ("changes",), "[file]", is_first=True, handler=show_changes, instead="`git diff`, or files_changed of --output json"),
    Command("undo.last", Scope.WORKBENCH, "Undo", "Undo the file changes of the last steps; shows a preview first.", ("alt+u",),
        "undo", ("undo",), "[n]", is_first=True, handler=undo, instead=SCREEN),
    Command("undo.again", Scope.WORKBENCH, "Redo", "Redo what was undone; shows a preview first.",
        hint="redo", argument="[n]", handler=redo, aliases={"redo": ""}, instead=SCREEN),
    Command("merge.show", Scope.WORKBENCH, "Merge changes",
        "Review the unmerged changes of try mode; keep or drop them.", slash=("merge",), handler=merge, instead=SCREEN),
    Command("undo.rewind", Scope.WORKBENCH, "Rewind", "Go back to before one of your messages, with or without the files.",
        ("alt+r",), "rewind", ("rewind",), is_first=True),
    Command("rules.show", Scope.WORKBENCH, "Permission rules", "Show all rules and their sources; revoke a rule.",
        hint="rules", slash=("rules",), instead="the options --allow and --deny", aliases={"permissions": ""},
        tab=("Permissions", "Rules")),
    Command("trust.show", Scope.WORKBENCH, "Workspace trust",
        "Review what this folder wants to enable, and what you trust; revoke trust.", slash=("trust",),
        tab=("Permissions", "Trust"), instead="`lmtui trust`"),
    Command("layout.zoom", Scope.WORKBENCH, "Zoom", "Maximize the focused pane, or restore it.", ("alt+z",), "zoom",
        is_first=True, is_rare=True, aliases={"zoom": ""}),
    Command("settings.show", Scope.WORKBENCH, "Settings", "Show all settings with their sources, and change them.",
        ("f11",), "settings", ("settings",), is_first=True, aliases={"config": ""}, instead="`lmtui config`"),
    Command("files.find", Scope.WORKBENCH, "Find file", "Find a workspace file by part of its path.",
        argument="WORDS", aliases={"find-file": ""}),
    Command("chat.find", Scope.WORKBENCH, "Search conversation", "Search this session, including folded parts.", ("ctrl+f",),
        "search", (), "WORDS", is_first=True, aliases={"search": ""}, instead='`lmtui sessions --search "WORDS"`'),
    Command("window.show", Scope.WORKBENCH, "Context", "Show what fills the context window; fold, leave out or pin parts.",
        slash=("context",), tab=("Usage", "Context")),
    Command("cache.show", Scope.WORKBENCH, "Trace", "Show where the time of each step went, and what the cache saved.",
        slash=("cache",), aliases={"trace": ""}, tab=("Usage", "Trace"), is_rare=True),
    Command("room.make", Scope.WORKBENCH, "Compact", "Summarize the conversation now; optional text says what to keep.",
        slash=("compact",), argument="[what to keep]", handler=compact, instead=SCREEN),
    Command("budget.show", Scope.WORKBENCH, "Budget", "Show or set the session budget, such as 3h 200 steps 1.5M tokens.",
        slash=("budget",), argument="[budget or off]", handler=show_budget, instead='the option --budget "WORDS"',
        is_rare=True),
    Command("plan.ask", Scope.WORKBENCH, "Plan", "Plan a task in read-only mode; without a task, show the proposed plan.",
        slash=("plan",), argument="[task]", handler=plan_first,
        aliases={"deep": DEEP}, instead='`lmtui plan "TASK"`'),
    Command("model.choose", Scope.WORKBENCH, "Model",
        "List the models of all servers; switch this session to one, load or unload.", ("alt+e",), "model", ("model",),
        "[name]", is_first=True, values="models",
        aliases={"models": "", "profile": "profile", "calls": "calls"}, handler=choose_model,
        instead="the option --model NAME, or `lmtui models`"),
    Command("background.show", Scope.WORKBENCH, "Background commands",
        "List the commands running in the background, or stop one.", slash=("background",), is_rare=True, argument="[stop b1]",
        handler=control_background, instead=SCREEN),
)  # fmt: skip
