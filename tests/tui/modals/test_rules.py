from __future__ import annotations

from lmtui.core.errors import ConfigError
from lmtui.core.permissions.rules import SOURCES, Effect, GrantScope, Rule
from tests.tui.driving import SMALL, Driver, running
from tests.tui.fakes import FakeHost, FakeSession
from tests.tui.one_app import Cases
from tests.tui.scenes import RULES

cases = Cases()

GRANTED = Rule(Effect.ALLOW, "shell", "pytest*", SOURCES[GrantScope.WORKSPACE])
SET = Rule(Effect.DENY, "write", "secrets/**", "settings")


async def at_rules(driver: Driver, *rules: Rule) -> None:
    driver.host.session.fake_rules = list(rules)
    await driver.type("/rules", "Rules")


@cases.full(SMALL)
async def rules_are_grouped_deny_before_ask_before_allow_with_their_sources(driver: Driver) -> None:
    await at_rules(driver, *RULES)
    shown = driver.text()
    places = [shown.index(word) for word in ("Deny", "Write(secrets/**)", "Ask", "Read(.env*)", "Allow", "Shell(pytest*)")]
    assert places == sorted(places)
    assert "always, everywhere" in shown


@cases
async def a_rule_is_revoked_after_asking(driver: Driver) -> None:
    await at_rules(driver, GRANTED, SET)
    await driver.press("end", "d", to="Confirm")
    await driver.press("n")
    assert driver.host.session.rules == (GRANTED, SET)
    await driver.press("d", to="Confirm")
    assert "It is gone for good." in driver.text()
    await driver.press("y")
    await driver.until(lambda: driver.host.session.rules == (SET,))
    await driver.until(lambda: "revoked: Shell(pytest*)" in driver.text())


@cases.full()
async def a_rule_of_the_settings_says_where_it_is_changed(driver: Driver) -> None:
    driver.host.session.begin_turn("go")
    await at_rules(driver, SET)
    await driver.press("d", to="Confirm")
    text = " ".join(driver.text(".box").split())
    assert "For this session only" in text
    assert "edit deny in the settings" in text


async def test_a_revoking_that_fails_is_said() -> None:
    class Stubborn(FakeSession):
        def revoke(self, rule: Rule) -> None:
            raise ConfigError(f"{rule} cannot be taken back", "The file is read-only.")

    async with running(FakeHost(kind=Stubborn)) as driver:
        await at_rules(driver, GRANTED)
        await driver.press("d", "y")
        await driver.until(lambda: "cannot be taken back" in driver.text())
        assert driver.host.session.rules == (GRANTED,)


@cases
async def a_hostile_rule_is_shown_as_it_is(driver: Driver) -> None:
    await at_rules(driver, Rule(Effect.ALLOW, "shell", "[red]x[/red] \u202ey\x1b[2J", "[b]s[/b]"))
    assert "Shell([red]x[/red] <U+202E>y␛[2J)" in driver.text()
    assert "[b]s[/b]" in driver.text()
