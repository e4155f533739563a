from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from lmtui.core.events import Event, ModelChanged, Notice, TurnEnded
from lmtui.core.model_events import ModelLoaded, ModelLoading
from lmtui.core.permissions.rules import Mode
from lmtui.models.servers.server_client import MemoryGate
from tests.app.conftest import Open
from tests.models.fake_server import FakeServer, Reply, failed, listening, ok

# A look at the server that is cancelled while it connects may leave its socket to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

CHAT = "/v1/chat/completions"
ROLES = ("coder: small", "planner: big context_length=16384", "embedder: nomic")


def said(_: dict[str, Any]) -> Reply:
    piece = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}]}
    return 200, f"data: {json.dumps(piece)}\n\ndata: [DONE]\n\n".encode()


@dataclass
class Machine:
    """A model server with state: which of its models are loaded, each with its window."""

    loaded: dict[str, int] = field(default_factory=lambda: {"small": 8192, "nomic": 2048})
    names: tuple[str, ...] = ("small", "big", "nomic")

    def lm_studio(self) -> dict[str, Any]:
        return {
            "/api/v1/models": lambda _: ok({"models": [self._item(name) for name in self.names]}),
            "/api/v1/models/load": self._load,
            "/api/v1/models/unload": self._unload,
        }

    def _item(self, name: str) -> dict[str, Any]:
        instances = [{"id": name, "config": {"context_length": self.loaded[name]}}] if name in self.loaded else []
        kind = "embedding" if name == "nomic" else "llm"
        return {
            "type": kind, "key": name, "size_bytes": 4_000_000_000, "loaded_instances": instances, "max_context_length": 65_536,
        }  # fmt: skip

    def _load(self, body: dict[str, Any]) -> Reply:
        self.loaded[body["model"]] = body.get("context_length", 4096)
        return ok(
            {"status": "loaded", "instance_id": body["model"], "load_config": {"context_length": self.loaded[body["model"]]}}
        )

    def _unload(self, body: dict[str, Any]) -> Reply:
        del self.loaded[body["instance_id"]]
        return ok({"instance_id": body["instance_id"]})

    def ollama(self) -> dict[str, Any]:
        def generate(body: dict[str, Any]) -> Reply:
            self.loaded.setdefault(body["model"], 4096)
            return ok({"model": body["model"], "done": True})

        def create(body: dict[str, Any]) -> Reply:
            self.names += (body["model"],)
            self.loaded[body["model"]] = body["parameters"]["num_ctx"]
            return ok({"status": "success"})

        return {
            "/api/tags": lambda _: ok({"models": [{"name": name, "size": 4_000_000_000} for name in self.names]}),
            "/api/ps": lambda _: ok({"models": [{"name": each, "context_length": size} for each, size in self.loaded.items()]}),
            "/api/generate": generate,
            "/api/create": create,
        }


Start = Callable[..., Any]


@pytest.fixture(autouse=True)
def _no_wait_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmtui.models.discovery.MemoryGate", functools.partial(MemoryGate, steady_s=0.0))


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def begin(answers: dict[str, Any]) -> FakeServer:
            return await stack.enter_async_context(listening(FakeServer({CHAT: said, **answers})))

        yield begin


async def turns(open_one: Open, server: FakeServer, *modes: Mode, **settings: Any) -> list[Event]:
    """Run a turn in each mode and return what was published."""
    given = {"model": "small", "roles": ROLES} | settings
    session = await open_one(server.url, **given).new_session()
    found: list[Event] = []
    unsubscribe = session.subscribe(lambda envelope: found.append(envelope.event))
    for mode in modes:
        session.set_mode(mode)
        session.submit("do it")
        await session.wait_idle()
    unsubscribe()
    await session.close()
    return found


def posts(server: FakeServer) -> list[tuple[str, str]]:
    """Return what was asked for, in order: the end of the path and the model."""
    short = [(path.rpartition("/")[2], body) for path, body in server.posted if path != "/api/show"]
    return [(verb, str(body.get("model") or body.get("instance_id"))) for verb, body in short]


def loads(events: list[Event]) -> list[tuple[str, str, bool, tuple[str, ...]]]:
    return [(each.model, each.role, each.ok, each.unloaded) for each in events if isinstance(each, ModelLoaded)]


async def test_a_roles_model_is_loaded_before_its_request_and_the_others_make_room(
    open_one: Open, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lmtui.models.servers.lm_studio._ROOM_RATIO", 1e9)  # no memory holds both
    machine = Machine()
    server = await start(machine.lm_studio())
    events = await turns(open_one, server, Mode.PLAN, Mode.PLAN, Mode.AUTO)
    assert posts(server) == [
        ("unload", "small"), ("load", "big"), ("completions", "big"), ("completions", "big"),
        ("unload", "big"), ("load", "small"), ("completions", "small"),
    ]  # fmt: skip
    assert [body.get("context_length") for path, body in server.posted if path.endswith("/load")] == [16_384, None]
    assert loads(events) == [("big", "planner", True, ("small",)), ("small", "coder", True, ("big",))]
    assert machine.loaded.keys() == {"small", "nomic"}
    steps = [each.text for each in events if isinstance(each, ModelLoading)]
    assert steps[0] == "unloading small"
    assert "loaded, window 16,384" in steps
    windows = [each.window_tokens for each in events if isinstance(each, ModelChanged) and each.model == "big"]
    assert windows[-1] == 16_384


async def test_a_load_that_fails_is_said_and_the_server_is_asked_all_the_same(open_one: Open, start: Start) -> None:
    no_memory = failed(500, "Model loading was stopped due to insufficient system resources.")
    server = await start(Machine().lm_studio() | {"/api/v1/models/load": no_memory})
    events = await turns(open_one, server, Mode.PLAN, Mode.PLAN)
    assert posts(server) == [("load", "big"), ("completions", "big"), ("completions", "big")]
    told = [each.text for each in events if isinstance(each, Notice) and "no memory for big" in each.text]
    assert len(told) == 1
    assert "load big in the server or name another model for the role planner" in told[0]
    assert loads(events) == [("big", "planner", False, ())]
    assert [each.exit_code for each in events if isinstance(each, TurnEnded)] == [0, 0]


async def test_a_load_that_does_not_end_is_given_up(open_one: Open, start: Start) -> None:
    server = await start(Machine().lm_studio() | {"/api/v1/models/load": None})
    events = await turns(open_one, server, Mode.PLAN, stall_timeout_s=0.5)
    assert [each.text for each in events if isinstance(each, Notice) and "was not loaded within 0.5 s" in each.text]
    assert posts(server)[-1] == ("completions", "big")


async def test_in_ollama_a_window_is_had_by_a_copy_which_is_asked_then(open_one: Open, start: Start) -> None:
    machine = Machine({"small": 4096})
    server = await start(machine.ollama())
    events = await turns(open_one, server, Mode.PLAN, Mode.AUTO, Mode.PLAN)
    chats = [model for verb, model in posts(server) if verb == "completions"]
    assert chats == ["big:latest-16k", "small", "big:latest-16k"]
    assert [verb for verb, _ in posts(server)].count("create") == 1
    assert [each[0] for each in loads(events)] == ["big"]
    windows = [each.window_tokens for each in events if isinstance(each, ModelChanged) and each.model == "big"]
    assert windows[-1] == 16_384
