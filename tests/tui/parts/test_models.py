from __future__ import annotations

from lmtui.core.event_text import calls_words
from tests.tui.driving import Driver
from tests.tui.one_app import Cases

cases = Cases()


@cases
async def the_form_of_calls_is_said_with_its_reason_set_and_let_go(driver: Driver) -> None:
    await driver.type("/calls")
    await driver.until(lambda: "calls: text, it writes its calls as text" in driver.text("#say"))
    for form, words in (("schema", "calls: schema, you set it"), ("auto", "calls: native, nothing speaks against it")):
        await driver.type(f"/calls {form}")
        assert calls_words(driver.host.session.calls) == words
    await driver.type("/calls xml")
    await driver.until(lambda: "no form of calls" in driver.text("#say"))
