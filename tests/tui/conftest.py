from __future__ import annotations

import asyncio
import gc
import time
from itertools import count
from types import SimpleNamespace

import pytest
from textual._compositor import Compositor
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

from tests.tui.one_app import Cases
from tests.tui.quiet import draw_only_whole_frames, let_apps_go, parse_once, run_counted, wait_for_idle

TESTS_BETWEEN = 4
ONLY_WHAT_IS_NEW = SimpleNamespace(**{**vars(gc), "collect": lambda _=1: gc.collect(1), "freeze": int, "unfreeze": int})
_TESTS = count(1)


def pytest_pycollect_makeitem(collector: pytest.Module, name: str, obj: object) -> pytest.Function | None:
    """Take the cases that share an app for one test, where this suite has any."""
    if isinstance(obj, Cases) and len(obj):
        return pytest.Function.from_parent(collector, name=f"test_the_{name}", callobj=obj.run)
    return None


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
def _letters_wait_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A letter that answers waits for another one: half of the time of the tests of questions."""
    monkeypatch.setattr("lmtui.tui.modals.consent.LETTER_S", 0.05)


@pytest.fixture(autouse=True)
def _frames_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the time of these tests went into frames that nobody saw."""
    monkeypatch.setattr(Compositor, "render_update", draw_only_whole_frames)


@pytest.fixture(autouse=True)
def _styles_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of each start of an app; the colors of a theme are part of the key.  A rule's hash is its identity anyway."""
    monkeypatch.setattr(Stylesheet, "_parse_rules", parse_once)
    monkeypatch.setattr(RuleSet, "__hash__", object.__hash__)


@pytest.fixture(autouse=True)
def _apps_of_other_tests_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """An app looks at all that there is when it starts and sets it aside for good, which one of many must not."""
    monkeypatch.setattr("lmtui.tui.startup.gc", ONLY_WHAT_IS_NEW)
    if next(_TESTS) % TESTS_BETWEEN == 0:
        let_apps_go()
