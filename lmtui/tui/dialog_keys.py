"""Keys of panes, questions, lists and other dialogs: commands that have no name and that only the full screen has."""

from __future__ import annotations

from lmtui.commands.command import Command, Scope

HUNKS: tuple[Command, ...] = (
    Command("hunks.yes", Scope.HUNKS, "This hunk", "Accept the hunk that is marked and go to the next.", ("y",), "this hunk"),
    Command("hunks.all", Scope.HUNKS, "All", "Let the whole change happen this once.", ("Y",), "all", runs="approve_once"),
    Command("hunks.no", Scope.HUNKS, "Not this", "Reject the hunk that is marked and go to the next.", ("n",), "not this"),
    Command("hunks.none", Scope.HUNKS, "None", "Refuse the whole change.", ("N",), "none", runs="approve_no"),
    Command(
        "hunks.because", Scope.HUNKS, "No, because", "Refuse the whole change and tell the model why.", ("f",), "no, because…",
        runs="approve_because",
    ),
    Command("hunks.next", Scope.HUNKS, "Next hunk", "Go to the next hunk.", ("right_square_bracket",), "next hunk"),
    Command(
        "hunks.mode", Scope.HUNKS, "Mode", "Say why the mode stays as it is while this is asked.", ("shift+tab",),
        runs="approve_mode",
    ),
    Command("hunks.previous", Scope.HUNKS, "Hunk before", "Go to the hunk before.", ("left_square_bracket",), "before"),
    Command(
        "hunks.done", Scope.HUNKS, "Apply", "Apply the accepted hunks; those without an answer are not applied.", ("enter",),
        "apply",
    ),
    Command(
        "hunks.split", Scope.HUNKS, "Side by side", "Side by side, or one column.", ("u",), "side by side",
        runs="approve_split",
    ),
    Command(
        "hunks.session", Scope.HUNKS, "This session", "Let all of it happen now and whenever this session asks the same.",
        ("s",), "all this session", runs="approve_session",
    ),
    Command(
        "hunks.always", Scope.HUNKS, "Always", "Let all of it happen and keep a rule; asks which one and how far it reaches.",
        ("a",), "always…", runs="approve_always",
    ),
    Command(
        "hunks.why", Scope.HUNKS, "Why", "Say why it asks and what each answer would grant.", ("question_mark",), "why",
        runs="approve_why",
    ),
    Command(
        "hunks.batch", Scope.HUNKS, "All that wait", "Read everything that waits in this session and answer it at once.",
        ("w",), "all that wait…", runs="approve_all",
    ),
    Command(
        "hunks.later", Scope.HUNKS, "Later", "Leave it waiting and look at something else.", ("l",), "later",
        runs="approve_later",
    ),
)  # fmt: skip


