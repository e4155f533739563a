from __future__ import annotations

import re

from rich.cells import cell_len

from lmtui.core import events
from lmtui.core.messages import ToolCall
from lmtui.core.workspace import FileChange, FileChangeKind
from tests.sets import depth
from tests.tui.driving import SMALL, Driver
from tests.tui.fakes import FakeHost, FakeSession
from tests.tui.one_app import Cases, Size

NAMES = (
    "odd\nname.py",
    "bell\x07\x1b[31mred\x1b]0;owned\x07.py",
    "right\u202eyp.exe",
    "مرحبا بالعالم.txt",
    "👩‍👩‍👧‍👦 family 🏳️‍🌈.md",
    "漢字とかな" * 12 + ".rst",
    "n" * 300 + ".py",
    "combining e\u0301\u0302\u0323.txt",
    "tab\tand\rreturn.c",
    "zero\u200bwidth\ufeff.h",
)
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
SIZES = depth((SMALL,), (SMALL, (60, 18)))


def host_with_names() -> FakeHost:
    host = FakeHost()
    host.files.contents = {name: name.encode() for name in NAMES} | {f"folder {name}/{name}": b"" for name in NAMES[:4]}
    return host


def work(session: FakeSession) -> None:
    """Let every name turn up wherever one can."""
    session.begin_turn(" and ".join(NAMES))
    for number, name in enumerate(NAMES):
        call_id = f"c{number}"
        session.say(f"I read `{name}` and {name}", calls=(ToolCall(call_id, "read", "{}"),))
        session.start_call(call_id, "read", name)
        session.finish_call(call_id, "read", result=f"1  {name}", summary=name)
        change = FileChange(
            name, FileChangeKind.MODIFIED, 1, 1, f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-{name}\n+{name}!\n"
        )
        session.emit(events.FilesChanged(call_id=call_id, files=(name,), changes=(change,)))
    session.emit(events.Notice(level=events.Level.WARNING, text=" ".join(NAMES)))
    session.emit(events.SessionRenamed(title=" ".join(NAMES)))


def look(driver: Driver) -> None:
    """See that nothing on the screen can move the cursor, and that every row is exactly as wide as the screen."""
    width = driver.app.size.width
    for row in ("".join(segment.text for segment in strip) for strip in driver.strips()):
        assert not CONTROLS.search(row), ascii(row)
        assert cell_len(row) == width, (cell_len(row), row)


cases = Cases(host_with_names)


@cases.each("size", SIZES)
async def no_name_breaks_a_pane_or_a_list(driver: Driver, size: Size) -> None:
    work(driver.host.session)
    await driver.settle()
    look(driver)
    for key in ("f6", "f7", "f8", "f9"):
        await driver.press(key)
        for _ in range(4):
            await driver.press("pageup" if key == "f9" else "down")
            look(driver)
    for key in ("f2", "f10", "ctrl+p"):
        await driver.press(key)
        for _ in range(3):
            await driver.press("down")
            look(driver)
        await driver.press("escape")


@cases.each("size", SIZES)
async def no_name_breaks_the_viewer_or_the_completions(driver: Driver, size: Size) -> None:
    await driver.press("@")
    await driver.until(lambda: driver.app.workbench.dock.completions.display)
    for _ in NAMES:
        await driver.press("down")
        look(driver)
    await driver.press("escape", "backspace")
    for name in NAMES:
        driver.app.workbench.ready.files.open_file(name)
        await driver.until_screen("Viewer")
        look(driver)
        await driver.press("escape")


@cases.each("size", SIZES)
async def no_name_breaks_an_approval(driver: Driver, size: Size) -> None:
    driver.host.session.begin_turn("go")
    driver.host.session.ask("a1", " ".join(NAMES), path=NAMES[1], tool="write")
    await driver.until_screen("Approval")
    look(driver)
