from __future__ import annotations

from dataclasses import replace

from textual.widgets import Input

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.roles import ModelRole
from lmtui.core.servers import LoadProgress, ServedModel, ServerFound
from lmtui.tui.lines.styled_text import plain, width_of
from lmtui.tui.modals.model_rows import ModelRow, bar, model_row, server_row
from lmtui.tui.modals.models import ROLE_NOTES, read_window
from tests.sets import for_each
from tests.tui.driving import Driver
from tests.tui.fakes import FakeHost
from tests.tui.one_app import Cases
from tests.tui.scenes_models import GEMMA, NOMIC, PHI, POOL, POOLED, QWEN, QWEN3, RICH

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
        ("end", "gguf:", PHI.name, f"now using {PHI.name} on this machine"),
    ):
        await open_models(driver)
        await driver.press(key, "enter")
        await driver.until_shown(where)
        assert driver.host.used == (url, name)
        assert (driver.view.state.model.name, driver.view.state.model.url) == (name, url)


@cases
async def the_cursor_begins_on_the_model_in_use_and_passes_over_servers(driver: Driver) -> None:
    await open_models(driver)
    assert "qwen2.5-coder:7b  loaded" in driver.text("#models-state")
    for key, name in (("up", NOMIC.name), ("end", PHI.name), ("down", PHI.name)):
        await driver.press(key)
        assert name in driver.text("#models-state")
    await driver.press("slash", *"gema")
    await driver.until(lambda: driver.text("#models-title").split() == ["Models", "1"])
    assert GEMMA.name in driver.text()
    assert "Ollama" not in driver.text("#models-box Table")
    await driver.press("escape")
    await driver.until(lambda: driver.text("#models-title").split() == ["Models", "7"])
    looked = driver.host.servers.looked
    await driver.press("r")
    await driver.until(lambda: driver.host.servers.looked == looked + 1)


@cases
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
    await driver.press("u")
    await driver.until(lambda: servers.given_up == ["llama3.2:3b"])
    await driver.until(lambda: "loading, 0 s" not in driver.text())
    servers.gate.set()
    await driver.press("up")
    before = len(session.history())
    await load_marked(driver, "8192")
    await driver.until(lambda: len(session.history()) > before)  # the window of the session is asked for again
    assert servers.loads == [(OLLAMA, "llama3.2:3b", 16_384), (OLLAMA, "llama3.2:3b", 0), (OLLAMA, QWEN.name, 8192)]


@cases
async def a_load_and_a_test_go_on_when_the_list_is_left_and_their_end_is_said(driver: Driver) -> None:
    servers = driver.host.servers
    await open_models(driver)
    servers.gate.clear()
    await driver.press("down")
    await load_marked(driver)
    await driver.until(lambda: bool(servers.loads))
    await driver.press("escape", to="Workbench")
    servers.gate.set()
    await driver.until_shown("llama3.2:3b: loaded, window 4,096")
    servers.gate.clear()
    await driver.press("alt+e", to="Models")
    await driver.press("t")
    await driver.until_shown("testing its tool calls")
    await driver.press("escape", to="Workbench")
    servers.gate.set()
    await driver.until_shown("qwen2.5-coder:7b: calls: text (native: it writes", "#say")


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
    await driver.press("o", to="Picker")
    await driver.press(*typed, "enter", to="Models")


@cases
async def a_model_takes_a_role_and_shows_it_and_lets_it_go(driver: Driver) -> None:
    await open_models(driver)
    await choose_role(driver, "plann")
    await driver.until(lambda: driver.host.settings.role_texts == (f"planner: {QWEN.name}",))
    await driver.until_shown(f"planner: {QWEN.name}; new sessions use it", "#models-state")
    await driver.until_shown("planner tools", "#models-box")
    await driver.press("down", "o", *"plann")
    await driver.until_shown(f"{ROLE_NOTES[ModelRole.PLANNER]}; now {QWEN.name}"[:60])
    await driver.press("escape", "up", to="Models")
    await choose_role(driver, "plann")
    await driver.until(lambda: driver.host.settings.role_texts == ())
    await driver.until_shown("planner: the model of the session", "#models-state")
    await driver.press("home", "o")
    await driver.until_shown("Roles apply to the server in use", "#models-state")
    assert driver.host.settings.role_texts == ()


