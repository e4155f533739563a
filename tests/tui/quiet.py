"""How tests wait until an app has done and drawn all that it was asked for, without sleeping for a guessed time.

An app is quiet when each of its message pumps waits for a message, nothing is left to lay out, to paint or to call, no
callback of the event loop is due, no call is in a thread, and no short one-shot timer runs. What only time brings (a
clock's beat, a dead time, a worker that waits for somebody) is not waited for.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from rich.console import RenderableType
from textual._compositor import Compositor
from textual._context import active_message_pump, visible_screen_stack
from textual._styles_cache import StylesCache
from textual.app import App
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.css.types import CSSLocation
from textual.message_pump import MessagePump
from textual.screen import Screen

from lmtui.tui.lines.line_view import VirtualLineView
from tests.waiting import PATIENCE_S

SHORT_S = 0.06  # a longer one-shot timer is a time that the user sees pass
LOOK_S = 0.003
CALL_S = 2.0  # a call in a thread that takes longer waits for the test
TURNS = 2  # how many turns of the event loop must find nothing to do

_calls: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[asyncio.Future[Any], float]] = WeakKeyDictionary()
_run_in_executor = asyncio.BaseEventLoop.run_in_executor
_render_update = Compositor.render_update
_parse_rules = Stylesheet._parse_rules
_parsed: dict[object, list[RuleSet]] = {}


def run_counted(loop: asyncio.BaseEventLoop, *of_what: Any) -> asyncio.Future[Any]:
    """Do what an event loop's `run_in_executor` does, and remember the call while it lasts."""
    call = _run_in_executor(loop, *of_what)
    under_way = _calls.setdefault(loop, {})
    under_way[call] = loop.time()
    call.add_done_callback(lambda done: under_way.pop(done, None))
    return call


def draw_only_whole_frames(
    compositor: Compositor, full: bool = False, screen_stack: list[Screen[Any]] | None = None, simplify: bool = False
) -> RenderableType | None:
    """Stand in for `Compositor.render_update`: without a terminal nobody sees a frame, and a test that looks draws all rows."""
    if full:
        return _render_update(compositor, full=True, screen_stack=screen_stack, simplify=simplify)
    visible_screen_stack.set(screen_stack or [])
    compositor._dirty_regions.clear()
    return None


def parse_once(sheet: Stylesheet, css: str, read_from: CSSLocation, *options: Any, **named: Any) -> list[RuleSet]:
    """Do what `Stylesheet._parse_rules` does, once for all apps of one theme."""
    key = (css, read_from, options, tuple(named.items()), tuple(sheet._variables.items()))
    if key not in _parsed:
        _parsed[key] = _parse_rules(sheet, css, read_from, *options, **named)
    return _parsed[key]


def let_apps_go() -> None:
    """Give the memory of apps that are over back: Textual's cache of colors has the widget in its key, and all that it drew."""
    vars(StylesCache)["get_inner_outer"].cache_clear()
    gc.collect()
    gc.freeze()


async def wait_for_idle(min_sleep: float = 0, max_sleep: float = 0) -> None:
    """Stand in for Textual's function of this name, which sleeps 20 ms and looks at the use of the CPU."""
    await quiet(active_message_pump.get().app)


async def quiet(app: App[Any]) -> None:
    """Wait until an app is quiet; fail after a time and say what kept it busy."""
    turns = 0
    loop = asyncio.get_running_loop()
    end_s = loop.time() + PATIENCE_S
    while turns < TURNS:
        is_stepping = bool(vars(loop)["_ready"])
        await asyncio.sleep(0)
        if app._exit or not app._running or app._exception is not None:
            return
        busy = next(_what_is_left(app, loop), "")
        turns = 0 if busy else turns + 1
        if busy and loop.time() > end_s:
            raise AssertionError(f"the app does not become quiet: {busy}")
        if busy and not is_stepping:
            await asyncio.sleep(LOOK_S)


def _what_is_left(app: Any, loop: asyncio.AbstractEventLoop) -> Iterator[object]:
    """Name what an app has still to do; what waits for the next frame is drawn at once."""
    if vars(loop)["_ready"]:
        yield "callbacks of the event loop"
    for pump in _pumps(app):
        if pump._running and not _is_waiting(pump):
            yield "messages of", pump
        if pump._timers and any(_is_short(timer) for timer in list(pump._timers)):
            yield "a timer of", pump
    if not app.animator._complete_event.is_set():
        yield "an animation"
    for screen in (*app._background_screens, app.screen):  # a dialog shows what is behind it
        if screen._running and _is_to_draw(screen, is_top=screen is app.screen):
            screen._on_timer_update()
            yield "a frame of", screen
    if any(loop.time() - began_s < CALL_S for began_s in _calls.get(loop, {}).values()):
        yield "a call in a thread"


def _pumps(app: App[Any]) -> Iterator[MessagePump]:
    yield app
    for stack in app._screen_stacks.values():
        for screen in stack:
            yield from screen.walk_children(with_self=True)


def _is_waiting(pump: MessagePump) -> bool:
    """Tell whether a message pump has nothing to do but to wait for its next message."""
    queue: Any = pump._message_queue
    is_asking = any(not waiter.done() for waiter in queue.ready_event._waiters)
    return bool(is_asking and queue.empty() and pump._pending_message is None and not pump._next_callbacks)


def _is_short(timer: Any) -> bool:
    is_running = timer._task is not None and not timer._task.done() and timer._active.is_set()
    calls = [getattr(call, "__func__", None) for call in getattr(timer._callback, "args", ())]
    return is_running and timer._repeat == 0 and (VirtualLineView._draw in calls or timer._interval <= SHORT_S)


def _is_to_draw(screen: Screen[Any], *, is_top: bool) -> bool:
    """Tell whether a screen has a frame to draw; one behind another asks itself for one with every frame."""
    if screen.app._batch_count:
        return False
    is_to_draw = screen._layout_required or screen._scroll_required or (is_top and screen._repaint_required)
    return bool(is_to_draw or screen._recompose_required or screen._dirty_widgets or screen._callbacks)
