from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmtui.command_line import PARSERS
from lmtui.config import Config
from lmtui.core.messages import ToolCallFormat
from lmtui.core.servers import BY_HAND, ModelProfile, profile_details
from lmtui.headless.listings import exam_report
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.sets import for_each

PROFILE = ModelProfile(ToolCallFormat.TEXT, window_tokens=4096, read_tokens_per_s=78.2, write_tokens_per_s=23.2, source="exam")


@for_each(("profile", "facts"), [
    (ModelProfile(), []),
    (PROFILE, ["calls: text (tested)", "reads 78, writes 23 tokens/s", "window 4,096 (learned)"]),
    (ModelProfile(ToolCallFormat.SCHEMA, source=BY_HAND), ["calls: schema (set manually)"]),
    (ModelProfile(write_tokens_per_s=7.4), ["writes 7 tokens/s"]),
])  # fmt: skip
def test_what_is_known_of_a_model_is_said_in_words(profile: ModelProfile, facts: list[str]) -> None:
    assert profile_details(profile) == facts


CALL = ScriptedTurn("", calls=(ScriptedCall("write", {"path": "hello.txt", "content": "hello"}),))


@pytest.mark.parametrize(("turn", "code"), [(CALL, 0), (ScriptedTurn("ready"), 1)], ids=["calls", "calls nothing"])
async def test_the_exit_code_says_whether_the_model_calls_tools(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn: ScriptedTurn, code: int
) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    async with ScriptedServer(Scenario((turn,))) as server:
        arguments = PARSERS["models"]().parse_args(["--exam", "scripted", "--json"])
        assert await exam_report(Config(url=server.url), arguments) == code
        found = json.loads(capsys.readouterr().out)
        assert (found["call_form"] is None) is bool(code)
        assert await exam_report(Config(url=server.url), PARSERS["models"]().parse_args(["--exam", "scripted"])) == code
    assert ("it calls tools in no form (native: it made no call" if code else "calls: native (") in capsys.readouterr().out
