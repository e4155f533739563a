"""Sandbox instances as Docker containers: read-only root, no capabilities, no network, the owner's ids in the workspace.

The engine's SDK blocks, so it works in threads, and only when a container is made or removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lmtui.core.errors import SandboxUnavailable
from lmtui.paths import MOUNT_POINT, PROXY_INSIDE, SCRATCH, STORE_INSIDE, path_inside
from lmtui.sandbox.backend import (
    FOLDER_INSIDE,
    Options,
    guest_folder,
    isolation_of,
    settings_of,
    supervisor_command,
)
from lmtui.sandbox.guest import effects
from lmtui.sandbox.host_paths import LINK_INSIDE, scratch_parents, store_folder
from lmtui.sandbox.images import connect, find_socket, labels, reap_dead
from lmtui.sandbox.mount_layout import SandboxLayout, link_folder, mounts
from lmtui.sandbox.project_tools import NO_TOOLS
from lmtui.sandbox.proxy import Proxy
from lmtui.sandbox.supervisor_client import InstanceKind, Link, undone_if_cancelled

if TYPE_CHECKING:
    from docker import DockerClient


_BUFFER_BYTES = 2_097_152
_STDOUT = 1


class ContainerLink(Link):
    """The attached streams of one container."""

    def __init__(self, raw: asyncio.StreamReader, writer: asyncio.StreamWriter, remove: Callable[[], Awaitable[None]]) -> None:
        super().__init__(writer)
        self.reader = asyncio.StreamReader(limit=_BUFFER_BYTES)
        self._remove = remove
        self._pumping = asyncio.create_task(self._pump(raw))

    async def close(self) -> None:
        """Close its input, which ends it, and see that the container is gone."""
        self._input.close()
        with contextlib.suppress(OSError):
            await self._input.wait_closed()
        self._pumping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._pumping
        await self._remove()

    async def _pump(self, raw: asyncio.StreamReader) -> None:
        try:
            while True:
                header = await raw.readexactly(8)
                piece = await raw.readexactly(int.from_bytes(header[4:], "big"))
                (self.reader.feed_data if header[0] == _STDOUT else self._note)(piece)
        except (asyncio.IncompleteReadError, OSError):
            pass  # the container is gone: the end of the stream says so
        finally:
            self.reader.feed_eof()


# The profile for the engine's `security_opt`: what is not named is refused; for clone3 libc falls back to clone.  The arguments
# of clone are namespaces, those of socket families (unix, internet, netlink), those of personality plain, PER_LINUX32, UNAME26.
PROFILE = Path(__file__).with_name("seccomp.json")
_PATH_INSIDE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SYSTEM_PATH = (*_PATH_INSIDE.split(":"), "/opt/lmtui/bin")
_OWN_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH")
_CPU_SHARES = 512  # half of what other programs get where all want the processor
_OWN_PROCESSES = 16  # the supervisor, and a keeper for each of some commands at once
_OWN_MEMORY_MB = 128
_ENGINE_S = 20


class DockerBackend:
    """One container for each instance of a workspace."""

    name = "docker"
    is_isolated = True
    has_mounts = True

    def __init__(self, workspace: Path, options: Options = Options(), proxy: Proxy | None = None) -> None:
        self._workspace, self._options, self._proxy = workspace, options, proxy
        self._limits, self._root = options.limits, path_inside(workspace)
        self.tools = NO_TOOLS
        self._proxy_folder: Path | None = None
        self.network = options.own_network
        self.image = options.image
        self._image_variables: dict[str, str] = {}
        self._engine: DockerClient | None = None
        files = "only the workspace; everything else is the image's, read-only"
        self.isolation = isolation_of(options, files, f"own container, at most {self._limits.processes}")

    async def open(self, kind: InstanceKind, layout: SandboxLayout) -> Link:
        """Start a supervisor in a new container."""
        socket_path = await asyncio.to_thread(self._find_socket)
        if self._proxy is not None:
            self._proxy_folder = await self._proxy.start(self._workspace.stat())
        container_id = await undone_if_cancelled(asyncio.to_thread(self._create, socket_path, kind, layout), self._remove)
        async with contextlib.AsyncExitStack() as parts:
            parts.push_async_callback(self._remove, container_id)
            attached = await asyncio.to_thread(self._attached, container_id)
            streams = await asyncio.open_unix_connection(sock=attached, limit=_BUFFER_BYTES)
            link = ContainerLink(*streams, partial(self._remove, container_id))
            parts.push_async_callback(link.close)
            await asyncio.to_thread(self._start, container_id, layout.network or self._network_mode(kind))
            _ = parts.pop_all()
        link.network = lambda: f"container:{container_id}"
        return link

    async def close(self) -> None:
        """Close the connection to the engine."""
        if self._engine is not None:
            await asyncio.to_thread(self._engine.close)
            self._engine = None

    async def _remove(self, container_id: str) -> None:
        """Remove a container if it is still there."""
        from docker.errors import APIError  # noqa: PLC0415  (heavy SDK, see `connect`)

        if self._engine is not None:
            # Gone already, or the engine is removing it: both are what is wanted.
            with contextlib.suppress(APIError, OSError):
                removing = partial(self._engine.api.remove_container, force=True, v=True)  # an overlay is a volume
                await asyncio.to_thread(removing, container_id)

    def _create(self, socket_path: str, kind: InstanceKind, layout: SandboxLayout) -> str:
        if self._engine is None:
            self._engine = connect(socket_path, _ENGINE_S)
            reap_dead(self._engine)
        with self._explained("the Docker engine refuses the container", self.image):
            image = self._engine.images.get(self.image)
            self._image_variables = dict(each.split("=", 1) for each in image.attrs["Config"].get("Env") or () if "=" in each)
            container = self._engine.api.create_container(**self._arguments(self._engine, kind, layout))
        return str(container["Id"])

    @contextlib.contextmanager
    def _explained(self, what: str, image: str = "") -> Iterator[None]:
        """Say what could not be done when the engine refuses something, or is gone; the next start looks for it again."""
        from docker.errors import APIError, ImageNotFound  # noqa: PLC0415  (heavy SDK, see `connect`)

        try:
            yield
        except ImageNotFound as error:
            raise SandboxUnavailable(f"the image {image} is not there", "Make it: lmtui sandbox image") from error
        except APIError as error:
            raise SandboxUnavailable(f"{what}: {error.explanation}", "Look at the engine's log.") from error
        except OSError as error:  # the SDK's own lost connections are these
            if self._engine is not None:
                self._engine.close()
                self._engine = None
            raise SandboxUnavailable(f"the Docker engine at {self._find_socket()} does not answer", "Start it.") from error

    def _attached(self, container_id: str) -> socket.socket:
        """Return a connection to the streams of a container that was created but not started yet."""
        assert self._engine is not None
        with self._explained("the Docker engine refuses to attach"):
            streams = dict.fromkeys(("stream", "stdin", "stdout", "stderr"), 1)
            attached = self._engine.api.attach_socket(container_id, streams)
            own = socket.socket(fileno=os.dup(attached.fileno()))
            attached._response.close()  # the SDK would leave its own descriptor open
            return own

    def _start(self, container_id: str, network_mode: str) -> None:
        assert self._engine is not None
        with self._explained("the container does not start"):
            self._engine.api.start(container_id)
            facts = self._engine.api.inspect_container(container_id)
        if wrong := self._differences(facts["HostConfig"], network_mode):
            raise SandboxUnavailable(f"the container is not as it was asked for: {wrong}", "Look at the engine's settings.")

    def _arguments(
        self, engine: DockerClient, kind: InstanceKind, layout: SandboxLayout
    ) -> dict[str, Any]:  # Any: the SDK's own keyword arguments
        image_path = self._image_variables.get("PATH", "").split(":")
        programs = list(dict.fromkeys([*(part for part in image_path if part.startswith("/")), *_SYSTEM_PATH]))
        of_image = {name: value for name, value in self._image_variables.items() if name not in _OWN_VARIABLES}
        given = of_image | self.tools.without_copies | self.tools.variables | dict(self._options.variables)
        variables = given if kind.is_masked else {}
        has_proxy = self._proxy_folder is not None and kind.has_network
        settings = settings_of(
            kind, self._options, self._root, self.tools, _SYSTEM_PATH, variables=variables, path=programs, has_proxy=has_proxy
        ).with_values(
            scratch=list(SCRATCH) if kind is InstanceKind.READ else [],  # the instance's own: emptied after each command
        )
        return {
            "image": self.image,
            "entrypoint": supervisor_command("python3", FOLDER_INSIDE, settings),
            "command": [],
            "hostname": None if layout.network else "sandbox",  # it goes with the network
            "user": self._user(engine),
            "working_dir": self._root,
            "environment": {"PATH": _PATH_INSIDE},
            "stdin_open": True,
            "labels": labels(),
            "host_config": {**engine.api.create_host_config(**self._host_config(kind, layout)), **self._more_host_config()},
        }

    def _host_config(self, kind: InstanceKind, layout: SandboxLayout) -> dict[str, Any]:  # Any: the SDK's own keyword arguments
        from docker.types import LogConfig, Ulimit  # noqa: PLC0415  (heavy SDK, see `connect`)

        limits, memory_mb = self._limits, self._memory_mb()
        file_bytes = limits.file_mb << 20
        return {
            "read_only": True,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges", f"seccomp={self._profile()}"],
            "pids_limit": limits.processes + _OWN_PROCESSES,
            "mem_limit": f"{memory_mb}m",
            "memswap_limit": f"{memory_mb}m",
            "cpu_shares": _CPU_SHARES,
            "network_mode": layout.network or self._network_mode(kind),
            "tmpfs": self._scratch(has_own=not layout.scratch),
            "shm_size": "64m",
            "ulimits": [
                Ulimit(name="core", soft=0, hard=0),
                Ulimit(name="nofile", soft=8192, hard=8192),
                Ulimit(name="fsize", soft=file_bytes, hard=file_bytes),
            ],
            "ipc_mode": "private",
            "log_config": LogConfig(type="none"),
            "init": False,
            "auto_remove": True,
            "mounts": self._mounts(kind, layout),
        }

    def _scratch(self, *, has_own: bool) -> dict[str, str]:
        """Return the private file systems; no command can change the parents of what is mounted below them."""
        targets = [self._root, *(each.target for each in self.tools.shown.values())]
        parents = [parent for parent in scratch_parents(targets) if parent not in targets]
        own = {SCRATCH[0]: f"rw,exec,nosuid,nodev,size={self._limits.tmp_mb}m,mode=1777"} if has_own else {}
        return own | dict.fromkeys(parents, "ro,nosuid,nodev,size=1m,mode=755")

    def _network_mode(self, kind: InstanceKind) -> str:
        return "bridge" if self.network != "none" and kind.has_network else "none"

    def _memory_mb(self) -> int:
        """Return the container's limit: of one command, of the private /tmp, and of the supervisor."""
        return self._limits.memory_mb + self._limits.tmp_mb + _OWN_MEMORY_MB

    def _profile(self) -> str:
        return PROFILE.read_text("ascii")

    def _differences(self, host_config: dict[str, Any], network_mode: str) -> str:  # Any: the engine's JSON
        """Return what of the isolation the engine did not take over, or an empty text."""
        expected = {
            "ReadonlyRootfs": True,
            "Privileged": False,
            "NetworkMode": network_mode,
            "PidsLimit": self._limits.processes + _OWN_PROCESSES,
            "Memory": self._memory_mb() << 20,
            "CapDrop": ["ALL"],
            "AutoRemove": True,
        }
        wrong = [f"{name} is {host_config.get(name)!r}" for name, value in expected.items() if host_config.get(name) != value]
        options = host_config.get("SecurityOpt") or []
        for option in ("no-new-privileges", "seccomp="):
            wrong += [] if any(str(present).startswith(option) for present in options) else [f"{option.rstrip('=')} is missing"]
        return ", ".join(wrong)

    def _find_socket(self) -> str:
        return find_socket()

    def _more_host_config(self) -> dict[str, Any]:  # Any: the engine's JSON
        """Return what the SDK does not know of."""
        return {}

    def _workspace_mounts(
        self, types: ModuleType, kind: InstanceKind, overlay: str
    ) -> list[Any]:  # Any: the SDK's Mount, a dict
        """Return the mount of the workspace, or of an overlay over it; what only looks at one sees both of its sides.

        The engine makes an overlay as a volume without a name, which goes with its container.

        Raises:
            SandboxUnavailable: a path cannot be written down as the kernel wants it.
        """
        workspace = str(self._workspace)
        if not overlay:
            return [types.Mount(self._root, workspace, type="bind", read_only=kind.is_read_only)]
        if set(",:\\") & set(f"{workspace}{overlay}"):
            raise SandboxUnavailable("the engine makes no overlay over a folder with , : or \\ in its path", "Rename it.")
        is_looking = kind is not InstanceKind.MAIN
        sides = f"lowerdir={overlay}/upper:{workspace}" if is_looking else f"lowerdir={workspace}"
        writes = "" if is_looking else f",upperdir={overlay}/upper,workdir={overlay}/work"
        driver = types.DriverConfig("local", {"type": "overlay", "device": "overlay", "o": f"{sides}{writes}"})
        found = [types.Mount(self._root, None, type="volume", driver_config=driver, no_copy=True)]
        if kind is InstanceKind.CHECKPOINT:
            shown = ((effects.UPPER, f"{overlay}/upper"), (effects.LOWER, workspace))
            found += [types.Mount(target, source, type="bind", read_only=True) for target, source in shown]
        return found

    def _mounts(self, kind: InstanceKind, layout: SandboxLayout) -> list[Any]:  # Any: the SDK's Mount, a dict
        from docker import types  # noqa: PLC0415  (heavy SDK, see `connect`)

        found = [
            *self._workspace_mounts(types, kind, layout.overlay),
            *([types.Mount(SCRATCH[0], layout.scratch, type="bind")] if layout.scratch else []),
            types.Mount(f"{FOLDER_INSIDE}/guest", str(guest_folder() / "guest"), type="bind", read_only=True),
        ]
        if kind is InstanceKind.CHECKPOINT:
            found.append(types.Mount(STORE_INSIDE, str(store_folder(self._workspace)), type="bind"))
        shown = [(LINK_INSIDE, link_folder(self._root))] if self._root != MOUNT_POINT else []
        shown += [(str(Path(self._root, path)), source) for source, path in mounts(self._workspace, kind, layout)]
        tools = [each for each in self.tools.shown.values() if each.is_shown_in(kind) and not each.is_system]
        found += [
            types.Mount(each.target, str(each.source), type="bind", read_only=not each.is_writable_in(kind)) for each in tools
        ]
        shown += [(PROXY_INSIDE, self._proxy_folder)] if self._proxy_folder is not None and kind.has_network else []
        return found + [types.Mount(target, str(source), type="bind", read_only=True) for target, source in shown]

    def _user(self, engine: DockerClient) -> str:
        """Return whose ids commands get, as the engine counts: where it is rootless, its root is the user."""
        options = engine.info().get("SecurityOptions") or []
        if any("rootless" in option for option in options):
            return "0:0"
        owner, user = self._workspace.stat(), os.geteuid()
        if user in (0, owner.st_uid):
            return f"{owner.st_uid}:{owner.st_gid}"
        group = owner.st_gid if owner.st_gid in os.getgroups() else os.getegid()  # a folder that a group shares
        return f"{user}:{group}"


