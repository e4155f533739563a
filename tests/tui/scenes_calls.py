"""In which form the model calls tools: where the tools stand in the window, and after it was set manually."""

from __future__ import annotations

from lmtui.core.events import ModelChanged, UsageUpdated
from lmtui.core.messages import Usage
from lmtui.core.model_events import CallFormChanged
from tests.tui.driving import Driver
from tests.tui.fakes import play_work


async def calls_in_window(driver: Driver) -> None:
    """What fills the window, the tools marked."""
    play_work(driver.host.session)
    await driver.settle()
    driver.host.session.emit(UsageUpdated(usage=Usage(3320, 120, 3187), window_tokens=8192))
    await driver.press("alt+w")
    await driver.until_screen("WindowScreen")
    await driver.settle()
    await driver.press("down")
    await driver.until_shown("/calls changes it")
    await driver.settle()


async def calls_changed(driver: Driver) -> None:
    """The form changed by itself, the planner's model was asked, and the form is said."""
    play_work(driver.host.session)
    session = driver.host.session
    session.emit(CallFormChanged(form="text", why="it writes its calls as text"))
    session.emit(ModelChanged(model="qwen3:14b", url="http://127.0.0.1:11434/v1", window_tokens=16_384, role="planner"))
    session.end_turn(text="Two cases end inside a string.")
    await driver.settle()
    await driver.type("/calls")
    await driver.settle()
