"""Commands of sessions: from the main screen, in the switcher, and where the open ones stand side by side."""

from __future__ import annotations

from lmtui.tui.table.command import Command, Scope


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
