from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest
from textual import _time
from textual._wait import wait_for_idle
from textual.app import App

from lmtui.tui import timing
from lmtui.tui.timing import call_after


async def test_a_timer_fires_though_its_thread_was_held_up_before_it_first_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    for user in ("textual.app", "textual.pilot"):  # what fires never would keep the app from being quiet
        monkeypatch.setattr(f"{user}.wait_for_idle", wait_for_idle)
    app: App[None] = App()
    async with app.run_test() as pilot:
        late = itertools.count()
        fired: list[str] = []
        with monkeypatch.context() as patch:
            # bounded: a repeating timer of Textual never waits while each look at the clock is later than its step
            patch.setattr(_time, "get_time", lambda: time.monotonic() + min(next(late), 60) * 0.05)
            call_after(app, 0.001, lambda: fired.append("ours"))
            app.set_timer(0.001, lambda: fired.append("textual's"))
            for _ in range(30):
                await pilot.pause(0.01)
        assert fired == ["ours"]  # should theirs fire too, `call_after` can go


def test_no_other_one_shot_timer_is_used() -> None:
    folder = Path(timing.__file__).parent
    users = {path.name for path in folder.rglob("*.py") if ".set_timer(" in path.read_text()}
    assert users == {"timing.py"}
