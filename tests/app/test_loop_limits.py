from __future__ import annotations

from lmtui.core.events import TurnEnded
from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.app.conftest import Open, Serve, run


async def test_a_turn_ends_where_the_model_repeats_itself(serve: Serve, open_one: Open) -> None:
    again = ScriptedTurn("Let me look.", calls=(ScriptedCall("ls", {}),))
    server = await serve(*[again] * 30)
    session = await open_one(server.url).new_session()
    (end,) = [event for event in await run(session) if isinstance(event, TurnEnded)]
    assert (end.iterations, end.exit_code) == (5, 2)