_ROOT_SOCKET = "/run/podman/podman.sock"


class PodmanBackend(DockerBackend):
    """One container for each instance of a workspace."""

    name = "podman"

    def _find_socket(self) -> str:
        runtime = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
        for path in (Path(runtime, "podman", "podman.sock"), Path(_ROOT_SOCKET)):
            if path.is_socket():
                return str(path)
        hint = "Start it (systemctl --user start podman.socket), or use bubblewrap."
        raise SandboxUnavailable("no Podman socket", hint)

    def _more_host_config(self) -> dict[str, Any]:  # Any: the engine's JSON
        return {"UsernsMode": "keep-id"} if self._find_socket() != _ROOT_SOCKET else {}

    def _user(self, engine: object) -> str:
        del engine  # as its own user, whoever runs it
        owner = self._workspace.stat()
        return f"{owner.st_uid}:{owner.st_gid}"

    def _profile(self) -> str:
        return str(PROFILE)  # Podman reads it from a file

    def _differences(self, host_config: dict[str, Any], network_mode: str) -> str:  # Any: the engine's JSON
        """Return what was not taken over; Podman lists dropped capabilities one by one, the self-test sees them from guest."""
        if not host_config.get("CapDrop"):
            return "CapDrop is empty"
        return super()._differences({**host_config, "CapDrop": ["ALL"]}, network_mode)
