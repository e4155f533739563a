from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from lmtui.command_line import models_parser
from lmtui.config import Config
from lmtui.core.messages import ToolCallFormat
from lmtui.core.servers import BY_HAND, ExamRow, ExamState, Grade, ModelProfile, exam_words, profile_details
from lmtui.headless.listings import Progress, exam_json, exam_report, exam_table
from lmtui.models.demo_scripts import FaultKind, Scenario, ScriptedFault, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer

PROFILE = ModelProfile(
    ToolCallFormat.TEXT,
    "exact",
    thinks=False,
    window_tokens=4096,
    read_tokens_per_s=78.2,
    write_tokens_per_s=23.2,
    source="exam",
)
STATE = ExamState(
    "http://127.0.0.1:1/v1",
    "qwen",
    elapsed_s=51.2,
    rows=(
        ExamRow("answers", Grade.GOOD, "“ready”", seconds=2.04),
        ExamRow("calls, native", Grade.WEAK, "none made", "Try another."),
    ),
    profile=PROFILE,
    kept="kept in models.json",
)


def test_the_table_has_a_line_for_each_part_with_its_seconds() -> None:
    lines = list(exam_table(STATE))
    assert lines[0] == "qwen  http://127.0.0.1:1/v1  51 s"
    assert lines[1] == "✓ answers          2.0 s  “ready”"
    assert lines[2].startswith("! calls, native    0.0 s  none made")
    assert lines[3].strip() == "Try another."
    assert lines[4] == "kept in models.json"


def test_one_that_was_stopped_says_what_is_kept() -> None:
    assert list(exam_table(STATE, is_whole=False))[-1] == "stopped before its end; kept in models.json"


def test_json_has_the_profile_and_every_row() -> None:
    found = json.loads(exam_json(STATE))
    assert found["profile"]["call_form"] == "text"
    assert [row["grade"] for row in found["rows"]] == ["good", "weak"]


def test_each_step_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    for doing in ("speed", "speed", "", "calls\x1b[2J"):
        progress(ExamState("u", "m", doing=doing, elapsed_s=1.5))
    assert capsys.readouterr().err.splitlines() == ["   1.5 s  speed", "   1.5 s  calls"]
    assert progress.last is not None


@pytest.mark.parametrize(
    ("profile", "facts"),
    [
        (ModelProfile(), []),
        (PROFILE, ["calls: text (exam)", "edits: exact", "reads 78, writes 23 tokens/s", "window 4,096 by probe"]),
        (ModelProfile(ToolCallFormat.SCHEMA, source=BY_HAND), ["calls: schema (set manually)"]),
        (ModelProfile(write_tokens_per_s=7.4), ["writes 7 tokens/s"]),
    ],
)
def test_what_is_known_of_a_model_is_said_in_words(profile: ModelProfile, facts: list[str]) -> None:
    assert profile_details(profile) == facts


def test_an_exam_is_said_in_one_line() -> None:
    assert exam_words(STATE).startswith("exam: calls: text (exam), edits: exact, ")
    failed = ExamState("u", "m", rows=(ExamRow("answers", Grade.FAILED, "no answer", "Start it."),))
    assert exam_words(failed) == "exam: no answer. Start it."
    assert exam_words(ExamState("u", "m")) == "exam: nothing was found (0 s)"


async def test_a_cancel_prints_what_there_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    stall = ScriptedFault(FaultKind.STALL)
    async with ScriptedServer(Scenario((ScriptedTurn("ready", fault=stall),))) as server:
        arguments = models_parser().parse_args(["--exam", "scripted", "--url", server.url])
        task = asyncio.create_task(exam_report(Config(url=server.url), arguments))
        while not server.requests:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    said = capsys.readouterr()
    assert "stopped before its end; nothing was kept" in said.out
    assert "asking for a first word" in said.err


@pytest.mark.parametrize("turn", [ScriptedTurn(""), ScriptedTurn("ready")], ids=["says nothing", "calls nothing"])
async def test_a_model_that_nothing_works_with_has_an_exit_code(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn: ScriptedTurn
) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    async with ScriptedServer(Scenario((turn,))) as server:
        arguments = models_parser().parse_args(["--exam", "scripted", "--json"])
        assert await exam_report(Config(url=server.url), arguments) == 1
    assert any(row["grade"] == "failed" for row in json.loads(capsys.readouterr().out)["rows"])
