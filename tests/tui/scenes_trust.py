"""Moments of trust: what is trusted, an answer that comes too early, and what it says after one."""

from __future__ import annotations

from lmtui.core.trust import TrustItem
from tests.tui.driving import Driver
from tests.tui.fakes import play_work

BROUGHT = [
    TrustItem("MCP server", ".mcp.json", "paper: python3 paper_server.py, with TOKEN, may reach api.example.com"),
    TrustItem("hook", ".lmagent/hooks.json", "PreToolUse Bash: ./guard.sh"),
    TrustItem("hook", ".lmagent/hooks.json", "Stop: notify-send done"),
    TrustItem("skill", ".lmagent/skills/release", "release: Write the notes of a release"),
]


async def trusted(driver: Driver) -> None:
    """What is trusted by now, and the way to take it back."""
    play_work(driver.host.session)
    driver.host.trust.trusted_items = list(BROUGHT)
    await driver.type("/trust")
    await driver.until_screen("Trusted")


async def too_early(driver: Driver) -> None:
    """The answer came before the end was read."""
    play_work(driver.host.session)
    driver.host.trust.items = [TrustItem("hook", f".lmagent/hooks/{number}.json", f"run {number}") for number in range(30)]
    await driver.type("/trust")
    await driver.until_screen("TrustQuestion")
    await driver.wake()
    await driver.press("t")


async def answered(driver: Driver) -> None:
    """What holds now and what from the next session on."""
    play_work(driver.host.session)
    driver.host.trust.items = list(BROUGHT)
    await driver.type("/trust")
    await driver.until_screen("TrustQuestion")
    await driver.wake()
    await driver.press("end", "t")
    await driver.until_screen("Workbench")


TRUST_SCENES = (("trusted", trusted), ("trust_too_early", too_early), ("trust_answered", answered))
