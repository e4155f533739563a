"""Which sandbox runs: the first that passes its self-test, or the one that the user named and no other."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from lmtui.core.errors import SandboxError, SandboxUnavailable, UsageError
from lmtui.core.permissions.rules import MaskExpressions
from lmtui.core.programs import Launch
from lmtui.core.workspace import CommandLimits, SandboxStatus
from lmtui.paths import path_inside, state_dir
from lmtui.sandbox import selftest
from lmtui.sandbox.backend import FULL, Backend, LandlockBackend, Options, ProcessBackend
from lmtui.sandbox.bubblewrap import BubblewrapBackend
from lmtui.sandbox.docker import DockerBackend, PodmanBackend
from lmtui.sandbox.host_paths import check_workspace, new_folder, remove_locked
from lmtui.sandbox.images import DEFAULT_IMAGE
from lmtui.sandbox.instance_programs import InstanceLauncher
from lmtui.sandbox.mount_layout import NO_RULES, SandboxLayout, make_own_folders
from lmtui.sandbox.pool import ChosenBackend, SandboxPool
from lmtui.sandbox.project_tools import lacking_in_image, tool_places, with_added
from lmtui.sandbox.proxy import NetworkApprovals, Proxy
from lmtui.sandbox.supervisor_client import Client, InstanceKind
from lmtui.sandbox.toolchains import check_added, check_toolchains
from lmtui.sandbox.workspace_guard import OutsideFolders, find_tools, look, open_client
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox

BACKENDS = ("auto", *FULL, "landlock", "process")
NETWORKS = ("none", "proxy", "on")
_ORDER = (*FULL, "landlock")
_ENGINES = ("docker", "podman")
_REDUCED = "no private /tmp, other processes visible, .git settings checked afterwards"


class ToolsLacking(SandboxUnavailable):
    """A sandbox would work, without the programs that the project uses."""


_Key = tuple[int, Path, str, Options, tuple[Path, ...]]
_shared: dict[_Key, SandboxPool] = {}


async def select_sandbox(
    workspace: Path,
    *,
    backend: str = "auto",
    network: str = "none",
    image: str = DEFAULT_IMAGE,
    toolchains: Sequence[Path] = (),
    variables: Mapping[str, str] = MappingProxyType({}),
    limits: CommandLimits = CommandLimits(),
    added: Sequence[str] = (),
    masks: MaskExpressions = NO_RULES,
) -> WorkspaceSandbox:
    """Return a sandbox for a workspace; it starts at its first use or at `status()`.

    Callers with the same arguments share one; it ends when the last of them closed it.

    Args:
        workspace: the folder that commands and file tools work in.
        backend: one of `BACKENDS`; `auto` takes the strongest that works, never one without isolation.
        network: `none`; `proxy` for hosts that the user allows; `on` for all that this machine can reach.
        image: the image for Docker and Podman.
        toolchains: folders of the user's tools that commands may read, at the same path.
        variables: what commands get in their environment next to the usual.
        limits: what commands may take.
        added: folders that file tools and commands may use next to the workspace; writable where they end in `:rw`.
        masks: what no command sees, whether or not a session is open.

    Raises:
        UsageError: the workspace, the backend, the network or a folder cannot be.
    """
    folder = await asyncio.to_thread(check_workspace, workspace)
    if backend not in BACKENDS:
        raise UsageError(f"no sandbox called {backend}", f"Choose one of {', '.join(BACKENDS)}.")
    if network not in NETWORKS:
        raise UsageError(f"the sandbox's network cannot be {network}", "It is none, proxy or on.")
    if network == "proxy" and backend not in ("auto", *FULL):
        raise UsageError(f"{backend} has no proxy", "The proxy needs docker, podman or bubblewrap; or take --network off.")
    shown = await asyncio.to_thread(check_toolchains, toolchains, folder)
    tools = [*(each.expanduser() for each in toolchains), *shown, *tool_places(Path.home().resolve())]
    folders = await asyncio.to_thread(check_added, added, folder, tools)
    options = Options(network, tuple(sorted(variables.items())), image, limits, folders)
    key = (id(asyncio.get_running_loop()), folder, backend, options, shown)
    pool = _shared.get(key)
    if pool is None:
        gates, outside = NetworkApprovals(), OutsideFolders(options.added, list(shown))
        proxy = Proxy((), gates.current) if network == "proxy" else None
        names = (backend,) if backend != "auto" else _ORDER
        candidates = [make_backend(name, folder, options, proxy) for name in names]
        start_first = partial(choose, candidates, folder, options, outside=outside)
        pool = _shared[key] = SandboxPool(folder, start_first, gates, proxy, outside)
    pool.users += 1
    pool.open_with(masks)
    launcher = InstanceLauncher(folder, pool, partial(_for_server, folder, options))
    connect = partial(_with_proxy, folder, options)
    return WorkspaceSandbox(pool, partial(_release, key), launcher=launcher, limits=limits, connect=connect)


def _for_server(workspace: Path, options: Options, name: str, launch: Launch, proxy: Proxy | None) -> Backend:
    """Return a backend for one program that stays: it shares the kind of sandbox and the image, nothing else."""
    own = Options("on" if "*" in launch.hosts else "none", (), options.image, options.limits)
    return make_backend(name, workspace, own, proxy)


def _with_proxy(workspace: Path, options: Options, name: str, proxy: Proxy, variables: Mapping[str, str]) -> Backend:
    """Return a backend like the workspace's own whose way out is a proxy."""
    if name not in FULL:
        raise SandboxUnavailable(f"{name} has no proxy, so no command reaches the network", "Use bubblewrap or Docker.")
    own = dict(options.variables) | dict(variables)
    return make_backend(name, workspace, replace(options, network="none", variables=tuple(sorted(own.items()))), proxy)


