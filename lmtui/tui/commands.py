"""All commands of the full screen: those of every front end, and the keys of its panes and dialogs."""

from __future__ import annotations

from dataclasses import replace

from textual.binding import BindingType

from lmtui.commands.command import Command, CommandTable, Scope
from lmtui.commands.table import command_table
from lmtui.tui.key_bindings import PROMPT, bindings_of, first_key, hint_text

__all__ = [
    "COMMANDS", "Command", "Scope", "bindings", "choosing", "closing", "command", "first_key", "hint_text", "key_of",
    "of_scope",
]  # fmt: skip

QUESTIONS: tuple[Command, ...] = (
    Command("question.left", Scope.QUESTION, "Previous answer", "Choose the answer on the left.", ("left",),
        runs="choose_answer(-1)"),
    Command("question.right", Scope.QUESTION, "Next answer", "Choose the answer on the right.", ("right",),
        runs="choose_answer(1)"),
    Command("question.confirm", Scope.QUESTION, "Confirm", "Give the chosen answer.", ("enter",), runs="confirm_answer"),
    Command("question.reply", Scope.QUESTION, "Reply instead", "Set the question aside and go to the prompt.", ("tab",),
        "reply instead", runs="reply"),
    Command("question.zoom", Scope.QUESTION, "Full screen", "Fill the screen with the question, or go back.", ("alt+z",),
        "full screen", runs="zoom"),
    Command("question.chat_up", Scope.QUESTION, "Scroll conversation up", "Scroll the conversation behind a page up.",
        ("pageup",), runs="page_chat(-1)"),
    Command("question.chat_down", Scope.QUESTION, "Scroll conversation down", "Scroll the conversation behind a page down.",
        ("pagedown",), runs="page_chat(1)"),
)  # fmt: skip


def _both_ways(
    name: str, scope: str, what: str, keys: tuple[str, str], runs: str, *, hints: tuple[str, str] = ("", "")
) -> tuple[Command, ...]:
    """Return the keys that go to the next and to the previous of something; `{}` in `name` is the way, in `runs` the step."""
    return tuple(
        Command(name.format(way), scope, f"{way.capitalize()} {what}", f"Go to the {way} {what}.", (key,), hint,
            runs=runs.format(step))
        for way, step, key, hint in zip(("next", "previous"), (1, -1), keys, hints, strict=True)
    )  # fmt: skip


def _moves(
    name: str, scope: str, runs: str, *steps: tuple[str, tuple[str, ...], str, str], is_first: bool = False
) -> tuple[Command, ...]:
    """Return the keys that move in something."""
    return tuple(
        Command(f"{name}.{step}", scope, title, text, keys, is_first=is_first, runs=f"{runs}('{step}')")
        for step, keys, title, text in steps
    )


REQUESTS: tuple[Command, ...] = (
    Command("request.session", Scope.REQUEST, "Allow for session", "Allow it now and whenever this session asks for the same.",
        ("s",), "allow for session"),
    Command("request.always", Scope.REQUEST, "Always", "Allow it and add a rule; asks which rule and where it applies.",
        ("a",), "always…"),
    Command("request.because", Scope.REQUEST, "Deny with reason", "Deny it and tell the model why.", ("f",),
        "deny with reason…"),
    Command("request.split", Scope.REQUEST, "Columns", "Switch between one column and two.", ("u",), "two columns"),
    Command("request.later", Scope.REQUEST, "Later", "Set it aside and look at something else.", ("l",), "later"),
    Command("request.why", Scope.REQUEST, "Why", "Explain why this needs approval and what each answer allows.",
        ("question_mark",), "why am I asked"),
    Command("request.batch", Scope.REQUEST, "Review all",
        "Review all pending approvals of this session and answer them together.", ("b",), "review all…"),
    Command("request.mode", Scope.REQUEST, "Mode", "Explain why the mode cannot change during an approval.", ("shift+tab",)),
)  # fmt: skip


