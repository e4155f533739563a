"""Commands of the screens that files and differences are read on."""

from __future__ import annotations

from lmtui.tui.table.command import Command, Scope

READING: tuple[Command, ...] = (
    Command("reading.close", Scope.READING, "Back", "Go back to the question.", ("question_mark", "enter"), "back"),
    Command("changes.open", Scope.CHANGES, "Read", "Go from the list to the difference.", ("enter",), "read"),
    Command(
        "changes.steps", Scope.CHANGES, "By step", "Show what each step changed.",
        ("1",), "steps", runs="changes_view('steps')",
    ),
    Command(
        "changes.turns", Scope.CHANGES, "By turn", "Show what each turn changed.",
        ("2",), "turns", runs="changes_view('turns')",
    ),
    Command(
        "changes.session", Scope.CHANGES, "The whole session", "Show what the session changed in all.",
        ("3",), "session", runs="changes_view('session')",
    ),
    Command(
        "changes.git", Scope.CHANGES, "Against git", "Show what differs from the last commit, untracked files too.",
        ("4",), "git", runs="changes_view('git')",
    ),
    Command("changes.next", Scope.CHANGES, "Next", "Go to the next line of the list.", ("n",)),
    Command("changes.previous", Scope.CHANGES, "Before", "Go to the line before.", ("p",)),
    Command(
        "changes.next_hunk", Scope.CHANGES, "Next hunk", "Go to the next change.",
        ("right_square_bracket",), "next hunk",
    ),
    Command("changes.previous_hunk", Scope.CHANGES, "Hunk before", "Go to the change before.", ("left_square_bracket",)),
    Command("changes.split", Scope.CHANGES, "Side by side", "Side by side, or one column.", ("u",), "side by side"),
    Command("changes.by_file", Scope.CHANGES, "By file", "List the session by file or by step.", ("f",)),
    Command(
        "changes.next_file", Scope.CHANGES, "Next file", "Go to the next file of the difference.",
        ("right_curly_bracket",), runs="changes_file(1)",
    ),
    Command(
        "changes.previous_file", Scope.CHANGES, "File before", "Go to the file before.",
        ("left_curly_bracket",), runs="changes_file(-1)",
    ),
    Command("changes.fold", Scope.CHANGES, "Equal lines", "Show all equal lines, or leave them out.", ("o",), "equal lines"),
    Command("changes.search", Scope.CHANGES, "Search", "Look for words in the difference.", ("slash",), "search"),
    Command("changes.next_match", Scope.CHANGES, "Next match", "Go to the next match.", ("m",), runs="changes_match(1)"),
    Command(
        "changes.previous_match", Scope.CHANGES, "Match before", "Go to the match before.",
        ("M",), runs="changes_match(-1)",
    ),
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
    Command(
        "restore.look", Scope.RESTORE, "Look", "See all changes of the file that stands against it.",
        ("d",), "see its changes",
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
    Command(
        "viewer.wrap", Scope.VIEWER, "Wrap", "Wrap long lines, or cut them.",
        ("w",), "wrap", runs="focused.toggle_wrap",
    ),
    Command("viewer.copy", Scope.VIEWER, "Copy line", "Copy the line.", ("y",)),
    Command("viewer.left", Scope.VIEWER, "Left", "Scroll long lines.", ("left",), runs="focused.scroll_aside_left"),
    Command("viewer.right", Scope.VIEWER, "Right", "Scroll long lines.", ("right",), runs="focused.scroll_aside_right"),
)  # fmt: skip
