from __future__ import annotations

import json
from pathlib import Path

from lmtui.core.mcp import ServerState
from lmtui.core.programs import GuardedLauncher
from lmtui.features.mcp.server_pool import McpRoom
from lmtui.paths import config_dir


async def no_launcher() -> GuardedLauncher | None:
    return None


async def test_a_server_that_is_begun_again_as_all_are_closed_stays_closed(tmp_path: Path) -> None:
    config_dir().mkdir(parents=True, exist_ok=True)
    (config_dir() / "mcp.json").write_text(json.dumps({"mcpServers": {"a": {"command": "x"}}}))
    room = McpRoom(tmp_path, no_launcher, {}, len)
    await room.loaded()
    room.restart("a")
    await room.close()
    assert [server.state for server in room.servers()] == [ServerState.ENDED]