READING: tuple[Command, ...] = (
    Command("reading.close", Scope.READING, "Back", "Go back to the question.", ("question_mark", "enter"), "back"),
    Command("changes.open", Scope.CHANGES, "Read", "Go from the list to the difference.", ("enter",), "read"),
    Command(
        "changes.steps", Scope.CHANGES, "By step", "Show what each step changed.", ("1",), "steps",
        runs="changes_view('steps')",
    ),
    Command(
        "changes.turns", Scope.CHANGES, "By turn", "Show what each turn changed.", ("2",), "turns",
        runs="changes_view('turns')",
    ),
    Command(
        "changes.session", Scope.CHANGES, "The whole session", "Show what the session changed in all.", ("3",), "session",
        runs="changes_view('session')",
    ),
    Command(
        "changes.git", Scope.CHANGES, "Against git", "Show what differs from the last commit, untracked files too.", ("4",),
        "git", runs="changes_view('git')",
    ),
    Command("changes.next", Scope.CHANGES, "Next", "Go to the next line of the list.", ("n",)),
    Command("changes.previous", Scope.CHANGES, "Before", "Go to the line before.", ("p",)),
    Command("changes.next_hunk", Scope.CHANGES, "Next hunk", "Go to the next change.", ("right_square_bracket",), "next hunk"),
    Command("changes.previous_hunk", Scope.CHANGES, "Hunk before", "Go to the change before.", ("left_square_bracket",)),
    Command("changes.split", Scope.CHANGES, "Side by side", "Side by side, or one column.", ("u",), "side by side"),
    Command("changes.by_file", Scope.CHANGES, "By file", "List the session by file or by step.", ("f",)),
    Command(
        "changes.next_file", Scope.CHANGES, "Next file", "Go to the next file of the difference.", ("right_curly_bracket",),
        runs="changes_file(1)",
    ),
    Command(
        "changes.previous_file", Scope.CHANGES, "File before", "Go to the file before.", ("left_curly_bracket",),
        runs="changes_file(-1)",
    ),
    Command("changes.fold", Scope.CHANGES, "Equal lines", "Show all equal lines, or leave them out.", ("o",), "equal lines"),
    Command("changes.search", Scope.CHANGES, "Search", "Look for words in the difference.", ("slash",), "search"),
    Command("changes.next_match", Scope.CHANGES, "Next match", "Go to the next match.", ("m",), runs="changes_match(1)"),
    Command(
        "changes.previous_match", Scope.CHANGES, "Match before", "Go to the match before.", ("M",), runs="changes_match(-1)",
    ),
    Command(
        "changes.restore", Scope.CHANGES, "Put file back", "Put the file back to what it was before the step; asks first.",
        ("r",), "put file back",
    ),
    Command(
        "changes.restore_hunk", Scope.CHANGES, "Put hunk back", "Take only the change in view back; asks first.", ("h",),
        "put hunk back",
    ),
    Command("restore.yes", Scope.RESTORE, "Yes", "Do what is shown.", ("y",), "yes, do this"),
    Command(
        "restore.talk", Scope.RESTORE, "Conversation only", "Rewind the conversation and leave the files as they are.", ("c",),
        "conversation only",
    ),
    Command(
        "restore.look", Scope.RESTORE, "Look", "See all changes of the file that stands against it.", ("d",), "see its changes",
    ),
    Command("restore.no", Scope.RESTORE, "No", "Leave everything as it is.", ("n",), "no"),
    Command("viewer.search", Scope.VIEWER, "Search", "Look for words in the file.", ("slash",), "search"),
    Command("viewer.next", Scope.VIEWER, "Next match", "Go to the next match.", ("n",), "next"),
    Command("viewer.previous", Scope.VIEWER, "Match before", "Go to the match before.", ("N",)),
    Command("viewer.line", Scope.VIEWER, "Go to line", "Go to a line by its number.", ("colon",), "line"),
    Command("viewer.edit", Scope.VIEWER, "Edit", "Open the file in your own editor, at the line.", ("e",), "edit"),
    Command(
        "viewer.mark", Scope.VIEWER, "Mention", "Put the selected lines, or those in view, into the prompt as @path:10-20.",
        ("m",), "mention",
    ),
    Command("viewer.wrap", Scope.VIEWER, "Wrap", "Wrap long lines, or cut them.", ("w",), "wrap", runs="focused.toggle_wrap"),
    Command("viewer.copy", Scope.VIEWER, "Copy line", "Copy the line.", ("y",)),
    Command("viewer.left", Scope.VIEWER, "Left", "Scroll long lines.", ("left",), runs="focused.scroll_aside_left"),
    Command("viewer.right", Scope.VIEWER, "Right", "Scroll long lines.", ("right",), runs="focused.scroll_aside_right"),
)  # fmt: skip


