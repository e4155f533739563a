"""Which server and model each open session asks, and its prompt cache there.

The prompt cache of a session that sleeps is saved in a file of its server and restored before the next request.  Nothing here
may slow down or break a session: every step has a limit of time, and what fails is at most a notice.  The files belong to the
servers: lmtui deletes none, it writes a bounded number of names over again and again.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from lmtui.app.model_servers import Servers
from lmtui.core import events
from lmtui.core.errors import Fault, ProviderError
from lmtui.core.events import Level, Notice
from lmtui.core.hosts import is_same_server, root_url
from lmtui.core.messages import Completion, ModelRequest, Priority, SchemaRequest, StreamChunk
from lmtui.core.ports import Provider
from lmtui.core.sanitize import sanitize_line
from lmtui.core.servers import ServedModel
from lmtui.engine.session import EngineSession
from lmtui.models.discovery import look_at, model_of
from lmtui.models.endpoint import is_reachable
from lmtui.models.endpoint_pool import ServerPool
from lmtui.models.openai_client import OpenAICompatible
from lmtui.paths import state_dir
from lmtui.store.state_files import locked, write_whole

_LOOK_LIMIT_S = 4.0


class SessionProvider:
    """The provider of one session and its agents, which may become another between two requests; implements `Provider`.

    Args:
        provider: the first one; None for a session that asks no model.
        names: what a server, by its root, calls a model, where that is another name.
        model: the name of the model that is asked first.
        note: why that is not what the session asked last.
    """

    def __init__(
        self, provider: Provider | None, names: Mapping[tuple[str, str], str], model: str = "", note: str = ""
    ) -> None:
        self._provider, self._names = provider, names
        self.model, self.note = model, note
        self.cache: SessionPromptCache | None = None
        self.session_id = ""  # set once the session is open

    @property
    def url(self) -> str:
        return self._provider.url if self._provider is not None else ""

    def switch(self, provider: Provider) -> None:
        """Send requests to another server from the next one on."""
        self._provider = provider

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        asked, provider = replace(request, model=self._name(request.model)), self._provider
        if provider is None:
            raise ProviderError(Fault.UNREACHABLE, "this session asks no model")
        if isinstance(provider, ServerPool) and is_conversation(request):
            return provider.stream(asked, self.session_id)
        if self.cache is not None and isinstance(provider, OpenAICompatible) and is_conversation(request):
            return _with_cache(provider, self.cache, asked)
        return provider.stream(asked)

    async def served(self, model: str) -> ServedModel | None:
        return await self._provider.served(self._name(model)) if self._provider is not None else None

    async def close(self) -> None:
        if self.cache is not None:
            await self.cache.sleep()

    def _name(self, model: str) -> str:
        return self._names.get((root_url(self.url), model), model) if self._names else model


async def _with_cache(
    provider: OpenAICompatible, cache: SessionPromptCache, request: ModelRequest
) -> AsyncGenerator[StreamChunk, None]:
    """Yield the pieces of an answer to a conversation whose prompt cache may have to be restored first."""
    async with contextlib.aclosing(provider.stream(request, partial(cache.wake, provider, request))) as pieces:
        async for piece in pieces:
            if isinstance(piece, Completion):
                cache.answered(provider, request, piece)
            yield piece


class SessionModels:
    """Which server and model each open session asks.

    Args:
        servers: know the one in use.
        caches: the prompt caches of the sessions.
        is_forced: the command line names the model, so it holds for sessions that are opened again too.
    """

    def __init__(self, servers: Servers, caches: PromptCaches, *, is_forced: bool) -> None:
        self._servers, self.caches = servers, caches
        self.is_forced = is_forced
        self._providers: dict[str, SessionProvider] = {}

    def at(self, url: str = "", model: str = "", note: str = "") -> SessionProvider:
        """Return what asks a server and a model; where one is not named, it is that in use."""
        servers = self._servers
        return SessionProvider(servers.provider(url), servers.asked_as, model or servers.model, note)

    async def last(self, past: Sequence[events.Envelope]) -> SessionProvider:
        """Return what asks the server and model that a session used last if they are still there, else those in use."""
        servers, used = self._servers, last_model(past)
        is_just_chosen = servers.was_asked and not self._providers
        if used is None or self.is_forced or is_just_chosen:
            return self.at()
        is_same = servers.is_in_use(used.url)
        if is_same and used.model == servers.model:
            return self.at()
        is_pooled, key = servers.is_pooled(used.url), servers.key_for(used.url)
        if not is_pooled and (lacks := await _lacks(used, key, is_only_choice=is_same)):
            at = "" if is_same else f" at {servers.provider().url}"
            model = sanitize_line(servers.model) or "the default model"
            return self.at(note=f"{lacks}, which this session used last. It continues with {model}{at}.")
        return SessionProvider(servers.provider("" if is_same else used.url), servers.asked_as, used.model)

    def keep(self, session: EngineSession, asked: SessionProvider) -> None:
        """Take note of what an open session asks, until it is closed; it is told what there is to say of its prompt cache."""
        self._providers[session.id] = asked
        session.when_closed.append(partial(self._providers.pop, session.id, None))
        asked.session_id = session.id
        if asked.cache is not None:
            asked.cache.tell = session.emit

    async def sleep(self, session_id: str = "", url: str = "") -> None:
        """Save the prompt cache of an open session, or of all at a server, before that forgets it."""
        for each, provider in tuple(self._providers.items()):
            if each == session_id or (url and is_same_server(provider.url, url)):
                await provider.close()

    def renew(self) -> None:
        """Let each open session ask its server with the keys and settings of now, from its next request on."""
        for provider in self._providers.values():
            if provider.url:
                provider.switch(self._servers.provider(provider.url))

    def switch(self, session_id: str, url: str = "") -> None:
        """Let an open session ask another server (empty: the one in use) from its next request on."""
        self._providers[session_id].switch(self._servers.provider(url))


def last_model(past: Sequence[events.Envelope]) -> events.ModelChanged | None:
    """Return the last change of a session's own model."""
    changes = (each.event for each in reversed(past) if isinstance(each.event, events.ModelChanged))
    return next((each for each in changes if each.agent == events.ROOT and not (each.role or each.is_for_turn)), None)


