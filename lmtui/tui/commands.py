"""The one table of commands.  Bindings, palette, slash commands, hints and the help screen are all made from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from textual.binding import Binding, BindingType

from lmtui.tui.table.command import KEY_NAMES, Command, Scope, SlashCall
from lmtui.tui.table.dialogs import CHAT, DIALOGS, PANES, PROMPT, READING

EVERYWHERE: tuple[Command, ...] = (
    Command(
        "app.palette", Scope.APP, "Everything", "Find any command by its name.",
        ("ctrl+p",), "everything", is_fixed=True, is_first=True,
    ),
    Command(
        "app.help", Scope.APP, "Keys and commands", "Show every key and command.",
        ("f1", "question_mark"), "keys", ("help",), is_fixed=True,
    ),
    Command(
        "app.stop", Scope.APP, "Stop or close", "Interrupt the agent, or close what is open.",
        ("escape",), "stop", is_fixed=True,
    ),
    Command("app.interrupt", Scope.APP, "Interrupt", "Interrupt the agent as escape does.", ("ctrl+c",), is_fixed=True),
    Command(
        "app.leave", Scope.APP, "Quit", "Leave; asks once when an agent works.", ("ctrl+q",), "quit", ("exit", "quit"),
        is_fixed=True, is_first=True,
    ),
    Command(
        "app.suspend", Scope.APP, "Sleep", "Give the terminal back to the shell; its `fg` wakes lmtui again.",
        ("ctrl+z",), is_fixed=True, is_first=True,
    ),
    Command("app.focus_next", Scope.APP, "Next pane", "Move to the next pane.", ("tab",), is_fixed=True),
    Command("app.focus_previous", Scope.APP, "Previous pane", "Move to the pane before.", ("shift+tab",), is_fixed=True),
    Command("app.theme", Scope.APP, "Theme", "Choose the colours.", (), "", ("theme",), "[name]", values="themes"),
    Command(
        "session.list", Scope.WORKBENCH, "Sessions", "See all sessions; open, search, rename, fork, export or delete one.",
        ("f2",), "sessions", ("sessions", "resume"), is_first=True, runs="call('session.list')",
    ),
    Command(
        "session.next_waiting", Scope.WORKBENCH, "Next that waits", "Go to the next session that waits for you.",
        ("f3",), "next waiting", is_first=True,
    ),
    Command(
        "session.new", Scope.WORKBENCH, "New session", "Start afresh; the sessions so far stay in the list.",
        ("f4",), "", ("new", "clear"), is_first=True,
    ),
    Command("session.id", Scope.WORKBENCH, "Session id", "Show the id of this session.", (), "", ("session",)),
    Command("session.rename", Scope.WORKBENCH, "Rename session", "Give this session a title.", (), "", ("rename",), "TITLE"),
    Command(
        "session.status", Scope.WORKBENCH, "Status", "Show folder, model, sandbox, mode and use of the window.",
        (), "", ("status",),
    ),
    Command(
        "mode.choose", Scope.WORKBENCH, "Permission mode", "How much to ask: manual, normal, auto or plan.",
        ("f5",), "mode", ("mode",), "LEVEL", is_first=True, values="modes",
    ),
    Command(
        "pane.files", Scope.WORKBENCH, "Files", "Go to the files of the workspace.",
        ("f6",), "files", ("files",), is_first=True,
    ),
    Command(
        "pane.plan", Scope.WORKBENCH, "Plan and todos", "Go to the plan and the todos.",
        ("f7",), "plan", ("todo", "todos"), is_first=True,
    ),
    Command("pane.log", Scope.WORKBENCH, "Tool log", "Go to the log of tool calls.", ("f8",), "log", ("log",), is_first=True),
    Command("pane.chat", Scope.WORKBENCH, "Chat", "Go to the conversation.", ("f9",), "chat", is_first=True),
    Command(
        "changes.show", Scope.WORKBENCH, "Changes", "Show what this session changed, file by file.",
        ("f10",), "changes", ("changes",), is_first=True,
    ),
    Command(
        "undo.last", Scope.WORKBENCH, "Undo", "Take back what the last steps did to files; shows it first.",
        ("alt+u",), "undo", ("undo",), "[n]", is_first=True,
    ),
    Command(
        "undo.again", Scope.WORKBENCH, "Redo", "Do again what was taken back; shows it first.",
        ("alt+y",), "redo", ("redo",), "[n]", is_first=True,
    ),
    Command(
        "undo.rewind", Scope.WORKBENCH, "Rewind", "Go back to before something you said, with the files or without.",
        ("alt+r",), "rewind", ("rewind",), is_first=True,
    ),
    Command(
        "rules.show", Scope.WORKBENCH, "Permission rules", "See every rule, where it comes from, and revoke one.",
        ("f12",), "rules", ("rules", "permissions"), is_first=True,
    ),
    Command(
        "trust.show", Scope.WORKBENCH, "Trust this folder",
        "See what the folder brings that waits for your word, and what you trust; take it back.",
        ("alt+t",), "trust", ("trust",), is_first=True, runs="call('trust.show')",
    ),
)  # fmt: skip


def _deed(name: str, title: str, text: str, key: str) -> Command:
    return Command(f"sessions.{name}", Scope.SWITCHER, title, text, (key,), name, runs=f"sessions_deed('{name}')")


SESSIONS: tuple[Command, ...] = (
    Command(
        "session.grid", Scope.WORKBENCH, "Sessions side by side", "See all open sessions live, a tile each.",
        ("alt+g",), "grid", ("grid",), is_first=True, runs="call('session.grid')",
    ),
    Command(
        "session.next", Scope.WORKBENCH, "Next session", "Go to the next open session.",
        ("alt+right",), "", ("next",), is_first=True, runs="call('session.next')",
    ),
    Command(
        "session.previous", Scope.WORKBENCH, "Session before", "Go to the open session before.",
        ("alt+left",), "", ("previous",), is_first=True, runs="call('session.previous')",
    ),
    Command(
        "session.mark", Scope.WORKBENCH, "Mark session", "Mark this session in all lists, or take the mark away.",
        ("alt+k",), "mark", ("mark",), is_first=True, runs="call('session.mark')",
    ),
    Command(
        "session.fork", Scope.WORKBENCH, "Fork", "Go on in a copy of this session, up to the message under the cursor.",
        ("alt+f",), "fork", ("fork",), is_first=True, runs="call('session.fork')",
    ),
    Command(
        "session.export", Scope.WORKBENCH, "Export", "Write this session to a file: md, html or jsonl.",
        (), "", ("export",), "[md|html|jsonl]", runs="call('session.export')",
    ),
    Command(
        "session.close", Scope.WORKBENCH, "Close session", "Close this session; it stays in the list.",
        (), "", ("close",), runs="call('session.close')",
    ),
    Command("sessions.open", Scope.SWITCHER, "Open", "Open the marked session.", ("enter",), "open"),
    Command("sessions.new", Scope.SWITCHER, "New", "Start a new session.", ("n",), "new"),
    _deed("fork", "Fork", "Copy the marked session; the original stays, and no file changes.", "f"),
    _deed("rename", "Rename", "Give the marked session a title.", "r"),
    _deed("mark", "Mark", "Mark the session in all lists, or take the mark away.", "m"),
    _deed("close", "Close", "Close the marked session; it stays in the list.", "c"),
    _deed("delete", "Delete", "Delete the marked session, after asking.", "d"),
    _deed("export", "Export", "Write the marked session to a file.", "x"),
    Command("sessions.grid", Scope.SWITCHER, "Side by side", "See all open sessions live, a tile each.", ("g",), "grid"),
    Command("sessions.search", Scope.SWITCHER, "Search", "Search in everything that was said.", ("slash",), "search"),
    Command("sessions.up", Scope.SWITCHER, "Session before", "Mark the line before.", ("up", "k"), runs="sessions_move(-1)"),
    Command("sessions.down", Scope.SWITCHER, "Next session", "Mark the next line.", ("down", "j"), runs="sessions_move(1)"),
    Command("sessions.page_up", Scope.SWITCHER, "Page up", "Go a page up.", ("pageup",), runs="sessions_page(-1)"),
    Command("sessions.page_down", Scope.SWITCHER, "Page down", "Go a page down.", ("pagedown",), runs="sessions_page(1)"),
    Command(
        "sessions.first", Scope.SWITCHER, "First", "Go to the first session.",
        ("home",), runs="sessions_move(-1000000)",
    ),
    Command("sessions.last", Scope.SWITCHER, "Last", "Go to the last session.", ("end",), runs="sessions_move(1000000)"),
    Command("grid.open", Scope.GRID, "Open", "Go to the session.", ("enter",), "open"),
    Command("grid.answer", Scope.GRID, "Answer", "See what the session waits with and answer it.", ("a",), "answer"),
    Command("grid.left", Scope.GRID, "Left", "Go to the tile on the left.", ("left", "h"), runs="grid_move(-1, 0)"),
    Command("grid.right", Scope.GRID, "Right", "Go to the tile on the right.", ("right", "l"), runs="grid_move(1, 0)"),
    Command("grid.up", Scope.GRID, "Up", "Go to the tile above.", ("up", "k"), runs="grid_move(0, -1)"),
    Command("grid.down", Scope.GRID, "Down", "Go to the tile below.", ("down", "j"), runs="grid_move(0, 1)"),
)  # fmt: skip


AROUND: tuple[Command, ...] = (
    Command(
        "layout.files", Scope.WORKBENCH, "Hide files", "Hide the files, or show them again (on a wide screen).",
        ("alt+1",), runs="call('layout.files')", is_first=True,
    ),
    Command(
        "layout.plan", Scope.WORKBENCH, "Hide plan", "Hide the plan, or show it again (on a wide screen).",
        ("alt+2",), runs="call('layout.plan')", is_first=True,
    ),
    Command(
        "layout.log", Scope.WORKBENCH, "Hide log", "Hide the log, or show it again (on a wide screen).",
        ("alt+3",), runs="call('layout.log')", is_first=True,
    ),
    Command(
        "layout.zoom", Scope.WORKBENCH, "Zoom", "Let the pane in focus fill the screen, or end that.",
        ("alt+z",), "zoom", ("zoom",), runs="call('layout.zoom')", is_first=True,
    ),
    Command(
        "layout.wider", Scope.WORKBENCH, "Wider", "Make the column in focus wider (the files from elsewhere).",
        ("alt+full_stop",), runs="call('layout.wider')", is_first=True,
    ),
    Command(
        "layout.narrower", Scope.WORKBENCH, "Narrower", "Make the column in focus narrower.",
        ("alt+comma",), runs="call('layout.narrower')", is_first=True,
    ),
    Command(
        "layout.taller", Scope.WORKBENCH, "Taller", "Give the plan more of its column, or the log while it has the focus.",
        ("alt+equals_sign",), runs="call('layout.taller')", is_first=True,
    ),
    Command(
        "layout.lower", Scope.WORKBENCH, "Lower", "Give the plan less of its column, or the log while it has the focus.",
        ("alt+minus",), runs="call('layout.lower')", is_first=True,
    ),
    Command(
        "layout.reset", Scope.WORKBENCH, "Usual layout", "Show all panes at their usual sizes.",
        runs="call('layout.reset')",
    ),
    Command(
        "settings.show", Scope.WORKBENCH, "Settings", "See every setting with its source, and change it.",
        ("f11", "alt+o"), "settings", ("settings", "config"), runs="call('settings.show')", is_first=True,
    ),
    Command(
        "perf.toggle", Scope.WORKBENCH, "Performance", "Show frames, stalls and bytes of this screen, or hide them.",
        ("alt+p",), "", ("perf",), runs="call('perf.toggle')", is_first=True,
    ),
)  # fmt: skip


GUIDANCE: tuple[Command, ...] = (
    Command(
        "guidance.show", Scope.WORKBENCH, "Instructions", "See which AGENTS.md and the like are read, and what they cost.",
        (), "", ("instructions",), runs="call('guidance.show')",
    ),
    Command(
        "guidance.persona", Scope.WORKBENCH, "Persona", "See who the agent is told to be.",
        (), "", ("soul",), runs="call('guidance.persona')",
    ),
    Command(
        "guidance.draft", Scope.WORKBENCH, "Draft AGENTS.md", "Have the model draft an AGENTS.md from this folder.",
        (), "", ("init",), "[what matters]", runs="call('guidance.draft')",
    ),
    Command(
        "prompts.show", Scope.WORKBENCH, "Commands of files", "Choose one of the slash commands that are Markdown files.",
        (), "", ("commands",), runs="call('prompts.show')",
    ),
)  # fmt: skip


JOBS: tuple[Command, ...] = (
    Command(
        "jobs.show", Scope.WORKBENCH, "Jobs", "See what runs by itself and when; run, pause, remove it, open what came of it.",
        (), "", ("jobs",), runs="call('jobs.show')",
    ),
    Command(
        "jobs.add", Scope.WORKBENCH, "New job", "Let a task run by itself: now, or at a time such as daily 09:00.",
        (), "", ("submit",), "[daily 09:00: task]", runs="call('jobs.add')",
    ),
    Command(
        "background.show", Scope.WORKBENCH, "Background commands", "See the commands that run in the background, or stop one.",
        (), "", ("background",), "[stop b1]", runs="call('background.show')",
    ),
    Command("jobs.open", Scope.JOBS, "Open", "Open the session of the marked job's last run.", ("enter",), "open"),
    Command("jobs.new", Scope.JOBS, "New", "Ask for a new job.", ("n",), "new"),
    Command("jobs.run", Scope.JOBS, "Run now", "Run the marked job now, whatever its time.", ("r",), "run now"),
    Command("jobs.pause", Scope.JOBS, "Pause", "Pause the marked job, or let it go on.", ("p",), "pause"),
    Command("jobs.remove", Scope.JOBS, "Remove", "Remove the marked job, after asking.", ("d", "delete"), "remove"),
)  # fmt: skip


MCP: tuple[Command, ...] = (
    Command(
        "mcp.show", Scope.WORKBENCH, "MCP servers", "See which servers run and where, their tools, what those cost.",
        (), "", ("mcp",), runs="call('mcp.show')",
    ),
    Command("mcp.tools", Scope.MCP, "Tools", "Read the tools of the marked server.", ("enter",), "tools"),
    Command("mcp.accept", Scope.MCP, "Yes", "Let the marked server start, or take its changed tools.", ("y",), "yes"),
    Command("mcp.switch", Scope.MCP, "On or off", "Switch the marked server on or off.", ("o",), "on/off"),
    Command("mcp.restart", Scope.MCP, "Restart", "End the marked server and start it again.", ("r",), "restart"),
    Command("mcp.log", Scope.MCP, "Log", "Read the end of what the marked server said beside its answers.", ("l",), "log"),
)  # fmt: skip


MODELS: tuple[Command, ...] = (
    Command(
        "model.choose", Scope.WORKBENCH, "Model", "See the models of all servers; take one for this session, load or unload.",
        ("alt+e",), "model", ("model", "models"), "[name]", is_first=True, runs="call('model.choose')", values="models",
    ),
    Command(
        "calls.show", Scope.WORKBENCH, "Form of calls", "Say in which form the model calls tools and why, or set it by hand.",
        (), "", ("calls",), "[form]", runs="call('calls.show')", values="calls",
    ),
    Command("models.use", Scope.MODELS, "Use", "Use the marked model in this session.", ("enter",), "use"),
    Command("models.load", Scope.MODELS, "Load", "Load the marked model, with a window of your own or its.", ("l",), "load"),
    Command(
        "models.unload", Scope.MODELS, "Unload", "Unload the marked model, or give up its loading or exam.", ("u",), "unload"
    ),
    Command(
        "models.exam", Scope.MODELS, "Examine", "Measure in a minute how the marked model calls tools best, and its speed.",
        ("x",), "examine",
    ),
    Command("models.again", Scope.MODELS, "Look again", "Look for servers again.", ("r",), "look again"),
    Command("models.filter", Scope.MODELS, "Find", "Narrow the list down by a few characters of a name.", ("slash",), "find"),
    Command("models.up", Scope.MODELS, "Model before", "Mark the model before.", ("up", "k"), runs="models_move(-1)"),
    Command("models.down", Scope.MODELS, "Next model", "Mark the next model.", ("down", "j"), runs="models_move(1)"),
    Command("models.page_up", Scope.MODELS, "Page up", "Go ten lines up.", ("pageup",), runs="models_move(-10)"),
    Command("models.page_down", Scope.MODELS, "Page down", "Go ten lines down.", ("pagedown",), runs="models_move(10)"),
    Command("models.first", Scope.MODELS, "First", "Go to the first model.", ("home",), runs="models_move(-1000000)"),
    Command("models.last", Scope.MODELS, "Last", "Go to the last model.", ("end",), runs="models_move(1000000)"),
)  # fmt: skip


PLANNING: tuple[Command, ...] = (
    Command(
        "plan.ask", Scope.WORKBENCH, "Plan first", "Plan a task in read-only mode; alone, show the plan that waits for you.",
        ("alt+d",), "plan", ("plan",), "[task]", is_first=True, runs="call('plan.ask')",
    ),
    Command(
        "plan.toggle", Scope.PROMPT, "Plan mode on or off", "Only read and plan from the next call on, or go back.",
        ("shift+tab",), "plan mode", runs="screen.call('plan.toggle')",
    ),
    Command("plan.approve", Scope.PLAN, "Approve", "Leave plan mode and let the plan be carried out.", ("y",), "approve"),
    Command(
        "plan.grant", Scope.PLAN, "Approve and allow", "See which files and commands it names, allow them and approve.",
        ("g",), "and allow…",
    ),
    Command("plan.edit", Scope.PLAN, "Edit", "Change the plan in your editor (VISUAL or EDITOR).", ("e",), "edit"),
    Command("plan.revise", Scope.PLAN, "Change it", "Say what should be different; it is proposed again.", ("f",), "change…"),
    Command("plan.reject", Scope.PLAN, "Reject", "Drop the plan; plan mode stays on.", ("n",), "reject"),
    Command(
        "grants.yes", Scope.PLAN_GRANTS, "Allow and approve", "Keep these rules for this session and carry the plan out.",
        ("y",), "allow these and approve",
    ),
    Command("grants.no", Scope.PLAN_GRANTS, "Back", "Go back to the plan; nothing is allowed.", ("n",), "back"),
)  # fmt: skip


SKILLS: tuple[Command, ...] = (
    Command(
        "skills.show", Scope.WORKBENCH, "Skills", "See which skills there are, or have one followed.",
        (), "", ("skill", "skills"), "[name words]", runs="call('skills.show')", values="skills",
    ),
    Command(
        "skills.promote", Scope.WORKBENCH, "Promote", "Let a Python function become a tool of this folder, once you said yes.",
        (), "", ("promote",), "FILE FUNCTION [name]", runs="call('skills.promote')",
    ),
    Command("skills.read", Scope.SKILLS, "Read", "Read the marked skill, or the marked tool's program.", ("enter",), "read"),
    Command("skills.use", Scope.SKILLS, "Use", "Write the marked skill into the prompt, for your words to it.", ("u",), "use"),
    Command("skills.remove", Scope.SKILLS, "Remove", "Forget the marked tool; files are not touched.", ("d",), "remove tool"),
)  # fmt: skip


WINDOW: tuple[Command, ...] = (
    Command(
        "window.show", Scope.WORKBENCH, "Context", "See what fills the model's window; fold, leave out or pin parts of it.",
        ("alt+w",), "context", ("context",), runs="call('window.show')", is_first=True,
    ),
    Command(
        "cache.show", Scope.WORKBENCH, "Cache", "See what of each prompt was reused, read again and new, and why.",
        ("alt+a",), "", ("cache",), runs="call('cache.show')", is_first=True,
    ),
    Command(
        "room.make", Scope.WORKBENCH, "Make room", "Sum up now what the model was sent; words behind it say what matters most.",
        (), "", ("compact",), "[what matters]", runs="call('room.make')",
    ),
    Command(
        "budget.show", Scope.WORKBENCH, "Budget", "See or set what this session may spend, such as 3h 200 steps 1.5M tokens.",
        (), "", ("budget",), "[budget or off]", runs="call('budget.show')",
    ),
    Command(
        "deep.begin", Scope.WORKBENCH, "Deep work", "Plan a task and carry it out under a budget, with a report at the end.",
        (), "", ("deep",), "budget task", runs="call('deep.begin')",
    ),
    Command(
        "window.group", Scope.CONTEXT, "Group", "Show what is in the marked group, or hide it.",
        ("enter",), "group", runs="grouped_fold",
    ),
    Command("window.fold", Scope.CONTEXT, "Fold", "Send only the beginning of the marked result.", ("f",), "fold"),
    Command("window.leave_out", Scope.CONTEXT, "Leave out", "Send a line in its place.", ("d",), "leave out"),
    Command("window.back", Scope.CONTEXT, "Bring back", "Send it whole again.", ("b",), "bring back"),
    Command("window.pin", Scope.CONTEXT, "Pin", "Never take it out to make room; once more, let it go.", ("p",), "pin"),
    Command(
        "cache.group", Scope.CACHE, "Turn", "Show the requests of the marked turn, or hide them.",
        ("enter",), "turn", runs="grouped_fold",
    ),
)  # fmt: skip


__all__ = ["COMMANDS", "Command", "Scope", "SlashCall"]

COMMANDS: tuple[Command, ...] = (
    *(EVERYWHERE + AROUND + WINDOW + GUIDANCE + PROMPT + PANES + CHAT + READING + PLANNING + SESSIONS + JOBS),
    *(MCP + SKILLS + MODELS + DIALOGS),
)


_BY_ID = {command.id: command for command in COMMANDS}
_BY_SLASH = {name: command for command in COMMANDS for name in command.slash}


def command(command_id: str) -> Command:
    """Return a command by its id."""
    return _BY_ID[command_id]


def closing(word: str = "close") -> Command:
    """Return the command behind escape under the name that it has on a screen."""
    return replace(_BY_ID["app.stop"], hint=word)


def of_scope(*scopes: Scope) -> tuple[Command, ...]:
    """Return the commands of some scopes in the table's order."""
    return tuple(each for each in COMMANDS if each.scope in scopes)


