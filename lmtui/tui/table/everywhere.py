"""Commands that apply everywhere in the app or on its main screen."""

from __future__ import annotations

from lmtui.tui.table.command import Command, Scope

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
