"""Moments of hooks and of commands that are Markdown files."""

from __future__ import annotations

from lmtui.core.hooks import HookRan
from lmtui.core.prompt_text import PromptFile
from tests.tui.driving import Driver
from tests.tui.fakes import play_work

FILES = [
    PromptFile("mend", "Mend $1 now.", ".lmagent/commands/mend.md", "Fix a bug, its test first", "[file]"),
    PromptFile("git:log", "!`git log`", ".claude/commands/git/log.md", "What happened", is_own=False, may_run=False),
    PromptFile("help", "Mine", "commands/help.md", problem="hidden by .lmagent/commands/help.md"),
    PromptFile("standup", "Sum up.", "/home/ada/.config/lmtui/commands/standup.md", "What I did since yesterday"),
]


async def hooks(driver: Driver) -> None:
    """A hook forbade a call, another failed; the log has both."""
    session = driver.host.session
    play_work(session)
    session.emit(HookRan(event="PreToolUse", command="guard.sh", exit_code=0, elapsed_ms=8))
    session.emit(
        HookRan(event="PreToolUse", command="guard.sh", exit_code=2, decision="deny", said="I push myself", elapsed_ms=9)
    )
    session.emit(
        HookRan(
            event="PostToolUse", command="ruff format -q .", exit_code=-1, said="did not end within 20 s", elapsed_ms=20_012
        )
    )
    await driver.settle()


async def file_commands(driver: Driver) -> None:
    """The commands of files, one hidden, one not trusted."""
    play_work(driver.host.session)
    driver.host.extensions.prompts.files = FILES
    await driver.type("/commands")
    await driver.until_screen("Picker")


HOOK_SCENES = (
    ("hooks", hooks),
    ("file_commands", file_commands),
)
