from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lmtui.app.folder_rules import add_rule, read_rules
from lmtui.core.permissions.rules import Effect, GrantScope
from tests.app.conftest import DONE, Open, Serve

RULE = "Shell(make test)"


@pytest.mark.parametrize("revoked", [Effect.ALLOW, Effect.DENY])
async def test_taking_a_rule_back_takes_just_that_one_from_the_file_and_from_other_sessions(
    revoked: Effect, workspace: Path, open_one: Open, serve: Serve
) -> None:
    for effect in (Effect.ALLOW, Effect.DENY):
        add_rule(workspace, RULE, GrantScope.WORKSPACE, effect)
    runtime = open_one((await serve(DONE)).url)
    one, other = await runtime.new_session(), await runtime.new_session()
    one.revoke(next(rule for rule in one.rules if rule.effect is revoked))
    for _ in range(3):
        await asyncio.sleep(0)
    left = Effect.DENY if revoked is Effect.ALLOW else Effect.ALLOW
    assert [rule.effect for rule in read_rules(workspace)] == [left]
    assert [rule.effect for rule in one.rules] == [rule.effect for rule in other.rules] == [left]