PANES: tuple[Command, ...] = (
    Command("lines.up", Scope.MOVING, "Up", "Move up.", ("up", "k"), runs="focused.cursor_up"),
    Command("lines.down", Scope.MOVING, "Down", "Move down.", ("down", "j"), runs="focused.cursor_down"),
    Command(
        "lines.page_up", Scope.MOVING, "Page up", "Move a page up (in the prompt too).", ("pageup", "b"),
        runs="focused.page_up",
    ),
    Command("lines.page_down", Scope.MOVING, "Page down", "Move a page down.", ("pagedown", "space"), runs="focused.page_down"),
    Command("lines.home", Scope.MOVING, "Beginning", "Go to the beginning.", ("home", "g"), runs="focused.home"),
    Command("lines.end", Scope.MOVING, "End", "Go to the end and follow it.", ("end", "G"), runs="focused.end"),
    Command(
        "lines.select", Scope.LINES, "Open", "Fold or unfold, open a folder, show a file or a call.", ("enter",), "open",
        runs="focused.select",
    ),
    Command("lines.copy", Scope.LINES, "Copy", "Copy what the cursor is on.", ("y",), "copy"),
    Command(
        "chat.next_turn", Scope.LINES, "Next turn", "Go to what you said next.", ("right_curly_bracket",),
        runs="focused.next_turn",
    ),
    Command(
        "chat.previous_turn", Scope.LINES, "Turn before", "Go to what you said before.", ("left_curly_bracket",),
        runs="focused.previous_turn",
    ),
    Command("chat.next_call", Scope.LINES, "Next call", "Go to the next tool call.", ("c",), runs="focused.next_call"),
    Command(
        "chat.previous_call", Scope.LINES, "Call before", "Go to the tool call before.", ("C",), runs="focused.previous_call",
    ),
    Command("chat.next_error", Scope.LINES, "Next failure", "Go to the next failure.", ("e",), runs="focused.next_error"),
    Command(
        "chat.previous_error", Scope.LINES, "Failure before", "Go to the failure before.", ("E",),
        runs="focused.previous_error",
    ),
    Command("files.open", Scope.FILES, "Open folder", "Open the folder.", ("right", "l"), runs="focused.expand"),
    Command("files.close", Scope.FILES, "Close folder", "Close the folder.", ("left", "h"), runs="focused.collapse"),
    Command(
        "files.diff", Scope.FILES, "Difference", "Show how the session changed this file.", ("d",), "diff",
        runs="screen.files_diff",
    ),
    Command(
        "files.filter", Scope.FILES, "Find a file", "Type a few characters of a path; enter opens, escape clears.", ("slash",),
        "find", runs="screen.run_command('files.filter')",
    ),
    Command(
        "files.hidden", Scope.FILES, "Ignored files", "Show what ignore rules leave out, or hide it.", ("full_stop", "alt+h"),
        "ignored", runs="screen.run_command('files.hidden')",
    ),
    Command(
        "files.mark", Scope.FILES, "Mention", "Put the file or folder into the prompt as @path.", ("m",), "mention",
        runs="screen.run_command('files.mark')",
    ),
    Command(
        "files.edit", Scope.FILES, "Edit", "Open the file in your editor (VISUAL or EDITOR).", ("e",), "edit",
        runs="screen.run_command('files.edit')",
    ),
    Command(
        "log.filter", Scope.LOG, "Filter", "Narrow the log down: words, tool:shell, agent:root, state:failed.", ("slash",),
        "filter", runs="screen.run_command('log.filter')",
    ),
    Command(
        "log.whole", Scope.LOG, "Whole call", "Read a call's arguments and all of its result.", ("w",), "whole call",
        runs="screen.run_command('log.whole')",
    ),
    Command("asking.close", Scope.ASKING, "Close", "Clear what was typed and go back.", ("escape",), "clear", runs="give_up"),
    Command("asking.up", Scope.ASKING, "Row before", "Go to the row before.", ("up",), runs="step(-1)"),
    Command("asking.down", Scope.ASKING, "Next row", "Go to the next row.", ("down",), runs="step(1)"),
)  # fmt: skip


def _step(name: str, title: str, text: str, *keys: str, hint: str = "") -> Command:
    return Command(f"copying.{name}", Scope.COPYING, title, text, keys, hint, runs=f"copying('{name}')")


