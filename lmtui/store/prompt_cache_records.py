"""Which session's prompt cache is in which file of which server, and what room there is: one JSON file of this user's.

The files belong to the servers: lmtui deletes none, it writes a bounded number of names over again and again.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from lmtui.paths import state_dir
from lmtui.store.state_files import locked, write_whole

MOST_NAMES = 32


@dataclass(frozen=True, slots=True)
class PromptCacheRecord:
    """A file with a prompt cache; one without a session is a name whose contents are of no use.

    `place` is the server's root, `name` the file's name in its folder.
    `fingerprint` digests the model and the server, `prefix` the first `parts` messages of the request that the cache is of.
    `saved_at` is in seconds since 1970.
    """

    place: str
    name: Annotated[str, Field(pattern=r"^lmtui-[^/]*$")]
    session: str = ""
    fingerprint: str = ""
    prefix: str = ""
    parts: int = 0
    tokens: int = 0
    size_bytes: int = 0
    saved_at: float = 0.0


class _RecordFile(BaseModel):
    """The file: the word in the names of this user's files, and the records."""

    owner: str = Field(default_factory=lambda: secrets.token_hex(4), pattern="^[a-z0-9]+$")
    files: list[PromptCacheRecord] = []

    def room(self, record: PromptCacheRecord, budget_bytes: int) -> bool:
        """Take the record of the same file out, and tell whether there is room for another of it."""
        at = (record.place, record.name)
        self.files = [each for each in self.files if (each.place, each.name) != at]
        return sum(each.size_bytes for each in self.files) + record.size_bytes <= budget_bytes


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
        """Return every record, oldest first; a file that cannot be read has none."""
        return sorted(self._read().files, key=lambda each: each.saved_at)

    def find(self, place: str, session: str) -> PromptCacheRecord | None:
        """Return the record of a session at a server, None where it has none."""
        return next((each for each in self.all() if each.place == place and each.session == session), None)

    def reserve(self, wanted: PromptCacheRecord, budget_bytes: int) -> PromptCacheRecord | None:
        """Return a record with the name of the file to write, None where the budget is too small for it.

        It is the session's own name, else a free one while there is room, else the one that is of least use.
        """
        with self._changing() as kept:
            here = {each.name: each for each in kept.files if each.place == wanted.place}
            names = [each.name for each in here.values() if wanted.session and each.session == wanted.session]
            if not names:
                every = (f"lmtui-{kept.owner}-{number:02}.bin" for number in range(MOST_NAMES))
                by_use = sorted(here.values(), key=lambda each: (bool(each.session), each.saved_at))
                names = [*[name for name in every if name not in here][:1], *(each.name for each in by_use)]
            for name in names:
                found, before = replace(wanted, name=name, saved_at=self._now()), kept.files
                if kept.room(found, budget_bytes):
                    kept.files += [replace(found, session="")]  # until it is written, nobody may restore it
                    return found
                kept.files = before
            return None

    def put(self, record: PromptCacheRecord, budget_bytes: int) -> bool:
        """Keep the record of a file that was written; tell whether it fits the budget, else it is not used."""
        with self._changing() as kept:
            has_room = kept.room(record, budget_bytes)
            kept.files += [record if has_room else replace(record, session="")]
            return has_room

    @contextlib.contextmanager
    def _changing(self) -> Iterator[_RecordFile]:
        """Give the records to change, and keep them; what cannot be written holds for nobody."""
        with locked(self.file.with_name(f"{self.file.name}.lock")):
            kept = self._read()
            yield kept
            write_whole(self.file, kept.model_dump_json(indent=1))

    def _read(self) -> _RecordFile:
        with contextlib.suppress(OSError, ValueError):
            return _RecordFile.model_validate_json(self.file.read_bytes())
        return _RecordFile()
