from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.tui.driving import Driver, running
from tests.tui.fakes import DIFF
from tests.tui.one_app import Cases, Size

cases = Cases()
TINY = [(20, 5), (40, 10)]


@cases.each(("size", "diff"), product(TINY, ("", DIFF)))
async def an_approval_on_a_tiny_screen_shows_what_is_asked_and_its_keys(driver: Driver, size: Size, diff: str) -> None:
    driver.host.session.begin_turn("go")
    driver.host.session.ask("a1", "rm -rf build", diff=diff, path="parser/lexer.py" if diff else "")
    await driver.until_screen("Approval")
    shown = driver.text()
    assert (" 41  41" if diff else "rm -rf build") in shown
    last = next(line.split() for line in reversed(shown.splitlines()) if "?" in line.split())
    assert {"y", "n", "f"} <= set(last), shown


async def test_nothing_of_a_tiny_layout_stays_on_a_larger_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(size=(60, 18)) as driver:
        wanted = driver.text()
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "another home"))
    async with running(size=(20, 5)) as driver:
        await driver.pilot.resize_terminal(60, 18)
        assert driver.text() == wanted