async def _lacks(used: events.ModelChanged, key: str, *, is_only_choice: bool) -> str:
    """Return in words what is not there any more of a server and its model, empty where both are or nothing else is."""
    url = sanitize_line(used.url)
    if not await is_reachable(used.url):
        return "" if is_only_choice else f"No server at {url}"
    found = await look_at(used.url, key, _LOOK_LIMIT_S)
    names = used.model, f"{used.model}:latest"  # so Ollama names it behind a gateway, too
    if found is None or not found.models or not used.model or any(model_of(found, each) for each in names):
        return ""
    return f"{url} no longer has the model {sanitize_line(used.model)}"


MOST_NAMES, MOST_BYTES = 8, 4_000_000_000
LEAST_TOKENS = 1_000  # a shorter prompt is read again in less time than a file takes
IDLE_S, CLOSE_LIMIT_S = 60.0, 10.0
_LONGEST_S, _SHORTEST_S = 60.0, 5.0
_DISK_BYTES_PER_S = 100_000_000
_SLACK_TOKENS = 8  # between what usage says of a request and what its slot holds


def is_conversation(request: ModelRequest) -> bool:
    """Tell whether a request is the next step of a session's own conversation."""
    return request.urgency is Priority.USER and bool(request.tools) and not isinstance(request, SchemaRequest)


def limit_s(size_bytes: int) -> float:
    """Return how long a file may take: its bytes at the speed of a slow disk, within bounds."""
    return min(_LONGEST_S, _SHORTEST_S + size_bytes / _DISK_BYTES_PER_S)


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

    def others(self, record: PromptCacheRecord) -> list[PromptCacheRecord]:
        """Return the records of all other files."""
        return [each for each in self.files if (each.place, each.name) != (record.place, record.name)]


