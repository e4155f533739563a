"""How tests start the app and wait for what it shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from textual import events
from textual._context import visible_screen_stack
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget

from lmtui.tui.app import LmtuiApp
from lmtui.tui.lines.transcript import Transcript
from lmtui.tui.modals.consent import ConsentDialog
from lmtui.tui.options import StartOptions
from lmtui.tui.router import SessionView
from lmtui.tui.timing import GAP_S
from tests.tui.fakes import FakeHost
from tests.tui.quiet import quiet
from tests.waiting import PATIENCE_S

WIDE = (160, 40)
SMALL = (80, 24)
MEDIUM = (120, 35)
LOOK_AGAIN_S = 0.01


class Driver:
    """A running app with its fake host."""

    def __init__(self, app: LmtuiApp, pilot: Pilot[int], host: FakeHost) -> None:
        self.app = app
        self.pilot = pilot
        self.host = host

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so; what breaks the app is raised."""
        async with asyncio.timeout(PATIENCE_S):
            while not is_so():
                await asyncio.sleep(LOOK_AGAIN_S)
                if self.app._exception is not None:
                    raise self.app._exception
                self.app.screen._on_timer_update()

    async def settle(self) -> None:
        """Wait until what was asked for is drawn."""
        await quiet(self.app)

    async def press(self, *keys: str, to: str = "") -> None:
        """Press keys and let the app draw, up to a screen; a letter that answers a question is given its time."""
        for key in keys:
            if len(key) > 1:
                await self.let_letter_count()
            await asyncio.sleep(GAP_S)  # closer together, keys are a paste
            await self.app._press_keys([key])
        await self.let_letter_count()
        await self.settle()
        if to:
            await self.until_screen(to)

    async def let_letter_count(self) -> None:
        """Wait until no letter waits for another one."""
        await self.until(lambda: getattr(getattr(self.app.screen, "letters", None), "_held", None) is None)

    async def until_shown(self, text: str, selector: str = "") -> None:
        """Wait until a text is on screen; the lowest screens leave out what only explains."""
        if self.app.size.height < SMALL[1]:
            await self.settle()
        else:
            await self.until(lambda: text in self.text(selector))

    async def wake(self) -> None:
        """Let the moment go by in which no answer to the question on top counts, and draw it as it is then."""
        question = self.app.screen
        assert isinstance(question, ConsentDialog)
        self.host.clock.forward(1)
        await self.until(lambda: question.fit.is_done and question.is_awake)
        question.draw()
        await self.settle()

    async def type_fast(self, text: str) -> None:
        """Press the keys of a text at once, as they come from a terminal that was read late."""
        for char in text:
            self.app.post_message(events.Key(char if char != " " else "space", char))
        await self.until(self.app._message_queue.empty)
        await self.settle()

    async def type(self, text: str, to: str = "") -> None:
        """Type a text and send it, up to a screen."""
        self.app.workbench.prompt.replace_text(text)
        await self.press("enter", to=to)

    @property
    def view(self) -> SessionView:
        """Return the session on screen."""
        assert self.app.workbench.active is not None
        return self.app.workbench.active

    @property
    def transcript(self) -> Transcript:
        """Return its conversation."""
        current = self.app.workbench.panes.current
        assert current is not None
        return current.transcript

    @property
    def told(self) -> list[str]:
        """Return the notices that float over a screen."""
        return [each.message for each in self.app._notifications]

    @property
    def screen_name(self) -> str:
        """Return the name of the class of the screen on top; of a dialog, that of its question."""
        screen = self.app.screen
        return type(screen.question if type(screen) is ConsentDialog else screen).__name__

    async def until_screen(self, name: str) -> None:
        """Wait until a screen, or a question, of this class is on top."""
        await self.until(lambda: self.screen_name == name)
        await self.settle()

    def strips(self) -> list[Strip]:
        """Return the rows of the top screen as they are drawn over those below it, which Textual knows by its context."""
        _ = visible_screen_stack.set(self.app._background_screens)
        return self.app.screen._compositor.render_strips(self.app.size)

    def text(self, selector: str = "") -> str:
        """Return what the top screen, or one widget of it, shows."""
        widget: Widget = self.app.screen.query_one(selector) if selector else self.app.screen
        region = widget.region
        _ = visible_screen_stack.set(self.app._background_screens)
        chops = self.app.screen._compositor._render_chops(region, range(region.y, region.bottom).__contains__)
        rows = [Strip.join(chop.values()) for chop in chops[region.y : region.bottom]]
        return "\n".join("".join(segment.text for segment in strip.crop(region.x, region.right)) for strip in rows)


@asynccontextmanager
async def running(
    host: FakeHost | None = None,
    *,
    size: tuple[int, int] = WIDE,
    options: StartOptions | None = None,
    is_ready: bool = True,
) -> AsyncIterator[Driver]:
    """Run the app over a fake host until its session is there."""
    shown = host or FakeHost()
    app = LmtuiApp(lambda: shown, options or StartOptions(workspace=str(shown.workspace)), now=shown.clock)
    async with app.run_test(size=size) as pilot:
        driver = Driver(app, pilot, shown)
        if is_ready:
            await driver.until(lambda: app.workbench.active is not None)
            await driver.settle()
        yield driver
        if app.is_running and not app.is_leaving:
            _ = driver.text()  # what cannot be drawn fails, whether the test looked or not