HUNKS: tuple[Command, ...] = (
    Command("hunks.yes", Scope.HUNKS, "Accept", "Accept the selected hunk and go to the next.", ("y",), "accept"),
    Command("hunks.all", Scope.HUNKS, "Accept all", "Allow the whole change once.", ("Y",), "accept all"),
    Command("hunks.no", Scope.HUNKS, "Reject", "Reject the selected hunk and go to the next.", ("n",), "reject"),
    Command("hunks.none", Scope.HUNKS, "Reject all", "Deny the whole change.", ("N",), "reject all"),
    Command("hunks.next", Scope.HUNKS, "Next hunk", "Go to the next hunk.", ("down", "right_square_bracket")),
    Command("hunks.previous", Scope.HUNKS, "Previous hunk", "Go to the previous hunk.", ("up", "left_square_bracket")),
    Command("hunks.done", Scope.HUNKS, "Apply", "Apply the accepted hunks; undecided hunks are not applied.", (), "apply"),
)  # fmt: skip


def _of_effects(name: str, scope: Scope) -> tuple[Command, ...]:
    """Return the keys of a page of effects."""

    def one(step: str, title: str, text: str, key: str, hint: str = "") -> Command:
        runs = f"{name}('{step}')" if scope is Scope.REVIEW else ""
        return Command(f"{name}.{step}", scope, title, text, (key,), hint, runs=runs)

    return (
        one("toggle", "Apply or skip", "Apply or skip the selected file or hunk; for a deletion: delete, keep the file, or "
            "undecided.", "space", "apply or skip"),
        one("deletions", "Delete all", "Delete every file that is listed as deleted.", "D", "delete all"),
        one("everything", "Apply everything", "Apply everything, deletions too.", "A", "apply everything"),
        one("next", "Next hunk", "Go to the next hunk in the diff.", "right_square_bracket", "hunk"),
        one("previous", "Previous hunk", "Go to the previous hunk; from the first, back to the list.",
            "left_square_bracket"),
        one("zoom", "Full screen", "Show only the diff, or the list and the diff.", "alt+z"),
    )  # fmt: skip


EFFECTS: tuple[Command, ...] = (
    Command("effect.apply", Scope.EFFECT, "Apply", "Apply what is chosen; files of undecided deletions stay.", ("y",), "apply"),
    Command("effect.no", Scope.EFFECT, "Discard all", "Apply nothing.", ("n",), "discard all"),
    *_of_effects("effect", Scope.EFFECT),
    Command("effect.output", Scope.EFFECT, "Output", "Show what the command printed.", ("o",), "output of the command"),
    Command("review.keep", Scope.REVIEW, "Apply", "Apply what is chosen; the rest stays in the overlay.", ("y",), "apply",
        runs="review('keep')"),
    Command("review.drop", Scope.REVIEW, "Discard all", "Drop everything that is left in the overlay; asks first.", ("n",),
        "discard all", runs="review('drop')"),
    Command("review.switch", Scope.REVIEW, "Other pane", "Go from the list to the diff, or back.", ("tab", "enter"), "diff",
        runs="review('switch')"),
    *_of_effects("review", Scope.REVIEW),
    Command("review.split", Scope.REVIEW, "Columns", "Switch between one column and two.", ("u",), "two columns",
        runs="review('split')"),
    Command("review.refresh", Scope.REVIEW, "Refresh", "Reload the changes.", ("r",), "refresh",
        runs="review('refresh')"),
)  # fmt: skip


