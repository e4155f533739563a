from __future__ import annotations

import pytest

from lmtui.config import Config
from lmtui.runtime.connection import Connection
from lmtui.runtime.servers import is_one_model
from tests.runtime.conftest import DONE, Open, Serve, run

# A look at the server that is cancelled while it connects may leave its socket to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ROLES = ("coder: small seed=7", "planner: big temperature=0.1")


async def test_sessions_begin_with_the_coders_model_and_plan_with_the_planners(open_one: Open, serve: Serve) -> None:
    server = await serve(DONE, DONE, models=("main", "small", "big"), window_tokens=16_000)
    await run(await open_one(server.url, model="main", roles=ROLES, temperature=0.5).new_session())
    await run(await open_one(server.url, model="main", roles=ROLES, temperature=0.5, mode="plan").new_session())
    asked = [(request.body["model"], request.body["temperature"], request.body.get("seed")) for request in server.requests]
    assert asked == [("small", 0.5, 7), ("big", 0.1, None)]


async def test_a_model_that_is_chosen_comes_before_the_coders(open_one: Open, serve: Serve) -> None:
    server = await serve(DONE, models=("small", "big"), window_tokens=16_000)
    runtime = open_one(server.url, roles=("coder: small",))
    await runtime.servers.use(server.url, "big")
    await run(await runtime.new_session())
    assert server.requests[0].body["model"] == "big"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (Config(), True),
        (Config(roles=("planner: temperature=0.1",)), True),
        (Config(roles=ROLES), False),
        (Config(roles=ROLES, one_model="on"), True),
        (Config(one_model="off"), False),
    ],
)
def test_one_large_model_at_a_time_unless_roles_want_several(config: Config, expected: bool) -> None:
    assert is_one_model(config) is expected


@pytest.mark.parametrize(("slots", "expected"), [(3, 3), (0, 1)])
def test_the_slots_of_the_settings_are_those_of_the_server(slots: int, expected: int) -> None:
    assert Connection(Config(url="http://127.0.0.1:9", slots=slots)).provider().slots.count == expected
