from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Protocol

import pytest
from pytest_textual_snapshot import normalize_svg  # type: ignore[import-untyped]  # it has no types
from rich.cells import cell_len

from lmtui.tui.app import LmtuiApp
from lmtui.tui.modals.consent import ConsentDialog
from lmtui.tui.options import StartOptions
from lmtui.tui.themes import DEFAULT
from tests.tui.driving import Driver
from tests.tui.legible import illegible, is_brightest_waiting
from tests.tui.quiet import let_apps_go
from tests.tui.scene_words import WORDS
from tests.tui.scenes import SCENES, Scene


class Compare(Protocol):
    def __call__(self, app: LmtuiApp, *, terminal_size: tuple[int, int], run_before: object) -> bool: ...


SIZES = {"160x45": (160, 45), "120x30": (120, 30), "80x24": (80, 24), "60x18": (60, 18)}
THEMES = ("dusk", "paper", "sixteen")
PICTURES = {
    ("120x30", "dusk"): """
        workbench approval_command approval_edit approval_effect approval_long approval_batch first_run help changes
        undo undone trust completion settings window_use plan_question plan_waits files viewer approval_hunks
        start_page prompt_paths prompt_tokens plan agent_chat chat_search chat_call checks_red""",
    ("120x30", "paper"): """
        approval_always approval_edited approval_why rules prompt_queue log_filtered switcher_open models model_roles jobs
        mcp_tools mcp_form skills memory_inbox attempts""",
    ("120x30", "sixteen"): """
        changes_against_git files_found fork mcp hooks effect_review
        pipeline batch_tasks usage""",
    ("60x18", "dusk"): "workbench approval_command approval_edit approval_effect approval_long help undo",
    ("60x18", "paper"): "first_run trust plan_question settings",
    ("60x18", "sixteen"): "switcher start_page models chat_search",
}
RECT = r'<rect fill="([^"]+)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="24.65" shape-rendering="crispEdges"/>'
CLIPS = re.compile(r'<clipPath id="terminal-line-\d+">.*?</clipPath>\s*| clip-path="url\(#terminal-line-\d+\)"', re.DOTALL)
FEW = 25


def pictures() -> Iterator[Any]:
    scenes = {scene.name: scene for scene in SCENES}
    for (size, theme), names in PICTURES.items():
        for name in names.split():
            yield pytest.param(scenes[name], size, theme, id=f"{name}-{size}-{theme}")


@pytest.mark.parametrize(("scene", "size", "theme"), pictures())
def test_picture(scene: Scene, size: str, theme: str, snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_textual_snapshot.normalize_svg", slim)
    assert snap_compare(app_of(scene, theme), terminal_size=SIZES[size], run_before=played(scene))


def test_every_scene_has_words_and_no_other() -> None:
    assert list(WORDS) == [scene.name for scene in SCENES]


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("size", ["160x45", "60x18"])  # the largest and the smallest
async def test_every_scene_is_whole_and_legible_in_every_theme(
    size: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = []
    for number, scene in enumerate(SCENES):
        monkeypatch.setenv("LMTUI_HOME", str(tmp_path_factory.mktemp(scene.name)))
        if number % FEW == 0:
            let_apps_go()
        try:
            await draw(scene, SIZES[size])
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told with the others
            failed.append(f"{scene.name}: {error!r:.400}")
    assert not failed, "\n".join(failed)


async def draw(scene: Scene, size: tuple[int, int]) -> None:
    """See that a scene fills the screen, shows what it is there for, and can be read."""
    app = app_of(scene)
    async with app.run_test(size=size) as pilot:
        driver = Driver(app, pilot, app.host)
        await play(scene, driver)
        rows = driver.text().split("\n")
        assert [cell_len(row) for row in rows] == [size[0]] * size[1], rows
        for theme in THEMES:
            app.use_theme(theme)
            await driver.settle()
            assert driver.text().split("\n") == rows, theme
            assert WORDS[scene.name] in driver.text(), rows
            check(driver)


def slim(svg: str) -> str:
    """Return a picture without what draws nothing: clips of its rows, and a rectangle for each word of one ground."""
    svg = CLIPS.sub("", normalize_svg(svg)).replace("&#160;", "\xa0")
    return re.sub(f"(?:{RECT})+", lambda found: "".join(joined(re.findall(RECT, found[0]))), svg)


def joined(rects: list[tuple[str, str, str, str]]) -> Iterator[str]:
    for (fill, y), group in groupby(rects, lambda rect: (rect[0], rect[2])):
        found = list(group)
        width = sum(float(rect[3]) for rect in found)
        yield f'<rect fill="{fill}" x="{found[0][1]}" y="{y}" width="{width:g}" height="24.65" shape-rendering="crispEdges"/>'


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
        await play(scene, driver)
        check(driver)

    return run_before


async def play(scene: Scene, driver: Driver) -> None:
    if not scene.setup_note:
        await driver.until(lambda: driver.app.workbench.active is not None)
        await driver.settle()
    await scene.steps(driver)
    await driver.settle()
    _ = driver.strips()
    driver.app.workbench.prompt.restyle()  # the style of its cursor counts from the frame after this one on
    await driver.settle()


def check(driver: Driver) -> None:
    screen = driver.app.screen
    assert not illegible(driver.app)
    if isinstance(screen, ConsentDialog) and screen.shows_live and screen.inner is None:
        assert is_brightest_waiting(driver.app)
