"""Sums up what sessions of every folder cost, from their logs; it is `lmtui usage`.

Each log is read once, and later only what it grew by.  What was read is kept in `usage.json` in the state folder, so that a
thousand sessions are summed up at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import TypeAdapter

from lmtui.command_line import Parser, make_parser, print_report, with_report
from lmtui.core.events import ROOT
from lmtui.core.offers import Offers
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.times import LocalZone
from lmtui.features.service import CommandCall, FeatureHost, WorkspaceFeature
from lmtui.features.usage.values import (
    TABLES,
    LogUsage,
    UsageRange,
    UsageReport,
    UsageReports,
    UsageSum,
    slot_name,
    usage_json,
    usage_lines,
    usage_range,
    usage_report,
)
from lmtui.paths import state_dir
from lmtui.plain_files import open_own
from lmtui.store.projects import ProjectStore
from lmtui.store.session_logs import SessionStore, known_sessions, read_time
from lmtui.store.state_files import write_whole

UNKNOWN_MODEL = "unknown model"
_MOST_TOKENS = 10**12  # of one request: what is above it, or below 0, is not a count
_MOST_S = 10**8
_MAX_NAME_CHARS = 200
_BUFFER_BYTES = 1 << 20
_MAX_CACHE_BYTES = 256_000_000
_HEAD = re.compile(
    rb'\{"seq":(\d{1,18}),"time":"([^"]{1,40})","session":"[^"]*","kind":'
    rb'"(session_opened|session_renamed|model_changed|usage_updated|turn_ended)"'
)
_BROKEN = (ValueError, AttributeError, TypeError, KeyError, OverflowError, RecursionError)  # what a line may lead to


@dataclass(slots=True)
class _LogScan:
    """What a log said up to `offset`, the end of a whole line; `inode` is that of the file that said it."""

    inode: int
    offset: int = 0
    title: str = ""
    model: str = ""
    copied_seq: int = 0
    is_session: bool = False
    sums: dict[str, UsageSum] = field(default_factory=dict)

    def read(self, file: BinaryIO) -> None:
        """Read on; a line whose end is not written yet is left for the next time."""
        _ = file.seek(self.offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            self.offset += len(line)
            head = _HEAD.match(line)
            if head is not None:
                with contextlib.suppress(*_BROKEN):
                    self._take(int(head[1]), head[2].decode(), head[3].decode(), json.loads(line))

    def _take(self, seq: int, time: str, kind: str, event: Mapping[str, Any]) -> None:
        """Take an event; of a fork, what was copied counts in the session that it comes from."""
        match kind:
            case "session_opened":
                self.is_session, self.copied_seq = True, int(event.get("parent_seq") or 0)
            case "session_renamed":
                self.title = _name(event["title"])
            case "model_changed":
                if event.get("agent", ROOT) == ROOT:
                    self.model = _name(event["model"] or event.get("default_model", ""))
            case _ if seq <= self.copied_seq:
                pass
            case "usage_updated":
                self._add(time, _name(event.get("model", "")) or self.model, _request(event))
            case "turn_ended":
                if event.get("agent", ROOT) == ROOT:
                    self._add(time, self.model, UsageSum(turns=1, turn_s=_seconds(event.get("elapsed_s", 0.0))))

    def _add(self, time: str, model: str, spent: UsageSum) -> None:
        key = slot_name(read_time(time), model or UNKNOWN_MODEL)
        self.sums[key] = self.sums.get(key, UsageSum()) + spent


_SCANS = TypeAdapter(dict[str, _LogScan])


def _name(text: object) -> str:
    return sanitize_line(text)[:_MAX_NAME_CHARS] if isinstance(text, str) else ""


def _request(event: Mapping[str, Any]) -> UsageSum:
    """Return what one request cost.  An older log has no `elapsed_s`: it follows from the wait and the speed."""
    usage, rate = event["usage"], float(event.get("tokens_per_s", 0.0))
    prompt, completion, cached = (_count(usage.get(f"{name}_tokens", 0)) for name in ("prompt", "completion", "cached"))
    elapsed_s = _seconds(event.get("elapsed_s", 0.0)) or (
        _seconds(event.get("first_token_s", 0.0)) + (_seconds((completion - 1) / rate) if rate > 0 and completion else 0.0)
    )
    return UsageSum(1, prompt, completion, min(cached, prompt), model_s=round(elapsed_s, 3))


def _count(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= _MOST_TOKENS:
        raise ValueError(f"not a number of tokens: {value!r}")
    return value


def _seconds(value: float) -> float:
    return float(value) if math.isfinite(value) and 0 <= value <= _MOST_S else 0.0


class UsageLogs:
    """What all sessions of the user cost; may be asked from several threads.

    Only sessions that this user's lmtui made count, each once: a copy of a folder counts with the original.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, _LogScan] | None = None

    def read(self) -> tuple[list[LogUsage], list[str]]:
        """Return what each session cost until now, and in words what could not be read.  Blocks (disk)."""
        with self._lock:
            before = self._kept() if self._known is None else self._known
            now: dict[str, _LogScan] = {}
            found, failed, is_new = [], 0, False
            for folder, path in _logs():
                try:
                    scan, has_grown = _read(path, before.get(path.stem))
                except OSError:
                    failed += 1
                    continue
                now[path.stem], is_new = scan, is_new or has_grown
                if scan.is_session:
                    found.append(LogUsage(path.stem, str(folder), scan.title, dict(scan.sums)))
            self._known = now
            if is_new:
                self._keep(now)
        return found, [f"{pluralize(failed, 'log')} could not be read and is not counted."] if failed else []

    @staticmethod
    def _kept() -> dict[str, _LogScan]:
        """Return what was read before, by session; nothing where it was another version, or cannot be read."""
        file = state_dir() / "usage.json"
        with contextlib.suppress(OSError, ValueError):
            if file.stat().st_size <= _MAX_CACHE_BYTES:
                return _SCANS.validate_json(file.read_bytes())
        return {}

    @staticmethod
    def _keep(known: dict[str, _LogScan]) -> None:
        """Keep what was read; where nothing can be written the logs are read again the next time."""
        with contextlib.suppress(OSError, ValueError):
            write_whole(state_dir() / "usage.json", _SCANS.dump_json(known).decode())


