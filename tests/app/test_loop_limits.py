from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.config import load_config
from lmtui.core.events import TurnEnded
from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.app.conftest import Open, Serve, run

NAMES = {
    "MAX_SAME_TOOL_STREAK": "max_same_tool_streak",
    "MAX_NO_PROGRESS_ITERS": "max_no_progress_iters",
    "MAX_ERRORS": "max_errors",
    "MAX_EMPTY_ITERATIONS": "max_empty_iterations",
}


def test_limits_are_set_under_the_names_that_users_know(tmp_path: Path) -> None:
    config = load_config(tmp_path, dict.fromkeys(NAMES, "3"), {}).config
    assert {setting: getattr(config, setting) for setting in NAMES.values()} == dict.fromkeys(NAMES.values(), 3)


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({}, 5),
        ({"max_same_tool_streak": 4}, 3),
        ({"max_same_tool_streak": 0, "max_no_progress_iters": 0}, 5),  # the same words again
        ({"max_same_tool_streak": 0, "max_no_progress_iters": 3}, 4),
    ],
)
async def test_limits_of_the_settings_end_a_loop(serve: Serve, open_one: Open, settings: dict[str, int], steps: int) -> None:
    again = ScriptedTurn("Let me look.", calls=(ScriptedCall("ls", {}),))
    server = await serve(*[again] * 30)
    session = await open_one(server.url, **settings).new_session()
    (end,) = [event for event in await run(session) if isinstance(event, TurnEnded)]
    assert (end.iterations, end.exit_code) == (steps, 2)