def bindings(scope: Scope) -> list[BindingType]:
    """Return a scope's keys for a `BINDINGS` of Textual; each has the command's id, so that a keymap can change it."""
    return [
        Binding(",".join(each.keys), each.action, each.title, show=False, priority=each.is_first, id=each.id)
        for each in of_scope(scope)
        if each.keys
    ]


def parse_slash(text: str) -> SlashCall | None:
    """Read a slash command; None for what goes to the model: other text, and absolute paths such as `/usr/bin`."""
    stripped = text.strip()
    if stripped == "quit":
        stripped = "/quit"
    head, _, argument = stripped.partition(" ")
    name = head[1:]
    is_path = "/" in name or "." in name or "\n" in head
    if not head.startswith("/") or not name or is_path:
        return None
    return SlashCall(name, argument.strip(), _BY_SLASH.get(name.lower()))


def complete_slash(text: str) -> list[tuple[str, Command]]:
    """Return the slash commands that begin with what is typed, in the table's order; nothing once an argument follows."""
    if not text.startswith("/") or " " in text or "\n" in text:
        return []
    typed = text[1:].lower()
    found = [(name, each) for each in COMMANDS for name in each.slash if name.startswith(typed)]
    return [(name, each) for index, (name, each) in enumerate(found) if not index or found[index - 1][1] is not each]


def hint_text(commands: Iterable[Command]) -> str:
    """Return a footer's words, such as `enter send · ctrl+j line`."""
    return " · ".join(f"{first_key(each)} {each.hint}" for each in commands if each.hint and each.bound_keys)


def first_key(each: Command) -> str:
    """Return the first key of a command as a person reads it."""
    keys = each.bound_keys
    return KEY_NAMES.get(keys[0], keys[0]) if keys else ""
