"""What the handlers of the HTTP API share: the hub, the feed of events, uploads, and what was done already."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lmtui.app.host import Runtime
from lmtui.core.messages import Image
from lmtui.core.sessions import Session
from lmtui.host import wire
from lmtui.host.endpoints import ApiError
from lmtui.host.feed import HEARTBEAT_S, EventFeed
from lmtui.host.hub import SessionHub

UPLOAD_BYTES, MOST_UPLOADS, UPLOAD_S = 5_000_000, 20, 3600.0
_MOST_KEYS, _MOST_CONVERSATIONS = 10_000, 1_000
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """Seconds between heartbeats, and until a question of a chat client is denied."""

    heartbeat_s: float = HEARTBEAT_S
    approval_wait_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Uploaded:
    """What a client sent, to be attached to a message: a picture, or a text."""

    info: wire.Upload
    content: Image | str
    until: float


class ApiContext:
    """What the handlers share; ends with the host."""

    def __init__(self, hub: SessionHub, options: ApiOptions) -> None:
        self.hub = hub
        self.options = options
        self.feed = EventFeed(hub)
        self.begun = time.monotonic()
        self._uploads: OrderedDict[str, Uploaded] = OrderedDict()
        self._conversations: OrderedDict[str, tuple[str, int]] = OrderedDict()
        self._done: OrderedDict[str, None] = OrderedDict()

    async def runtime(self, folder: str = "") -> Runtime:
        """Return the runtime of a folder that clients may use; without a name that of the first.

        Raises:
            LmtuiError: there is none, or it cannot be opened.
        """
        return await self.hub.runtime(self.folder(folder))

    async def new_session(self, runtime: Runtime) -> Session:
        """Open a new session; without a model server in the settings, the first one that is found is used.

        Raises:
            LmtuiError: there is none, or the session cannot be opened.
        """
        if runtime.setup_note:
            _ = await runtime.choose_server()
        return await runtime.new_session()

    def folder(self, folder: str = "") -> Path:
        """Return a folder that clients may use; without a name the first.

        Raises:
            LmtuiError: it is none of those.
        """
        if folder:
            if not folder.isprintable() or not folder.startswith(("/", "~")):
                raise ApiError(422, "a folder is named by its whole path")
            return self.hub.allowed(folder)
        if not self.hub.folders:
            hint = "Run `lmtui attach` in one, or add it to the setting host_folders."
            raise ApiError(422, "no folder is open to clients", hint)
        return self.hub.folders[0]

    def put(self, uploaded: Uploaded) -> None:
        """Keep an upload for a while; the oldest go when there are too many."""
        self._forget_uploads()
        _put(self._uploads, uploaded.info.id, uploaded, MOST_UPLOADS)

    def take(self, ids: Sequence[str]) -> list[Uploaded]:
        """Return uploads, which are gone then.

        Raises:
            ApiError: one is not there; none is gone.
        """
        self._forget_uploads()
        if missing := [each for each in ids if each not in self._uploads]:
            raise ApiError(404, f"no upload {missing[0][:40]}", "Upload it again: `POST /v1/uploads`.")
        return [self._uploads.pop(each) for each in dict.fromkeys(ids)]

    def _forget_uploads(self) -> None:
        now = time.monotonic()
        for name in [name for name, each in self._uploads.items() if each.until < now]:
            del self._uploads[name]

    def conversation(self, key: str) -> tuple[str, int] | None:
        """Return the session of a conversation that is known by what was said in it, and its last event then."""
        return self._conversations.get(key)

    def keep_conversation(self, key: str, session_id: str, seq: int) -> None:
        """Remember the session of a conversation, and its last event."""
        _put(self._conversations, key, (session_id, seq), _MOST_CONVERSATIONS)

    def is_first(self, key: str) -> bool:
        """Tell whether something with this key was not done before, and remember it."""
        if key in self._done:
            return False
        _put(self._done, key, None, _MOST_KEYS)
        return True


def _put(kept: OrderedDict[str, _Value], key: str, value: _Value, most: int) -> None:
    """Keep a value as the newest of at most so many."""
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        _ = kept.popitem(last=False)