def _logs() -> list[tuple[Path, Path]]:
    """Return the user's logs with their folders: those that sessions were made in, and the projects (one may have moved)."""
    homes = known_sessions()
    folders = dict.fromkeys((*homes.values(), *(Path(each.path) for each in ProjectStore().read()[0])))
    found: dict[str, tuple[Path, Path]] = {}
    for folder in folders:
        for path in SessionStore(folder).paths():
            home = homes.get(path.stem)
            if home is not None and (path.stem not in found or home == folder):
                found[path.stem] = folder, path
    return [*found.values()]


def _read(path: Path, known: _LogScan | None) -> tuple[_LogScan, bool]:
    """Return what a log says now, and whether that is news.

    Raises:
        OSError: it cannot be read.
    """
    state = path.lstat()
    if not stat.S_ISREG(state.st_mode):
        raise OSError(f"{path} is not a regular file")
    is_same = known is not None and known.inode == state.st_ino and known.offset <= state.st_size
    scan = known if is_same and known is not None else _LogScan(state.st_ino)
    if is_same and scan.offset == state.st_size:
        return scan, False
    before = scan.offset
    with open(path, "rb", _BUFFER_BYTES, opener=open_own) as file:
        scan.read(file)
    return scan, scan.offset != before or not is_same


class UsageService(WorkspaceFeature):
    """Implements `UsageReports`."""

    def __init__(self, host: FeatureHost, extensions: Offers) -> None:
        super().__init__(host, extensions)
        self._logs = UsageLogs()
        extensions.add(UsageReports, self)

    async def report(self, chosen: UsageRange = UsageRange.WEEK) -> UsageReport:
        return await asyncio.to_thread(_report, self._logs, chosen)


def _report(logs: UsageLogs, chosen: UsageRange, folder: str = "") -> UsageReport:
    """Return a report of all folders, or of one.  Blocks."""
    found, problems = logs.read()
    counted = [each for each in found if folder in ("", each.folder)]
    return usage_report(counted, chosen, datetime.now(UTC), LocalZone(), problems)


def usage_parser() -> Parser:
    """Return the parser of `lmtui usage`."""
    doc = "Show tokens, requests and time of your sessions in all folders, or of one with --workspace.\n"
    doc += "Days begin at midnight in your time zone."
    parser = make_parser("usage", doc, "lmtui usage --range 30d --by model")
    parser.add_argument(
        "--range", metavar="|".join(UsageRange), default=str(UsageRange.WEEK), help="days to count (default: 7d)"
    )
    parser.add_argument("--by", choices=TABLES, default="", help="show only this table, with all of its rows")
    return with_report(parser)


async def usage(call: CommandCall) -> int:
    """Print the report."""
    folder = str(call.workspace.workspace) if call.arguments.workspace else ""
    report = await asyncio.to_thread(_report, UsageLogs(), usage_range(call.arguments.range), folder)
    print_report(usage_json(report), usage_lines(report, call.arguments.by), is_json=call.arguments.json)
    return 0
