from __future__ import annotations

import re
from itertools import groupby

import pytest

from lmtui.commands.command import key_name
from lmtui.tui.commands import COMMANDS
from lmtui.tui.modals.consent import ConsentDialog
from tests.sets import depth, few
from tests.tui.driving import Driver, running
from tests.tui.scenes import SCENES, Scene

KEYS = {key_name(key): [key] for row in COMMANDS for way in row.ways for key in way.keys if key}
KEYS |= {"↑↓": ["down", "up"], "←→": ["right", "left"], "@": ["@"], "/": ["slash"], "!": ["!"]}
NAMES = "|".join(sorted(map(re.escape, KEYS), key=len, reverse=True))
SHOWN = re.compile(rf"(?:(?<=  )|(?<=^)|(?<=^ )|(?<=\[)|(?<=· ))({NAMES}) (?=[\w/“])", re.MULTILINE)
TYPED = "Enter", "Ctrl+J", "Ctrl+R", "Ctrl+S"  # these act on what is typed
SIZES = [(160, 45), (120, 30), (80, 24), (60, 18)]
Way = list[str] | tuple[int, int]


def shown(driver: Driver) -> dict[str, Way]:
    """Return the keys that feet and buttons name, and where each of these can be clicked."""
    top, found = driver.app.screen, dict[str, Way]()
    below = driver.app.workbench.query("#hints") if not top.query("#side-keys") else ()
    for widget in (*top.query("#hints, #side-keys, ChoiceRows, .hint"), *below):
        text = "\n".join(strip.text for strip in widget.render_lines(widget.size.region)) if widget.is_on_screen else ""
        found |= {name: KEYS[name] for name in SHOWN.findall(text)}
    for y, strip in enumerate(driver.strips()):
        x = 0
        for verb, group in groupby(strip, lambda segment: segment.style and segment.style.meta.get("verb")):
            text = "".join(segment.text for segment in group)
            if verb:
                found[f"click on {text.strip()}"] = x + 1, y
            x += len(text)
    return found


def state(driver: Driver) -> tuple[object, ...]:
    app, host = driver.app, driver.host
    seen = driver.text(), len(app.screen_stack), repr(app.focused), driver.told, app._clipboard, app.is_leaving, app.theme
    return *seen, *(repr(vars(session)) for session in host.opened.values())


async def does_something(driver: Driver, name: str, way: Way) -> bool:
    if name.removeprefix("click on ").startswith(TYPED) and driver.app.focused is driver.app.workbench.prompt:
        await driver.press("h", "i")
    driver.host.clock.forward(2 * isinstance(driver.app.screen, ConsentDialog))  # its keys count by now
    before = state(driver)
    for step in way if isinstance(way, list) else [way]:
        await (driver.app._press_keys([step]) if isinstance(step, str) else driver.pilot.click(offset=step))
        await driver.let_letter_count()
        await driver.settle()
        if state(driver) != before:
            return True
    return False


@pytest.mark.parametrize("scene", few(SCENES), ids=lambda scene: scene.name)
@pytest.mark.parametrize("size", depth([(120, 30)], SIZES), ids=str)
async def test_every_key_that_is_shown_does_something(scene: Scene, size: tuple[int, int]) -> None:
    dead, left, is_begun = [], dict[str, Way](), False
    while left or not is_begun:
        async with running(scene.host(), size=size, is_ready=not scene.setup_note) as driver:
            await scene.steps(driver)
            driver.host.clock.forward(1)
            await driver.settle()
            left, is_begun, before = left if is_begun else shown(driver), True, state(driver)
            while left and state(driver) == before:  # what escape takes back needs no other app
                name, way = left.popitem()
                dead += [] if await does_something(driver, name, way) else [name]
                if state(driver) != before:
                    await driver.press("escape")
    assert not dead