CHAT: tuple[Command, ...] = (
    Command(
        "chat.find_here", Scope.CHAT, "Search", "Search all of this session, folded parts included.", ("slash",), "search",
        runs="screen.run_command('chat.find')",
    ),
    Command(
        "chat.copy_code", Scope.CHAT, "Copy code", "Copy the code fence at the cursor; once more, the next one.", ("Y",),
        "copy code", runs="screen.run_command('chat.copy_code')",
    ),
    Command(
        "chat.next_change", Scope.CHAT, "Next change", "Go to the next call that changed files.", ("f",), runs="next_change",
    ),
    Command(
        "chat.previous_change", Scope.CHAT, "Change before", "Go to the call before that changed files.", ("F",),
        runs="previous_change",
    ),
    Command(
        "copying.start", Scope.LINES, "Copy mode", "Move a cursor over the text to select and copy some of it.", ("v",),
        "select", runs="focused.start_copying",
    ),
    Command("changes.select", Scope.CHANGES, "Copy mode", "Select and copy text.", ("v",), runs="focused.start_copying"),
    Command("viewer.select", Scope.VIEWER, "Copy mode", "Select and copy text.", ("v",), runs="focused.start_copying"),
    _step("left", "Left", "Move the cursor left.", "left", "h"),
    _step("right", "Right", "Move the cursor right.", "right", "l"),
    _step("up", "Up", "Move the cursor up.", "up", "k"),
    _step("down", "Down", "Move the cursor down.", "down", "j"),
    _step("word", "Word", "Go to the next word.", "w"),
    _step("word_back", "Word back", "Go to the word before.", "b"),
    _step("line_start", "Line start", "Go to the beginning of the line.", "0", "home"),
    _step("line_end", "Line end", "Go to the end of the line.", "dollar_sign", "end"),
    _step("page_up", "Page up", "Go a page up.", "pageup"),
    _step("page_down", "Page down", "Go a page down.", "pagedown", "space"),
    _step("first", "First line", "Go to the first line.", "g"),
    _step("last", "Last line", "Go to the last line.", "G"),
    _step("mark", "Mark", "Select from here on; once more, select nothing.", "v", hint="mark"),
    _step("lines", "Whole lines", "Select whole lines from here on.", "V", hint="lines"),
    _step("copy", "Copy", "Copy what is selected, or this line, and leave.", "y", "enter", hint="copy"),
    _step("leave", "Leave", "Leave the copy mode.", "escape", hint="leave"),
    Command("finding.next", Scope.FINDING, "Next match", "Go to the next match.", ("n",), "next", runs="finding('next')"),
    Command(
        "finding.previous", Scope.FINDING, "Match before", "Go to the match before.", ("N",), "before",
        runs="finding('previous')",
    ),
    Command(
        "finding.end", Scope.FINDING, "End search", "End the search and stay here.", ("escape",), "end", runs="finding('end')",
    ),
    Command("searching.go", Scope.SEARCHING, "Go", "Go to the first match.", ("enter",), "go to a match", runs="submit"),
    Command("searching.close", Scope.SEARCHING, "End", "End the search.", ("escape",), "end", runs="close_search"),
)  # fmt: skip


