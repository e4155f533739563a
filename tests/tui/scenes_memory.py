"""Moments of the page of memory."""

from __future__ import annotations

from tests.tui.driving import Driver
from tests.tui.fake_memory import some_hits, some_notes, some_proposals
from tests.tui.fakes import play_work


async def _open(driver: Driver, *keys: str) -> None:
    play_work(driver.host.session)
    driver.host.extensions.memory.kept = some_notes()
    driver.host.extensions.memory.proposed = some_proposals()
    await driver.type("/memory")
    await driver.until_screen("MemoryScreen")
    await driver.until_shown("proposed")
    await driver.press(*keys)


async def memory_inbox(driver: Driver) -> None:
    """Four proposals, the first one marked."""
    await _open(driver)


async def memory_web(driver: Driver) -> None:
    """A fact from a web page is marked."""
    await _open(driver, "down")


async def memory_instruction(driver: Driver) -> None:
    """A line for AGENTS.md is marked."""
    await _open(driver, "end")


async def memory_folder(driver: Driver) -> None:
    """The notes of the folder."""
    await _open(driver, "2", "down")


async def memory_everywhere(driver: Driver) -> None:
    """The notes for all folders."""
    await _open(driver, "3")


async def memory_none(driver: Driver) -> None:
    """Nothing is proposed."""
    play_work(driver.host.session)
    await driver.type("/memory")
    await driver.until_screen("MemoryScreen")
    await driver.until_shown("0 proposed")


async def memory_find(driver: Driver) -> None:
    """Hits in code, a document, an earlier session and a note."""
    play_work(driver.host.session)
    driver.host.extensions.memory.hits = some_hits()
    await driver.type("/find nested comments")
    await driver.until_screen("FindList")
    await driver.until_shown("grammar.md")


MEMORY_SCENES = (
    ("memory_inbox", memory_inbox),
    ("memory_web", memory_web),
    ("memory_instruction", memory_instruction),
    ("memory_folder", memory_folder),
    ("memory_everywhere", memory_everywhere),
    ("memory_none", memory_none),
    ("memory_find", memory_find),
)
