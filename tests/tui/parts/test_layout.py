from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from lmtui import paths
from lmtui.tui.controllers.pane_controller import read_layout, save_layout
from lmtui.tui.widgets.columns import PaneLayout
from tests.sets import for_each
from tests.tui.driving import SMALL, WIDE, Driver, running
from tests.tui.fakes import play_work
from tests.tui.one_app import Cases

cases = Cases()


async def begin(driver: Driver) -> None:
    play_work(driver.host.session)
    await driver.settle()


@asynccontextmanager
async def at_work(size: tuple[int, int] = WIDE) -> AsyncIterator[Driver]:
    async with running(size=size) as driver:
        await begin(driver)
        yield driver


def width(driver: Driver, pane: str) -> int:
    panes = driver.app.workbench.panes
    return panes.containers[pane].outer_size.width if panes.containers[pane].display else 0


def kept() -> PaneLayout:
    return read_layout(paths.state_dir())


@for_each("layout", [PaneLayout(), PaneLayout(("files", "log"))])
def test_a_layout_comes_back_as_it_was(tmp_path: Path, layout: PaneLayout) -> None:
    save_layout(tmp_path / "new", layout)
    assert read_layout(tmp_path / "new") == layout


async def test_a_broken_file_is_said_and_the_usual_layout_used() -> None:
    paths.state_dir().mkdir(parents=True)
    (paths.state_dir() / "layout.json").write_text('{"hidden": 1}')
    async with at_work() as driver:
        assert "cannot be read" in driver.text("#say").replace("\n", " ")
        assert width(driver, "files") > 0


async def toggle(driver: Driver, *panes: str) -> None:
    for pane in panes:
        await driver.app.run_action(f"run_command('layout.{pane}')", default_namespace=driver.app.workbench)
    await driver.settle()


async def test_a_pane_is_hidden_and_shown_again_and_that_is_kept() -> None:
    async with at_work() as driver:
        for pane in ("files", "plan"):
            await toggle(driver, pane)
            assert width(driver, pane) == 0, pane
            assert kept().hidden == (pane,)
            await toggle(driver, pane)
            assert width(driver, pane) > 0, pane
            assert kept() == PaneLayout()
        await toggle(driver, "plan")
    async with at_work() as driver:
        assert width(driver, "plan") == 0


@cases
async def going_to_a_hidden_pane_shows_it_and_the_column_goes_when_both_its_panes_are_hidden(driver: Driver) -> None:
    await begin(driver)
    await toggle(driver, "files")
    await driver.press("f6")
    assert width(driver, "files") > 0
    before = width(driver, "chat")
    await toggle(driver, "plan", "log")
    assert width(driver, "chat") > before


async def test_a_small_screen_shows_a_pane_that_is_hidden_on_a_wide_one_and_the_usual_layout_comes_back() -> None:
    save_layout(paths.state_dir(), PaneLayout(("files", "log")))
    async with at_work(size=SMALL) as driver:
        await driver.press("f6")
        assert 0 < width(driver, "files") <= 80
        await driver.pilot.resize_terminal(*WIDE)
        await driver.press("escape")
        assert width(driver, "log") == 0
        await driver.app.workbench.action_run_command("layout.reset")
        await driver.settle()
        assert width(driver, "files") == 28
        assert kept() == PaneLayout()