READING: tuple[Command, ...] = (
    Command("reading.close", Scope.READING, "Back", "Go back to the question.", ("question_mark", "enter"), "back",
        runs="close_or_stop"),
    Command("side.changes", Scope.SIDE, "Changes", "Show the changes; again: fill the screen with them.", ("1", "f10"),
        runs="side_tab('Changes')"),
    Command("side.file", Scope.SIDE, "File", "Show the last file.", ("2",), runs="side_tab('File')"),
    Command("side.output", Scope.SIDE, "Output", "Show the last call.", ("3",), runs="side_tab('Output')"),
    *_both_ways("side.{}", Scope.SIDE, "file or call", ("tab", "shift+tab"), "side_step({})", hints=("next", "")),
    Command("side.zoom", Scope.SIDE, "Full screen", "Fill the screen, or go back next to the conversation.",
        ("alt+z",), "full screen", runs="zoom"),
    Command("agent.stop", Scope.AGENT, "Stop agent", "Stop this sub-agent and those that it started.", ("x",), "stop"),
    Command("changes.open", Scope.CHANGES, "Read", "Go from the list to the diff.", ("enter",), "read"),
    Command("changes.steps", Scope.CHANGES, "By step", "Show what each step changed.", ("1",), "steps",
        runs="changes_view('steps')"),
    Command("changes.turns", Scope.CHANGES, "By turn", "Show what each turn changed.", ("2",), "turns",
        runs="changes_view('turns')"),
    Command("changes.session", Scope.CHANGES, "Whole session", "Show all changes of the session.", ("3",), "session",
        runs="changes_view('session')"),
    Command("changes.git", Scope.CHANGES, "Compare with git",
        "Show the difference from the last commit, including untracked files.", ("4",), "git", runs="changes_view('git')"),
    *_both_ways("changes.{}", Scope.CHANGES, "row", ("n", "p"), "changes_go('row', {})"),
    *_both_ways("changes.{}_hunk", Scope.CHANGES, "hunk", ("right_square_bracket", "left_square_bracket"),
        "changes_go('hunk', {})", hints=("next hunk", "")),
    Command("changes.split", Scope.CHANGES, "Side by side", "Toggle side-by-side view.", ("u",), "side by side"),
    Command("changes.fold", Scope.CHANGES, "Unchanged lines", "Show or hide unchanged lines.", ("o",), "unchanged lines"),
    Command("changes.search", Scope.CHANGES, "Search", "Search the diff.", ("slash",), "search",
        runs="changes_ask('search')"),
    *_both_ways("changes.{}_match", Scope.CHANGES, "match", ("m", "M"), "changes_go('match', {})"),
    Command("changes.restore_hunk", Scope.CHANGES, "Revert hunk", "Revert only the current hunk; asks first.", ("r",),
        "revert hunk", runs="changes_restore('hunk')"),
    Command("changes.restore", Scope.CHANGES, "Revert file", "Restore the file to its state before the step; asks first.",
        ("R",), "revert file", runs="changes_restore('file')"),
    Command("changes.comment", Scope.CHANGES, "Comment", "Write about the current hunk; it goes into the prompt.", ("c",),
        "comment", runs="changes_ask('comment')"),
    Command("restore.yes", Scope.RESTORE, "Yes", "Apply the preview.", ("y",), "apply"),
    Command("restore.talk", Scope.RESTORE, "Conversation only", "Rewind the conversation and keep the files.", ("c",),
        "conversation only"),
    Command("restore.look", Scope.RESTORE, "Show", "Show all changes of the conflicting file.", ("d",), "show its changes"),
    Command("restore.no", Scope.RESTORE, "No", "Change nothing.", ("n",), "cancel"),
    Command("viewer.above", Scope.VIEWER, "File above", "Show the file above in the tree.", ("up",),
        runs="side_step(-1, True)"),
    Command("viewer.below", Scope.VIEWER, "File below", "Show the file below in the tree.", ("down",), "file",
        runs="side_step(1, True)"),
    Command("viewer.read", Scope.VIEWER, "Read", "Let the arrow keys scroll the text.", ("enter",), "read", runs="read_file"),
    Command("viewer.search", Scope.VIEWER, "Search", "Search the file.", ("slash",), "search"),
    *_both_ways("viewer.{}", Scope.VIEWER, "match", ("n", "N"), "viewer_step({})", hints=("next", "")),
    Command("viewer.line", Scope.VIEWER, "Go to line", "Go to a line by number.", ("colon",), "line"),
    Command("viewer.edit", Scope.VIEWER, "Edit", "Open the file in your editor at this line.", ("e",), "edit"),
    Command("viewer.mark", Scope.VIEWER, "Mention", "Insert the selected or visible lines into the prompt as @path:10-20.",
        ("m",), "mention"),
    Command("viewer.wrap", Scope.VIEWER, "Wrap", "Wrap or truncate long lines.", ("w",), "wrap", runs="focused.toggle_wrap"),
    Command("viewer.copy", Scope.VIEWER, "Copy line", "Copy the line.", ("y",)),
    Command("viewer.left", Scope.VIEWER, "Left", "Scroll left.", ("left",), runs="focused.scroll_aside('left')"),
    Command("viewer.right", Scope.VIEWER, "Right", "Scroll right.", ("right",), runs="focused.scroll_aside('right')"),
)  # fmt: skip


