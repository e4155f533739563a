"""Commands of the work in a session: plan, changes, model, window and budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lmtui.commands.command import Begin, Command, CommandContext, ConfirmRestore, OpenView, Output, Result, Scope
from lmtui.commands.session_commands import SCREEN
from lmtui.core.errors import SandboxError, UsageError
from lmtui.core.event_text import begin_deep, budget_words, calls_words, set_budget, set_calls
from lmtui.core.events import PlanChanged
from lmtui.core.permissions.rules import Mode
from lmtui.core.plan import TodoStatus
from lmtui.core.sanitize import pluralize, sanitize, sanitize_line, sanitize_path
from lmtui.core.sessions import Changes
from lmtui.core.task_state import done_words
from lmtui.core.workspace import FileChange

INDENT = "  "
NO_CHANGES = "undo is not available here: no checkpoints can be made in this session"


def quoted(text: str) -> list[str]:
    """Return what somebody else wrote as lines: indented, so that it cannot pass for what lmtui says itself."""
    return [f"{INDENT}{line}".rstrip() for line in sanitize(text).split("\n")]


# -- plan -----------------------------------------------------------------------------------------------------------------


def plan_lines(changed: PlanChanged) -> Iterator[str]:
    """Return where the plan and the todos are."""
    for name, items in (("plan", changed.plan.steps), ("todos", changed.plan.todos)):
        if items:
            now = next((item.text for item in items if item.status is TodoStatus.IN_PROGRESS), "")
            yield f"{name}: {done_words(items)}" + (f", now: {sanitize_line(now)}" if now else "")
    task = changed.plan.task
    if task is not None:
        total = f" of {task.total_count:,}" if task.total_count else ""
        left = f", {task.remaining_count:,} left" if task.remaining_count else ""
        yield f"task: {task.processed_count:,}{total} processed{left}"


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
    """Plan a task in plan mode; without one, show the plan that waits for an answer, else the plan and the todos."""
    if not task:
        return await show_plan(context, "", "plan.ask")
    if context.session.mode is not Mode.PLAN:
        context.session.set_mode(Mode.PLAN)
    return Begin(lambda session: session.submit(task))


async def work_deep(context: CommandContext, words: str) -> Begin:
    """Set a budget and plan a task, which is then carried out under it."""
    task = begin_deep(context.session.budget, words)
    context.session.set_mode(Mode.PLAN)
    return Begin(lambda session: session.submit(task))


# -- changes --------------------------------------------------------------------------------------------------------------


def more_and_fewer(added: int, removed: int) -> str:
    """Return how many lines were added and removed, as it is read aloud."""
    return f"{pluralize(added, 'line')} more, {removed} fewer"


def changes_text(changes: Sequence[FileChange]) -> str:
    """Return files and what happened to each, in words."""
    return "; ".join(
        f"{sanitize_path(change.path)} {change.kind.value}, {more_and_fewer(change.added_lines, change.removed_lines)}"
        for change in changes
    )


def _changes(context: CommandContext) -> Changes:
    if context.session.changes is None:
        raise SandboxError(NO_CHANGES)
    return context.session.changes


async def show_changes(context: CommandContext, path: str) -> OpenView:
    """Show which files the session changed, or how it changed one."""

    async def lines() -> Iterable[str]:
        total = await _changes(context).total()
        if not path:
            return [changes_text([change]) for change in total] or ["nothing is changed"]
        found = [line for change in total if change.path == path for line in quoted(change.diff or "no text")]
        return found or [f"this session did not change {sanitize_path(path)}", *(changes_text([change]) for change in total)]

    return OpenView("changes.show", path, lines)


def _count(typed: str) -> int:
    count = int(typed[:9]) if typed.isascii() and typed.isdigit() else 0
    if typed and not count:
        raise UsageError(f"how many steps? {sanitize_line(typed)!r} is no number")
    return count or 1


async def undo(context: CommandContext, typed: str) -> ConfirmRestore:
    """Take back what the last steps did to files."""
    count, changes = _count(typed), _changes(context)
    return ConfirmRestore(lambda: changes.plan_undo(count), "the last step" if count == 1 else f"the last {count} steps")


async def redo(context: CommandContext, typed: str) -> ConfirmRestore:
    """Do again what was taken back last."""
    count, changes = _count(typed), _changes(context)
    what = "what was undone last" if count == 1 else f"the last {count} steps undone"
    return ConfirmRestore(lambda: changes.plan_redo(count), what)


# -- model, window, budget ------------------------------------------------------------------------------------------------


async def choose_model(context: CommandContext, name: str) -> Result:
    """Use another model in this session, or list the models of all servers."""

    async def lines() -> Iterable[str]:
        found: list[str] = []
        for server in await context.host.servers.find():
            found.append(f"{sanitize_line(server.kind)} at {sanitize_line(server.url)}:")
            found += [f"{INDENT}{sanitize_line(model.name)}" for model in server.chat_models]
        return [*found, "/model and a name takes another of the server in use"]

    if not name or context.active is None:
        return OpenView("model.choose", text=lines)
    context.session.set_model(name)
    return None


async def show_calls(context: CommandContext, form: str) -> Output:
    """Say in which form the model calls tools, or set it."""
    if form:
        set_calls(context.session.calls, form)
    return Output((calls_words(context.session.calls),))


async def compact(_context: CommandContext, focus: str) -> Begin:
    """Summarise the conversation to make room in the model's window."""
    return Begin(lambda session: session.waiting.make_room(focus))


async def show_budget(context: CommandContext, words: str) -> Output:
    """Say what the session may spend, or set it."""
    if words.strip():
        set_budget(context.session.budget, words)
    return Output((budget_words(context.session.budget),))


