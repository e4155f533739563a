"""Commands of what fills the window, and of how the prompts were read."""

from __future__ import annotations

from lmtui.tui.table.command import Command, Scope

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
