"""Cases that share one app: starting an app costs more than most cases do.

Each case begins with a new session of a host as new, on an empty prompt, with nothing open and every pane in its place.  A
case that fails is said by its name, and stops no other: the next ones have another app.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple

from lmtui.tui.lines.file_tree import TreeMarks, TreeRows
from lmtui.tui.timing import SecondPress
from lmtui.tui.widgets.ask_line import AskLine
from tests.sets import depth, few
from tests.tui.driving import WIDE, Driver, running
from tests.tui.fakes import START, FakeHost
from tests.waiting import PATIENCE_S

Size = tuple[int, int]
Steps = Callable[..., Awaitable[None]]
LASTING = ("_listeners", "_subscribers")  # the app listens from its start on


class Case(NamedTuple):
    """What a case does, on a screen of which size, and with which values."""

    size: Size
    steps: Steps
    values: dict[str, Any]

    def name(self) -> str:
        """Return what a failure calls it."""
        values = ", ".join(f"{name}={value!r}" for name, value in self.values.items())
        return f"in the case {self.steps.__name__}, {self.size[0]}x{self.size[1]} {values}"


class Cases:
    """The cases of a module, collected as one test, and the decorators that add one; those of one size run after each other."""

    def __init__(self, make_host: Callable[[], FakeHost] = FakeHost) -> None:
        self._make_host = make_host
        self._cases: list[Case] = []

    def __call__(self, steps: Steps) -> Steps:
        self._cases.append(Case(WIDE, steps, {}))
        return steps

    def __len__(self) -> int:
        return len(self._cases)

    def at(self, size: Size) -> Callable[[Steps], Steps]:
        """Add a case on a screen of this size."""
        return self.each((), [()], size)

    def full(self, size: Size = WIDE) -> Callable[[Steps], Steps]:
        """Add a case for `make full`; a cheaper test fails for the same faults."""
        return self.at(size) if depth(quick=False, full=True) else lambda steps: steps

    def each(self, names: str | Sequence[str], values: Iterable[Any], size: Size = WIDE) -> Callable[[Steps], Steps]:
        """Add a case for each value, or a few of them in the quick suite; a value named `size` is that of its screen."""

        def add(steps: Steps) -> Steps:
            for value in few(values):
                given = {names: value} if isinstance(names, str) else dict(zip(names, value, strict=True))
                self._cases.append(Case(given.get("size", size), steps, given))
            return steps

        return add

    async def run(self) -> None:
        """Run all of them; fail with every one that failed."""
        failed: list[Exception] = []
        waiting = sorted(self._cases, key=lambda case: case.size, reverse=True)
        while waiting:
            async with running(self._make_host(), size=waiting[0].size) as driver:
                start = _Start(driver)
                while waiting and not driver.app.is_leaving:
                    case = waiting.pop(0)
                    try:
                        await start.again(self._make_host(), case.size)
                        await case.steps(driver, **case.values)
                        _ = driver.text()  # what cannot be drawn fails, whether the case looked or not
                    except Exception as error:  # noqa: BLE001 - whatever it is, it is told with the others
                        error.add_note(case.name())
                        failed.append(error)
                        break
        if failed:
            raise ExceptionGroup(f"{len(failed)} of {len(self._cases)} cases", failed)


class _Start:
    """How an app is before its first case, and how it becomes so again: nothing of what a case did is there for the next."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._is_there = True
        self._lasting = set(driver.app.workers)
        self._options, self._theme = driver.app.options, driver.app.theme

    async def again(self, host: FakeHost, size: Size) -> None:
        """Go back to it, with another host."""
        if not self._is_there:
            async with asyncio.timeout(PATIENCE_S):
                await self._go_back(host, size)
        self._is_there = False

    async def _go_back(self, host: FakeHost, size: Size) -> None:
        driver, app, bench = self._driver, self._driver.app, self._driver.app.workbench
        for session_id in list(app.sessions.views):
            app.sessions.forget(session_id)
            await bench.panes.forget(session_id)
        for worker in set(app.workers) - self._lasting:
            worker.cancel()
        await driver.settle()
        while app.screen is not bench:
            await app.pop_screen()
        app.sessions.parked.clear()
        for known in vars(bench.ready.approvals).values():
            if isinstance(known, set | dict):
                known.clear()
        for line in bench.query(AskLine):
            line.display = False
        app.options, app.theme = self._options, self._theme
        app.clear_notifications()
        bench._stop = SecondPress()
        clock = driver.host.clock
        clock.time = START
        become(driver.host, host)
        driver.host.clock = clock
        if tuple(app.size) != size:
            await driver.pilot.resize_terminal(*size)
        bench.prompt.replace_text("")
        bench.say_line.clear()
        bench.panes.hidden.clear()
        bench.panes.bring_to_front("chat")
        bench.panes.place_columns()
        bench.pane = "chat"
        self._forget_files()
        _ = await app.sessions.open()
        await driver.settle()  # what was closed gives the focus back by then
        bench.prompt.focus()
        await driver.until(lambda: bench.prompt.has_focus)
        await driver.settle()

    def _forget_files(self) -> None:
        ready, prompt = self._driver.app.workbench.ready, self._driver.app.workbench.prompt
        completion, tree, files = ready.prompts.completion, ready.panes.files, ready.files
        completion._search, completion._known_at = None, float("-inf")
        completion._mentioned.clear()
        _ = prompt.completing.values.pop("models", None)
        files._problem = files._last_path = ""
        TreeRows.__init__(tree.source.tree)
        TreeMarks.__init__(tree.source.marks)
        tree._asked.clear()
        tree.cursor.put(0)
        files.start()


def become(old: Any, new: Any) -> None:
    """Give an object the state of another, and so the fakes that it is made of: whoever holds them sees the new state."""
    if vars(old) is vars(new):
        return
    state, before = vars(old), dict(vars(old))
    state.clear()
    state.update(vars(new))
    new.__dict__ = state
    for name, value in list(state.items()):
        held = before.get(name)
        if name in LASTING:
            state[name] = held
        elif type(held) is type(value) and type(value).__module__.startswith("tests."):
            become(held, value)
            state[name] = held