def make_backend(name: str, workspace: Path, options: Options, proxy: Proxy | None = None) -> Backend:
    """Return a backend by its name, not started."""
    mounted: dict[str, Callable[[Path, Options, Proxy | None], Backend]]
    mounted = {"docker": DockerBackend, "podman": PodmanBackend, "bubblewrap": BubblewrapBackend}
    if name in mounted:
        return mounted[name](workspace, options, proxy)
    return LandlockBackend(workspace, options) if name == "landlock" else ProcessBackend(workspace, options)


async def choose(
    candidates: Sequence[Backend],
    workspace: Path,
    options: Options = Options(),
    masks: MaskExpressions = NO_RULES,
    *,
    outside: OutsideFolders | None = None,
    make: Callable[[str, Path, Options], Backend] = make_backend,
) -> ChosenBackend:
    """Start the first candidate that passes its self-test; the reasons of those before it go into the status.

    One that works, but not for this workspace, is followed only by others that isolate as much: a folder cannot choose a
    weaker one.

    Raises:
        SandboxUnavailable: none does.
    """
    refusals: list[SandboxUnavailable] = []
    waiting = list(candidates)
    while waiting:
        backend = waiting.pop(0)
        others = [each.name for each in waiting]
        may_lack = options.image != DEFAULT_IMAGE or "bubblewrap" not in others or backend.name not in _ENGINES
        is_proven = False
        try:
            is_proven = await prove(backend, options, make)
            guard, layout, client = await start(backend, workspace, masks, may_lack=may_lack, outside=outside)
        except ToolsLacking as refusal:  # a container engine, which is tried again behind bubblewrap
            refusals.append(refusal)
            waiting.insert(others.index("bubblewrap") + 1, backend)
            continue
        except SandboxUnavailable as refusal:
            refusals.append(refusal)
            await backend.close()
            waiting = [each for each in waiting if each.name in FULL] if is_proven else waiting
            continue
        return ChosenBackend(backend, client, guard, layout, _status(backend, workspace, [*map(str, refusals)], options))
    reasons = "; ".join(str(refusal) for refusal in refusals)
    hint = refusals[-1].hint if refusals else ""
    without = "To run commands without isolation: --sandbox process"
    raise SandboxUnavailable(f"no sandbox works here: {reasons}", f"{hint} {without}".strip()) from None


_proven: set[tuple[str, str, str]] = set()