DIALOGS: tuple[Command, ...] = (
    Command("approve.once", Scope.APPROVAL, "Once", "Let it run this once.", ("y",), "once"),
    Command(
        "approve.session", Scope.APPROVAL, "This session", "Let it run now and whenever this session asks the same.", ("s",),
        "this session",
    ),
    Command(
        "approve.always", Scope.APPROVAL, "Always", "Let it run and keep a rule; asks which one and how far it reaches.",
        ("a",), "always…",
    ),
    Command("approve.no", Scope.APPROVAL, "No", "Refuse it.", ("n",), "no"),
    Command("approve.because", Scope.APPROVAL, "No, because", "Refuse it and tell the model why.", ("f",), "no, because…"),
    Command("approve.edit", Scope.APPROVAL, "Edit", "Change the command; only what you leave there runs.", ("e",), "edit"),
    Command(
        "approve.why", Scope.APPROVAL, "Why", "Say why it asks and what each answer would grant.", ("question_mark",), "why",
    ),
    Command(
        "approve.all", Scope.APPROVAL, "All of them", "Read everything that waits in this session and answer it at once.",
        ("Y",), "all that wait…",
    ),
    Command("approve.later", Scope.APPROVAL, "Later", "Leave it waiting and look at something else.", ("l",), "later"),
    Command("approve.mode", Scope.APPROVAL, "Mode", "Say why the mode stays as it is while this is asked.", ("shift+tab",)),
    Command("approve.split", Scope.APPROVAL, "Side by side", "Side by side, or one column.", ("u",), "side by side"),
    *HUNKS,
    Command("grant.choose", Scope.GRANT, "Grant", "Let it run and keep the marked rule.", ("enter",), "grant", is_first=True),
    Command("edit.send", Scope.EDIT, "Run", "Run what stands there, this once.", ("enter",), "run this once", is_first=True),
    Command("edit.newline", Scope.EDIT, "New line", "Begin another line.", ("ctrl+j",), "line", is_first=True),
    Command("batch.once", Scope.BATCH, "All once", "Let all that is listed run this once.", ("y",), "yes to all, once"),
    Command("batch.no", Scope.BATCH, "None", "Refuse all that is listed.", ("n",), "no to all"),
    Command("rules.revoke", Scope.RULES, "Revoke", "Take the marked rule back, after asking.", ("d",), "revoke"),
    Command("trust.yes", Scope.TRUST, "Trust", "Let these hold from now on.", ("t",), "trust these"),
    Command("trust.no", Scope.TRUST, "Not now", "Go on without them.", ("n",), "not now"),
    Command("trust.reach", Scope.TRUST, "Servers", "Choose where a server runs.", ("s",), "where a server runs…"),
    Command("trust.look", Scope.TRUST, "Look", "Show a file that they come from.", ("v",), "look at the file"),
    Command("trust.list", Scope.TRUST, "Trusted", "See what of the folder is trusted by now.", ("l",), "what is trusted"),
    Command(
        "trusted.revoke", Scope.TRUSTED, "Take back", "Trust nothing of this folder any more, after asking.", ("d",),
        "take it back",
    ),
    Command("picker.open", Scope.PICKER, "Choose", "Choose the marked line.", ("enter",), "choose", is_first=True),
    Command("picker.up", Scope.PICKER, "Line before", "Mark the line before.", ("up",), is_first=True),
    Command("picker.down", Scope.PICKER, "Next line", "Mark the next line.", ("down",), is_first=True),
    Command("confirm.yes", Scope.CONFIRM, "Yes", "Do it.", ("y",), "yes"),
    Command("confirm.no", Scope.CONFIRM, "No", "Leave everything as it is.", ("n",), "no"),
    Command("first.start", Scope.FIRST_RUN, "Start", "Use the marked line.", ("enter",), "start"),
    Command("first.trust", Scope.FIRST_RUN, "Look", "See what the folder brings that waits for your word.", ("t",), "look"),
    Command("first.again", Scope.FIRST_RUN, "Look again", "Look for servers again.", ("r",), "look again"),
    Command(
        "settings.change", Scope.SETTINGS, "Change", "Change the marked setting in your own config.toml.", ("enter",), "change",
        is_first=True,
    ),
    Command(
        "settings.reset", Scope.SETTINGS, "Forget", "Take the marked setting out of your own config.toml.", ("delete",),
        "back to what it was", is_first=True,
    ),
    Command("settings.up", Scope.SETTINGS, "Setting before", "Mark the setting before.", ("up",), is_first=True),
    Command("settings.down", Scope.SETTINGS, "Next setting", "Mark the next setting.", ("down",), is_first=True),
)  # fmt: skip


