"""Kill the program at each durable event of a long session, and look at what the next life makes of it.

python -m tests.killing.battery [FIRST [STEP]]
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.killing.life import NEVER
from tests.killing.script import EFFECTS, ENDS, AskedServer, scenarios

ROOT = Path(__file__).parents[2]
_AT_ONCE = 2
_LIFE_S = 120


@dataclass(frozen=True)
class Verdict:
    """What came of one kill: how many events the first life wrote, and what was wrong afterwards."""

    place: str
    was_killed: bool
    events: int
    problems: tuple[str, ...] = field(default=())


async def kill_at(place: int | str) -> Verdict:
    """Kill the program at one of its events (see `life`), let it live again, and compare."""
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        async with AskedServer(*scenarios()) as server:
            first = await _live(folder, Path(home), server.url, str(place))
            before = {path: path.read_bytes() for path in _logs(folder)}
            second = await _live(folder, Path(home), server.url, NEVER)
        problems = [] if second == 0 else [f"the second life ended with {second}"]
        problems += _lost(folder, before) + _repeated(folder) + _decided_twice(folder) + _unfinished(folder)
        return Verdict(
            str(place), first == -signal.SIGKILL, sum(data.count(b"\n") for data in before.values()), tuple(problems)
        )


async def _live(folder: Path, home: Path, url: str, place: str) -> int:
    environ = {**os.environ, "LMTUI_HOME": str(home), "PYTHONPATH": str(ROOT)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.killing.life", str(folder), url, place, env=environ, cwd=ROOT
    )
    async with asyncio.timeout(_LIFE_S):
        return await process.wait()


def _logs(folder: Path) -> list[Path]:
    return sorted((folder / ".lmagent/sessions").glob("*.jsonl"))


def _lost(folder: Path, before: dict[Path, bytes]) -> list[str]:
    """Return the logs that do not begin with all that was in them (a last line without its end may be cut)."""
    whole = {path: data[: data.rfind(b"\n") + 1] for path, data in before.items()}
    return [f"{path.name} lost events" for path, data in whole.items() if not path.read_bytes().startswith(data)]


def _repeated(folder: Path) -> list[str]:
    path = folder / EFFECTS
    counts = Counter(path.read_text().split()) if path.exists() else Counter[str]()
    return [f"{name} happened {count} times" for name, count in counts.items() if count > 1]


def _decided_twice(folder: Path) -> list[str]:
    """Return the plans that were approved more than once, and the waits that were woken more than once."""
    counts = Counter[str]()
    for path in _logs(folder):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event["kind"] == "plan_decided":
                counts[f"{path.name}: {event['proposal_id']} was decided"] += 1
            if event["kind"] == "reminder" and "You waited for" in event["text"]:
                counts[f"{path.name}: its wait was over"] += 1
    return [f"{what} {count} times" for what, count in counts.items() if count > 1]


def _unfinished(folder: Path) -> list[str]:
    """Return what has a start and no end, and what did not come to its own end."""
    problems: list[str] = []
    last = ""
    for path in _logs(folder):
        started: Counter[str] = Counter()
        for line in path.read_text().splitlines():
            event = json.loads(line)
            for kind, name in (("tool_call", "call_id"), ("approval", "approval_id"), ("turn", "turn_id"), ("agent", "agent")):
                began = event["kind"] in (f"{kind}_started", f"{kind}_requested")
                ended = event["kind"] in (f"{kind}_finished", f"{kind}_resolved", f"{kind}_ended")
                started[f"{kind} {event.get(name)}"] += began - ended
            if event["kind"] == "turn_ended":
                last += event["text"]
        problems += [f"{path.name}: {name} is off by {count}" for name, count in started.items() if count]
    return problems + [f"{text!r} was never said" for text in ENDS.values() if text not in last]


async def main(first: int, step: int) -> int:
    """Kill at every place from `first` on until a life comes to its end; return how many places went wrong."""
    places = Counter[str]()
    for begin in range(first, 10_000, step * _AT_ONCE):
        verdicts = await asyncio.gather(*(kill_at(begin + offset * step) for offset in range(_AT_ONCE)))
        for verdict in verdicts:
            if verdict.was_killed:
                places["bad" if verdict.problems else "good"] += 1
                for problem in verdict.problems:
                    print(f"killed at event {verdict.place}: {problem}", flush=True)
        if not all(verdict.was_killed for verdict in verdicts):
            break
    print(f"{places['good']} of {places.total()} places: nothing lost, nothing repeated")
    return places["bad"]


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    sys.exit(bool(asyncio.run(main(*(given or [1]), *([] if len(given) > 1 else [1])))))
