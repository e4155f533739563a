"""The sessions of a fake host as a list: found, forked, exported and deleted in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmtui.core.errors import LmtuiError
    from lmtui.core.sessions import SessionSummary
    from tests.tui.fakes import FakeHost


class FakeArchive:
    """What a host's archive promises, over its summaries."""

    def __init__(self, host: FakeHost) -> None:
        self._host = host
        self.forked: list[tuple[str, int]] = []
        self.exported: list[tuple[str, str]] = []
        self.failure: LmtuiError | None = None

    def find(self, search: str = "", limit: int = 50) -> Iterator[SessionSummary]:
        yield from self.sessions(search, limit)

    def sessions(self, search: str = "", limit: int = 50) -> Sequence[SessionSummary]:
        self._host.searched.append(search)
        words = search.lower().split()
        found = [
            each for each in self._host.summaries if all(word in f"{each.title} {each.last_line}".lower() for word in words)
        ]
        return [replace(each, match=each.last_line if words else "") for each in found][:limit]

    def look_up(self, session_ids: Sequence[str]) -> Sequence[SessionSummary]:
        known = {each.id: each for each in self._host.summaries}
        return [known[each] for each in session_ids if each in known]

    async def delete(self, session_id: str) -> None:
        if self.failure is not None:
            raise self.failure
        self._host.deleted.append(session_id)
        self._host.summaries = [each for each in self._host.summaries if each.id != session_id]

    async def fork(self, session_id: str, seq: int = 0) -> str:
        self.forked.append((session_id, seq))
        new_id = f"20260314_15000{len(self.forked)}_f0f0f0"
        known = next((each for each in self._host.summaries if each.id == session_id), None)
        if known is not None:
            self._host.summaries = [replace(known, id=new_id, title=f"{known.title} (fork)"), *self._host.summaries]
        return new_id

    async def export(self, session_id: str, form: str) -> Path:
        self.exported.append((session_id, form))
        return Path(f"/home/ada/lmtui-{session_id}.{form}")