@dataclass
class PromptCaches:
    """The prompt caches of one runtime's sessions, and which is in which file; what reads or changes that blocks (disk).

    `place_of` returns the name under which a server is known, however its address changes.
    A session that does nothing for `idle_s` is saved, one that is closed waits `close_limit_s` for
    that.  `now` is in seconds since 1970.  Servers that `failed` are not asked again.
    """

    place_of: Callable[[str], str] = root_url
    idle_s: float = IDLE_S
    close_limit_s: float = CLOSE_LIMIT_S
    now: Callable[[], float] = time.time
    failed: set[str] = field(default_factory=set)

    @property
    def file(self) -> Path:
        """Return the file of the records."""
        return state_dir() / "prompt_caches.json"

    def is_on(self, provider: OpenAICompatible) -> bool:
        """Tell whether the server saves prompt caches and may."""
        return provider.saves_prompts is not False and self.place_of(provider.url) not in self.failed

    def find(self, place: str, session: str) -> PromptCacheRecord | None:
        """Return the record of a session at a server, None where it has none."""
        files = self.read().files
        return next((it for it in files if (it.place, it.session) == (place, session)), None)

    def reserve(self, wanted: PromptCacheRecord) -> PromptCacheRecord:
        """Return a record with the file to write: its session's own, a free one within the bounds, or the oldest."""
        with self._changing() as kept:
            here = [each for each in kept.files if each.place == wanted.place]
            own = [each.name for each in here if each.session == wanted.session]
            count = MOST_NAMES if sum(each.size_bytes for each in kept.files) < MOST_BYTES else 1
            every = (f"lmtui-{kept.owner}-{number:02}.bin" for number in range(count))
            free = [name for name in every if name not in {each.name for each in here}]
            oldest = min(here, key=lambda each: (bool(each.session), each.saved_at), default=wanted).name
            found = replace(wanted, name=[*own, *free, oldest][0], saved_at=self.now())
            kept.files = [*kept.others(found), replace(found, session="")]  # until it is written, none may restore it
            return found

    def put(self, record: PromptCacheRecord) -> None:
        """Keep the record of a file that was written."""
        with self._changing() as kept:
            kept.files = [*kept.others(record), record]

    @contextlib.contextmanager
    def _changing(self) -> Iterator[_RecordFile]:
        """Give the records to change, and keep them; what cannot be written holds for nobody."""
        with locked(self.file.with_name(f"{self.file.name}.lock")):
            kept = self.read()
            yield kept
            write_whole(self.file, kept.model_dump_json(indent=1))

    def read(self) -> _RecordFile:
        """Return every record; a file that cannot be read has none."""
        with contextlib.suppress(OSError, ValueError):
            return _RecordFile.model_validate_json(self.file.read_bytes())
        return _RecordFile()


_OTHER_MODEL = "belongs to another model, template, window or server build"


