"""Kill `lmtui run --goal` at each of its durable events, let it continue, and look at the goal, the budget and the edits.

    python -m tests.killing.goal [COUNT]

`python -m tests.killing.goal PLACE ARGUMENTS …` is one life: the command line as it is, killed right after the event of that
number was written.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from lmtui.cli import run
from lmtui.core.events import Envelope
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from lmtui.store.session_logs import SessionFile

ROOT = Path(__file__).parents[2]
EDITS, BUDGET, TIGHT = 4, 12, 4
GOAL = "python3 -m unittest -q"
_LIFE_S, _MOST_LIVES = 120, 3
_MARK = "    # more\n"
_TEST = f"""import unittest
from steps import DONE

class T(unittest.TestCase):
    def test_steps(self):
        self.assertEqual(DONE, {list(range(EDITS))})
"""


class CarefulServer(ScriptedServer):
    """Plays a model that makes one edit at a time, says too early that it is done, and looks again after what went wrong."""

    def _turn(self, body: dict[str, Any]) -> tuple[Scenario, int, ScriptedTurn]:
        messages = body.get("messages") or []
        made, is_unsure, is_claimed = 0, False, False
        calls: dict[str, str] = {}
        for message in messages:
            calls |= {call["id"]: call["function"]["name"] for call in message.get("tool_calls") or ()}
            text = str(message.get("content")).lower()
            is_claimed = is_claimed or (message.get("role") == "assistant" and "all done" in text)
            if message.get("role") == "tool":
                is_read = calls.get(message["tool_call_id"]) == "read"
                is_made = not is_read and "not " not in text and "unknown" not in text
                made = len(re.findall(r"^ *\d+ +\d+,", text, re.MULTILINE)) if is_read else made + is_made
                is_unsure = not is_read and not is_made
        if is_unsure:
            return self._play(ScriptedTurn("I look.", calls=(ScriptedCall("read", {"path": "steps.py"}),)))
        if made >= EDITS or (made == EDITS // 2 and not is_claimed):
            return self._play(ScriptedTurn("That is all done."))
        words: dict[str, object] = {"path": "steps.py", "search": _MARK, "replace": f"    {made},\n{_MARK}"}
        return self._play(ScriptedTurn("An edit.", calls=(ScriptedCall("edit", words),)))

    def _play(self, turn: ScriptedTurn) -> tuple[Scenario, int, ScriptedTurn]:
        return self._scenarios[0], len(self.requests), turn


@dataclass(frozen=True)
class GoalVerdict:
    """What came of one kill: whether it happened, how many events were written before it, and what was wrong in the end."""

    place: int
    was_killed: bool
    events: int
    problems: tuple[str, ...] = field(default=())


async def kill_goal_at(place: int, *, steps: int = BUDGET) -> GoalVerdict:
    """Kill a run with a goal and a budget of so many steps after one of its events, let it continue, and judge the end."""
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "steps.py").write_text(f"DONE = [\n{_MARK}]\n")
        (folder / "test_steps.py").write_text(_TEST)
        async with CarefulServer(Scenario((), models=("scripted",))) as server:
            flags: tuple[str, ...] = ("--url", server.url, "--mode", "auto", "--sandbox", "bubblewrap", "--output", "json")
            flags += ("--goal", GOAL, "--budget", f"{steps} steps")
            first, _ = await _live(folder, Path(home), place, flags)
            was_killed, events = first == -signal.SIGKILL, _events(folder)
            told: dict[str, Any] = {}
            for _ in range(_MOST_LIVES if was_killed else 0):
                code, told = await _live(folder, Path(home), 0, ("--continue", *flags) if events else flags)
                if code in (0, 2):
                    break
            problems = _problems(folder, told, len(server.requests), steps) if was_killed else []
        return GoalVerdict(place, was_killed, len(events), tuple(problems))


async def _live(folder: Path, home: Path, place: int, flags: Sequence[str]) -> tuple[int, dict[str, Any]]:
    environ = {**os.environ, "LMTUI_HOME": str(home), "PYTHONPATH": str(ROOT)}
    words = ("-m", "tests.killing.goal", str(place), "run", "--workspace", str(folder), *flags)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, env=environ, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
    )
    async with asyncio.timeout(_LIFE_S):
        out, _ = await process.communicate()
    return process.returncode or 0, json.loads(out or "{}")


def _events(folder: Path) -> list[dict[str, Any]]:
    logs = sorted((folder / ".lmagent/sessions").glob("*.jsonl"))
    return [json.loads(line) for path in logs for line in path.read_text().splitlines()]


def _problems(folder: Path, told: dict[str, Any], requests: int, steps: int) -> list[str]:
    """Return what is wrong at the end."""
    events, written = _events(folder), (folder / "steps.py").read_text()
    states = [event["state"] for event in events if event["kind"] == "goal_changed" and event["command"] == GOAL]
    made = [int(number) for number in re.findall(r"^    (\d+),$", written, re.MULTILINE)]
    is_tight = steps < BUDGET
    kinds = [event["kind"] for event in events]
    problems = {
        f"{requests} requests, budget {steps}": requests > steps,
        f"the goal was {states}": states.count("reached") != (not is_tight) or states.count("active") < 1,
        f"it ended {told.get('status')}, {told.get('verified')}": not is_tight
        and (told.get("status"), told.get("verified") in ("green", "none")) != ("done", True),
        f"a used-up budget ended {told.get('status')}": is_tight and told.get("status") != "limit",
        f"the edits are {made}": made != list(range(len(made))) or (not is_tight and len(made) != EDITS),
        "sessions were lost or added": len(list((folder / ".lmagent/sessions").glob("*.jsonl"))) != 1,
        "a call has no end": kinds.count("tool_call_started") != kinds.count("tool_call_finished"),
    }
    return [what for what, is_wrong in problems.items() if is_wrong]


async def main(count: int) -> int:
    """Kill at so many places spread over all events of a run, then at fewer with too small a budget; return how many failed."""
    bad = 0
    for steps, kills in ((BUDGET, count), (TIGHT, count // 5)):
        last = (await kill_goal_at(0, steps=steps)).events
        places = [1 + number * (last - 1) // max(1, kills - 1) for number in range(kills)]
        verdicts = [await kill_goal_at(place, steps=steps) for place in places]
        wrong = [each for each in verdicts if each.problems or not each.was_killed]
        for each in wrong:
            print(f"goal, killed at event {each.place} of {last}: {'; '.join(each.problems) or 'never'}", flush=True)
        print(f"{kills - len(wrong)} of {kills} kills of a run with a goal and {steps} steps: it continued, nothing was lost")
        bad += len(wrong)
    return bad


def _mortal(place: int, argv: Sequence[str]) -> int:
    """Run a command line that dies right after one event is written."""
    count, append = 0, SessionFile.append

    def append_and_die(log: SessionFile, envelope: Envelope) -> None:
        nonlocal count
        append(log, envelope)
        count += 1
        if count == place:
            os.kill(os.getpid(), signal.SIGKILL)

    with mock.patch.object(SessionFile, "append", append_and_die):
        return run(argv)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(_mortal(int(sys.argv[1]), sys.argv[2:]))
    sys.exit(bool(asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else 50))))
