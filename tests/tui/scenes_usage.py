"""A moment of the page of usage."""

from __future__ import annotations

from datetime import timedelta

from lmtui.core.usage_values import SLOT_S, LogUsage, UsageSum
from tests.tui.driving import Driver
from tests.tui.fake_mcp import NOW
from tests.tui.fakes import FakeHost, play_work

DAYS_AGO = (0, 0, 1, 2, 3, 5, 6, 9, 12, 13, 20, 33, 40)
MODELS = ("qwen3-coder-30b-a3b-instruct", "devstral-24b", "\x1b[2Ja[red]-tiny")


def use_usage(host: FakeHost) -> None:
    """Let three models have worked in two folders for a month."""
    for number, days in enumerate(DAYS_AGO):
        slot = int((NOW - timedelta(days=days)).timestamp()) // SLOT_S
        spent = UsageSum(
            7 + number, 40_000 * (number % 5 + 1), 3_100 * (number % 4 + 1), 31_000 * (number % 5 + 1), 2, 95.5 * (number + 1),
            400.0 * (number + 1),
        )  # fmt: skip
        folder = str(host.workspace) if number % 3 else "/home/ada/src/lexer"
        session = f"202603{number:02}_030405_abcdef"
        host.extensions.usage.logs.append(
            LogUsage(session, folder, f"Task {number}: nested comments", ((slot, MODELS[number % 3], spent),))
        )


async def usage(driver: Driver) -> None:
    """What a week cost, by model."""
    play_work(driver.host.session)
    use_usage(driver.host)
    await driver.type("/usage")
    await driver.until_screen("UsageList")
    await driver.until_shown("devstral-24b")


USAGE_SCENES = (("usage", usage),)