class SessionPromptCache:
    """The prompt cache of one session.

    `tell` takes a notice; it is set once the session is there.
    """

    def __init__(self, caches: PromptCaches, session_id: str) -> None:
        self._caches, self._session_id = caches, session_id
        self.tell: Callable[[Notice], object] = lambda _: None
        # the newest request of the conversation, and how many tokens its slot holds since
        self._newest: tuple[OpenAICompatible, ModelRequest, int] | None = None
        self._is_asleep = True  # a session that was just opened may be in a file
        self._saved_tokens = 0
        self._told: set[str] = set()
        self._idle: asyncio.Task[None] | None = None

    async def wake(self, provider: OpenAICompatible, request: ModelRequest) -> Mapping[str, object]:
        """Restore what was saved, if the server does not hold it any more; return fields for the request that follows.

        The caller holds a slot of the provider.
        """
        self._stop_idle()
        is_asleep, self._is_asleep = self._is_asleep, False
        place, can_restore = self._caches.place_of(provider.url), is_asleep and self._caches.is_on(provider)
        record = await asyncio.to_thread(self._caches.find, place, self._session_id) if can_restore else None
        if record is None:
            return {}
        try:
            slot, why = await self._restore(record, provider, request)
        except ProviderError as error:
            slot, why = None, f"could not be restored ({sanitize_line(str(error))})"
        if why:
            self._say(f"The saved prompt cache {why}. The server reads the prompt again.")
        if why and why != _OTHER_MODEL:  # which may be loaded again
            with contextlib.suppress(OSError):
                await asyncio.to_thread(self._caches.put, replace(record, session=""))
        return {} if slot is None else {"id_slot": slot}

    async def _restore(
        self, record: PromptCacheRecord, provider: OpenAICompatible, request: ModelRequest
    ) -> tuple[int | None, str]:
        """Return the slot that holds the conversation now, None where none was filled, and why the file is of no use."""
        files = provider.slot_files(request.model)
        fingerprint = await files.fingerprint()
        if fingerprint and fingerprint != record.fingerprint:
            return None, _OTHER_MODEL
        if provider.prefix_digest(request, record.parts)[0] != record.prefix:
            return None, "does not match the beginning of this conversation"
        slots = await files.slots()
        if slots is not None and any(abs(each.tokens - record.tokens) <= 1 for each in slots):
            return None, ""  # the server still has it
        idle = sorted((each.tokens, each.id) for each in slots or () if not each.is_busy)
        if not idle and (slots is not None or provider.slots.count != 1):
            return None, ""
        slot = idle[0][1] if idle else 0
        restored = await files.restore(slot, record.name, limit_s(record.size_bytes))
        if restored != record.tokens:
            return None, f"was not restored: the server took {restored:,} of {record.tokens:,} tokens"
        self._saved_tokens = restored
        return slot, ""

    def answered(self, provider: OpenAICompatible, request: ModelRequest, completion: Completion) -> None:
        """Take note of an answer: what its slot holds now is saved when nothing was asked for a while."""
        usage = completion.usage
        if usage is None or not usage.prompt_tokens:
            self._newest = None
            return
        self._newest = provider, request, usage.prompt_tokens + usage.completion_tokens
        self._stop_idle()
        if self._caches.is_on(provider):
            work = self._save(_LONGEST_S, after_s=self._caches.idle_s)
            self._idle = asyncio.get_running_loop().create_task(work, name=f"prompt cache {self._session_id}")

    async def sleep(self) -> None:
        """Save the conversation, if it grew since; the server forgets it soon."""
        self._stop_idle()
        await self._save(self._caches.close_limit_s)

    def _stop_idle(self) -> None:
        """Give up what waits or is being written: until it is whole, the file is nobody's."""
        idle, self._idle = self._idle, None
        if idle is not None:
            idle.cancel()

    async def _save(self, most_s: float, after_s: float = 0.0) -> None:
        await asyncio.sleep(after_s)
        if self._newest is None:
            return
        (provider, request, tokens), caches = self._newest, self._caches
        if tokens < LEAST_TOKENS or not caches.is_on(provider):
            return
        if abs(tokens - self._saved_tokens) <= _SLACK_TOKENS:
            self._is_asleep = True
            return
        place = caches.place_of(provider.url)  # before our own server may end
        try:
            async with asyncio.timeout(most_s), provider.slots.take(id(self), Priority.BACKGROUND):
                await self._write(provider, request, tokens, most_s)
        except (ProviderError, OSError) as error:
            caches.failed.add(place)
            if not isinstance(error, ProviderError) or error.fault is not Fault.NOT_A_MODEL_SERVER:
                why = f"it took more than {most_s:g} s" if isinstance(error, TimeoutError) else sanitize_line(str(error))
                self._say(f"The prompt cache could not be saved ({why}).")

    async def _write(self, provider: OpenAICompatible, request: ModelRequest, tokens: int, most_s: float) -> None:
        files, caches = provider.slot_files(request.model), self._caches
        if not (fingerprint := await files.fingerprint(is_awake=True)):
            return
        slots = await files.slots()
        near = [each.id for each in slots or () if abs(each.tokens - tokens) <= _SLACK_TOKENS and not each.is_busy]
        if slots is None and provider.slots.count == 1:
            near = [0]
        if len(near) != 1:  # which slot it is in cannot be told
            return
        prefix, parts = provider.prefix_digest(request)
        place = caches.place_of(provider.url)
        wanted = PromptCacheRecord(place, "", self._session_id, fingerprint, prefix, parts, tokens)
        record = await asyncio.to_thread(caches.reserve, wanted)
        saved_tokens, size_bytes = await files.save(near[0], record.name, most_s)
        is_ours = abs(saved_tokens - tokens) <= _SLACK_TOKENS
        session = self._session_id if is_ours else ""
        await asyncio.to_thread(caches.put, replace(record, session=session, tokens=saved_tokens, size_bytes=size_bytes))
        if is_ours:
            self._saved_tokens, self._is_asleep = tokens, True

    def _say(self, text: str) -> None:
        """Tell something, once in a session."""
        if text not in self._told:
            self._told.add(text)
            self.tell(Notice(level=Level.INFO, text=text))
