from __future__ import annotations

from lmtui.core.errors import McpError
from lmtui.core.prompt_text import PromptFile
from lmtui.core.tool_servers import Resource
from lmtui.features.hooks.values import HookRan
from tests.tui.driving import Driver
from tests.tui.one_app import Cases

cases = Cases()

FILES = [
    PromptFile("mend", "Mend $1 now.", ".lmagent/commands/mend.md", "Fix a bug", "[file]"),
    PromptFile("git:log", "See !`git log`", ".claude/commands/git/log.md", "What happened", is_own=False, may_run=False),
    PromptFile("help", "Mine", ".lmagent/commands/help.md", problem="hidden by .claude/commands/help.md"),
]


@cases
async def a_files_command_goes_to_the_session_with_its_arguments_and_the_list_names_all(driver: Driver) -> None:
    driver.host.extensions.prompts.files = FILES
    await driver.type("/mend 'the parser'")
    await driver.until(lambda: bool(driver.host.session.submitted))
    assert driver.host.session.submitted == ["Mend the parser now."]
    assert driver.host.session.waiting.begun[0][1] == "/mend 'the parser'"
    await driver.type("/commands", "Picker")
    assert "/mend [file]" in driver.text()
    assert "hidden by .claude/commands/help.md" in driver.text()
    await driver.press("enter")
    await driver.until(lambda: driver.app.workbench.prompt.text == "/mend ")


@cases
async def the_prompt_of_a_server_goes_to_the_session_and_what_it_lacks_is_said(driver: Driver) -> None:
    prompts = driver.host.extensions.prompts
    prompts.files = [PromptFile("mcp__git__explain", "Explain.", "MCP server git", "Explain a commit", "<commit>")]
    prompts.broken = McpError("/mcp__git__explain needs commit", "Type: /mcp__git__explain <commit>")
    await driver.type("/mcp__git__explain")
    await driver.until(lambda: "needs commit" in driver.text("#say"))
    assert driver.host.session.submitted == []
    prompts.broken = None
    await driver.type("/mcp__git__explain abc")
    await driver.until(lambda: bool(driver.host.session.submitted))


@cases.full()
async def prompts_and_resources_of_servers_are_offered_once_they_are_known(driver: Driver) -> None:
    prompts, mcp = driver.host.extensions.prompts, driver.host.extensions.mcp
    prompts.files = [PromptFile("mcp__git__explain", "", "MCP server git", "Explain a commit", "<commit>")]
    mcp.listed = [
        Resource("git", "git://log", "The log"),
        Resource("git", "git://show/{id}", "One", is_template=True),
    ]
    mcp.put()
    await driver.settle()
    await driver.press(*"/mcp__g")
    await driver.until(lambda: "Explain a commit" in driver.text())
    await driver.press("tab")
    assert driver.app.workbench.prompt.text == "/mcp__git__explain "
    driver.app.workbench.prompt.text = ""
    await driver.press(*"@git:")
    await driver.until(lambda: "The log" in driver.text())
    assert "git:git://show/{id}" in driver.text()
    await driver.press("tab")
    assert driver.app.workbench.prompt.text == "@git:git://log "


@cases
async def hooks_are_lines_of_the_log_and_of_the_conversation_only_where_they_said_no(driver: Driver) -> None:
    driver.host.session.begin_turn("go")
    driver.host.session.emit(HookRan(event="PostToolUse", command="format-all", exit_code=0, elapsed_ms=12))
    driver.host.session.emit(HookRan(event="PreToolUse", command="guard", exit_code=2, decision="deny", said="not here"))
    await driver.until(lambda: "hook PreToolUse (guard) said no: not here" in " ".join(driver.text().split()))
    assert "hook PostToolUse" not in driver.text()