LAYOUT: tuple[Command, ...] = (
    Command(
        "layout.files", Scope.WORKBENCH, "Hide files", "Hide the files, or show them again (on a wide screen).", ("alt+1",),
        is_first=True,
    ),
    Command(
        "layout.plan", Scope.WORKBENCH, "Hide plan", "Hide the plan, or show it again (on a wide screen).", ("alt+2",),
        is_first=True,
    ),
    Command(
        "layout.log", Scope.WORKBENCH, "Hide log", "Hide the log, or show it again (on a wide screen).", ("alt+3",),
        is_first=True,
    ),
    Command(
        "layout.wider", Scope.WORKBENCH, "Wider", "Make the column in focus wider (the files from elsewhere).",
        ("alt+full_stop",), is_first=True,
    ),
    Command(
        "layout.narrower", Scope.WORKBENCH, "Narrower", "Make the column in focus narrower.", ("alt+comma",), is_first=True,
    ),
    Command(
        "layout.taller", Scope.WORKBENCH, "Taller", "Give the plan more of its column, or the log while it has the focus.",
        ("alt+equals_sign",), is_first=True,
    ),
    Command(
        "layout.lower", Scope.WORKBENCH, "Lower", "Give the plan less of its column, or the log while it has the focus.",
        ("alt+minus",), is_first=True,
    ),
    Command("layout.reset", Scope.WORKBENCH, "Usual layout", "Show all panes at their usual sizes."),
)  # fmt: skip


def _session_row(name: str, title: str, text: str, key: str) -> Command:
    return Command(f"sessions.{name}", Scope.SWITCHER, title, text, (key,), name, runs=f"sessions_session_row('{name}')")


SESSIONS: tuple[Command, ...] = (
    Command("sessions.open", Scope.SWITCHER, "Open", "Open the marked session.", ("enter",), "open"),
    Command("sessions.new", Scope.SWITCHER, "New", "Start a new session.", ("n",), "new"),
    _session_row("fork", "Fork", "Copy the marked session; the original stays, and no file changes.", "f"),
    _session_row("rename", "Rename", "Give the marked session a title.", "r"),
    _session_row("mark", "Mark", "Mark the session in all lists, or take the mark away.", "m"),
    _session_row("close", "Close", "Close the marked session; it stays in the list.", "c"),
    _session_row("delete", "Delete", "Delete the marked session, after asking.", "d"),
    _session_row("export", "Export", "Write the marked session to a file.", "x"),
    Command("sessions.grid", Scope.SWITCHER, "Side by side", "See all open sessions live, a tile each.", ("g",), "grid"),
    Command("sessions.search", Scope.SWITCHER, "Search", "Search in everything that was said.", ("slash",), "search"),
    Command("sessions.up", Scope.SWITCHER, "Session before", "Mark the line before.", ("up", "k"), runs="sessions_move(-1)"),
    Command("sessions.down", Scope.SWITCHER, "Next session", "Mark the next line.", ("down", "j"), runs="sessions_move(1)"),
    Command("sessions.page_up", Scope.SWITCHER, "Page up", "Go a page up.", ("pageup",), runs="sessions_page(-1)"),
    Command("sessions.page_down", Scope.SWITCHER, "Page down", "Go a page down.", ("pagedown",), runs="sessions_page(1)"),
    Command("sessions.first", Scope.SWITCHER, "First", "Go to the first session.", ("home",), runs="sessions_move(-1000000)"),
    Command("sessions.last", Scope.SWITCHER, "Last", "Go to the last session.", ("end",), runs="sessions_move(1000000)"),
    Command("grid.open", Scope.GRID, "Open", "Go to the session.", ("enter",), "open"),
    Command("grid.answer", Scope.GRID, "Answer", "See what the session waits with and answer it.", ("a",), "answer"),
    Command("grid.left", Scope.GRID, "Left", "Go to the tile on the left.", ("left", "h"), runs="grid_move(-1, 0)"),
    Command("grid.right", Scope.GRID, "Right", "Go to the tile on the right.", ("right", "l"), runs="grid_move(1, 0)"),
    Command("grid.up", Scope.GRID, "Up", "Go to the tile above.", ("up", "k"), runs="grid_move(0, -1)"),
    Command("grid.down", Scope.GRID, "Down", "Go to the tile below.", ("down", "j"), runs="grid_move(0, 1)"),
)  # fmt: skip


