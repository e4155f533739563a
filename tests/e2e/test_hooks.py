from __future__ import annotations

import json
from typing import Any

import pytest

from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.e2e.conftest import Program, Result, Serve

DONE = ScriptedTurn("All is done.")
TOUCH = ScriptedTurn(calls=(ScriptedCall("shell", {"command": "touch made"}),))


def hook(
    program: Program, command: str, event: str = "PreToolUse", matcher: str = "", *, is_own: bool = True, **more: Any
) -> None:
    path = program.home / "config" / "hooks.json" if is_own else program.workspace / ".claude" / "settings.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(path.read_text()) if path.exists() else {"hooks": {}}
    entry = {"matcher": matcher, "hooks": [{"type": "command", "command": command, **more}]}
    known["hooks"].setdefault(event, []).append(entry)
    path.write_text(json.dumps(known))


async def run(program: Program, serve: Serve, *script: ScriptedTurn, text: str = "do it", mode: str = "auto") -> Result:
    server = await serve(*script)
    base = ("run", "--url", server.url, "--sandbox", "process", "--mode", mode, "--output", "stream-json")
    return await program.run(*base, text)


def of(result: Result, kind: str) -> list[dict[str, Any]]:
    return [event for event in result.events if event["kind"] == kind]


@pytest.mark.quick
async def test_a_hook_that_denies_means_nothing_ran(program: Program, serve: Serve) -> None:
    hook(program, "echo no touching >&2; exit 2", matcher="Bash")
    result = await run(program, serve, TOUCH, DONE)
    assert result.code == 0, result.err
    assert not (program.workspace / "made").exists()
    [finished] = of(result, "tool_call_finished")
    assert (finished["decision"], finished["ok"]) == ("hook", False)
    assert [ran["decision"] for ran in of(result, "hook_ran")] == ["deny"]
    url = (await serve(TOUCH, DONE)).url
    _ = await program.run("run", "--url", url, "--sandbox", "process", "--mode", "auto", "--no-hooks", "do it")
    assert (program.workspace / "made").exists()
