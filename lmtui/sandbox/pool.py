"""The running supervisors of one workspace, shared by its sessions: started at first use, restarted when lost.

This module ignores what supervisors do, except for the guard, which says how to open the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from lmtui.core.errors import SandboxError, SandboxUnavailable
from lmtui.core.permissions.rules import MaskExpressions
from lmtui.core.workspace import SandboxStatus
from lmtui.paths import kept_dir
from lmtui.sandbox import selftest
from lmtui.sandbox.backend import Backend
from lmtui.sandbox.host_paths import creating, lock_folder, make_for_owner, remove_locked
from lmtui.sandbox.mount_layout import NO_RULES, SandboxLayout
from lmtui.sandbox.proxy import NetworkApprovals, Proxy
from lmtui.sandbox.supervisor_client import Client, InstanceKind, to_the_end
from lmtui.sandbox.workspace_guard import (
    Findings,
    OutsideFolders,
    WorkspaceGuard,
    check_mounts,
    find_tools,
    freeze,
    has_git,
    has_secrets,
    look,
    open_client,
    thaw,
)

_OPENINGS = 3
_RESTARTED = (
    "the sandbox ended unexpectedly and was started again: background processes and files outside the workspace are gone"
)
_NO_OVERLAYS, _WHY_NONE = "overlays: not available, so commands cannot be tried first: ", "see docs/effects.md"
_FEWER = "Deny whole folders instead, for example Read(secrets/**)."
_NOT_ALL_HIDDEN = "there are more secret files than can be hidden (300), or the workspace is too large to find them all"


@dataclass(frozen=True, slots=True)
class Instance:
    """A running supervisor, what it was opened with, and the masks requested at its start."""

    client: Client
    layout: SandboxLayout
    masks: MaskExpressions = NO_RULES


@dataclass(frozen=True, slots=True)
class ChosenBackend:
    """The backend that passed its self-test, its first supervisors, how they were opened, and the notes for the user."""

    backend: Backend
    client: Client
    guard: Client
    layout: SandboxLayout
    status: SandboxStatus


class SandboxPool:
    """Supervisors by instance.  Each method may be called from several tasks of one event loop at once."""

    def __init__(
        self,
        workspace: Path,
        choose: Callable[[MaskExpressions], Awaitable[ChosenBackend]],
        network_approvals: NetworkApprovals | None = None,
        proxy: Proxy | None = None,
        outside: OutsideFolders | None = None,
    ) -> None:
        self.workspace = workspace
        self.users = 0
        self.network_approvals = network_approvals or NetworkApprovals()
        self.outside = outside or OutsideFolders()
        self.added = [str(folder.path) for folder in self.outside.added]
        self.workspace_guard = WorkspaceGuard(self.guard, self.frozen, added=self.outside.writable)
        self._choose = choose
        self._chosen: ChosenBackend | None = None
        self._guard: Client | None = None
        self.running: dict[InstanceKind, Instance] = {}
        self.retired: set[Client] = set()
        self.is_closed = self.was_asked = False
        self.overlay_problem = ""
        self._scratch: Path | None = None  # what overlays share as `/tmp`
        self._in_use: Counter[Client] = Counter()
        self._ending: set[asyncio.Task[None]] = set()
        self._serving: list[tuple[Client, SandboxLayout]] = []
        self._networks: list[str] = []  # in which commands stay, for others to reach them there
        self._opened_masks: list[MaskExpressions] = []  # since the sandbox was opened
        self._session_masks: dict[int, MaskExpressions] = {}
        self._tracked: dict[tuple[str, frozenset[str]], bool] = {}  # whether git has contents of what is masked
        self.masked: Mapping[str, bool] = {}  # what is masked now, and whether a rule denies it
        self._is_cut = False  # there is more than can be masked
        self._starting, self._guarding, self._freezing, self._git_turn = (asyncio.Lock() for _ in range(4))
        self.notice = ""  # what the user and the model should know
        self._proxy = proxy

    def open_with(self, masks: MaskExpressions) -> None:
        """Mask from the beginning what the rules of whoever opens the sandbox deny."""
        if masks not in self._opened_masks:
            self._opened_masks.append(masks)

    def mask(self, owner: int, masks: MaskExpressions | None) -> None:
        """Set a session's masks (None: it has ended); the masks of one session apply to all."""
        if masks is None:
            self._session_masks.pop(owner, None)
        else:
            self._session_masks[owner] = masks

    async def started(self) -> ChosenBackend:
        """Choose and start a backend where none runs yet.

        Raises:
            SandboxError: no backend works here.
        """
        async with self._starting:
            return await self._start_first()

    async def status(self) -> SandboxStatus:
        """Return what runs; starts it where it does not."""
        chosen = await self.started()
        status, facts = chosen.status, [*chosen.status.facts, *chosen.backend.tools.facts()]
        if chosen.backend.has_mounts:
            async with self._starting:
                layout = await self._layout(InstanceKind.READ)
            has_read_only = not layout.is_cut
            # what nobody was asked about reaches no host, and an overlay is over the workspace alone
            is_alone = self._is_offline and not self.outside.writable
            has_overlays = has_read_only and is_alone and not self.overlay_problem
            status = replace(status, has_read_only=has_read_only, has_overlays=has_overlays, masks_git=layout.hides_objects)
        if not status.has_overlays:
            facts.append(f"{_NO_OVERLAYS}{self.overlay_problem or _WHY_NONE}")
        return replace(status, facts=(*facts, self.notice) if self.notice else tuple(facts))

    async def read_status(self) -> SandboxStatus:
        """Return what the read-only instance is; starts and tests it where it does not run."""
        status = await self.status()
        if not (await self.started()).backend.has_mounts:
            reason = f"{status.backend} cannot keep commands from changing the folder"
            return replace(status, has_shell=False, has_read_only=False, reason=reason)
        await self.client(InstanceKind.READ)
        return replace(status, text=f"{status.text}; the folder is read-only", is_read_only=True)

    async def client(self, kind: InstanceKind, *, is_for_one_file: bool = False) -> Client:
        """Return a living supervisor of an instance, opened for the workspace as it is now.

        Args:
            kind: what it is for.
            is_for_one_file: nothing but a file that was named and decided about is touched: new files need no masks for that.

        Raises:
            SandboxError: it cannot be started.
        """
        async with self._starting:
            await self._start_first()
            instance = self.running.get(kind)
            if instance is not None and not instance.client.is_alive:
                self.notice = _RESTARTED
                await instance.client.close()
                instance = None
            is_old = instance is None or instance.masks != self._all_masks()
            if instance is None or (kind.is_masked and (is_old or not is_for_one_file)):
                layout = await self._layout(kind)
                if instance is not None and not instance.layout.covers(layout, kind):
                    self._retire(instance.client)
                    instance = None
                if instance is None:
                    instance = await self._open(kind, layout)
                self.running[kind] = replace(instance, masks=self._all_masks())
        return instance.client

    async def guard(self) -> Client:
        """Return the supervisor that looks after the workspace.

        Raises:
            SandboxError: it cannot be started.
        """
        async with self._guarding:
            if self.is_closed:
                raise SandboxError("the sandbox is closed")
            if self._guard is None or not self._guard.is_alive:
                self._guard = await open_client(self._backend, InstanceKind.GUARD, SandboxLayout())
            return self._guard

    @contextlib.asynccontextmanager
    async def serving_client(self, backend: Backend, kind: InstanceKind, layout: SandboxLayout) -> AsyncIterator[Client]:
        """Yield its own supervisor for one program, on any backend; it ends if it sees what a new rule denies."""
        try:
            client = Client(await backend.open(kind, layout))
        except SandboxUnavailable as error:
            self.overlay_problem = str(error) if layout.overlay else self.overlay_problem
            raise
        try:
            with self.serving(client, layout):
                await client.start()
                await check_mounts(client, kind, layout)
                yield client
        finally:
            await client.close()

    @contextlib.contextmanager
    def serving(self, client: Client, layout: SandboxLayout) -> Iterator[None]:
        """Register a long-running program with the workspace; end it if it sees what a new rule denies."""
        self._serving.append(program := (client, layout))
        try:
            yield
        finally:
            self._serving.remove(program)

    @property
    def _is_offline(self) -> bool:
        return self._backend.network == "none" and self._proxy is None

    @contextlib.asynccontextmanager
    async def staying_client(self) -> AsyncIterator[Client]:
        """Yield the supervisor that runs commands, for one that stays; it ends if it sees what a new rule denies.

        Raises:
            SandboxUnavailable: without mounts, git's files are looked at behind each command, so none can stay.
        """
        backend = (await self.started()).backend
        if backend.is_isolated and not backend.has_mounts:
            raise SandboxUnavailable(f"{backend.name} has no background commands", "Use bubblewrap or Docker.")
        client = await self.client(InstanceKind.MAIN)
        instance = self.running[InstanceKind.MAIN]
        layout = replace(instance.layout, network=instance.layout.network or await asyncio.to_thread(client.network))
        self.running[InstanceKind.MAIN] = replace(instance, layout=layout)
        self._networks.append(layout.network)
        try:
            with self._using(client), self.serving(client, layout):
                yield client
        finally:
            self._networks.remove(layout.network)

    @contextlib.asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """Stop every process of the workspace for a while; end an instance whose supervisor cannot stop its own."""
        async with self._freezing:
            running = [each.client for kind, each in self.running.items() if kind.has_shell]
            serving = [client for client, _ in self._serving]
            clients = [client for client in {*running, *self.retired, *serving} if client.is_alive]
            try:
                await asyncio.gather(*map(freeze, clients))
                yield
            finally:
                await to_the_end(thaw(clients))

    @contextlib.asynccontextmanager
    async def command_client(self, findings: list[Findings], revealed: frozenset[str] = frozenset()) -> AsyncIterator[Client]:
        """Yield a supervisor for a command; what it left for programs outside is in `findings` afterwards.

        Without mounts, commands run one by one, and what makes git run something is moved aside behind each.
        """
        is_guarded = (await self.started()).backend.is_isolated
        guarded = self._guarded(findings) if is_guarded else contextlib.nullcontext()
        async with self.revealing_client(InstanceKind.MAIN, revealed) as client, guarded:
            yield client

    @contextlib.asynccontextmanager
    async def revealing_client(
        self, kind: InstanceKind, revealed: frozenset[str], *, is_for_one_file: bool = False
    ) -> AsyncIterator[Client]:
        """Yield a supervisor in which the `revealed` files are not masked, because the user allowed it."""
        client = await self.client(kind, is_for_one_file=is_for_one_file)
        if revealed.isdisjoint(self.masked):
            with self._using(client):
                yield client
            return
        async with self.instance(kind, None, revealed) as client:
            yield client

    @contextlib.asynccontextmanager
    async def _guarded(self, findings: list[Findings]) -> AsyncIterator[None]:
        """Look what is left for programs outside during a `with` block."""
        async with contextlib.nullcontext() if self._backend.has_mounts else self._git_turn:
            began = await self.workspace_guard.begin()
            try:
                yield
            finally:
                findings.append(await to_the_end(self.workspace_guard.end(began)))

    @contextlib.asynccontextmanager
    async def read_client(self) -> AsyncIterator[Client]:
        """Yield a supervisor for a command to which the workspace is read-only: nothing that it leaves has to be looked for."""
        client = await self.client(InstanceKind.READ)
        if self._is_cut:
            raise SandboxUnavailable(_NOT_ALL_HIDDEN, _FEWER)
        with self._using(client):
            yield client

    @contextlib.asynccontextmanager
    async def own_client(self, findings: list[Findings], backend: Backend | None = None) -> AsyncIterator[Client]:
        """Yield its own supervisor for one command, on another backend (that has a way out) where one is given.

        Both end with the command.
        """
        async with self.instance(InstanceKind.MAIN, backend) as client, self._guarded(findings):
            yield client

    @contextlib.asynccontextmanager
    async def instance(
        self,
        kind: InstanceKind,
        other: Backend | None = None,
        revealed: frozenset[str] = frozenset(),
        *,
        shows_added: bool = True,
    ) -> AsyncIterator[Client]:
        """Yield its own supervisor, on another backend where one is given; both end with the block."""
        layout = SandboxLayout()
        async with contextlib.AsyncExitStack() as parts:
            if other is not None:
                parts.push_async_callback(other.close)
            if other is None or other.has_mounts:
                async with self._starting:
                    await self._start_first()
                    layout = (await self._layout(kind)).without(revealed)
            layout = layout if shows_added else layout.without_added()
            layout = replace(layout, network="") if other is not None else layout
            yield await parts.enter_async_context(self.serving_client(other or self._backend, kind, layout))

    def overlay_client(self, kind: InstanceKind, layout: SandboxLayout) -> contextlib.AbstractAsyncContextManager[Client]:
        """Return its own supervisor with an overlay over the workspace; nothing that it does is real."""
        return self.serving_client(self._backend, kind, layout)

    async def overlay_layout(self, kind: InstanceKind, overlay: Path, *, shares_scratch: bool) -> SandboxLayout:
        """Return what an instance with an overlay is to be opened with now.

        Raises:
            SandboxUnavailable: overlays cannot be made here.
        """
        async with self._starting:
            await self._start_first()
            if not self._backend.has_mounts:
                raise SandboxUnavailable(f"{self._backend.name} makes no overlays", "Use bubblewrap or Docker.")
            hiding = InstanceKind.READ if kind is InstanceKind.MAIN else kind  # nobody was asked: git shows no secret either
            layout = replace(await self._layout(hiding), overlay=str(overlay))
            if kind is InstanceKind.MAIN and shares_scratch:
                layout = replace(layout, scratch=str(self._shared_scratch()))
        if kind.is_masked and self._is_cut:
            raise SandboxUnavailable(_NOT_ALL_HIDDEN, _FEWER)
        return layout

    @contextlib.asynccontextmanager
    async def git_client(
        self, findings: list[Findings], kind: InstanceKind = InstanceKind.GIT, own: Backend | None = None
    ) -> AsyncIterator[Client]:
        """Yield an instance that may change `.git`, on its own backend where one is given."""
        opened = contextlib.nullcontext(await self.client(kind)) if own is None else self.instance(kind, own)
        async with opened as client, self._git_turn:
            try:
                yield client
            finally:
                self._tracked = {}
                findings.append(await to_the_end(self.workspace_guard.end_git()))

    def _shared_scratch(self) -> Path:
        """Return the folder that all overlays share as `/tmp`.

        Raises:
            SandboxUnavailable: it cannot be made.
        """
        if self._scratch is None:
            self._scratch = make_for_owner(_new_locked_folder(self.workspace) / "tmp", self.workspace)
            self._scratch.chmod(0o1777)
        return self._scratch

    def _retire(self, client: Client) -> None:
        """End an instance once nothing runs in it."""
        self.retired.add(client)
        self._end_unused()

    def _end_unused(self) -> None:
        for client in [each for each in self.retired if not self._in_use[each]]:
            self.retired.discard(client)
            task = asyncio.create_task(client.close())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    @contextlib.contextmanager
    def _using(self, client: Client) -> Iterator[None]:
        """Keep an instance from being ended meanwhile."""
        self._in_use[client] += 1
        try:
            yield
        finally:
            self._in_use -= Counter([client])
            self._end_unused()

    async def refresh_tools(self) -> bool:
        """Look again which tools the project uses; what is opened from now on has them.  True if that changed."""
        backend = (await self.started()).backend
        tools = await find_tools(await self.guard(), self.workspace, self.outside)
        async with self._starting:
            if tools == backend.tools:
                return False
            backend.tools = tools
            for kind in [kind for kind in self.running if kind.is_masked]:
                self._retire(self.running.pop(kind).client)
            return True

    async def close(self) -> None:
        """End every supervisor."""
        self.is_closed = True
        async with self._starting, self._guarding:
            for client in (*(each.client for each in self.running.values()), *self.retired):
                await client.close()
            self.running.clear()
            if self._scratch is not None:
                await asyncio.to_thread(remove_locked, self._scratch.parent)
            if self._guard is not None:
                await self._guard.close()
                await self._backend.close()
            if self._proxy is not None:
                await self._proxy.close()
        await asyncio.gather(*self._ending)

    async def _start_first(self) -> ChosenBackend:
        if self.is_closed:
            raise SandboxError("the sandbox is closed")
        if self._chosen is None:
            masks = self._all_masks()
            self._chosen = chosen = await self._choose(masks)
            self._guard = chosen.guard
            self.running[InstanceKind.MAIN] = Instance(chosen.client, chosen.layout, masks)
        return self._chosen

    @property
    def _backend(self) -> Backend:
        assert self._chosen is not None
        return self._chosen.backend

    async def _layout(self, kind: InstanceKind) -> SandboxLayout:
        """Return what an instance is to be opened with."""
        if not self._backend.has_mounts or kind is InstanceKind.GUARD:
            return SandboxLayout()
        masks = self._all_masks()
        found = await look(await self.guard(), masks, self.outside.added)
        is_sharing = self._networks and kind.has_shell and self._is_offline  # never a network that has a way out
        layout = replace(found, shown=masks.shown, network=self._networks[0] if is_sharing else "")
        self._is_cut = layout.is_cut
        self.masked = {path: path in layout.denied for path, *_ in layout.masked}
        denied = {each for each in layout.masked if each[0] in layout.denied}
        for client, other in list(self._serving):
            if not {each for each in denied if other.has_added or not each[0].startswith("/")} <= set(other.masked):
                await client.close()
        repository = self._backend.tools.repository
        if repository.common is not None:
            stamp = await asyncio.to_thread(repository.stamp)
            layout = replace(layout, objects=f"{repository.common}/objects", stamp=stamp)
        if kind.is_masked and layout.objects:
            own = layout.without_added()
            hidden = {path for path, *_ in own.masked} if kind is InstanceKind.READ else own.denied
            has_others = kind is InstanceKind.READ and repository.top not in (None, self.workspace)
            if (hidden or has_others) and await self._is_tracked(frozenset(hidden), own, masks.secret if has_others else ""):
                return replace(layout, hides_objects=True)
        return layout

    async def _is_tracked(self, paths: frozenset[str], layout: SandboxLayout, others: str) -> bool:
        """Tell whether git has the contents of one of these paths, now or in its history as far as that is soon known.

        `others` is an expression for paths of the whole repository that count, too.
        """
        key = (layout.stamp, paths)
        if key not in self._tracked:
            view = self.running.get(InstanceKind.VIEW)
            if view is None or not view.client.is_alive:
                view = self.running[InstanceKind.VIEW] = await self._open(InstanceKind.VIEW, layout)
            found = bool(others) and await has_secrets(view.client, others)
            found = found or (bool(paths) and await has_git(view.client, sorted(paths), is_denied=bool(paths & layout.denied)))
            self._tracked = {key: found}
        return self._tracked[key]

    async def _open(self, kind: InstanceKind, layout: SandboxLayout) -> Instance:
        backend, masks = self._backend, self._all_masks()
        for _ in range(_OPENINGS):
            client = await open_client(backend, kind, layout)
            try:
                if kind is InstanceKind.READ and backend.has_mounts:
                    await selftest.verify_read_only(client, await self.guard())
                now = await self._layout(kind) if kind.is_masked else layout
            except BaseException:
                await client.close()
                raise
            if layout.covers(now, kind):
                return Instance(client, layout, masks)
            await client.close()
            layout = now
        raise SandboxUnavailable("the workspace changes too fast to protect it", "Try again when other programs are done.")

    def _all_masks(self) -> MaskExpressions:
        """Return the masks of all sessions together: what one of them masks is masked."""
        found = list(dict.fromkeys(self._session_masks.values())) or self._opened_masks or [MaskExpressions()]
        denied = "|".join(f"(?:{each})" for each in dict.fromkeys(one.denied for one in (*self._opened_masks, *found)) if each)
        shown = [each.shown for each in found]  # by the rules of each session
        return MaskExpressions(
            denied, found[0].secret, "".join(f"(?={each})" for each in dict.fromkeys(shown)) if all(shown) else ""
        )


def _new_locked_folder(workspace: Path) -> Path:
    """Make and return a folder for what commands write in overlays, which is this process's.

    Raises:
        SandboxUnavailable: it cannot be made.
    """
    folder = make_for_owner(kept_dir("overlays", workspace), workspace) / secrets.token_hex(8)
    with creating(folder):
        lock_folder(folder)
    return make_for_owner(folder, workspace)


def new_overlay_folder(workspace: Path) -> Path:
    """Make and return the folder of an overlay.

    Raises:
        SandboxUnavailable: it cannot be made.
    """
    folder = _new_locked_folder(workspace)
    for name in ("upper", "work"):
        make_for_owner(folder / name, workspace)
    mode = workspace.stat().st_mode & 0o777
    (folder / "upper").chmod(mode)  # the merged folder has the upper one's bits
    return folder
