"""Which session's prompt cache is in which file of which server, and what room there is: one JSON file of this user's.

The files belong to the servers.  Where their folder can be seen they are deleted, oldest first; elsewhere a bounded number of
names is written over again and again.
"""

from __future__ import annotations

import fcntl
import json
import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from lmtui.paths import state_dir
from lmtui.store.model_profiles import write_whole

_log = logging.getLogger(__name__)
MOST_NAMES = 32
_MAX_FILE_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class PromptCacheRecord:
    """A file with a prompt cache; one without a session is a name whose contents are of no use.

    `place` is the server's root, `name` the file's name in its folder, `folder` that folder where it can be seen.
    `fingerprint` digests the model and the server, `prefix` the first `parts` messages of the request that the cache is of.
    `saved_at` is in seconds since 1970.
    """

    place: str
    name: str
    session: str = ""
    fingerprint: str = ""
    prefix: str = ""
    parts: int = 0
    tokens: int = 0
    size_bytes: int = 0
    saved_at: float = 0.0
    folder: str = ""

    @property
    def path(self) -> Path | None:
        """Return the file, None where it cannot be seen."""
        return Path(self.folder, self.name) if self.folder else None


class PromptCacheRecords:
    """The records of this user; every method blocks (disk).

    Args:
        file: where they are kept.
        now: the clock, in seconds since 1970.
    """

    def __init__(self, file: Path | None = None, now: Callable[[], float] = time.time) -> None:
        self.file = file or state_dir() / "prompt_caches.json"
        self._now = now

    def all(self) -> list[PromptCacheRecord]:
        """Return every record, oldest first."""
        return sorted(_read(self.file)[1], key=lambda each: each.saved_at)

    def find(self, place: str, session: str) -> PromptCacheRecord | None:
        """Return the record of a session at a server, None where it has none."""
        return next((each for each in self.all() if each.place == place and each.session == session), None)

    def reserve(self, wanted: PromptCacheRecord, budget_bytes: int) -> PromptCacheRecord | None:
        """Make room for a file and return its record with a name, None where the budget is too small for it.

        What is there of the same session is written over.
        """
        with self._changing() as (owner, records):
            mine = next((each for each in records if _is_same(each, wanted)), None)
            others = [each for each in records if each is not mine]
            for each in [each for each in others if (path := each.path) is not None and not path.exists()]:
                others.remove(each)
            size = wanted.size_bytes or (mine.size_bytes if mine else 0)
            for each in _by_use(others):
                if _total(others) + size > budget_bytes and _delete(each):
                    others.remove(each)
            taken = {each.name for each in others if each.place == wanted.place}
            free = (f"lmtui-{owner}-{number:02}.bin" for number in range(MOST_NAMES))
            name = mine.name if mine else next((each for each in free if each not in taken), "")
            if not name or _total(others) + size > budget_bytes:
                at_place = [each for each in _by_use(others) if each.place == wanted.place] if not mine else []
                over = next((each for each in at_place if _total(others) - each.size_bytes + size <= budget_bytes), None)
                if over is None:
                    records[:] = others + ([mine] if mine else [])
                    return None
                others.remove(over)
                name = over.name
            found = replace(wanted, name=name, size_bytes=size, saved_at=self._now())
            # Until it is written, nobody may restore it.
            records[:] = [*others, replace(found, session="")]
            return found

    def put(self, record: PromptCacheRecord, budget_bytes: int) -> bool:
        """Keep the record of a file that was written; tell whether it fits the budget, else it is not used."""
        with self._changing() as (_, records):
            others = [each for each in records if (each.place, each.name) != (record.place, record.name)]
            others = [replace(each, session="") if _is_same(each, record) else each for each in others]
            for each in _by_use(others):
                if _total(others) + record.size_bytes > budget_bytes and _delete(each):
                    others.remove(each)
            has_room = _total(others) + record.size_bytes <= budget_bytes
            kept = record if has_room else replace(record, session="")
            records[:] = others if not has_room and _delete(record) else [*others, kept]
            return has_room

    def drop(self, record: PromptCacheRecord) -> None:
        """Let the contents of a file go: delete it where it can be seen, else only its name stays."""
        with self._changing() as (_, records):
            at = (record.place, record.name)
            records[:] = [
                replace(each, session="") if (each.place, each.name) == at else each
                for each in records
                if (each.place, each.name) != at or not _delete(each)
            ]

    @contextmanager
    def _changing(self) -> Iterator[tuple[str, list[PromptCacheRecord]]]:
        """Give the records to change, and keep them; what cannot be written holds for nobody."""
        lock = self.file.with_name(f"{self.file.name}.lock")
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            with lock.open("a") as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                owner, records = _read(self.file)
                owner = owner or secrets.token_hex(4)
                yield owner, records
                write_whole(self.file, json.dumps({"owner": owner, "files": [asdict(each) for each in records]}, indent=1))
        except OSError as error:
            _log.warning("%s cannot be written: %s", self.file, error)
            raise


def _is_same(one: PromptCacheRecord, other: PromptCacheRecord) -> bool:
    return bool(one.session) and (one.place, one.session) == (other.place, other.session)


def _by_use(records: list[PromptCacheRecord]) -> list[PromptCacheRecord]:
    """Return those of no use first, then the oldest."""
    return sorted(records, key=lambda each: (bool(each.session), each.saved_at))


def _total(records: list[PromptCacheRecord]) -> int:
    return sum(each.size_bytes for each in records)


def _delete(record: PromptCacheRecord) -> bool:
    """Delete a file that can be seen; tell whether it is gone."""
    if record.path is None:
        return False
    try:
        record.path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


_KINDS = {each.name: {"str": str, "int": int, "float": float}[str(each.type)] for each in fields(PromptCacheRecord)}


def _read(file: Path) -> tuple[str, list[PromptCacheRecord]]:
    """Return whose files they are and the records; what cannot be read counts as none."""
    try:
        if file.stat().st_size > _MAX_FILE_BYTES:
            return "", []
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return "", []
    if not isinstance(found, dict) or not isinstance(found.get("files"), list):
        return "", []
    named = found.get("owner")
    owner = named if isinstance(named, str) and named.isalnum() else ""
    return owner, [each for item in found["files"] if (each := _record(item)) is not None]


def _record(item: Any) -> PromptCacheRecord | None:  # Any: JSON
    if not isinstance(item, dict) or not all(isinstance(item.get(name), kind) for name, kind in _KINDS.items()):
        return None
    record = PromptCacheRecord(**{name: item[name] for name in _KINDS})
    is_ours = record.name.startswith("lmtui-") and "/" not in record.name
    return record if is_ours else None