PANES: tuple[Command, ...] = (
    *_moves("lines", Scope.MOVING, "focused.move",
        ("up", ("up", "k"), "Up", "Move up."),
        ("down", ("down", "j"), "Down", "Move down."),
        ("page_up", ("pageup", "b"), "Page up", "Move a page up (in the prompt too)."),
        ("page_down", ("pagedown", "space"), "Page down", "Move a page down."),
        ("home", ("home", "g"), "Top", "Go to the top."),
        ("end", ("end", "G"), "End", "Go to the end and follow new output.")),
    Command("lines.select", Scope.LINES, "Open", "Expand or collapse, or open a folder, file or call.", ("enter",), "open",
        runs="focused.select"),
    Command("lines.copy", Scope.LINES, "Copy", "Copy the item under the cursor.", ("y",), "copy"),
    *_both_ways("chat.{}_turn", Scope.LINES, "turn", ("right_curly_bracket", "left_curly_bracket"),
        "focused.jump('turn', {})"),
    *_both_ways("chat.{}_call", Scope.LINES, "tool call", ("c", "C"), "focused.jump('call', {})"),
    *_both_ways("chat.{}_error", Scope.LINES, "failure", ("e", "E"), "focused.jump('error', {})"),
    Command("files.open", Scope.FILES, "Open folder", "Open the folder.", ("right", "l"), runs="focused.folder('open')"),
    Command("files.close", Scope.FILES, "Close folder", "Close the folder.", ("left", "h"), runs="focused.folder('close')"),
    Command("files.diff", Scope.FILES, "Diff", "Show how this session changed the file.", ("d",), "diff",
        runs="screen.files_diff"),
    Command("files.filter", Scope.FILES, "Find file", "Type part of a path; enter opens, escape clears.", ("slash",), "find",
        runs="screen.run_command('files.filter')"),
    Command("files.hidden", Scope.FILES, "Toggle ignored files", "Show or hide the files that ignore rules exclude.",
        ("full_stop", "alt+h"), "ignored", runs="screen.run_command('files.hidden')"),
    Command("files.mark", Scope.FILES, "Mention", "Insert the file or folder into the prompt as @path.", ("m",), "mention",
        runs="screen.run_command('files.mark')"),
    Command("files.edit", Scope.FILES, "Edit", "Open the file in your editor (VISUAL or EDITOR).", ("e",), "edit",
        runs="screen.run_command('files.edit')"),
    Command("log.filter", Scope.LOG, "Filter", "Filter the log: text, tool:shell, agent:root, state:failed.", ("slash",),
        "filter", runs="screen.run_command('log.filter')"),
    Command("log.in_chat", Scope.LOG, "Show in conversation", "Go to the call in the conversation.", ("c",), "in chat",
        runs="screen.run_command('log.in_chat')"),
    Command("asking.close", Scope.ASKING, "Close", "Clear the text and go back.", ("escape",), "clear", runs="give_up"),
    Command("asking.up", Scope.ASKING, "Previous row", "Go to the previous row.", ("up",), runs="step(-1)"),
    Command("asking.down", Scope.ASKING, "Next row", "Go to the next row.", ("down",), runs="step(1)"),
)  # fmt: skip


def _step(name: str, title: str, text: str, *keys: str, hint: str = "") -> Command:
    return Command(f"copying.{name}", Scope.COPYING, title, text, keys, hint, runs=f"copying('{name}')")


