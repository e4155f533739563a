from __future__ import annotations

from typing import Protocol

import pytest

from lmtui.tui.app import LmtuiApp
from lmtui.tui.options import StartOptions
from lmtui.tui.themes import DEFAULT
from tests.tui.driving import MEDIUM, SMALL, WIDE, Driver
from tests.tui.scenes import SCENES, Scene


class Compare(Protocol):
    def __call__(self, app: LmtuiApp, *, terminal_size: tuple[int, int], run_before: object) -> bool: ...


SIZES = {"small": SMALL, "wide": WIDE, "medium": MEDIUM}
THEMES = {"paper": "wide", "contrast": "small"}


@pytest.mark.parametrize(
    ("scene", "size"), [pytest.param(scene, size, id=f"{scene.name}-{size}") for scene in SCENES for size in scene.sizes]
)
def test_picture(scene: Scene, size: str, snap_compare: Compare) -> None:
    assert snap_compare(app_of(scene), terminal_size=SIZES[size], run_before=played(scene))


@pytest.mark.parametrize(
    ("scene", "theme"),
    [
        pytest.param(scene, theme, id=f"{scene.name}-{theme}")
        for number, scene in enumerate(SCENES)
        for theme in THEMES
        if number % 4 == (2 if theme == "paper" else 0)
    ],
)
def test_picture_in_another_theme(scene: Scene, theme: str, snap_compare: Compare) -> None:
    size = THEMES[theme] if THEMES[theme] in scene.sizes else scene.sizes[0]
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

    return run_before