@cases
async def a_model_is_unloaded_where_its_server_loads_and_unloads(driver: Driver) -> None:
    servers = driver.host.servers
    await open_models(driver)
    await driver.press("u")
    await driver.until(lambda: servers.unloads == [QWEN.name])
    await driver.until_shown(f"{QWEN.name}: unloaded", "#models-state")
    await driver.press("down", "up")
    await driver.until_shown("not loaded", "#models-state")
    await driver.press("end", "up", "l")
    await driver.until_shown("serves what it was started with")
    await driver.press("u")
    assert (servers.loads, servers.unloads) == ([], [QWEN.name])


@plain_cases
async def nothing_there_says_what_to_do(driver: Driver) -> None:
    host = driver.host
    host.servers.found = ()
    await driver.press("alt+e", to="Models")
    await driver.until_shown("No model server answers. Start one and refresh, or add one")
    await driver.press("enter", "l", "u")
    assert host.servers.loads == []


@for_each("width", [10, 60, 140])
@for_each("model", [QWEN3, GEMMA, NOMIC])
def test_rows_fit_any_width(model: ServedModel, width: int) -> None:
    row = model_row(ModelRow(RICH[0], model), width)
    assert width_of(row) <= max(width, 36)
    assert plain(row)[2:16].strip() in model.name + "…" or "…" in plain(row)


def test_a_name_cannot_steer_the_terminal() -> None:
    bad = ServedModel("a\x1b]0;x\x07b")
    server = ServerFound("k\x1b[2J", "http://h", (bad,), note="n\x1b[2J")
    assert "\x1b" not in plain(model_row(ModelRow(server, bad), 80)) + plain(server_row(server, 80))


def test_progress_is_a_bar_where_the_server_tells_it() -> None:
    assert "25%" in bar(0.25)
    assert bar(-1.0) == ""
    row = model_row(ModelRow(RICH[0], QWEN), 80, LoadProgress(f"loading {QWEN.name}, 3 s", 0.5))
    assert "50% loading, 3 s" in plain(row)


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


@cases
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
    await driver.press("u")
    await driver.until(lambda: servers.given_up == [QWEN.name])
    assert servers.unloads == []
    await driver.press("home", "down", "down", "t")
    await driver.until_shown("nothing to test")
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


@cases
async def profiles_are_on_top_and_connect_the_session_and_silent_servers_are_listed(driver: Driver) -> None:
    host = driver.host
    profiles = ServerFound("profiles", "profile:", (ServedModel("gpu", instance="gpu:8080  qwen3-coder"),))
    host.servers.found = (profiles, *RICH, ServerFound("used before", "http://127.0.0.1:18080", (), "no answer"))
    await driver.press("alt+e", to="Models")
    await driver.until_shown("gpu:8080  qwen3-coder")
    await driver.until_shown("used before  127.0.0.1:18080  no answer")
    await driver.press("home", "enter")
    await driver.until(lambda: driver.host.used == ("profile:", "gpu"))
    await driver.until_shown("now using gpu as your settings say")


@plain_cases
async def the_pool_is_shown_as_it_is_while_the_list_is_open(driver: Driver) -> None:
    host = driver.host
    host.servers.found, host.servers.pooled = POOLED, POOL
    await driver.press("alt+e")
    await driver.until_shown("pool 2 of 4 up, 3/6 busy")
    await driver.until_shown("2/2 busy · 3 queued")
    host.servers.pooled = (
        replace(POOL[0], busy=1, waiting=0),
        *POOL[1:3],
        replace(POOL[3], is_up=True, slots=1, problem=""),
    )
    await driver.until_shown("pool 3 of 4 up, 2/7 busy")
    await driver.until_shown("gpu4  ● 0/1 busy")


def test_a_server_of_the_pool_says_why_it_is_down() -> None:
    assert plain(server_row(POOLED[2], 100)) == "server pool  gpu3:11434  ○ down  no model server answers (connection refused)"
    assert plain(server_row(POOLED[1], 100)) == "LM Studio  gpu2:1234  ● 1/4 busy · 72 tok/s"
    assert plain(server_row(POOLED[1], 30)).endswith("…")
