from __future__ import annotations

from lmtui.core import events
from lmtui.core.messages import Role
from lmtui.tui.options import StartOptions
from tests.tui.driving import WIDE, running
from tests.tui.fakes import FakeHost, FakeSession

MANY = 10_000


def host_with(*, turns: int = 1, files: int = 10) -> FakeHost:
    """Return a host whose session `old` has this many turns, over this many files."""
    host = FakeHost()
    host.files.contents = {f"folder{number % 100}/file{number}.py": b"" for number in range(files)}
    session = FakeSession("old", clock=host.clock)
    for number in range(turns):
        session.emit(events.TurnStarted(turn_id=f"t{number}"))
        session.emit(events.MessageAdded(role=Role.USER, text=f"question {number}", turn_id=f"t{number}"))
        session.emit(events.ToolCallStarted(call_id=f"c{number}", tool="read", arguments={}, title="x"))
        session.emit(events.ToolCallFinished(call_id=f"c{number}", tool="read", ok=True, result="x", elapsed_ms=1))
        session.emit(events.TurnEnded(turn_id=f"t{number}", reason=events.TurnReason.DONE))
    host.opened["old"] = session
    return host


async def widgets(host: FakeHost, *keys: str) -> int:
    async with running(host, size=WIDE, options=StartOptions(session_id="old", workspace=str(host.workspace))) as driver:
        await driver.press(*keys)
        return len(driver.app.workbench.walk_children(with_self=True))


async def test_the_number_of_widgets_does_not_depend_on_the_number_of_events() -> None:
    keys = ("f9", "home", "f8", "end")
    assert await widgets(host_with(turns=MANY // 10), *keys) == await widgets(host_with(turns=2), *keys)
