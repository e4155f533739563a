"""Moments of the list of MCP servers."""

from __future__ import annotations

from tests.tui.driving import Driver
from tests.tui.fake_mcp import some_servers
from tests.tui.fakes import play_work


async def servers(driver: Driver) -> None:
    """Seven servers, one in each state; the marked one runs."""
    play_work(driver.host.session)
    driver.host.extensions.mcp.put(*some_servers())
    await driver.type("/mcp")
    await driver.until_screen("McpList")
    await driver.until(lambda: "schema" in driver.text())
    await driver.press("home", "down")


async def broken_server(driver: Driver) -> None:
    """The marked server failed, and a file has a mistake."""
    await servers(driver)
    wrong = '/home/ada/src/parser/.mcp.json: server \'db\' has no command  Give it a "command", or a "url" with "type": "http".'
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


async def no_servers(driver: Driver) -> None:
    """There are none, and it says where they are named."""
    play_work(driver.host.session)
    await driver.type("/mcp")
    await driver.until_screen("McpList")
    await driver.until(lambda: "mcpServers" in driver.text())


MCP_SCENES = (
    ("mcp", servers),
    ("mcp_broken", broken_server),
    ("mcp_waiting", waiting_server),
    ("mcp_tools", tools),
    ("mcp_none", no_servers),
)