async def prove(backend: Backend, options: Options, make: Callable[[str, Path, Options], Backend] = make_backend) -> bool:
    """Put a backend of this kind to the test in an empty folder, once in this process; return True.

    Raises:
        SandboxUnavailable: it does not start, or does not hold what it promises.
    """
    key = (backend.name, backend.network, options.image)
    if key in _proven or not backend.is_isolated:
        return True
    folder = await asyncio.to_thread(_empty_folder)
    trial = make(backend.name, folder, replace(options, network=backend.network, added=()))
    try:
        git = (folder / ".git").stat()
        layout = SandboxLayout(read_only=((".git", git.st_dev, git.st_ino),), has_git=True, objects=".git/objects")
        client = Client(await trial.open(InstanceKind.MAIN, layout))
        try:
            await client.start()
            await selftest.verify(trial, client)
        finally:
            await client.close()
    except SandboxUnavailable:
        raise
    except SandboxError as error:
        raise SandboxUnavailable(f"{backend.name}: {error}", error.hint) from error
    finally:
        await trial.close()
        await asyncio.to_thread(remove_locked, folder)
    _proven.add(key)
    return True


def _empty_folder() -> Path:
    """Make a folder with an empty `.git` and lmtui's own folders, in lmtui's state folder where that can be written."""
    try:
        folder = new_folder(state_dir() / "self-test")
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="lmtui-self-test-"))
    (folder / ".git").mkdir()
    make_own_folders(folder, is_mounted=True)
    return folder


async def start(
    backend: Backend,
    workspace: Path,
    masks: MaskExpressions = NO_RULES,
    *,
    may_lack: bool = True,
    outside: OutsideFolders | None = None,
) -> tuple[Client, SandboxLayout, Client]:
    """Start a backend's guard, look at the workspace and its tools, start the main instance and see that it can write.

    Raises:
        ToolsLacking: it has not what the project uses, unless it `may_lack`; nothing of it runs then.
        SandboxUnavailable: it does not start or does not hold what it promises; nothing of it runs then.
    """
    async with contextlib.AsyncExitStack() as parts:
        try:
            await asyncio.to_thread(make_own_folders, workspace, is_mounted=backend.has_mounts)
            outside = outside or OutsideFolders()
            if (writable := outside.writable) and not backend.has_mounts:
                reason = f"{backend.name} cannot protect what other programs run in {writable[0]}, so it cannot be writable"
                raise SandboxUnavailable(reason, "Use bubblewrap or Docker, or add the folder without :rw.")
            backend.tools = with_added(backend.tools, outside.added)  # the guard looks into these
            guard = await open_client(backend, InstanceKind.GUARD, SandboxLayout())
            parts.push_async_callback(guard.close)
            finding = find_tools(guard, workspace, outside)
            if backend.has_mounts:
                backend.tools, layout = await asyncio.gather(finding, look(guard, masks, outside.added, is_first=True))
            else:
                backend.tools, layout = await finding, SandboxLayout()
            if not may_lack and backend.image == DEFAULT_IMAGE and (lacking := lacking_in_image(backend.tools)):
                raise ToolsLacking(f"{backend.name}: lmtui's image lacks what this project uses: {lacking}")
            client = await open_client(backend, InstanceKind.MAIN, layout)
            parts.push_async_callback(client.close)
            await selftest.verify_workspace(backend, client, guard, workspace)
        except SandboxUnavailable:
            raise
        except SandboxError as error:
            raise SandboxUnavailable(f"{backend.name}: {error}", error.hint) from error
        _ = parts.pop_all()
    return guard, layout, client


def _status(backend: Backend, workspace: Path, notes: Sequence[str], options: Options) -> SandboxStatus:
    is_proxied = options.network == "proxy" and backend.name in FULL
    network = "no network" if backend.network == "none" else "network on"
    if is_proxied:
        network = "proxy: asks for each host"
    text = f"{backend.name}, {network}"
    is_reduced = backend.is_isolated and not backend.has_mounts
    if not backend.is_isolated:
        text = f"{backend.name}: not isolated"
    elif is_reduced:
        text = f"{backend.name} (reduced): {_REDUCED}; {network}"
    if options.network == "proxy" and not is_proxied:
        notes = [*notes, "the proxy needs docker, podman or bubblewrap, so the network is off"]
    return SandboxStatus(
        backend=backend.name,
        network=network if is_proxied else backend.network,
        text=text,
        has_shell=True,
        folder=path_inside(workspace) if backend.has_mounts else str(workspace),
        is_weaker=backend.name not in FULL,
        reason="; ".join(notes),
        facts=backend.isolation,
        asks_each_command=is_reduced,
    )


async def _release(key: _Key, pool: SandboxPool) -> None:
    pool.users -= 1
    if pool.users == 0:
        if _shared.get(key) is pool:
            del _shared[key]
        await pool.close()
