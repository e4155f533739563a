from __future__ import annotations

import asyncio
from collections.abc import Mapping

from lmtui.core.tool_servers import Form
from tests.tui.driving import Driver, running

SCHEMA = {
    "properties": {
        "name": {"type": "string", "title": "Your name"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "fine": {"type": "boolean", "default": True},
        "colour": {"type": "string", "enum": ["red", "blue"]},
    },
    "required": ["name"],
}


def ask(driver: Driver, form: Form) -> asyncio.Task[Mapping[str, object] | None]:
    async def work() -> Mapping[str, object] | None:
        return await driver.host.extensions.mcp.ask(form)

    return asyncio.create_task(work())


async def typed(driver: Driver, text: str) -> None:
    await driver.until_screen("AskText")
    await driver.press(*text, "enter")


async def test_a_form_is_asked_question_by_question_and_sent_after_a_last_look() -> None:
    async with running() as driver:
        asking = ask(driver, Form("crm", "Who is it?", SCHEMA))
        await driver.until_screen("AskText")
        assert "crm ASKS: Who is it?" in driver.text()
        assert "Your name" in driver.text()
        await typed(driver, "Ada")
        await driver.until(lambda: "age" in driver.text())
        await typed(driver, "200")
        await driver.until(lambda: "a number from 0" in driver.text())
        await typed(driver, "36")
        await driver.until_screen("Picker")
        await driver.press("enter")
        await driver.until(lambda: "colour" in driver.text())
        await driver.press("down", "enter", to="Confirm")
        assert "name: Ada" in driver.text()
        await driver.press("y")
        assert await asking == {"name": "Ada", "age": 36, "fine": True, "colour": "blue"}


async def test_leaving_a_question_or_a_no_at_the_end_sends_nothing_and_opens_no_page() -> None:
    async with running() as driver:
        asking = ask(driver, Form("crm", "Who is it?", SCHEMA))
        await driver.until_screen("AskText")
        await driver.press("escape")
        assert await asking is None
        asking = ask(driver, Form("crm", "Sure?", {"properties": {}}))
        await driver.until_screen("Confirm")
        await driver.press("n")
        assert await asking is None
        asking = ask(driver, Form("crm", "Log in there.", url="https://login.example/x"))
        await driver.until_screen("Confirm")
        assert "https://login.example/x" in driver.text()
        await driver.press("n")
        assert await asking is None
