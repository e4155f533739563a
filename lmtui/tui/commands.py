"""The one table of commands.  Bindings, palette, slash commands, hints and the help screen are all made from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from textual.binding import Binding, BindingType


class Scope(StrEnum):
    """Where a command applies."""

    APP = "everywhere"
    WORKBENCH = "workbench"
    PROMPT = "prompt"
    MOVING = "moving in a pane"
    LINES = "in a pane"
    FILES = "files"
    APPROVAL = "approval"
    GRANT = "what always means"
    EDIT = "changing a command"
    BATCH = "several approvals"
    RULES = "rules"
    CHANGES = "changes"
    RESTORE = "undo, redo, rewind"
    TRUST = "trust"
    READING = "explanations"
    PICKER = "lists"
    CONFIRM = "questions"
    SWITCHER = "sessions"
    FIRST_RUN = "first run"
    HELP = "help"
    VIEWER = "file and difference"


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that can be done.

    `id` is what a keymap rebinds.  The action method is `action_` and the id with its dot as `_`; commands of the app itself
    (`app.leave`) are found there from every screen.  `keys` are Textual key names.
    `hint` is the word beside the key in a footer; `slash` the names after `/`; `argument` what may follow them.  `runs` names
    an action of the widget in focus.  A command that `is_fixed` keeps its keys whatever a keymap says; one that `is_first` wins
    over the widget that has the focus.
    """

    id: str
    scope: Scope
    title: str
    help: str
    keys: tuple[str, ...] = ()
    hint: str = ""
    slash: tuple[str, ...] = ()
    argument: str = ""
    is_fixed: bool = False
    is_first: bool = False
    runs: str = ""

    @property
    def action(self) -> str:
        """Return Textual's name of the action."""
        if self.runs:
            return self.runs
        return self.id if self.id.startswith("app.") else self.id.replace(".", "_")

    @property
    def key_text(self) -> str:
        """Return the keys as a person reads them."""
        return " ".join(_KEY_NAMES.get(key, key) for key in self.keys)


@dataclass(frozen=True, slots=True)
class SlashCall:
    """A slash command as typed: `command` is None where there is no such command."""

    name: str
    argument: str
    command: Command | None


_KEY_NAMES = {
    "question_mark": "?",
    "slash": "/",
    "right_square_bracket": "]",
    "left_square_bracket": "[",
    "right_curly_bracket": "}",
    "left_curly_bracket": "{",
    "escape": "esc",
    "shift+tab": "shift-tab",
    "pageup": "page up",
    "pagedown": "page down",
}

_A, _W, _P = Scope.APP, Scope.WORKBENCH, Scope.PROMPT
_M, _L, _V = Scope.MOVING, Scope.LINES, Scope.VIEWER

