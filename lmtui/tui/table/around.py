"""Commands for what stands around the panes: layout, settings, what fills the window, what it costs."""

from __future__ import annotations

from lmtui.tui.table.command import Command, Scope

AROUND: tuple[Command, ...] = (
    Command(
        "layout.files", Scope.WORKBENCH, "Hide files", "Hide the files, or show them again (on a wide screen).",
        ("alt+1",), runs="call('layout.files')", is_first=True,
    ),
    Command(
        "layout.plan", Scope.WORKBENCH, "Hide plan", "Hide the plan, or show it again (on a wide screen).",
        ("alt+2",), runs="call('layout.plan')", is_first=True,
    ),
    Command(
        "layout.log", Scope.WORKBENCH, "Hide log", "Hide the log, or show it again (on a wide screen).",
        ("alt+3",), runs="call('layout.log')", is_first=True,
    ),
    Command(
        "layout.zoom", Scope.WORKBENCH, "Zoom", "Let the pane in focus fill the screen, or end that.",
        ("alt+z",), "zoom", ("zoom",), runs="call('layout.zoom')", is_first=True,
    ),
    Command(
        "layout.wider", Scope.WORKBENCH, "Wider", "Make the column in focus wider (the files from elsewhere).",
        ("alt+full_stop",), runs="call('layout.wider')", is_first=True,
    ),
    Command(
        "layout.narrower", Scope.WORKBENCH, "Narrower", "Make the column in focus narrower.",
        ("alt+comma",), runs="call('layout.narrower')", is_first=True,
    ),
    Command(
        "layout.taller", Scope.WORKBENCH, "Taller", "Give the plan more of its column, or the log while it has the focus.",
        ("alt+equals_sign",), runs="call('layout.taller')", is_first=True,
    ),
    Command(
        "layout.lower", Scope.WORKBENCH, "Lower", "Give the plan less of its column, or the log while it has the focus.",
        ("alt+minus",), runs="call('layout.lower')", is_first=True,
    ),
    Command(
        "layout.reset", Scope.WORKBENCH, "Usual layout", "Show all panes at their usual sizes.",
        runs="call('layout.reset')",
    ),
    Command(
        "settings.show", Scope.WORKBENCH, "Settings", "See every setting with its source, and change it.",
        ("f11", "alt+o"), "settings", ("settings", "config"), runs="call('settings.show')", is_first=True,
    ),
    Command(
        "perf.toggle", Scope.WORKBENCH, "Performance", "Show frames, stalls and bytes of this screen, or hide them.",
        ("alt+p",), "", ("perf",), runs="call('perf.toggle')", is_first=True,
    ),
)  # fmt: skip
