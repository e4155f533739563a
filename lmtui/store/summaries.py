"""Lists of sessions: what one line says of each, and searching their text.

A log is scanned, not decoded: of most lines only the kind is looked at, so that a thousand sessions are listed at once.
What a log said is kept until the log grows.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from lmtui.core.agent_events import WaitSet
from lmtui.core.errors import SessionFileError
from lmtui.core.events import ROOT, Envelope, TurnReason, TurnStarted, Verified
from lmtui.core.sanitize import last_words, sanitize_line
from lmtui.core.sessions import SessionSummary
from lmtui.core.times import as_utc
from lmtui.paths import workspace_state_dir
from lmtui.plain_files import open_own
from lmtui.store.session_logs import SessionStore, is_in_use, load, read_time

_MARK_FILE = "waits.seen"
_SLACK_S = 2.0
_MOST = 500
_TAIL_BYTES = 1_048_576  # behind a wait stand the end of its turn and what opening the session adds
_SIGN = b'"kind":"wait_set"'


@dataclass(frozen=True, slots=True)
class OpenWait:
    """A wait that holds still: the session, the event and its place in the log."""

    session_id: str
    event: WaitSet
    seq: int


def open_wait(events: Iterable[Envelope]) -> Envelope | None:
    """Return the event of the wait that holds after some events, told from the last on: a later turn would have ended it."""
    told = (each for each in events if each.event.agent == ROOT and isinstance(each.event, TurnStarted | WaitSet))
    return next((each if isinstance(each.event, WaitSet) else None for each in told), None)


class OpenWaits:
    """Looks through the sessions of a workspace; both methods block (disk)."""

    def __init__(self, workspace: Path) -> None:
        self._store = SessionStore(workspace)
        self._mark = workspace_state_dir(workspace) / _MARK_FILE
        self._looked_s = 0.0

    def look(self) -> list[OpenWait]:
        """Return the waits of sessions that changed since the last look, as far as nobody has them open."""
        now = time.time()
        seen = _changed_s(self._mark)
        since = seen - _SLACK_S if seen <= now else 0.0  # the clock was set back: all may have changed
        self._looked_s = now
        changed = sorted(((_changed_s(path), path) for path in self._store.paths()), reverse=True)
        found: list[OpenWait] = []
        for changed_s, path in changed[:_MOST]:
            if changed_s < since:
                break
            if is_in_use(path):
                self._looked_s = min(self._looked_s, changed_s)  # whoever has it may be killed too
            elif (wait := self._wait_in(path)) is not None:
                found.append(wait)
        return found

    def remember(self) -> None:
        """Keep that what was found has been dealt with; where nothing can be written the next look is a longer one."""
        with contextlib.suppress(OSError):
            self._mark.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._mark.touch(mode=0o600)
            os.utime(self._mark, (self._looked_s, self._looked_s))

    def _wait_in(self, path: Path) -> OpenWait | None:
        try:
            with open(path, "rb", opener=open_own) as file:
                _ = file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
                tail = file.read(_TAIL_BYTES)
        except OSError:
            return None
        if _SIGN not in tail or not self._store.is_ours(path.stem):
            return None
        with contextlib.suppress(SessionFileError):
            last = open_wait(reversed(load(path).events))
            if last is not None and isinstance(last.event, WaitSet):
                return OpenWait(path.stem, last.event, last.seq)
        return None


def _changed_s(path: Path) -> float:
    """Return when a file was changed last, 0 where there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


_HEAD = re.compile(rb'\{"seq":\d+,"time":"([^"]+)","session":"[^"]*","kind":"(\w+)"')
_SEARCHED = {"message_added": "text", "tool_call_finished": "result", "session_renamed": "title"}
_REASONS = tuple(map(str, TurnReason))
_BROKEN = (ValueError, AttributeError, TypeError, OverflowError, RecursionError)  # what a line of a log may lead to
_LAST_LINE_CHARS = 200
_MATCH_CHARS = 300
_MATCH_LEAD_CHARS = 20