COMMANDS: tuple[Command, ...] = (
    Command(
        "app.palette", _A, "Everything", "Find any command by its name.",
        ("ctrl+p",), "everything", is_fixed=True, is_first=True,
    ),
    Command(
        "app.help", _A, "Keys and commands", "Show every key and command.",
        ("f1", "question_mark"), "keys", ("help",), is_fixed=True,
    ),
    Command("app.stop", _A, "Stop or close", "Interrupt the agent, or close what is open.", ("escape",), "stop", is_fixed=True),
    Command("app.interrupt", _A, "Interrupt", "Interrupt the agent as escape does.", ("ctrl+c",), is_fixed=True),
    Command(
        "app.leave", _A, "Quit", "Leave; asks once when an agent works.", ("ctrl+q",), "quit", ("exit", "quit"),
        is_fixed=True, is_first=True,
    ),
    Command("app.focus_next", _A, "Next pane", "Move to the next pane.", ("tab",), is_fixed=True),
    Command("app.focus_previous", _A, "Previous pane", "Move to the pane before.", ("shift+tab",), is_fixed=True),
    Command("app.theme", _A, "Theme", "Choose the colours.", (), "", ("theme",), "[name]"),
    Command(
        "session.list", _W, "Sessions", "See all sessions, open, search, rename or delete one.",
        ("f2",), "sessions", ("sessions",), is_first=True,
    ),
    Command(
        "session.next_waiting", _W, "Next that waits", "Go to the next session that waits for you.",
        ("f3",), "next waiting", is_first=True,
    ),
    Command(
        "session.new", _W, "New session", "Start afresh; the sessions so far stay in the list.",
        ("f4",), "", ("new", "clear"), is_first=True,
    ),
    Command("session.id", _W, "Session id", "Show the id of this session.", (), "", ("session",)),
    Command("session.rename", _W, "Rename session", "Give this session a title.", (), "", ("rename",), "TITLE"),
    Command("session.status", _W, "Status", "Show folder, model, sandbox, mode and use of the window.", (), "", ("status",)),
    Command(
        "mode.choose", _W, "Permission mode", "How much to ask: manual, normal, auto or plan.",
        ("f5",), "mode", ("mode",), "LEVEL", is_first=True,
    ),
    Command("model.choose", _W, "Model", "Choose the model of this session.", (), "", ("model",), "[name]"),
    Command("pane.files", _W, "Files", "Go to the files of the workspace.", ("f6",), "files", ("files",), is_first=True),
    Command(
        "pane.plan", _W, "Plan and todos", "Go to the plan and the todos.",
        ("f7",), "plan", ("plan", "todo"), is_first=True,
    ),
    Command("pane.log", _W, "Tool log", "Go to the log of tool calls.", ("f8",), "log", ("log",), is_first=True),
    Command("pane.chat", _W, "Chat", "Go to the conversation.", ("f9",), "chat", is_first=True),
    Command(
        "changes.show", _W, "Changes", "Show what this session changed, file by file.",
        ("f10",), "changes", ("changes",), is_first=True,
    ),
    Command(
        "undo.last", _W, "Undo", "Take back what the last steps did to files; shows it first.",
        ("alt+u",), "undo", ("undo",), "[n]", is_first=True,
    ),
    Command(
        "undo.again", _W, "Redo", "Do again what was taken back; shows it first.",
        ("alt+y",), "redo", ("redo",), "[n]", is_first=True,
    ),
    Command(
        "undo.rewind", _W, "Rewind", "Go back to before something you said, with the files or without.",
        ("alt+r",), "rewind", ("rewind",), is_first=True,
    ),
    Command(
        "rules.show", _W, "Permission rules", "See every rule, where it comes from, and revoke one.",
        ("f12",), "rules", ("rules", "permissions"), is_first=True,
    ),
    Command(
        "trust.show", _W, "Trust this folder", "See what the folder brings that waits for your word.",
        ("alt+t",), "trust", ("trust",), is_first=True,
    ),
    Command(
        "prompt.send", _P, "Send", "Send what is typed, or queue it behind the running turn.",
        ("enter",), "send",
    ),
    Command("prompt.newline", _P, "New line", "Begin another line.", ("ctrl+j", "shift+enter"), "line"),
    Command("prompt.complete", _P, "Complete", "Complete the slash command that is begun.", ("tab",)),
    Command(
        "prompt.steer", _P, "Say it now", "Send before the agent's next step instead of after its turn.",
        ("ctrl+s",), "say now",
    ),
    Command(
        "prompt.take_back", _P, "Take back", "Take the last queued text back into the prompt.",
        ("ctrl+r",), "take back",
    ),
    Command("lines.up", _M, "Up", "Move up.", ("up", "k"), runs="focused.cursor_up"),
    Command("lines.down", _M, "Down", "Move down.", ("down", "j"), runs="focused.cursor_down"),
    Command("lines.page_up", _M, "Page up", "Move a page up (in the prompt too).", ("pageup", "b"), runs="focused.page_up"),
    Command("lines.page_down", _M, "Page down", "Move a page down.", ("pagedown", "space"), runs="focused.page_down"),
    Command("lines.home", _M, "Beginning", "Go to the beginning.", ("home", "g"), runs="focused.home"),
    Command("lines.end", _M, "End", "Go to the end and follow it.", ("end", "G"), runs="focused.end"),
    Command(
        "lines.select", _L, "Open", "Fold or unfold, open a folder, show a file or a call.",
        ("enter",), "open", runs="focused.select",
    ),
    Command("lines.copy", _L, "Copy", "Copy what the cursor is on.", ("y",), "copy"),
    Command("chat.next_turn", _L, "Next turn", "Go to what you said next.", ("right_curly_bracket",), runs="focused.next_turn"),
    Command(
        "chat.previous_turn", _L, "Turn before", "Go to what you said before.",
        ("left_curly_bracket",), runs="focused.previous_turn",
    ),
    Command("chat.next_call", _L, "Next call", "Go to the next tool call.", ("c",), runs="focused.next_call"),
    Command("chat.previous_call", _L, "Call before", "Go to the tool call before.", ("C",), runs="focused.previous_call"),
    Command("chat.next_error", _L, "Next failure", "Go to the next failure.", ("e",), runs="focused.next_error"),
    Command("chat.previous_error", _L, "Failure before", "Go to the failure before.", ("E",), runs="focused.previous_error"),
    Command("files.open", Scope.FILES, "Open folder", "Open the folder.", ("right", "l"), runs="focused.expand"),
    Command("files.close", Scope.FILES, "Close folder", "Close the folder.", ("left", "h"), runs="focused.collapse"),
    Command("files.diff", Scope.FILES, "Difference", "Show how the session changed this file.", ("d",), "diff"),
    Command("approve.once", Scope.APPROVAL, "Once", "Let it run this once.", ("y",), "once"),
    Command(
        "approve.session", Scope.APPROVAL, "This session", "Let it run now and whenever this session asks the same.",
        ("s",), "this session",
    ),
    Command(
        "approve.always", Scope.APPROVAL, "Always", "Let it run and keep a rule; asks which one and how far it reaches.",
        ("a",), "always…",
    ),
    Command("approve.no", Scope.APPROVAL, "No", "Refuse it.", ("n",), "no"),
    Command("approve.because", Scope.APPROVAL, "No, because", "Refuse it and tell the model why.", ("f",), "no, because…"),
    Command("approve.edit", Scope.APPROVAL, "Edit", "Change the command; only what you leave there runs.", ("e",), "edit"),
    Command(
        "approve.why", Scope.APPROVAL, "Why", "Say why it asks and what each answer would grant.",
        ("question_mark",), "why",
    ),
    Command(
        "approve.all", Scope.APPROVAL, "All of them", "Read everything that waits in this session and answer it at once.",
        ("Y",), "all that wait…",
    ),
    Command("approve.later", Scope.APPROVAL, "Later", "Leave it waiting and look at something else.", ("l",), "later"),
    Command("grant.choose", Scope.GRANT, "Grant", "Let it run and keep the marked rule.", ("enter",), "grant", is_first=True),
    Command("edit.send", Scope.EDIT, "Run", "Run what stands there, this once.", ("enter",), "run this once", is_first=True),
    Command("edit.newline", Scope.EDIT, "New line", "Begin another line.", ("ctrl+j",), "line", is_first=True),
    Command("batch.once", Scope.BATCH, "All once", "Let all that is listed run this once.", ("y",), "yes to all, once"),
    Command("batch.no", Scope.BATCH, "None", "Refuse all that is listed.", ("n",), "no to all"),
    Command("reading.close", Scope.READING, "Back", "Go back to the question.", ("question_mark", "enter"), "back"),
    Command("rules.revoke", Scope.RULES, "Revoke", "Take the marked rule back, after asking.", ("d",), "revoke"),
    Command("changes.open", Scope.CHANGES, "Read", "Go from the list to the difference.", ("enter",), "read"),
    Command("changes.next", Scope.CHANGES, "Next", "Go to the next line of the list.", ("n",), "next"),
    Command("changes.previous", Scope.CHANGES, "Before", "Go to the line before.", ("p",), "before"),
    Command(
        "changes.next_hunk", Scope.CHANGES, "Next hunk", "Go to the next change.",
        ("right_square_bracket",), "next hunk",
    ),
    Command("changes.previous_hunk", Scope.CHANGES, "Hunk before", "Go to the change before.", ("left_square_bracket",)),
    Command("changes.split", Scope.CHANGES, "Side by side", "Side by side, or one column.", ("u",), "side by side"),
    Command("changes.by_file", Scope.CHANGES, "By file", "List by file or by step.", ("f",), "by file / step"),
    Command(
        "changes.restore", Scope.CHANGES, "Put file back", "Put the file back to what it was before the step; asks first.",
        ("r",), "put file back",
    ),
    Command(
        "changes.restore_hunk", Scope.CHANGES, "Put hunk back", "Take only the change in view back; asks first.",
        ("h",), "put hunk back",
    ),
    Command("restore.yes", Scope.RESTORE, "Yes", "Do what is shown.", ("y",), "yes, do this"),
    Command(
        "restore.talk", Scope.RESTORE, "Conversation only", "Rewind the conversation and leave the files as they are.",
        ("c",), "conversation only",
    ),
    Command("restore.no", Scope.RESTORE, "No", "Leave everything as it is.", ("n",), "no"),
    Command("trust.yes", Scope.TRUST, "Trust", "Let these hold for sessions opened from now on.", ("t",), "trust these"),
    Command("trust.no", Scope.TRUST, "Not now", "Go on without them.", ("n",), "not now"),
    Command("trust.look", Scope.TRUST, "Look", "Show a file that they come from.", ("v",), "look at the file"),
    Command("picker.open", Scope.PICKER, "Choose", "Choose the marked line.", ("enter",), "choose", is_first=True),
    Command("picker.up", Scope.PICKER, "Line before", "Mark the line before.", ("up",), is_first=True),
    Command("picker.down", Scope.PICKER, "Next line", "Mark the next line.", ("down",), is_first=True),
    Command("confirm.yes", Scope.CONFIRM, "Yes", "Do it.", ("y",), "yes"),
    Command("confirm.no", Scope.CONFIRM, "No", "Leave everything as it is.", ("n",), "no"),
    Command("sessions.open", Scope.SWITCHER, "Open", "Open the marked session.", ("enter",), "open"),
    Command("sessions.new", Scope.SWITCHER, "New", "Start a new session.", ("n",), "new"),
    Command("sessions.rename", Scope.SWITCHER, "Rename", "Give the marked session a title.", ("r",), "rename"),
    Command("sessions.delete", Scope.SWITCHER, "Delete", "Delete the marked session, after asking.", ("d",), "delete"),
    Command("sessions.search", Scope.SWITCHER, "Search", "Search in everything that was said.", ("slash",), "search"),
    Command("first.start", Scope.FIRST_RUN, "Start", "Use the marked line.", ("enter",), "start"),
    Command("first.trust", Scope.FIRST_RUN, "Look", "See what the folder brings that waits for your word.", ("t",), "look"),
    Command("first.again", Scope.FIRST_RUN, "Look again", "Look for servers again.", ("r",), "look again"),
    Command(
        "viewer.next_hunk", _V, "Next hunk", "Go to the next change.",
        ("right_square_bracket",), "next change", runs="focused.next_hunk",
    ),
    Command(
        "viewer.previous_hunk", _V, "Hunk before", "Go to the change before.",
        ("left_square_bracket",), runs="focused.previous_hunk",
    ),
    Command(
        "viewer.split", _V, "Side by side", "Side by side, or one column.",
        ("u",), "side by side", runs="focused.toggle_split",
    ),
    Command("viewer.next", _V, "Next file", "Show the next changed file.", ("n",), "next file"),
    Command("viewer.previous", _V, "File before", "Show the changed file before.", ("p",), "file before"),
    Command("viewer.left", _V, "Left", "Scroll long lines.", ("left",), runs="focused.scroll_aside_left"),
    Command("viewer.right", _V, "Right", "Scroll long lines.", ("right",), runs="focused.scroll_aside_right"),
)  # fmt: skip

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


def rebindable(keymap: dict[str, str]) -> dict[str, str]:
    """Return the part of a keymap (id to keys) that may be applied: known commands whose keys are not fixed."""
    return {name: keys for name, keys in keymap.items() if name in _BY_ID and not _BY_ID[name].is_fixed}


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
    return " · ".join(f"{first_key(each)} {each.hint}" for each in commands if each.hint and each.keys)


def first_key(each: Command) -> str:
    """Return the first key of a command as a person reads it."""
    return _KEY_NAMES.get(each.keys[0], each.keys[0]) if each.keys else ""
