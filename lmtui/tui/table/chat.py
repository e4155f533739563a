"""Commands of the conversation: jumps, search, copying; and of the copy mode that every pane has."""

from __future__ import annotations

from lmtui.tui.table.command import Command, Scope


def _step(name: str, title: str, text: str, *keys: str, hint: str = "") -> Command:
    return Command(f"copying.{name}", Scope.COPYING, title, text, keys, hint, runs=f"copying('{name}')")


CHAT: tuple[Command, ...] = (
    Command(
        "chat.find", Scope.WORKBENCH, "Search the conversation", "Search all of this session, folded parts included.",
        ("ctrl+f",), "search", ("search", "find"), "WORDS", is_first=True, runs="call('chat.find')",
    ),
    Command(
        "chat.find_here", Scope.CHAT, "Search", "Search all of this session, folded parts included.",
        ("slash",), "search", runs="screen.call('chat.find')",
    ),
    Command(
        "chat.copy_code", Scope.CHAT, "Copy code", "Copy the code fence at the cursor; once more, the next one.",
        ("Y",), "copy code", runs="screen.call('chat.copy_code')",
    ),
    Command(
        "chat.next_change", Scope.CHAT, "Next change", "Go to the next call that changed files.",
        ("f",), runs="next_change",
    ),
    Command(
        "chat.previous_change", Scope.CHAT, "Change before", "Go to the call before that changed files.",
        ("F",), runs="previous_change",
    ),
    Command(
        "app.mouse", Scope.APP, "Mouse on or off", "Leave the mouse to the terminal, which then selects text; or take it.",
        ("alt+m",), "mouse", ("mouse",), is_first=True,
    ),
    Command(
        "copying.start", Scope.LINES, "Copy mode", "Move a cursor over the text to select and copy some of it.",
        ("v",), "select", runs="focused.start_copying",
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
        "finding.previous", Scope.FINDING, "Match before", "Go to the match before.",
        ("N",), "before", runs="finding('previous')",
    ),
    Command(
        "finding.end", Scope.FINDING, "End search", "End the search and stay here.",
        ("escape",), "end", runs="finding('end')",
    ),
    Command("searching.go", Scope.SEARCHING, "Go", "Go to the first match.", ("enter",), "go to a match", runs="submit"),
    Command("searching.close", Scope.SEARCHING, "End", "End the search.", ("escape",), "end", runs="close_search"),
)  # fmt: skip
