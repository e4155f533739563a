from __future__ import annotations

import asyncio
import gc
import time
from itertools import count

import pytest

from tests.tui.quiet import run_counted, wait_for_idle

APPS_KEPT = 60
_TESTS = count(1)


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    for name in ("NO_COLOR", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _no_sleeping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual's pilot waits until the app is quiet, not until the CPU is."""
    monkeypatch.setattr(asyncio.BaseEventLoop, "run_in_executor", run_counted)
    for user in ("textual.app", "textual.pilot"):
        monkeypatch.setattr(f"{user}.wait_for_idle", wait_for_idle)


@pytest.fixture(autouse=True)
def _apps_of_other_tests_go() -> None:
    """An app sets aside for good what it is made of (`tui/gc_policy.py`): look for those that are over now and then."""
    if next(_TESTS) % APPS_KEPT == 0:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
