from __future__ import annotations

from textual.widgets import Input

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.roles import ModelRole
from lmtui.core.servers import NO_KEY, ServerFound
from lmtui.tui.lines.styled_text import plain
from lmtui.tui.modals.models import ROLE_NOTES, read_window, server_row
from tests.sets import for_each
from tests.tui.driving import Driver
from tests.tui.fakes import FakeHost
from tests.tui.one_app import Cases
from tests.tui.scenes_models import NOMIC, PHI, QWEN, QWEN3, RICH

OLLAMA = "http://127.0.0.1:11434"
FREE = ProviderError(Fault.REJECTED, "no memory for it", "Unload another model.")


def rich_host() -> FakeHost:
    host = FakeHost()
    host.servers.found = RICH
    return host


async def open_models(driver: Driver) -> None:
    await driver.press("alt+e", to="Models")
    await driver.until(lambda: driver.text("#models-title").split() == ["Models", "7"])


async def load_marked(driver: Driver, typed: str = "") -> None:
    await driver.press("l", to="AskText")
    await driver.press(*typed, "enter")


cases = Cases(rich_host)
plain_cases = Cases()


@cases
async def enter_takes_a_model_of_any_server_for_this_session(driver: Driver) -> None:
    lm_studio = "http://127.0.0.1:1234"
    for key, url, name, where in (
        ("down", OLLAMA, "llama3.2:3b", "llama3.2:3b"),
        ("home", lm_studio, QWEN3.name, f"now using {QWEN3.name} at {lm_studio}"),
        ("end up", "gguf:", PHI.name, f"now using {PHI.name} on this machine"),
    ):
        await open_models(driver)
        await driver.press(*key.split(), "enter")
        await driver.until_shown(where)
        assert driver.host.used == (url, name)
        assert (driver.view.state.model.name, driver.view.state.model.url) == (name, url)


@cases.full()
async def a_load_takes_the_window_that_was_typed_and_is_seen_going_on_and_given_up(driver: Driver) -> None:
    servers, session = driver.host.servers, driver.host.session
    await open_models(driver)
    servers.gate.clear()
    await driver.press("down")
    await load_marked(driver, "16k")
    await driver.until_shown("loading, 0 s")
    servers.gate.set()
    await driver.until_shown("16k")
    await load_marked(driver, "lots")
    await driver.until_shown("is not a context size")
    servers.gate.clear()
    await load_marked(driver)
    await driver.until_shown("loading, 0 s")
    await driver.press("x")
    await driver.until(lambda: servers.given_up == ["llama3.2:3b"])
    await driver.until(lambda: "loading, 0 s" not in driver.text())
    servers.gate.set()
    await driver.press("up")
    before = len(session.history())
    await load_marked(driver, "8192")
    await driver.until(lambda: len(session.history()) > before)  # the window of the session is asked for again
    assert servers.loads == [(OLLAMA, "llama3.2:3b", 16_384), (OLLAMA, "llama3.2:3b", 0), (OLLAMA, QWEN.name, 8192)]


@cases
async def what_fails_says_why_and_what_to_do(driver: Driver) -> None:
    host = driver.host
    host.servers.error = host.servers.refusal = FREE
    await open_models(driver)
    await load_marked(driver)
    await driver.until_shown("no memory for it. Unload another model.")
    host.servers.error = ProviderError(Fault.REJECTED, "the model answers nothing", "Look at its log.")
    await driver.press("t")
    await driver.until_shown("the model answers nothing. Look at its log.")
    await driver.press("enter")
    await driver.until_shown("no memory for it", "#say")


async def choose_role(driver: Driver, typed: str) -> None:
    await driver.press("e", to="Picker")
    await driver.press(*typed, "enter", to="Models")


@cases.full()
async def a_model_takes_a_role_and_shows_it_and_lets_it_go(driver: Driver) -> None:
    await open_models(driver)
    await choose_role(driver, "plann")
    await driver.until(lambda: driver.host.settings.role_texts == (f"planner: {QWEN.name}",))
    await driver.until_shown(f"planner: {QWEN.name}; new sessions use it", "#models-state")
    await driver.until_shown("planner tools", "#models-box")
    await driver.press("down", "e", *"plann")
    await driver.until_shown(f"{ROLE_NOTES[ModelRole.PLANNER]}; now {QWEN.name}"[:60])
    await driver.press("escape", "up", to="Models")
    await choose_role(driver, "plann")
    await driver.until(lambda: driver.host.settings.role_texts == ())
    await driver.until_shown("planner: the model of the session", "#models-state")
    await driver.press("home", "e")
    await driver.until_shown("Roles apply to the server in use", "#models-state")
    assert driver.host.settings.role_texts == ()


