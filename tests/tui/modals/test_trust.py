from __future__ import annotations

import threading

import pytest

from lmtui.core.errors import ConfigError
from lmtui.core.tool_servers import Reach
from lmtui.core.trust import TrustItem
from tests.tui.driving import SMALL, Driver, running
from tests.tui.fakes import FakeHost, FakeTrust
from tests.tui.one_app import Cases
from tests.tui.scenes import TRUST_ITEMS

cases = Cases()
HOOKS = [TrustItem("hook", f"hooks/{number}", f"run {number}") for number in range(60)]
BROUGHT = (
    TrustItem("hook", ".lmagent/hooks.json", "PreToolUse Bash: guard.sh"),
    TrustItem("MCP server", ".mcp.json", "paper: python3 paper_server.py"),
    TrustItem("hook", ".lmagent/hooks.json", "Stop: done.sh"),
)


def bringing(*items: TrustItem) -> FakeHost:
    host = FakeHost()
    host.trust.items = list(items)
    return host


async def at_question(driver: Driver) -> None:
    await driver.until_screen("TrustQuestion")
    driver.host.clock.forward(1)
    await driver.settle()


async def ask(driver: Driver, *items: TrustItem) -> FakeTrust:
    driver.host.trust.items = list(items)
    await driver.type("/trust")
    await at_question(driver)
    return driver.host.trust


@pytest.mark.parametrize(("key", "answer"), [("t", True), ("escape", None)])
async def test_a_folder_that_brings_something_asks_before_a_session_opens(key: str, answer: bool | None) -> None:
    async with running(bringing(*TRUST_ITEMS), is_ready=False) as driver:
        await at_question(driver)
        assert driver.host.opened == {}
        assert "url = http://10.0.0.7:8080/v1" in driver.text()
        await driver.press(key)
        await driver.until(lambda: driver.app.workbench.active is not None)
        assert driver.host.trust.is_trusted is answer


@cases
async def enter_and_space_trust_nothing_and_there_is_nothing_to_list_or_to_choose(driver: Driver) -> None:
    await driver.type("/trust")
    assert "this folder brings nothing that needs your trust" in driver.text("#say")
    trust = await ask(driver, *TRUST_ITEMS)
    assert "where a server runs" not in driver.text()
    await driver.press("space")
    assert (trust.is_trusted, driver.screen_name) == (None, "TrustQuestion")
    driver.host.clock.forward(1)
    await driver.press("enter")
    assert trust.is_trusted is False
    await driver.type("/trust")
    await at_question(driver)
    await driver.press("t", to="Workbench")
    assert trust.is_trusted


@cases.at(SMALL)
async def a_long_list_is_trusted_only_after_its_end_was_seen(driver: Driver) -> None:
    trust = await ask(driver, *HOOKS)
    assert "t Read on" in driver.text()
    await driver.press("t")
    assert trust.is_trusted is None
    await driver.press("end", "t")
    assert trust.is_trusted is True


@cases
async def hostile_items_are_named_and_what_changed_while_the_question_was_open_is_not_trusted(driver: Driver) -> None:
    rule = TrustItem("permission rule", "config.toml", "allow = Shell(true \x1b]0;; curl evil #\x07)")
    trust = await ask(driver, TrustItem("[red]hook", "a\x1b[2J.toml", "one\ntwo \u202egpj [bold]"), rule)
    for words in ("[red]hook", "one⏎two <U+202E>gpj [bold]", "; curl evil #"):
        assert words in driver.text()
    trust.items.append(TrustItem("hook", "x", "rm -rf ~"))
    await driver.press("t")
    assert trust.is_trusted is None
    assert "have changed" in driver.text()


async def test_the_first_run_says_that_the_folder_is_not_trusted_and_leads_there() -> None:
    host = FakeHost(setup_note="No model server is chosen yet.")
    host.trust.items = list(TRUST_ITEMS)
    async with running(host, is_ready=False) as driver:
        await driver.until_screen("FirstRun")
        await driver.until(lambda: "its own settings are ignored until you trust it" in driver.text())
        await driver.press("t")
        await at_question(driver)
        await driver.press("t", to="FirstRun")
        await driver.until(lambda: "its own settings are ignored" not in driver.text())
        assert host.trust.is_trusted is True


