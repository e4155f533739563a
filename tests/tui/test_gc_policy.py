from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
from textual._styles_cache import StylesCache
from textual.color import Color

from lmtui.tui import startup
from lmtui.tui.startup import BATCHES, GcPolicy

YOUNG = 500


@pytest.fixture(autouse=True)
def usual_collection(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = gc.get_threshold()
    monkeypatch.setattr(startup, "gc", gc)
    monkeypatch.setattr(startup, "YOUNG", YOUNG)
    yield
    gc.unfreeze()
    gc.set_threshold(*before)
    gc.collect()


class Ring:
    def __init__(self) -> None:
        self.own = self


def work() -> list[list[int]]:
    """Make as much as makes a collection worth while, and return what is alive of it."""
    made: list[list[int]] = []
    while gc.get_count()[1] < BATCHES:
        made += [[number] for number in range(YOUNG)]
    return made


def test_what_is_new_is_collected_and_the_living_set_aside() -> None:
    collector = GcPolicy(lambda: False)
    collector.begin()
    gone = weakref.ref(Ring())
    before = gc.get_freeze_count()
    collector.look()
    assert gc.get_freeze_count() == before
    kept = work()
    collector.look()
    assert gone() is None
    assert gc.get_freeze_count() >= before + len(kept)


@pytest.mark.full
def test_what_closed_widgets_drew_is_let_go() -> None:
    drawn = StylesCache()
    seen = weakref.ref(drawn)
    drawn.get_inner_outer(Color.parse("red"), Color.parse("blue"))
    del drawn
    GcPolicy(lambda: True).begin()
    assert seen() is None