@cases
async def a_model_is_unloaded_where_its_server_loads_and_unloads(driver: Driver) -> None:
    servers = driver.host.servers
    await open_models(driver)
    await driver.press("x")
    await driver.until(lambda: servers.unloads == [QWEN.name])
    await driver.until_shown(f"{QWEN.name}: unloaded", "#models-state")
    await driver.press("down", "up")
    await driver.until_shown("not loaded", "#models-state")
    await driver.press("end", "up", "up", "l")
    await driver.press("x")
    assert "l load" not in driver.text()
    assert (servers.loads, servers.unloads) == ([], [QWEN.name])


@plain_cases
async def nothing_there_says_what_to_do(driver: Driver) -> None:
    host = driver.host
    host.servers.found = ()
    await driver.press("alt+e", to="Models")
    await driver.until_shown("No model server answers. Start one and refresh, or add one")
    await driver.press("enter", "l", "x")
    assert host.servers.loads == []


@plain_cases
async def enter_on_a_server_that_needs_a_key_asks_for_it_unseen(driver: Driver) -> None:
    servers = driver.host.servers
    servers.found = (ServerFound("a server", "http://box", (), NO_KEY),)
    await driver.press("alt+e", to="Models")
    await driver.until_shown(NO_KEY)
    await driver.press("l", "x", "e", "t", "enter", to="AskText")
    await driver.press(*"sk-9")
    assert "sk-9" not in driver.text()
    await driver.press("enter", to="Models")
    await driver.until(lambda: servers.keys == {"http://box": "sk-9"})


def test_a_name_cannot_steer_the_terminal() -> None:
    server = ServerFound("k\x1b[2J", "http://h", (), note="n\x1b[2J")
    assert "\x1b" not in plain(server_row(server, 80))


@for_each(
    ("typed", "window"),
    [
        ("", 0),
        ("16384", 16_384),
        ("16,384", 16_384),
        ("16k", 16_384),
        ("16 K", 16_384),
        ("12", None),
        ("t", None),
        ("-5", None),
        ("9" * 5000, None),
    ],
)
def test_windows_are_read_as_people_write_them(typed: str, window: int | None) -> None:
    assert read_window(typed) == window


@cases.full()
async def what_is_known_of_a_model_stands_with_what_its_server_tells_and_a_test_is_given_up(driver: Driver) -> None:
    servers = driver.host.servers
    await open_models(driver)
    await driver.press("t")
    await driver.until_shown("calls: text (native: it writes", "#models-state")
    await driver.press("down")
    await driver.until(lambda: "calls: text" not in driver.text("#models-state"))
    await driver.press("up")
    await driver.until_shown("calls: text (tested)", "#models-state")
    assert "window 4,096" in driver.text("#models-state")
    servers.gate.clear()
    await driver.press("t")
    await driver.until_shown("testing its tool calls")
    await driver.press("x")
    await driver.until(lambda: servers.given_up == [QWEN.name])
    assert servers.unloads == []
    await driver.press("home", "down", "down", "t")
    assert "t test" not in driver.text()
    assert (OLLAMA, NOMIC.name) not in servers.profiles


@cases
async def a_server_is_added_by_its_address_and_a_dead_one_is_said(driver: Driver) -> None:
    host = driver.host
    host.servers.refusal = ProviderError(Fault.UNREACHABLE, "No server at dead:1", "Start it.")
    await open_models(driver)
    await driver.press("a")
    await driver.until(lambda: "http://10.0.0.7:9000" in driver.app.screen.query_one(Input).value)  # it wants a key
    await driver.press("ctrl+u", *"dead:1", "enter")
    await driver.until_shown("API key")
    await driver.press("enter")
    await driver.until_shown("✗ No server at dead:1. Start it.")
    assert host.used is None
    host.servers.refusal = None
    await driver.press("a", to="AskText")
    await driver.press(*["backspace"] * 6, *"box:1", "enter")
    await driver.until_shown("API key")
    await driver.press(*"sk-9")
    assert "sk-9" not in driver.text()
    await driver.press("enter")
    await driver.until(lambda: (host.used, host.servers.keys) == (("box:1", ""), {"box:1": "sk-9"}))
    await driver.until_shown("Added box:1")
