"""Commands of jobs: from the main screen, and in their list."""

from __future__ import annotations

from lmtui.tui.table.command import Command, Scope

JOBS: tuple[Command, ...] = (
    Command(
        "jobs.show", Scope.WORKBENCH, "Jobs", "See what runs by itself and when; run, pause, remove it, open what came of it.",
        (), "", ("jobs",), runs="call('jobs.show')",
    ),
    Command(
        "jobs.add", Scope.WORKBENCH, "New job", "Let a task run by itself: now, or at a time such as daily 09:00.",
        (), "", ("submit",), "[daily 09:00: task]", runs="call('jobs.add')",
    ),
    Command(
        "background.show", Scope.WORKBENCH, "Background commands", "See the commands that run in the background, or stop one.",
        (), "", ("background",), "[stop b1]", runs="call('background.show')",
    ),
    Command("jobs.open", Scope.JOBS, "Open", "Open the session of the marked job's last run.", ("enter",), "open"),
    Command("jobs.new", Scope.JOBS, "New", "Ask for a new job.", ("n",), "new"),
    Command("jobs.run", Scope.JOBS, "Run now", "Run the marked job now, whatever its time.", ("r",), "run now"),
    Command("jobs.pause", Scope.JOBS, "Pause", "Pause the marked job, or let it go on.", ("p",), "pause"),
    Command("jobs.remove", Scope.JOBS, "Remove", "Remove the marked job, after asking.", ("d", "delete"), "remove"),
)  # fmt: skip
