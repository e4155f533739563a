from __future__ import annotations

from pathlib import Path

import pytest

from lmtui import paths
from lmtui.tui.options import StartOptions
from lmtui.tui.themes import (
    BLENDS,
    ThemeError,
    ground,
    read_palette,
)
from tests.sets import for_each
from tests.tui.driving import Driver, running
from tests.tui.fakes import FakeHost
from tests.tui.legible import contrast
from tests.tui.one_app import Cases

cases = Cases()

SHIPPED = sorted(paths.themes_dir().glob("*.toml"))
TEXT_ROLES = ("text", "muted", "accent", "warning", "danger", "success", "code")
GROUNDS = ("background", "surface", "panel", "selection", "added", "removed", "cursor")
GROUNDS_OF_PLAIN_TEXT = ("added_word", "removed_word", "match")
PAIRS = [*((role, ground) for role in TEXT_ROLES for ground in GROUNDS), *(("text", each) for each in GROUNDS_OF_PLAIN_TEXT)]
AA = 4.5
AAA = 7.0


@pytest.fixture(autouse=True)
def _frames_between() -> None:
    """All are drawn: a style counts from the frame on that follows it."""


@for_each("file", SHIPPED)
def test_every_text_role_is_legible_on_every_ground(file: Path) -> None:
    colors = read_palette(file).colors
    grounds = {where: ground(colors, where) if where in BLENDS else colors[where] for _, where in PAIRS}
    assert not [(role, where) for role, where in PAIRS if contrast(colors[role], grounds[where]) < AA]
    if file.stem == "contrast":
        assert min(contrast(colors[role], colors["background"]) for role in TEXT_ROLES) >= AAA


@for_each(
    ("change", "words"),
    [
        (('accent = "#74b3f0"', 'accent = "bluish"'), "accent is not a colour"),
        (('accent = "#74b3f0"', 'acent = "#74b3f0"'), "no role 'acent'"),
        (('accent = "#74b3f0"', ""), "no colour for accent"),
        (("[colors]", "[colours]"), "no [colors] table"),
        (("dark = true", "dark = "), "Invalid value"),
    ],
)
def test_an_error_in_a_theme_names_the_file_and_the_role(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text((paths.themes_dir() / "dusk.toml").read_text().replace(*change))
    with pytest.raises(ThemeError) as caught:
        read_palette(file)
    assert str(file) in str(caught.value)
    assert words in str(caught.value)


async def test_a_broken_theme_is_said_and_the_default_used() -> None:
    folder = paths.config_dir() / "themes"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text("[colors]\ntext = 3\n")
    host = FakeHost()
    async with running(host, options=StartOptions(workspace="/w", theme="mine")) as driver:
        assert driver.app.theme == "dusk"
        assert "mine.toml: text is not" in driver.text("#say").replace("\n", "")


@cases.full()
async def a_theme_that_is_chosen_from_the_list_is_kept_and_one_that_is_looked_at_is_not(driver: Driver) -> None:
    await driver.type("/theme paper")
    await driver.until(lambda: driver.host.settings.changes == [("theme", "paper")])
    before = driver.app.theme
    assert before == "paper"
    await driver.type("/theme nosuch")
    assert "Theme 'nosuch' not found" in driver.text("#say")
    driver.host.settings.changes.clear()
    await driver.type("/theme", "Picker")
    await driver.press("down", "down", "escape")
    await driver.until(lambda: driver.app.theme == before)
    await driver.type("/theme", "Picker")
    await driver.press("down", "enter")
    await driver.until(lambda: bool(driver.host.settings.changes))
    assert driver.host.settings.changes == [("theme", driver.app.theme)]
    assert driver.app.theme != before


async def test_no_color_leaves_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running() as driver:
        driver.app.workbench.prompt.replace_text("hello")
        await driver.settle()
        styles = [segment.style for strip in driver.strips() for segment in strip if segment.style is not None]
    assert driver.app.no_color
    assert all(style.color is None and style.bgcolor is None for style in styles)
    assert any(style.reverse for style in styles)


async def test_a_users_theme_is_read_again_when_it_is_chosen_again() -> None:
    folder = paths.config_dir() / "themes"
    folder.mkdir(parents=True)
    file = folder / "mine.toml"
    text = (paths.themes_dir() / "dusk.toml").read_text()
    file.write_text(text)
    async with running(options=StartOptions(workspace="/w", theme="mine")) as driver:
        file.write_text(text.replace("#14181d", "#301000"))
        driver.app.use_theme("mine")
        assert driver.app.current_theme.background == "#301000"
        file.write_text(text.replace("#14181d", "reddish"))
        driver.app.use_theme("mine")
        await driver.until(lambda: "reddish" in driver.text("#say"))
