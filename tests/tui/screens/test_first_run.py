from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.servers import ServerFound, ServerKind
from tests.tui.driving import WIDE, Driver, running
from tests.tui.fake_servers import WantsKey
from tests.tui.fakes import FakeHost

NOTE = "No model server is chosen yet."


async def at_first_run(driver: Driver) -> None:
    await driver.until(lambda: driver.screen_name in ("FirstRun", "AskText"))
    await driver.settle()


async def test_servers_are_listed_and_enter_takes_the_marked_one() -> None:
    async with running(FakeHost(setup_note=NOTE), is_ready=False) as driver:
        await at_first_run(driver)
        await driver.until(lambda: "qwen2.5-coder-7b-instruct" in driver.text())
        assert "loaded 8k tools" in driver.text()
        rows = [line.split() for line in driver.text().splitlines() if "no answer" in line]
        assert [row[1] for row in rows] == ["llama.cpp", "vLLM"]
        await driver.press("down", "enter")
        await driver.until(lambda: driver.app.workbench.active is not None)
        assert driver.host.used == ("http://127.0.0.1:11434/v1", "qwen2.5-coder:7b")


@pytest.mark.parametrize(("is_named", "size"), [(False, WIDE), (True, WIDE), (True, (40, 12))])
async def test_a_server_is_typed_or_named_then_its_key_typed_unseen_then_its_model_chosen(
    is_named: bool, size: tuple[int, int]
) -> None:
    host = FakeHost(setup_note="" if is_named else NOTE)
    host.servers = WantsKey(host)
    host.servers.found = ()
    host.servers.problem = ServerFound("a server", "http://box:8080", (), "API key required") if is_named else None
    async with running(host, is_ready=False, size=size) as driver:
        await at_first_run(driver)
        if not is_named:
            await driver.until(lambda: "No model server answers" in driver.text())
            await driver.press("enter", *"http://box:8080", "enter")
            await driver.until(lambda: "API key required" in driver.text())
        await driver.press(*"sk-8", "enter")
        await driver.until(lambda: "••••" not in driver.text())
        await driver.press(*"sk-9")
        assert ("sk-9" in driver.text(), "••••" in driver.text()) == (False, True)
        await driver.press("enter")
        await driver.until(lambda: "2 models: choose one" in driver.text())
        await driver.press("down", "enter")
        await driver.until(lambda: driver.app.workbench.active is not None)
        assert (host.used, host.servers.keys) == (("http://box:8080", "two"), {"http://box:8080": "sk-9"})


async def test_an_address_that_fails_is_said_and_a_server_that_was_used_before_is_listed() -> None:
    host = FakeHost(setup_note=NOTE)
    host.servers.refusal = ProviderError(Fault.UNREACHABLE, "nothing answers at http://box", "Is it running?")
    host.servers.found = (ServerFound(ServerKind.KEPT, "http://127.0.0.1:18086", (), "no answer"),)
    async with running(host, is_ready=False) as driver:
        await at_first_run(driver)
        await driver.until(lambda: "No model server answers" in driver.text())
        row = next(line for line in driver.text().splitlines() if "18086" in line)
        assert row.split() == ["○", "used", "before", "127.0.0.1:18086", "no", "answer"]
        await driver.press("enter", *"http://box", "enter")
        await driver.until(lambda: "nothing answers at http://box" in driver.text())
        assert driver.app.workbench.active is None


async def test_the_demo_starts_without_a_model() -> None:
    host = FakeHost(setup_note=NOTE)
    host.servers.found = ()
    async with running(host, is_ready=False) as driver:
        await at_first_run(driver)
        await driver.press("down", "enter")
        await driver.until(lambda: driver.app.workbench.active is not None)
        assert host.is_demo
        await driver.press("enter")
        assert host.session.submitted == ["Show me what you can do."]


async def test_what_was_typed_in_the_demo_stays_out_of_the_folder_one_came_from() -> None:
    class Moving(FakeHost):
        async def start_demo(self) -> None:
            await super().start_demo()
            self.workspace = Path("/tmp/demo")

    async with running(Moving(setup_note=NOTE, workspace=Path("/w")), is_ready=False) as driver:
        await at_first_run(driver)
        await driver.until(lambda: "LM Studio" in driver.text())
        await driver.press("end", "enter")
        await driver.until(lambda: driver.app.workbench.active is not None)
        await driver.type("said in the demo")
        driver.app.workbench.prompt.replace_text("a draft in the demo")
        driver.host.session.end_turn()
        await driver.pilot.press("ctrl+q")
        await driver.until(lambda: driver.host.is_closed)
    async with running(FakeHost(workspace=Path("/w"))) as driver:
        assert driver.app.workbench.prompt.text == ""
        assert driver.app.workbench.prompt.history_texts.texts == []


async def test_a_kept_server_that_does_not_answer_is_asked_about_at_the_start() -> None:
    host = FakeHost()
    host.servers.problem = ServerFound(ServerKind.KEPT, "http://127.0.0.1:9999/v1", ())
    async with running(host, is_ready=False) as driver:
        await at_first_run(driver)
        assert "No server at http://127.0.0.1:9999/v1" in driver.text()
        assert driver.app.workbench.active is None
        await driver.until(lambda: "LM Studio" in driver.text())
        await driver.press("enter")
        await driver.until(lambda: driver.app.workbench.active is not None)
        assert host.used is not None