class Summaries:
    """The sessions of a store as a list shows them; each log is read again only where it changed."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._known: dict[Path, tuple[tuple[int, int], SessionSummary]] = {}

    def find(self, search: str = "", limit: int = 50) -> Iterator[SessionSummary]:
        """Yield the newest sessions; with `search`, those whose text has all its words, case ignored, and where.

        Logs that cannot be read are skipped.
        """
        words = search.casefold().split()
        for path in self._store.paths():
            if limit <= 0:
                return
            found = self._look(path, words)
            if found is not None:
                limit -= 1
                yield found

    def look_up(self, session_ids: Sequence[str]) -> list[SessionSummary]:
        """Return those of these sessions that are there, in their order."""
        found: list[SessionSummary] = []
        for session_id in session_ids:
            try:
                summary = self._look(self._store.path(session_id), [])
            except SessionFileError:
                continue
            found += [summary] if summary is not None else []
        return found

    def _look(self, path: Path, words: list[str]) -> SessionSummary | None:
        try:
            stat = path.lstat()
            state = (stat.st_mtime_ns, stat.st_size)
            known = self._known.get(path)
            if not words and known is not None and known[0] == state:
                return self._as_it_is_now(path, known[1])
            with open(path, "rb", opener=open_own) as file:
                data = file.read()
        except OSError:
            return None
        match = _match(data, words) if words else ""
        if match is None:
            return None
        if known is None or known[0] != state:
            summary = scan(path, data)
            if summary is None:
                return None
            known = self._known[path] = (state, summary)
        return replace(self._as_it_is_now(path, known[1]), match=match)

    def _as_it_is_now(self, path: Path, summary: SessionSummary) -> SessionSummary:
        """Return a summary with what the log itself cannot tell: whether anybody still works on it, or will."""
        is_held = is_in_use(path)
        if summary.state == "writing" and not is_held:
            summary = replace(summary, state=str(TurnReason.INTERRUPTED))
        if summary.wakes is not None and not self._store.is_ours(path.stem):
            summary = replace(summary, state=str(TurnReason.DONE), wakes=None)  # nothing wakes a log that came from elsewhere
        elif summary.wakes is not None and not is_held:
            summary = replace(summary, state=str(TurnReason.WAITING))  # also where a crash took the end of the turn
        return replace(summary, is_elsewhere=True) if is_held else summary


def last_used(store: SessionStore) -> str:
    """Return the id of the session whose log was written last, empty where there is none."""
    known = Summaries(store)
    by_use = sorted(store.paths(), key=_changed_s, reverse=True)
    return next((path.stem for path in by_use if known.look_up([path.stem])), "")


@dataclass(slots=True)
class _Scan:
    """What the lines of a log said so far; lines that count only if they are the last of their kind are read at the end."""

    state: str = "new"
    changed: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)
    has_plan: bool = False
    last: dict[str, bytes] = field(default_factory=dict)
    answers: list[bytes] = field(default_factory=list)

    def take(self, kind: str, line: bytes) -> None:
        """Take one line."""
        match kind:
            case "files_changed" if b'"is_tried":true' not in line:
                self.changed.update(_files(line))
            case "turn_started":
                self.state = "writing"
                self.last.pop("wait_set", None)
            case "turn_ended":
                found = json.loads(line)
                reason, is_unchecked = found.get("reason"), found.get("verified") == Verified.UNVERIFIED and found.get("checks")
                self.state = reason if reason in _REASONS else str(TurnReason.DONE)
                if self.state == TurnReason.DONE and is_unchecked:
                    self.state = str(Verified.UNVERIFIED)
            case "approval_requested":
                self.waiting.add(str(json.loads(line).get("approval_id")))
            case "approval_resolved":
                self.waiting.discard(str(json.loads(line).get("approval_id")))
            case "plan_proposed" | "plan_decided":
                self.has_plan = kind == "plan_proposed"
                if not self.has_plan and self.state == TurnReason.WAITING and "wait_set" not in self.last:
                    self.state = str(TurnReason.DONE)  # it was the plan that was waited for
            case "message_added" if b'"role":"assistant"' in line:
                self.answers.append(line)
            case "usage_updated" if b'"agent":"title"' in line or b'"agent":"reflection"' in line:
                pass  # a request next to the conversation fills no window
            case "session_renamed" | "model_changed" | "usage_updated" | "wait_set":
                self.last[kind] = line

    def text(self, kind: str, name: str) -> str:
        """Return a field of the last line of a kind."""
        line = self.last.get(kind)
        return str(json.loads(line).get(name, "")) if line else ""

    def last_line(self) -> str:
        """Return the last line of the last answer that has a text."""
        for line in reversed(self.answers):
            if text := last_words(str(json.loads(line).get("text", ""))):
                return text
        return ""

    def wakes(self) -> datetime | None:
        """Return when a session that waits for its time continues."""
        until = self.text("wait_set", "until")
        try:
            return as_utc(read_time(until)) if until else None
        except _BROKEN:
            return None

    def tokens(self) -> int:
        """Return what the last request filled of the window."""
        line = self.last.get("usage_updated")
        usage = json.loads(line).get("usage", {}) if line else {}
        return int(usage.get("prompt_tokens", 0)) + int(usage.get("completion_tokens", 0))


def scan(path: Path, data: bytes) -> SessionSummary | None:
    """Return one session as a list shows it, None where the file is not a session."""
    found = _Scan()
    first = last = b""
    for line in data.splitlines(keepends=True):
        head = _HEAD.match(line)
        if head is None or not line.endswith(b"\n"):
            continue
        if not first and head[2] != b"session_opened":
            return None
        first, last = first or head[1], head[1]
        try:
            found.take(head[2].decode(), line)
        except _BROKEN:
            continue
    try:
        created, updated = read_time(first.decode()), read_time(last.decode())
        waits = found.has_plan if found.state != "writing" else bool(found.waiting)
        return SessionSummary(
            id=path.stem,
            title=sanitize_line(found.text("session_renamed", "title")),
            state="waits" if waits else found.state,
            model=sanitize_line(found.text("model_changed", "model")),
            created=created,
            updated=updated,
            changed_files=len(found.changed),
            last_line=found.last_line()[:_LAST_LINE_CHARS],
            tokens=found.tokens(),
            wakes=found.wakes(),
        )
    except _BROKEN:
        return None


def _files(line: bytes) -> list[str]:
    """Return the field `files`, without reading the differences behind it."""
    text = line.decode("utf-8", "replace")
    found, _ = json.JSONDecoder().raw_decode(text, text.index(',"files":') + len(',"files":'))
    return [str(each) for each in found]


def _match(data: bytes, words: list[str]) -> str | None:
    """Return the line that holds most of the words, None where not all of them are in what was said."""
    written = [json.dumps(word, ensure_ascii=False)[1:-1].encode("utf-8", "replace") for word in words]
    is_ascii = all(word.isascii() for word in words)
    folded = data.lower() if is_ascii else data.decode("utf-8", "replace").casefold().encode("utf-8", "replace")
    if any(word not in folded for word in written):
        return None
    missing = set(words)
    best, most = "", 0
    for line in data.splitlines(keepends=True):
        head = _HEAD.match(line)
        name = _SEARCHED.get(head[2].decode()) if head is not None else None
        if name is None:
            continue
        if is_ascii and not any(word in line.lower() for word in written):
            continue
        try:
            text = str(json.loads(line).get(name, ""))
        except _BROKEN:
            continue
        for said in text.splitlines():
            low = said.casefold()
            here = [word for word in words if word in low]
            missing.difference_update(here)
            if len(here) > most:  # it is shown from shortly before the first word on
                start, most = max(0, low.index(here[0]) - _MATCH_LEAD_CHARS), len(here)
                best = ("…" if start else "") + sanitize_line(said[start : start + _MATCH_CHARS].strip())
        if not missing and most == len(words):
            break
    return None if missing else best
