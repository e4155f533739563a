"""All commands of the full screen: those of every front end, and the keys of its panes and dialogs."""

from __future__ import annotations

from dataclasses import replace

from textual.binding import BindingType

from lmtui.commands.command import Command, CommandTable, Scope
from lmtui.commands.table import command_table
from lmtui.tui.key_bindings import PROMPT, bindings_of, commands_in, first_key, hint_text

__all__ = [
    "COMMANDS", "Command", "Scope", "bindings", "choosing", "command", "first_key", "hint_text", "key_of", "of_scope",
]  # fmt: skip

TABLE = CommandTable((
    *command_table().commands,
    *(
        Command(f"layout.{pane}", Scope.WORKBENCH, f"Toggle {pane}", f"Hide or show the {pane}.", is_rare=True)
        for pane in ("files", "plan", "log")
    ),
    *PROMPT,
    *commands_in(Scope.MOVING,
        ("lines.row", "Up or down", "Move up or down.", "up down", "", "focused.move('{up|down}')"),
        ("lines.page", "Page up or down", "Move a page up (in the prompt too) or down.", "pageup pagedown", "",
            "focused.move('{page_up|page_down}')"),
        ("lines.read_on", "Read on", "Move a page down.", "space", "", "focused.move('page_down')"),
        ("lines.edge", "Top or end", "Go to the top, or to the end and follow new output.", "home end", "",
            "focused.move('{home|end}')")),
    *commands_in(Scope.LINES,
        ("lines.select", "Open", "Expand or collapse, or open a folder, file or call.", "enter", "open", "focused.select"),
        ("lines.copy", "Copy", "Copy the item under the cursor.", "y", "copy")),
    *commands_in(Scope.FILES,
        ("files.folder", "Open or close folder", "Open or close the folder.", "right left", "",
            "focused.folder('{open|close}')"),
        ("files.diff", "Diff", "Show how this session changed the file.", "d", "diff", "screen.files_diff"),
        ("files.filter", "Find file", "Type part of a path; enter opens, escape clears.", "slash", "find"),
        ("files.hidden", "Toggle ignored files", "Show or hide the files that ignore rules exclude.", "s",
            "ignored"),
        ("files.mark", "Mention", "Insert the file or folder into the prompt as @path.", "a", "mention"),
        ("files.edit", "Edit", "Open the file in your editor (VISUAL or EDITOR).", "e",
            "edit"), runs="screen.run_command('{id}')"),
    *commands_in(Scope.LOG,
        ("log.filter", "Filter", "Filter the log by words: an agent, a tool, a state, a title.", "slash", "filter"),
        ("log.in_chat", "Show in conversation", "Go to the call in the conversation.", "c",
            "in chat"), runs="screen.run_command('{id}')"),
    *commands_in(Scope.ASKING,
        ("asking.close", "Close", "Clear the text and go back.", "escape", "clear", "give_up"),
        ("asking.row", "Previous or next row", "Go to the previous or next row.", "up down", "", "step({-1|1})")),
    *commands_in(Scope.CHAT,
        ("chat.find_here", "Search", "Search this session, including folded parts.", "slash", "search",
            "screen.run_command('chat.find')"),
        ("chat.turn", "Next or previous turn", "Go to the next or previous turn.", "n N", "", "turn({1|-1})"),
        ("chat.fold", "Fold", "Expand or collapse.", "space", "fold", "select(True)"),
        ("chat.copy_code", "Copy code", "Copy the code block at the cursor; press again for the next one.", "Y", "copy code",
            "screen.run_command('chat.copy_code')")),
    Command("copying.start", Scope.TEXT, "Copy mode", "Select lines with the keys that move, and copy them.", ("v",), "select",
        runs="focused.copying('start')"),
    *commands_in(Scope.COPYING,
        ("copying.copy", "Copy", "Copy the selected lines and leave copy mode.", "y enter", "copy"),
        ("copying.leave", "Leave", "Leave copy mode.", "escape", "leave"), runs="copying('{step}')"),
    *commands_in(Scope.FINDING,
        ("finding.match", "Next or previous match", "Go to the next or previous match.", "n N", "next|previous",
            "finding({1|-1})"),
        ("finding.end", "End search", "End the search and stay here.", "escape", "end", "finding(0)")),
    *commands_in(Scope.SIDE,
        ("side.tab", "Next or previous tab", "Show the changes, the last file or the last call.", "right left", "tabs",
            "next_tab({1|-1})"),
        ("side.changes", "Changes", "Show the changes; again: fill the screen.", "f10", "", "side_tab('Changes')"),
        ("side.step", "Next or previous file or call", "Go to the next or previous file or call.", "tab shift+tab", "next",
            "side_step({1|-1})"),
        ("side.zoom", "Full screen", "Fill the screen, or go back next to the conversation.", "alt+z", "full screen", "zoom")),
    Command("agent.stop", Scope.AGENT, "Stop agent", "Stop this sub-agent and those that it started.", ("x",), "stop"),
    *commands_in(Scope.CHANGES,
        ("changes.open", "Read", "Go from the list to the diff.", "enter", "read"),
        ("changes.hunk", "Next or previous hunk", "Go to the next or previous hunk.", "n N", "next hunk",
            "go_to_hunk({1|-1})")),
    Command("diff.split", Scope.DIFF, "Columns", "Switch between one column and two.", ("u",), "columns", runs="split"),
    *commands_in(Scope.CHANGES,
        ("changes.search", "Search", "Search the diff.", "slash", "search", "changes_ask('search')"),
        ("changes.restore", "Revert hunk or file",
            "Revert the current hunk, or restore the file to its state before the step; asks first.", "r f",
            "revert hunk|revert file", "changes_restore('{hunk|file}')"),
        ("changes.comment", "Comment", "Write about the current hunk; it goes into the prompt.", "c", "comment",
            "changes_ask('comment')")),
    *commands_in(Scope.RESTORE,
        ("restore.yes", "Yes", "Do what is shown.", "y", "undo"),
        ("restore.talk", "Conversation only", "Rewind the conversation and keep the files.", "c", "conversation only"),
        ("restore.look", "Show", "Show all changes of the conflicting file.", "d", "show its changes"),
        ("restore.no", "No", "Change nothing.", "n", "cancel")),
    *commands_in(Scope.VIEWER,
        ("viewer.file", "File below or above", "Show the file below or above in the tree.", "down up", "file",
            "side_step({1|-1}, True)"),
        ("viewer.read", "Read", "Let the arrow keys scroll the text.", "enter", "read", "read_file"),
        ("viewer.search", "Search", "Search the file.", "slash", "search"),
        ("viewer.line", "Go to line", "Go to a line by number.", "l", "line"),
        ("viewer.edit", "Edit", "Open the file in your editor at this line.", "e", "edit"),
        ("viewer.mark", "Mention", "Insert the selected or visible lines into the prompt as @path:10-20.", "a", "mention")),
    *commands_in(Scope.PLAN,
        ("plan.approve", "Approve", "Leave plan mode and carry out the plan.", "y", "approve"),
        ("plan.grant", "Approve and allow", "Review the files and commands that the plan names, allow them and approve.", "a",
            "approve and allow…"),
        ("plan.edit", "Edit", "Edit the plan in your editor (VISUAL or EDITOR).", "e", "edit"),
        ("plan.revise", "Request changes", "Say what should change; the model proposes a new plan.", "f", "request changes…"),
        ("plan.reject", "Reject", "Reject the plan; plan mode stays on.", "n", "reject")),
    *commands_in(Scope.APPROVAL,
        ("approve.once", "Allow once", "Allow it this once.", "y", "allow once"),
        ("approve.try", "Try first",
            "Run the command in an overlay, where it changes nothing; what it did is asked about then.", "t", "try first"),
        ("approve.no", "Deny", "Deny it.", "n", "deny"),
        ("approve.edit", "Edit command", "Edit the command; only the edited text runs.", "e", "edit command"),
        ("approve.anyway", "Allow anyway", "Allow a dangerous command this once.", "Y", "allow anyway")),
    *commands_in(Scope.QUESTION,
        ("question.answer", "Previous or next answer", "Choose the answer on the left or right.", "left right", "",
            "choose_answer({-1|1})"),
        ("question.confirm", "Confirm", "Give the chosen answer.", "enter", "", "confirm_answer"),
        ("question.reply", "Message instead", "Let all questions of the session wait and go to the prompt.", "tab",
            "message instead", "reply"),
        ("question.why", "Why", "Say why it is asked, what the answers mean and which other keys there are.", "question_mark",
            "", "why"),
        ("question.zoom", "Full screen", "Fill the screen with the question, or go back.", "alt+z", "full screen", "zoom"),
        ("question.chat", "Scroll conversation", "Scroll the conversation behind a page up or down.", "pageup pagedown",
            "scroll chat", "page_chat({-1|1})")),
    *commands_in(Scope.HUNKS,
        ("hunks.yes", "Accept", "Accept the selected hunk and go to the next.", "y", "accept"),
        ("hunks.all", "Accept all", "Allow the whole change once.", "Y", "accept all"),
        ("hunks.no", "Reject", "Reject the selected hunk and go to the next.", "n", "reject"),
        ("hunks.none", "Reject all", "Deny the whole change.", "N", "reject all"),
        ("hunks.step", "Next or previous hunk", "Go to the next or previous hunk.",
            "down up", "next hunk", "answer('hunks.{next|previous}')"),
        ("hunks.done", "Apply", "Apply the accepted hunks; undecided hunks are not applied.", "d", "apply")),
    *commands_in(Scope.EFFECT,
        ("effect.apply", "Apply", "Apply what is chosen; files of undecided deletions stay.", "y", "apply"),
        ("effect.no", "Discard all", "Apply nothing.", "n", "discard all")),
    *commands_in(Scope.EFFECTS,
        ("effects.toggle", "Apply or skip",
            "Apply or skip the selected file or hunk; for a deletion: delete, keep the file, or undecided.", "space",
            "apply or skip"),
        ("effects.deletions", "Delete all", "Delete every file that is listed as deleted.", "d", "delete all"),
        ("effects.everything", "Apply everything", "Apply everything, deletions too.", "e", "apply everything"),
        ("effects.hunks", "Hunks", "Go from the list to the diff, or back.", "c", "hunks"),
        ("effects.zoom", "Full screen", "Show only the diff, or the list and the diff.", "alt+z")),
    Command("effect.output", Scope.EFFECT, "Output", "Show what the command printed.", ("v",), "output of the command"),
    *commands_in(Scope.REQUEST,
        ("request.session", "Allow for session", "Allow it now and whenever this session asks for the same.", "s",
            "allow for session"),
        ("request.always", "Always", "Allow it and add a rule; asks which rule and where it applies.", "a", "always…"),
        ("request.because", "Deny with reason", "Deny it and tell the model why.", "f", "deny with reason…"),
        ("request.later", "Later", "Set it aside and look at something else.", "l", "later"),
        ("request.batch", "Review all", "Review all pending approvals of this session and answer them together.", "r",
            "review all…")),
    *commands_in(Scope.EDIT,
        ("edit.send", "Run", "Run this text once.", "enter", "run once"),
        ("edit.newline", "New line", "Insert a new line.", "ctrl+j", "new line"), is_first=True),
    *commands_in(Scope.TRUST,
        ("trust.yes", "Trust", "Trust these from now on.", "t", "trust these"),
        ("trust.no", "Not now", "Continue without them.", "n", "not now"),
        ("trust.reach", "Servers", "Choose where a server runs.", "s", "choose where a server runs…")),
    *commands_in(Scope.PICKER,
        ("picker.open", "Choose", "Choose the selected row.", "enter", "choose", "list_choose"),
        ("picker.row", "Previous or next row", "Select the previous or next row.", "up down", "", "list_move('{up|down}')"),
        ("picker.page", "Page up or down", "Move a page up or down.", "pageup pagedown", "",
            "list_move('{page_up|page_down}')"), is_first=True),
    Command("picker.filter", Scope.PICKER, "Filter", "Filter the list by what you type.", ("slash",), "filter",
        runs="list_filter"),
    Command("list.tab", Scope.PICKER, "Next or previous tab", "Show another tab of a page.", ("right", "left"),
        "tabs", runs="next_tab({1|-1})"),
    *commands_in(Scope.PICKER,
        ("list.yes", "Yes", "Accept, keep or use the selected row.", "y"),
        ("list.yes_all", "Yes to all", "Accept or keep all rows; asks first.", "Y"),
        ("list.no", "No", "Reject or discard the selected row.", "n"),
        ("list.no_all", "No to all", "Reject or discard all rows; asks first.", "N"),
        ("list.add", "Add", "Add a row, or start something new.", "a"),
        ("list.edit", "Edit", "Edit or rename the selected row.", "e"),
        ("list.delete", "Delete", "Delete, remove or revoke the selected row; asks first.", "d"),
        ("list.run", "Run or refresh", "Run the selected row, or run it again; read the list again.", "r"),
        ("list.stop", "Stop or close", "Stop or close the selected row.", "x"),
        ("list.switch", "Switch", "Switch the selected row to its other state: marked, paused, on, pinned.", "space"),
        ("list.output", "Output", "Show what belongs to the selected row: its session or log.", "v"),
        ("list.diff", "Diff", "Show what the selected row changed.", "c"),
        ("list.test", "Test", "Test the selected row.", "t"),
        ("list.load", "Load or list", "Load the selected row, or list others.", "l"), runs="list_do('{step}')"),
    *commands_in(Scope.CONFIRM,
        ("confirm.yes", "Yes", "Do it.", "y", "yes"),
        ("confirm.no", "No", "Change nothing.", "n", "no")),
    Command("help.all", Scope.HELP, "All keys", "Show all keys and commands.", ("tab",), "all keys", is_first=True),
    Command("settings.reset", Scope.SETTINGS, "Reset", "Remove the selected setting from your config.toml.", ("ctrl+r",),
        "reset", is_first=True),
))  # fmt: skip
COMMANDS = TABLE.commands


def command(command_id: str) -> Command:
    """Return a command by its id."""
    return TABLE.by_id(command_id)


def key_of(command_id: str) -> str:
    """Return the first key of a command as a person reads it."""
    return first_key(command(command_id))


def choosing(word: str) -> Command:
    """Return the command that acts on the marked row of a list under the name that it has there."""
    return replace(command("picker.open"), hint=word)


def of_scope(*scopes: str) -> tuple[Command, ...]:
    """Return the commands of some scopes in the table's order."""
    return tuple(each for each in COMMANDS if each.scope in scopes)


def bindings(*scopes: str) -> list[BindingType]:
    """Return the keys of some scopes, the first one's first, for a `BINDINGS` of Textual."""
    return bindings_of(each for scope in scopes for each in of_scope(scope))
