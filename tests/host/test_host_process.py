import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lmtui.core.events import Envelope, TurnEnded, TurnReason
from lmtui.host.host_process import Notifier
from lmtui.host.hub import SessionHub
from lmtui.settings import SETTINGS


async def test_the_command_that_notifies_gets_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in SETTINGS.values():
        for name in setting.metadata["env"] if setting.metadata["is_secret"] else ():
            monkeypatch.setenv(name, "sk-canary")
    monkeypatch.setenv("TOPIC", "mine")
    said = tmp_path / "said"
    notifier = Notifier(SessionHub(), f"env > {said}.new; mv {said}.new {said}")
    ended = TurnEnded(turn_id="turn_1", reason=TurnReason.DONE)
    notifier.listen(tmp_path, Envelope(1, datetime(2026, 1, 1, tzinfo=UTC), "20260101_000000_aaaaaa", ended))
    async with asyncio.timeout(10):
        while not said.exists():
            await asyncio.sleep(0.01)
    assert "TOPIC=mine" in said.read_text()
    assert "canary" not in said.read_text()