PANES_AND_CHANGES: tuple[Command, ...] = (
    Command(
        "pane.files", Scope.WORKBENCH, "Files", "Go to the files of the workspace.", ("f6",), "files", ("files",),
        is_first=True,
    ),
    Command(
        "pane.plan", Scope.WORKBENCH, "Plan and todos", "Go to the plan and the todos.", ("f7",), "plan", ("todo", "todos"),
        is_first=True, handler=show_plan, instead=SCREEN,
    ),
    Command(
        "pane.log", Scope.WORKBENCH, "Tool log", "Go to the log of tool calls.", ("f8",), "log", ("log",), is_first=True,
        instead="`lmtui show --audit ID`",
    ),
    Command("pane.chat", Scope.WORKBENCH, "Chat", "Go to the conversation.", ("f9",), "chat", is_first=True),
    Command(
        "changes.show", Scope.WORKBENCH, "Changes", "Show what this session changed, file by file.", ("f10",), "changes",
        ("changes",), "[file]", is_first=True, handler=show_changes, instead="`git diff`, or files_changed of --output json",
    ),
    Command(
        "undo.last", Scope.WORKBENCH, "Undo", "Take back what the last steps did to files; shows it first.", ("alt+u",), "undo",
        ("undo",), "[n]", is_first=True, handler=undo, instead=SCREEN,
    ),
    Command(
        "undo.again", Scope.WORKBENCH, "Redo", "Do again what was taken back; shows it first.", ("alt+y",), "redo", ("redo",),
        "[n]", is_first=True, handler=redo, instead=SCREEN,
    ),
    Command(
        "undo.rewind", Scope.WORKBENCH, "Rewind", "Go back to before something you said, with the files or without.",
        ("alt+r",), "rewind", ("rewind",), is_first=True,
    ),
    Command(
        "rules.show", Scope.WORKBENCH, "Permission rules", "See every rule, where it comes from, and revoke one.", ("f12",),
        "rules", ("rules", "permissions"), is_first=True, instead="the options --allow and --deny",
    ),
    Command(
        "trust.show", Scope.WORKBENCH, "Trust this folder",
        "See what the folder brings that waits for your word, and what you trust; take it back.", ("alt+t",), "trust",
        ("trust",), is_first=True, instead="`lmtui config trust`",
    ),
)  # fmt: skip


SCREEN_ONLY: tuple[Command, ...] = (
    Command(
        "layout.zoom", Scope.WORKBENCH, "Zoom", "Let the pane in focus fill the screen, or end that.", ("alt+z",), "zoom",
        ("zoom",), is_first=True,
    ),
    Command(
        "settings.show", Scope.WORKBENCH, "Settings", "See every setting with its source, and change it.", ("f11", "alt+o"),
        "settings", ("settings", "config"), is_first=True, instead="`lmtui config`",
    ),
    Command(
        "perf.toggle", Scope.WORKBENCH, "Performance", "Show frames, stalls and bytes of this screen, or hide them.",
        ("alt+p",), "", ("perf",), is_first=True,
    ),
    Command(
        "files.find", Scope.WORKBENCH, "Find a file", "Find a file of the workspace by a few characters of its path.",
        ("alt+l",), "find a file", ("find-file",), "WORDS", is_first=True,
    ),
    Command(
        "chat.find", Scope.WORKBENCH, "Search the conversation", "Search all of this session, folded parts included.",
        ("ctrl+f",), "search", ("search", "find"), "WORDS", is_first=True, instead='`lmtui sessions --search "WORDS"`',
    ),
)  # fmt: skip


WINDOW: tuple[Command, ...] = (
    Command(
        "window.show", Scope.WORKBENCH, "Context", "See what fills the model's window; fold, leave out or pin parts of it.",
        ("alt+w",), "context", ("context",), is_first=True,
    ),
    Command(
        "cache.show", Scope.WORKBENCH, "Cache", "See what of each prompt was reused, read again and new, and why.", ("alt+a",),
        "", ("cache",), is_first=True,
    ),
    Command(
        "room.make", Scope.WORKBENCH, "Make room", "Sum up now what the model was sent; words behind it say what matters most.",
        slash=("compact",), argument="[what matters]", handler=compact, instead=SCREEN,
    ),
    Command(
        "budget.show", Scope.WORKBENCH, "Budget", "See or set what this session may spend, such as 3h 200 steps 1.5M tokens.",
        slash=("budget",), argument="[budget or off]", handler=show_budget, instead='the option --budget "WORDS"',
    ),
    Command(
        "deep.begin", Scope.WORKBENCH, "Deep work", "Plan a task and carry it out under a budget, with a report at the end.",
        slash=("deep",), argument="budget task", handler=work_deep, instead='`lmtui plan --approve --budget "WORDS" "TASK"`',
    ),
)  # fmt: skip


PLAN_AND_MODEL: tuple[Command, ...] = (
    Command(
        "plan.ask", Scope.WORKBENCH, "Plan first", "Plan a task in read-only mode; alone, show the plan that waits for you.",
        ("alt+d",), "plan", ("plan",), "[task]", is_first=True, handler=plan_first, instead='`lmtui plan "TASK"`',
    ),
    Command(
        "model.choose", Scope.WORKBENCH, "Model", "See the models of all servers; take one for this session, load or unload.",
        ("alt+e",), "model", ("model", "models"), "[name]", is_first=True, values="models", handler=choose_model,
        instead="the option --model NAME, or `lmtui models`",
    ),
    Command(
        "calls.show", Scope.WORKBENCH, "Form of calls", "Say in which form the model calls tools and why, or set it by hand.",
        slash=("calls",), argument="[form]", values="calls", handler=show_calls, instead="the setting call_form",
    ),
)  # fmt: skip