CHAT: tuple[Command, ...] = (
    Command("chat.find_here", Scope.CHAT, "Search", "Search this session, including folded parts.", ("slash",), "search",
        runs="screen.run_command('chat.find')"),
    Command("chat.fold", Scope.CHAT, "Fold", "Expand or collapse.", ("space",), "fold", runs="select(True)"),
    Command("chat.copy_code", Scope.CHAT, "Copy code", "Copy the code block at the cursor; press again for the next one.",
        ("Y",), "copy code", runs="screen.run_command('chat.copy_code')"),
    *_both_ways("chat.{}_change", Scope.CHAT, "file change", ("f", "F"), "jump('change', {})"),
    Command("copying.start", Scope.LINES, "Copy mode", "Move a cursor to select and copy text.", ("v",), "select",
        runs="focused.copying('start')"),
    Command("changes.select", Scope.CHANGES, "Copy mode", "Select and copy text.", ("v",), runs="focused.copying('start')"),
    Command("viewer.select", Scope.VIEWER, "Copy mode", "Select and copy text.", ("v",), runs="focused.copying('start')"),
    _step("left", "Left", "Move the cursor left.", "left", "h"),
    _step("right", "Right", "Move the cursor right.", "right", "l"),
    _step("up", "Up", "Move the cursor up.", "up", "k"),
    _step("down", "Down", "Move the cursor down.", "down", "j"),
    _step("word", "Next word", "Go to the next word.", "w"),
    _step("word_back", "Previous word", "Go to the previous word.", "b"),
    _step("line_start", "Line start", "Go to the start of the line.", "0", "home"),
    _step("line_end", "Line end", "Go to the end of the line.", "dollar_sign", "end"),
    _step("page_up", "Page up", "Move a page up.", "pageup"),
    _step("page_down", "Page down", "Move a page down.", "pagedown", "space"),
    _step("first", "First line", "Go to the first line.", "g"),
    _step("last", "Last line", "Go to the last line.", "G"),
    _step("mark", "Select", "Start a selection here, or clear it.", "v", hint="mark"),
    _step("lines", "Select lines", "Select whole lines from here.", "V", hint="lines"),
    _step("copy", "Copy", "Copy the selection, or this line, and leave copy mode.", "y", "enter", hint="copy"),
    _step("leave", "Leave", "Leave copy mode.", "escape", hint="leave"),
    *_both_ways("finding.{}", Scope.FINDING, "match", ("n", "N"), "finding({})", hints=("next", "previous")),
    Command("finding.end", Scope.FINDING, "End search", "End the search and stay here.", ("escape",), "end",
        runs="finding(0)"),
)  # fmt: skip