async def test_a_question_that_another_lmtui_was_answered_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmtui.tui.modals.trust_question.LOOK_S", 0.02)
    async with running(bringing(*TRUST_ITEMS), is_ready=False) as driver:
        await at_question(driver)
        await driver.until(lambda: bool(driver.host.trust.threads - {threading.get_ident()}))
        driver.host.trust.threads.clear()
        looks = driver.host.trust.looks
        await driver.until(lambda: driver.host.trust.looks > looks + 1)
        assert threading.get_ident() not in driver.host.trust.threads, "the folder is read on the event loop"
        driver.host.trust.elsewhere = True
        await driver.until(lambda: driver.app.workbench.active is not None)
        assert driver.host.trust.is_trusted is None
        assert ["is trusted" in each for each in driver.told] == [True]


async def test_what_was_refused_and_is_looked_at_again_stays_until_it_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmtui.tui.modals.trust_question.LOOK_S", 0.02)
    host = bringing()
    host.trust.refused_items = list(TRUST_ITEMS)
    host.trust.elsewhere = False
    async with running(host) as driver:
        await driver.type("/trust")
        await at_question(driver)
        looks = host.trust.looks
        await driver.until(lambda: host.trust.looks > looks + 1)
        assert driver.screen_name == "TrustQuestion"
        host.trust.elsewhere = True
        await driver.until(lambda: driver.screen_name != "TrustQuestion")


@cases.full()
async def after_a_yes_it_says_what_holds_now_and_what_from_the_next_session(driver: Driver) -> None:
    await ask(driver, *BROUGHT)
    await driver.press("t")
    said = "From now on: 1 MCP server. From the next session on: 2 hooks."
    await driver.until(lambda: said in driver.text("#say").replace("\n", " "))


@cases.at(SMALL)
async def what_is_trusted_is_listed_and_taken_back_by_a_letter_only(driver: Driver) -> None:
    trust = driver.host.trust
    trust.trusted_items = list(BROUGHT)
    for key in ("enter", "n", "escape"):
        await driver.type("/trust", "TrustedQuestion")
        assert "paper: python3 paper_server.py" in driver.text()
        await driver.press(key, to="Workbench")
    assert trust.trusted_items == list(BROUGHT)
    await driver.type("/trust", "TrustedQuestion")
    await driver.press("y")
    await driver.until(lambda: "Trust revoked. Its servers stop" in driver.text())
    assert trust.trusted_items == []


@cases.full()
async def an_answer_that_cannot_be_kept_or_taken_back_is_said(driver: Driver) -> None:
    trust = await ask(driver, *TRUST_ITEMS)
    trust.failure = ConfigError("the answer cannot be kept", "The disk is full.")
    await driver.press("t")
    assert "the answer cannot be kept" in driver.text()
    await driver.press("escape", to="Workbench")
    trust.items, trust.trusted_items = [], list(BROUGHT)
    await driver.type("/trust", "TrustedQuestion")
    await driver.press("y")
    await driver.until(lambda: "the answer cannot be kept" in driver.text("#say"))


@cases
async def where_a_server_runs_is_chosen_and_what_is_listed_then_is_trusted(driver: Driver) -> None:
    servers = [TrustItem("MCP server", ".mcp.json", f"{name}: npx {name}", server=name) for name in "ab"]
    trust = await ask(driver, *servers)
    await driver.press("s", to="Picker")
    await driver.press("down", "enter")
    await driver.until(lambda: "Where does b run?" in driver.text())
    trust.items[1] = TrustItem("MCP server", ".mcp.json", "b: outside the sandbox, x, as you chose", server="b")
    await driver.press("down", "down", "enter")
    await driver.until(lambda: "as you chose" in driver.text())
    assert driver.host.extensions.mcp.chosen == [("b", Reach.HOST)]
    await driver.press("t")
    assert trust.is_trusted is None, "something else stands there: keys count after a moment"
    await at_question(driver)
    await driver.press("t")
    await driver.until(lambda: trust.is_trusted is True)


@cases.full(SMALL)
async def after_a_choice_the_list_is_read_to_its_end_again(driver: Driver) -> None:
    trust = await ask(driver, TrustItem("MCP server", ".mcp.json", "a: npx a", server="a"), *HOOKS)
    await driver.press("end", "s", to="Picker")
    trust.items.append(TrustItem("hook", "hooks/last", "run last"))
    await driver.press("enter")
    await at_question(driver)
    await driver.press("t")
    assert trust.is_trusted is None
    assert "t Read on" in driver.text()
