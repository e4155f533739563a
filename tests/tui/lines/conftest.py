from __future__ import annotations

import asyncio

import pytest

from tests.tui.quiet import run_counted, wait_for_idle


@pytest.fixture(autouse=True)
def _frames_between() -> None:
    """All are drawn: how they are is what these tests are about."""


@pytest.fixture(autouse=True)
def _no_sleeping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual's pilot waits until the app is quiet, not until the CPU is."""
    monkeypatch.setattr(asyncio.BaseEventLoop, "run_in_executor", run_counted)
    for user in ("textual.app", "textual.pilot"):
        monkeypatch.setattr(f"{user}.wait_for_idle", wait_for_idle)