DIALOGS: tuple[Command, ...] = (
    Command("approve.once", Scope.APPROVAL, "Allow once", "Allow it this once.", ("y",), "allow once"),
    Command("approve.try", Scope.APPROVAL, "Try first",
        "Run the command in an overlay, where it changes nothing; what it did is asked about then.", ("t",), "try first"),
    Command("approve.no", Scope.APPROVAL, "Deny", "Deny it.", ("n",), "deny"),
    Command("approve.edit", Scope.APPROVAL, "Edit command", "Edit the command; only the edited text runs.", ("e",),
        "edit command"),
    Command("approve.anyway", Scope.APPROVAL, "Allow anyway", "Allow a dangerous command this once.", ("Y",),
        "allow anyway"),
    *QUESTIONS,
    *HUNKS,
    *EFFECTS,
    *REQUESTS,
    Command("edit.send", Scope.EDIT, "Run", "Run this text once.", ("enter",), "run once", is_first=True),
    Command("edit.newline", Scope.EDIT, "New line", "Insert a new line.", ("ctrl+j",), "new line", is_first=True),
    Command("batch.once", Scope.BATCH, "Allow all", "Allow everything in the list once.", ("y",), "allow all once"),
    Command("batch.no", Scope.BATCH, "Deny all", "Deny everything in the list.", ("n",), "deny all"),
    Command("rules.revoke", Scope.RULES, "Revoke", "Revoke the selected rule; asks first.", ("d",), "revoke"),
    Command("trust.yes", Scope.TRUST, "Trust", "Trust these from now on.", ("t",), "trust these"),
    Command("trust.no", Scope.TRUST, "Not now", "Continue without them.", ("n",), "not now"),
    Command("trust.reach", Scope.TRUST, "Servers", "Choose where a server runs.", ("s",), "choose where a server runs…"),
    Command("trust.look", Scope.TRUST, "Show file", "Show a file that they come from.", ("v",), "show the file"),
    Command("trust.list", Scope.TRUST, "Trusted", "Show what is trusted in this folder.", ("l",), "show trusted"),
    Command("trusted.revoke", Scope.TRUSTED, "Revoke", "Revoke all trust in this folder; asks first.", ("d",), "revoke"),
    Command("picker.open", Scope.PICKER, "Choose", "Choose the selected row.", ("enter",), "choose", is_first=True,
        runs="list_choose"),
    *_moves("picker", Scope.PICKER, "list_move",
        ("up", ("up",), "Previous row", "Select the previous row."),
        ("down", ("down",), "Next row", "Select the next row."),
        ("page_up", ("pageup",), "Page up", "Move a page up."),
        ("page_down", ("pagedown",), "Page down", "Move a page down."), is_first=True),
    Command("picker.filter", Scope.PICKER, "Filter", "Filter the list by what you type.", ("slash",), "filter",
        runs="list_filter"),
    Command("confirm.yes", Scope.CONFIRM, "Yes", "Do it.", ("y",), "yes"),
    Command("confirm.no", Scope.CONFIRM, "No", "Change nothing.", ("n",), "no"),
    Command("first.start", Scope.FIRST_RUN, "Start", "Use the selected model.", ("enter",), "start", runs="focused.select"),
    Command("first.trust", Scope.FIRST_RUN, "Review", "Review what this folder wants to enable.", ("t",), "review"),
    Command("first.again", Scope.FIRST_RUN, "Refresh", "Search for servers again.", ("r",), "refresh"),
    Command("settings.reset", Scope.SETTINGS, "Reset", "Remove the selected setting from your config.toml.", ("delete",),
        "reset", is_first=True),
)  # fmt: skip


LAYOUT: tuple[Command, ...] = (
    Command("layout.files", Scope.WORKBENCH, "Toggle files", "Hide or show the files (on a wide screen).", is_first=True),
    Command("layout.plan", Scope.WORKBENCH, "Toggle plan", "Hide or show the plan (on a wide screen).", is_first=True),
    Command("layout.log", Scope.WORKBENCH, "Toggle log", "Hide or show the log (on a wide screen).", is_first=True),
    Command("layout.wider", Scope.WORKBENCH, "Widen column",
        "Make the focused column wider (from the conversation: the files).", ("alt+full_stop",), is_first=True),
    Command("layout.narrower", Scope.WORKBENCH, "Narrow column", "Make the focused column narrower.", ("alt+comma",),
        is_first=True),
    Command("layout.taller", Scope.WORKBENCH, "Make plan taller", "Give the plan more height, or the log while it is focused.",
        ("alt+equals_sign",), is_first=True),
    Command("layout.lower", Scope.WORKBENCH, "Make plan shorter", "Give the plan less height, or the log while it is focused.",
        ("alt+minus",), is_first=True),
    Command("layout.reset", Scope.WORKBENCH, "Reset layout", "Show all panes at their default sizes."),
)  # fmt: skip


def _session_row(name: str, title: str, text: str, key: str) -> Command:
    return Command(f"sessions.{name}", Scope.SWITCHER, title, text, (key,), name, runs=f"change_session('{name}')")


