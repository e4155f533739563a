"""Moments of the list of MCP servers."""

from __future__ import annotations

import asyncio

from lmtui.core.mcp import Form
from tests.tui.driving import Driver
from tests.tui.fake_mcp import some_servers
from tests.tui.fakes import play_work


async def servers(driver: Driver) -> None:
    """Seven servers, one in each state; the marked one runs."""
    play_work(driver.host.session)
    driver.host.extensions.mcp.put(*some_servers())
    await driver.type("/mcp")
    await driver.until_screen("McpList")
    await driver.until_shown("schema")
    await driver.press("home", "down")


async def broken_server(driver: Driver) -> None:
    """The marked server failed, and a file has a mistake."""
    await servers(driver)
    wrong = '/home/ada/src/parser/.mcp.json: server \'db\' has no command. Give it a "command", or a "url" with "type": "http".'
    driver.host.extensions.mcp.wrong.append(wrong)
    await driver.press("home")


async def waiting_server(driver: Driver) -> None:
    """The folder's server is asked about."""
    await servers(driver)
    await driver.press("end", "up", "y")
    await driver.until_screen("Confirm")


async def tools(driver: Driver) -> None:
    """The tools of a server are read."""
    await servers(driver)
    await driver.press("enter")
    await driver.until_screen("Reading")


async def changed_server(driver: Driver) -> None:
    """The marked server offers other tools than were accepted."""
    await servers(driver)
    await driver.press("home", *["down"] * 3)


async def changed_tools(driver: Driver) -> None:
    """What differs is read before it is taken."""
    await changed_server(driver)
    await driver.press("enter")
    await driver.until_screen("Reading")


FORM = Form(
    "crm",
    "Which customer is this about?",
    {
        "properties": {
            "name": {"type": "string", "title": "Name of the customer", "description": "as in the contract"},
            "kind": {"type": "string", "title": "Kind", "enum": ["company", "person"], "enumNames": ["A company", "A person"]},
            "since": {"type": "integer", "title": "Customer since (year)", "minimum": 1950, "maximum": 2100},
        },
        "required": ["name"],
    },
)


async def form(driver: Driver) -> None:
    """A server asks the user in the middle of a call: the first field."""
    play_work(driver.host.session)
    asking = asyncio.ensure_future(driver.host.extensions.mcp.ask(FORM))
    asking.add_done_callback(lambda task: task.cancelled() or task.exception())
    await driver.until_screen("AskText")
    await driver.press(*"Lovelace & Co")


async def form_choice(driver: Driver) -> None:
    """The second field of the form has choices."""
    await form(driver)
    await driver.press("enter")
    await driver.until_screen("Picker")


async def form_sent(driver: Driver) -> None:
    """The last look before the form is sent."""
    await form_choice(driver)
    await driver.press("enter")
    await driver.until_screen("AskText")
    await driver.press(*"1987", "enter")
    await driver.until_screen("Confirm")


async def no_servers(driver: Driver) -> None:
    """There are none, and it says where they are named."""
    play_work(driver.host.session)
    await driver.type("/mcp")
    await driver.until_screen("McpList")
    await driver.until_shown("mcpServers")


MCP_SCENES = (
    ("mcp", servers),
    ("mcp_broken", broken_server),
    ("mcp_waiting", waiting_server),
    ("mcp_tools", tools),
    ("mcp_none", no_servers),
    ("mcp_changed", changed_server),
    ("mcp_changes", changed_tools),
    ("mcp_form", form),
    ("mcp_form_choice", form_choice),
    ("mcp_form_sent", form_sent),
)
