"""What fills the window, and how prompts were read."""

from __future__ import annotations

from lmtui.core.events import MessageAdded, UsageUpdated
from lmtui.core.messages import Role, Usage
from tests.tui.driving import Driver
from tests.tui.fakes import play_work

FIRST = ((0, 0, 1730, "first request", 4.3), (1730, 0, 420, "", 1.1), (2150, 0, 1310, "", 3.2))
SECOND = ((1730, 0, 260, "compaction", 0.9), (0, 1990, 310, "server restarted", 5.8))
USAGES = (("turn_1", "fix the parser and its tests", FIRST), ("turn_2", "now the docs", SECOND))


async def window_use(driver: Driver) -> None:
    """What fills the model's window, a result marked."""
    play_work(driver.host.session)
    await driver.settle()
    driver.host.session.emit(UsageUpdated(usage=Usage(3320, 120, 3187), window_tokens=8192))
    await driver.type("/context", "ContextList")
    await driver.press("down", "down", "down", "down", "down", "down")


def play_usages(driver: Driver) -> None:
    """Let two turns have cost something."""
    for turn_id, text, requests in USAGES:
        driver.host.session.emit(MessageAdded(role=Role.USER, text=text, turn_id=turn_id))
        for reused, reread, new, miss, read_s in requests:
            driver.host.session.emit(
                UsageUpdated(
                    usage=Usage(reused + reread + new, 80, reused),
                    window_tokens=8192,
                    tokens_per_s=31.0,
                    reused_tokens=reused,
                    reread_tokens=reread,
                    is_cache_told=turn_id == "turn_1",
                    miss=miss,
                    read_s=read_s,
                    turn_id=turn_id,
                )
            )


WINDOW_SCENES = {"window_use": window_use}
