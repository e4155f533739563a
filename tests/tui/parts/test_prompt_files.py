from __future__ import annotations

from lmtui.core.hooks import HookRan
from lmtui.core.prompt_files import PromptFile
from tests.tui.driving import running

FILES = [
    PromptFile("fix", "Fix $1 now.", ".lmagent/commands/fix.md", "Fix a bug", "[file]"),
    PromptFile("git:log", "See !`git log`", ".claude/commands/git/log.md", "What happened", is_own=False, may_run=False),
    PromptFile("help", "Mine", ".lmagent/commands/help.md", problem="hidden by lmtui's own /help"),
]


async def test_a_files_command_goes_to_the_session_with_its_arguments() -> None:
    async with running() as driver:
        driver.host.extensions.prompts.files = FILES
        await driver.type("/fix 'the parser'")
        await driver.until(lambda: bool(driver.host.session.submitted))
        assert driver.host.session.submitted == ["Fix the parser now."]
        assert driver.host.session.prompts.begun[0][1] == "/fix 'the parser'"


async def test_an_unknown_name_says_so_and_sends_nothing() -> None:
    async with running() as driver:
        driver.host.extensions.prompts.files = FILES
        await driver.type("/nonsense")
        await driver.until(lambda: "no command /nonsense" in driver.text())
        assert driver.host.session.submitted == []


async def test_the_list_names_all_and_the_chosen_one_is_typed() -> None:
    async with running() as driver:
        driver.host.extensions.prompts.files = FILES
        await driver.type("/commands")
        await driver.until_screen("Picker")
        assert "/fix [file]" in driver.text()
        assert "hidden by lmtui's own /help" in driver.text()
        await driver.press("enter")
        await driver.until(lambda: driver.app.workbench.prompt.text == "/fix ")


async def test_hooks_are_lines_of_the_log_and_of_the_conversation_only_where_they_said_no() -> None:
    async with running() as driver:
        driver.host.session.emit(HookRan(event="PostToolUse", command="format-all", exit_code=0, elapsed_ms=12))
        driver.host.session.emit(HookRan(event="PreToolUse", command="guard", exit_code=2, decision="deny", said="not here"))
        await driver.until(lambda: "hook PreToolUse (guard) said no: not here" in " ".join(driver.text().split()))
        assert "hook PostToolUse" not in driver.text()