SESSIONS: tuple[Command, ...] = (
    Command("sessions.new", Scope.SWITCHER, "New", "Start a new session.", ("n",), "new"),
    _session_row("fork", "Fork", "Copy the selected session; no file changes.", "f"),
    _session_row("rename", "Rename", "Rename the selected session.", "r"),
    _session_row("mark", "Mark", "Mark or unmark the selected session in lists.", "m"),
    _session_row("close", "Close", "Close the selected session; it stays in the list.", "c"),
    _session_row("delete", "Delete", "Delete the selected session; asks first.", "d"),
    _session_row("export", "Export", "Write the selected session to a file.", "x"),
)  # fmt: skip


MODELS: tuple[Command, ...] = (
    Command("models.load", Scope.MODELS, "Load", "Load the selected model, with a context size of your choice.", ("l",),
        "load"),
    Command("models.unload", Scope.MODELS, "Unload", "Unload the selected model, or cancel its loading or test.", ("u",),
        "unload"),
    Command("models.role", Scope.MODELS, "Role", "Give the selected model a role, such as planner or reviewer.",
        ("o",), "role"),
    Command("models.exam", Scope.MODELS, "Test",
        "Find out in about ten seconds how the selected model calls tools.", ("t",), "test"),
    Command("models.add", Scope.MODELS, "Add a server", "Add a server by its address; it is checked first.", ("a",),
        "add a server"),
    Command("models.again", Scope.MODELS, "Refresh", "Search for servers again.", ("r",), "refresh"),
)  # fmt: skip


PLANNING: tuple[Command, ...] = (
    Command("plan.approve", Scope.PLAN, "Approve", "Leave plan mode and carry out the plan.", ("y",), "approve"),
    Command("plan.grant", Scope.PLAN, "Approve and allow",
        "Review the files and commands that the plan names, allow them and approve.", ("g",), "approve and allow…"),
    Command("plan.edit", Scope.PLAN, "Edit", "Edit the plan in your editor (VISUAL or EDITOR).", ("e",), "edit"),
    Command("plan.revise", Scope.PLAN, "Request changes", "Say what should change; the model proposes a new plan.", ("f",),
        "request changes…"),
    Command("plan.reject", Scope.PLAN, "Reject", "Reject the plan; plan mode stays on.", ("n",), "reject"),
    Command("grants.yes", Scope.PLAN_GRANTS, "Allow and approve", "Add these rules for this session and carry out the plan.",
        ("y",), "allow these and approve"),
    Command("grants.no", Scope.PLAN_GRANTS, "Back", "Go back to the plan without allowing anything.", ("n",), "back"),
)  # fmt: skip


WINDOW: tuple[Command, ...] = tuple(
    Command(f"window.{step}", Scope.CONTEXT, title, text, (key,), title.lower(), runs=f"window('{step}')")
    for step, title, text, key in (
        ("fold", "Fold", "Send only the beginning of the selected result.", "f"),
        ("leave_out", "Leave out", "Send one line in its place.", "d"),
        ("back", "Restore", "Send the whole result again.", "b"),
        ("pin", "Pin", "Pin or unpin; a pinned result is never compacted.", "p"),
    )
)  # fmt: skip


TABLE = CommandTable((
    *(*command_table().commands, *LAYOUT, *WINDOW, *PROMPT, *PANES, *CHAT, *READING, *PLANNING, *SESSIONS),
    *(*MODELS, *DIALOGS),
))  # fmt: skip
COMMANDS = TABLE.commands


def command(command_id: str) -> Command:
    """Return a command by its id."""
    return TABLE.by_id(command_id)


def key_of(command_id: str) -> str:
    """Return the first key of a command as a person reads it."""
    return first_key(command(command_id))


def closing(word: str = "close") -> Command:
    """Return the command behind escape under the name that it has on a screen."""
    return replace(command("app.stop"), hint=word)


def choosing(word: str) -> Command:
    """Return the command that acts on the marked row of a list under the name that it has there."""
    return replace(command("picker.open"), hint=word)


def of_scope(*scopes: str) -> tuple[Command, ...]:
    """Return the commands of some scopes in the table's order."""
    return tuple(each for each in COMMANDS if each.scope in scopes)


def bindings(scope: str) -> list[BindingType]:
    """Return a scope's keys for a `BINDINGS` of Textual."""
    return bindings_of(of_scope(scope))