JOBS: tuple[Command, ...] = (
    Command("jobs.open", Scope.JOBS, "Open", "Open the session of the marked job's last run.", ("enter",), "open"),
    Command("jobs.new", Scope.JOBS, "New", "Ask for a new job.", ("n",), "new"),
    Command("jobs.run", Scope.JOBS, "Run now", "Run the marked job now, whatever its time.", ("r",), "run now"),
    Command("jobs.pause", Scope.JOBS, "Pause", "Pause the marked job, or let it go on.", ("p",), "pause"),
    Command("jobs.remove", Scope.JOBS, "Remove", "Remove the marked job, after asking.", ("d", "delete"), "remove"),
)  # fmt: skip


MCP: tuple[Command, ...] = (
    Command("mcp.tools", Scope.MCP, "Tools", "Read the tools of the marked server.", ("enter",), "tools"),
    Command("mcp.accept", Scope.MCP, "Yes", "Let the marked server start, or take its changed tools.", ("y",), "yes"),
    Command("mcp.switch", Scope.MCP, "On or off", "Switch the marked server on or off.", ("o",), "on/off"),
    Command("mcp.restart", Scope.MCP, "Restart", "End the marked server and start it again.", ("r",), "restart"),
    Command("mcp.log", Scope.MCP, "Log", "Read the end of what the marked server said beside its answers.", ("l",), "log"),
)  # fmt: skip


MODELS: tuple[Command, ...] = (
    Command("models.use", Scope.MODELS, "Use", "Use the marked model in this session.", ("enter",), "use"),
    Command("models.load", Scope.MODELS, "Load", "Load the marked model, with a window of your own or its.", ("l",), "load"),
    Command(
        "models.unload", Scope.MODELS, "Unload", "Unload the marked model, or give up its loading or exam.", ("u",), "unload",
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
    Command("plan.approve", Scope.PLAN, "Approve", "Leave plan mode and let the plan be carried out.", ("y",), "approve"),
    Command(
        "plan.grant", Scope.PLAN, "Approve and allow", "See which files and commands it names, allow them and approve.", ("g",),
        "and allow…",
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
    Command("skills.read", Scope.SKILLS, "Read", "Read the marked skill, or the marked tool's program.", ("enter",), "read"),
    Command("skills.use", Scope.SKILLS, "Use", "Write the marked skill into the prompt, for your words to it.", ("u",), "use"),
    Command("skills.remove", Scope.SKILLS, "Remove", "Forget the marked tool; files are not touched.", ("d",), "remove tool"),
)  # fmt: skip


WINDOW: tuple[Command, ...] = (
    Command(
        "window.group", Scope.CONTEXT, "Group", "Show what is in the marked group, or hide it.", ("enter",), "group",
        runs="grouped_fold",
    ),
    Command("window.fold", Scope.CONTEXT, "Fold", "Send only the beginning of the marked result.", ("f",), "fold"),
    Command("window.leave_out", Scope.CONTEXT, "Leave out", "Send a line in its place.", ("d",), "leave out"),
    Command("window.back", Scope.CONTEXT, "Bring back", "Send it whole again.", ("b",), "bring back"),
    Command("window.pin", Scope.CONTEXT, "Pin", "Never take it out to make room; once more, let it go.", ("p",), "pin"),
    Command(
        "cache.group", Scope.CACHE, "Turn", "Show the requests of the marked turn, or hide them.", ("enter",), "turn",
        runs="grouped_fold",
    ),
)  # fmt: skip
