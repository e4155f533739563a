"""Which session's prompt cache is in which file of which server, and what room there is: one JSON file of this user's.

The files belong to the servers: lmtui deletes none, it writes a bounded number of names over again and again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from lmtui.paths import state_dir
from lmtui.store.state_files import locked, write_whole

_log = logging.getLogger(__name__)
MOST_NAMES = 32
_MAX_FILE_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class PromptCacheRecord:
    """A file with a prompt cache; one without a session is a name whose contents are of no use.

    `place` is the server's root, `name` the file's name in its folder.
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
        """Return a record with the name of the file to write, None where the budget is too small for it.

        It is the session's own name, else a free one while there is room, else the one that is of least use.
        """
        with self._changing() as (owner, records):
            size = wanted.size_bytes
            mine = next((each for each in records if _is_same(each, wanted)), None)
            taken = {each.name: each for each in records if each.place == wanted.place}
            free = next((name for number in range(MOST_NAMES) if (name := f"lmtui-{owner}-{number:02}.bin") not in taken), "")
            by_use = sorted(taken.values(), key=lambda each: (bool(each.session), each.saved_at))
            for name in [mine.name] if mine else [free, *(each.name for each in by_use)]:
                others = [each for each in records if (each.place, each.name) != (wanted.place, name)]
                if name and _total(others) + size <= budget_bytes:
                    found = replace(wanted, name=name, saved_at=self._now())
                    records[:] = [*others, replace(found, session="")]  # until it is written, nobody may restore it
                    return found
            return None

    def put(self, record: PromptCacheRecord, budget_bytes: int) -> bool:
        """Keep the record of a file that was written; tell whether it fits the budget, else it is not used."""
        with self._changing() as (_, records):
            others = [each for each in records if (each.place, each.name) != (record.place, record.name)]
            has_room = _total(others) + record.size_bytes <= budget_bytes
            records[:] = [*others, record if has_room else replace(record, session="")]
            return has_room

    def drop(self, record: PromptCacheRecord) -> None:
        """Let the contents of a file go: only its name stays."""
        with self._changing() as (_, records):
            at = (record.place, record.name)
            records[:] = [replace(each, session="") if (each.place, each.name) == at else each for each in records]

    @contextlib.contextmanager
    def _changing(self) -> Iterator[tuple[str, list[PromptCacheRecord]]]:
        """Give the records to change, and keep them; what cannot be written holds for nobody."""
        try:
            with locked(self.file.with_name(f"{self.file.name}.lock")):
                owner, records = _read(self.file)
                owner = owner or secrets.token_hex(4)
                yield owner, records
                write_whole(self.file, json.dumps({"owner": owner, "files": [asdict(each) for each in records]}, indent=1))
        except OSError as error:
            _log.warning("%s cannot be written: %s", self.file, error)
            raise


def _is_same(one: PromptCacheRecord, other: PromptCacheRecord) -> bool:
    return bool(one.session) and (one.place, one.session) == (other.place, other.session)


def _total(records: list[PromptCacheRecord]) -> int:
    return sum(each.size_bytes for each in records)


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
    adapter, records = TypeAdapter(PromptCacheRecord), list[PromptCacheRecord]()
    for item in found["files"]:
        with contextlib.suppress(ValidationError):
            records.append(adapter.validate_python(item))
    return owner, [each for each in records if each.name.startswith("lmtui-") and "/" not in each.name]
