from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from lmtui.tui.app import LmtuiApp
from lmtui.tui.modals.consent import ConsentDialog
from lmtui.tui.options import StartOptions
from lmtui.tui.themes import DEFAULT
from tests.tui.driving import Driver
from tests.tui.legible import illegible, is_brightest_waiting
from tests.tui.scenes import SCENES, Scene


class Compare(Protocol):
    def __call__(self, app: LmtuiApp, *, terminal_size: tuple[int, int], run_before: object) -> bool: ...


SIZES = {"160x45": (160, 45), "120x30": (120, 30), "80x24": (80, 24), "60x18": (60, 18)}


def pictures() -> Iterator[Any]:
    """Yield each scene at each size, in three themes in turn; CI takes two of its four sizes, in turn too."""
    is_whole = bool(os.environ.get("LMTUI_ALL_PICTURES"))
    for number, scene in enumerate(SCENES):
        themes = ("dusk", "paper", "dusk", "sixteen") if number % 2 else ("dusk", "sixteen", "dusk", "paper")
        wanted = ("160x45", "60x18") if number % 2 else ("120x30", "80x24")
        for size, theme in zip(SIZES, themes, strict=True):
            if is_whole or size in wanted:
                yield pytest.param(scene, size, theme, id=f"{scene.name}-{size}-{theme}")


@pytest.mark.parametrize(("scene", "size", "theme"), pictures())
def test_picture(scene: Scene, size: str, theme: str, snap_compare: Compare) -> None:
    assert snap_compare(app_of(scene, theme), terminal_size=SIZES[size], run_before=played(scene))


class SceneApp(LmtuiApp):
    def __init__(self, scene: Scene, theme: str) -> None:
        self.host = scene.host()
        options = StartOptions(workspace=str(self.host.workspace), theme=theme or DEFAULT)
        super().__init__(lambda: self.host, options, now=self.host.clock)


def app_of(scene: Scene, theme: str = "") -> SceneApp:
    return SceneApp(scene, theme)


def played(scene: Scene) -> object:
    async def run_before(pilot: object) -> None:
        app = pilot.app  # type: ignore[attr-defined]  # a pilot of any app
        driver = Driver(app, pilot, app.host)  # type: ignore[arg-type]  # this app
        if not scene.setup_note:
            await driver.until(lambda: app.workbench.active is not None)
            await driver.settle()
        await scene.steps(driver)
        await driver.settle()
        assert not illegible(app)
        if isinstance(app.screen, ConsentDialog) and app.screen.shows_live:
            assert is_brightest_waiting(app)

    return run_before
