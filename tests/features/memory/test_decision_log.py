from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime
from pathlib import Path

from lmtui.core.events import (
    Envelope,
    Event,
    MessageAdded,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnReason,
    TurnStarted,
)
from lmtui.core.messages import Role
from lmtui.features.memory.decision_log import DecisionLog, decision_line, read_decisions

TIME = datetime(2026, 11, 20, 10, 10, 10, tzinfo=UTC)


def ran(call_id: str, command: str, *, ok: bool) -> list[Event]:
    begun = ToolCallStarted(call_id=call_id, tool="shell", arguments={}, title=command)
    return [begun, ToolCallFinished(call_id=call_id, tool="shell", ok=ok, result="", elapsed_ms=1)]


async def log(workspace: Path, *events: Event) -> None:
    found = DecisionLog(workspace)
    for number, event in enumerate(events, 1):
        found.take(Envelope(number, TIME, "20261120_101010_ab12cd", event))
    await found.close()


def turn(*inside: Event, reason: TurnReason = TurnReason.DONE, files: tuple[str, ...] = ("a.py",)) -> tuple[Event, ...]:
    begun = (TurnStarted(turn_id="t1"), MessageAdded(role=Role.USER, text="port  the\nparser", turn_id="t1"))
    text = "Ported it to the new grammar. More words.\n\nAnd more."
    return (*begun, *inside, TurnEnded(turn_id="t1", reason=reason, text=text, files_changed=files, verified="green"))


async def test_a_finished_turn_that_changed_files_is_one_line(tmp_path: Path) -> None:
    commands = (*ran("1", "make check", ok=True), *ran("2", "make docs", ok=False), *ran("3", "make check", ok=True))
    await log(tmp_path, *turn(*commands))
    (line,) = (tmp_path / ".lmagent" / "decisions.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "time": "2026-11-20T10:10:10+00:00",
        "session": "20261120_101010_ab12cd",
        "task": "port the parser",
        "decision": "Ported it to the new grammar.",
        "files": ["a.py"],
        "commands": ["make check"],
        "verified": "green",
    }
    assert decision_line(json.loads(line)) == "2026-11-20 · port the parser · Ported it to the new grammar. · a.py"


async def test_a_turn_that_changed_nothing_or_did_not_end_well_is_not_logged(tmp_path: Path) -> None:
    await log(tmp_path, *turn(files=()), *turn(reason=TurnReason.INTERRUPTED))
    assert [*read_decisions(tmp_path, 10)] == []


async def test_the_last_decisions_are_read_and_broken_lines_left_out(tmp_path: Path) -> None:
    await log(tmp_path, *turn(), *turn())
    with (tmp_path / ".lmagent" / "decisions.jsonl").open("a") as file:
        file.write("{torn\n[1]\n")
    assert len([*read_decisions(tmp_path, 10)]) == 2
    assert len([*read_decisions(tmp_path, 3)]) == 1


async def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / ".lmagent").mkdir()
    (tmp_path / "other").write_text("")
    (tmp_path / ".lmagent" / "decisions.jsonl").symlink_to(tmp_path / "other")
    await log(tmp_path, *turn())
    assert (tmp_path / "other").read_text() == ""


async def test_a_pipe_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / ".lmagent").mkdir()
    os.mkfifo(tmp_path / ".lmagent" / "decisions.jsonl")
    async with asyncio.timeout(5):
        await log(tmp_path, *turn())
