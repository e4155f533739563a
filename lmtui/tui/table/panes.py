"""Commands inside the panes of the main screen."""

from __future__ import annotations

from lmtui.tui.table.command import Command, Scope

PANES: tuple[Command, ...] = (
    Command("lines.up", Scope.MOVING, "Up", "Move up.", ("up", "k"), runs="focused.cursor_up"),
    Command("lines.down", Scope.MOVING, "Down", "Move down.", ("down", "j"), runs="focused.cursor_down"),
    Command(
        "lines.page_up", Scope.MOVING, "Page up", "Move a page up (in the prompt too).",
        ("pageup", "b"), runs="focused.page_up",
    ),
    Command("lines.page_down", Scope.MOVING, "Page down", "Move a page down.", ("pagedown", "space"), runs="focused.page_down"),
    Command("lines.home", Scope.MOVING, "Beginning", "Go to the beginning.", ("home", "g"), runs="focused.home"),
    Command("lines.end", Scope.MOVING, "End", "Go to the end and follow it.", ("end", "G"), runs="focused.end"),
    Command(
        "lines.select", Scope.LINES, "Open", "Fold or unfold, open a folder, show a file or a call.",
        ("enter",), "open", runs="focused.select",
    ),
    Command("lines.copy", Scope.LINES, "Copy", "Copy what the cursor is on.", ("y",), "copy"),
    Command(
        "chat.next_turn", Scope.LINES, "Next turn", "Go to what you said next.",
        ("right_curly_bracket",), runs="focused.next_turn",
    ),
    Command(
        "chat.previous_turn", Scope.LINES, "Turn before", "Go to what you said before.",
        ("left_curly_bracket",), runs="focused.previous_turn",
    ),
    Command("chat.next_call", Scope.LINES, "Next call", "Go to the next tool call.", ("c",), runs="focused.next_call"),
    Command(
        "chat.previous_call", Scope.LINES, "Call before", "Go to the tool call before.",
        ("C",), runs="focused.previous_call",
    ),
    Command("chat.next_error", Scope.LINES, "Next failure", "Go to the next failure.", ("e",), runs="focused.next_error"),
    Command(
        "chat.previous_error", Scope.LINES, "Failure before", "Go to the failure before.",
        ("E",), runs="focused.previous_error",
    ),
    Command("files.open", Scope.FILES, "Open folder", "Open the folder.", ("right", "l"), runs="focused.expand"),
    Command("files.close", Scope.FILES, "Close folder", "Close the folder.", ("left", "h"), runs="focused.collapse"),
    Command(
        "files.diff", Scope.FILES, "Difference", "Show how the session changed this file.",
        ("d",), "diff", runs="screen.files_diff",
    ),
    Command(
        "files.filter", Scope.FILES, "Find a file", "Type a few characters of a path; enter opens, escape clears.",
        ("slash",), "find", runs="screen.call('files.filter')",
    ),
    Command(
        "files.hidden", Scope.FILES, "Ignored files", "Show what ignore rules leave out, or hide it.",
        ("full_stop", "alt+h"), "ignored", runs="screen.call('files.hidden')",
    ),
    Command(
        "files.mark", Scope.FILES, "Mention", "Put the file or folder into the prompt as @path.",
        ("m",), "mention", runs="screen.call('files.mark')",
    ),
    Command(
        "files.edit", Scope.FILES, "Edit", "Open the file in your editor (VISUAL or EDITOR).",
        ("e",), "edit", runs="screen.call('files.edit')",
    ),
    Command(
        "files.find", Scope.WORKBENCH, "Find a file", "Find a file of the workspace by a few characters of its path.",
        ("alt+l",), "find a file", ("find-file",), "WORDS", is_first=True, runs="call('files.find')",
    ),
    Command(
        "log.filter", Scope.LOG, "Filter", "Narrow the log down: words, tool:shell, agent:root, state:failed.",
        ("slash",), "filter", runs="screen.call('log.filter')",
    ),
    Command(
        "log.whole", Scope.LOG, "Whole call", "Read a call's arguments and all of its result.",
        ("w",), "whole call", runs="screen.call('log.whole')",
    ),
    Command("asking.close", Scope.ASKING, "Close", "Clear what was typed and go back.", ("escape",), "clear", runs="give_up"),
    Command("asking.up", Scope.ASKING, "Row before", "Go to the row before.", ("up",), runs="step(-1)"),
    Command("asking.down", Scope.ASKING, "Next row", "Go to the next row.", ("down",), runs="step(1)"),
)  # fmt: skip
