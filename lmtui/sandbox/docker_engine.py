"""A local container engine: its socket, a client of it, and the containers that dead processes left.

The SDK blocks; so does everything here.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from lmtui.core.errors import SandboxUnavailable

if TYPE_CHECKING:
    from docker import DockerClient

_LABEL = "lmtui"
_SOCKETS = (
    "/var/run/docker.sock",
    "{runtime}/docker.sock",
    "{home}/.docker/run/docker.sock",
    "{home}/.colima/default/docker.sock",
)


def find_socket() -> str:
    """Return the path of a local engine's socket.

    Raises:
        SandboxUnavailable: there is none, or the environment points to another machine.
    """
    address = os.environ.get("DOCKER_HOST", "")
    if address and not address.startswith("unix://"):
        raise SandboxUnavailable(
            f"DOCKER_HOST is {address}: the workspace cannot be mounted into an engine on another machine",
            "Unset DOCKER_HOST, or point it to a local socket (unix://…).",
        )
    if address:
        return address.removeprefix("unix://")
    runtime = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    for template in _SOCKETS:
        path = Path(template.format(runtime=runtime, home=Path.home()))
        if path.is_socket():
            return str(path)
    raise SandboxUnavailable("no Docker engine runs here", "Install and start Docker, or use bubblewrap.")


def connect(socket_path: str, timeout_s: int) -> DockerClient:
    """Return a client of a local engine, which the caller closes.  Blocks.

    Raises:
        SandboxUnavailable: the engine does not answer.
    """
    # Deferred: the SDK costs 150 ms to import and is not needed before a container is.
    from docker import DockerClient  # noqa: PLC0415
    from docker.errors import DockerException  # noqa: PLC0415

    try:
        # Tried by hand first: the SDK leaves its socket open where it cannot connect.
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(timeout_s)
            probe.connect(str(socket_path))
        engine = DockerClient(base_url=f"unix://{socket_path}", timeout=timeout_s)
        engine.ping()
    except (OSError, DockerException) as error:
        denied = "Add yourself to the docker group, or use bubblewrap." if "ermission" in str(error) else "Start it."
        raise SandboxUnavailable(f"the Docker engine at {socket_path} does not answer", denied) from error
    return engine


def reap_dead(engine: DockerClient) -> int:
    """Remove containers whose lmtui is gone and return how many.  Blocks."""
    from docker.errors import APIError  # noqa: PLC0415  (heavy SDK, see `connect`)

    mine = labels()
    reaped = 0
    for container in engine.containers.list(
        all=True, ignore_removed=True, filters={"label": f"{_LABEL}.host={mine[f'{_LABEL}.host']}"}
    ):
        pid, started = container.labels.get(f"{_LABEL}.pid", ""), container.labels.get(f"{_LABEL}.started", "")
        if not (pid.isdigit() and _started(int(pid)) == started):
            with contextlib.suppress(APIError):
                container.remove(force=True)
                reaped += 1
    return reaped


def labels() -> dict[str, str]:
    """Return what tells whose a container is: the machine (and its process namespace), the process, and its start."""
    host = Path("/proc/sys/kernel/random/boot_id")
    namespace = Path("/proc/self/ns/pid")
    boot = host.read_text(encoding="ascii").strip() if host.exists() else "host"
    where = f"{boot}:{namespace.readlink()}" if namespace.is_symlink() else boot
    return {f"{_LABEL}.host": where, f"{_LABEL}.pid": str(os.getpid()), f"{_LABEL}.started": _started(os.getpid())}


def _started(pid: int) -> str:
    try:
        return f"{psutil.Process(pid).create_time():.2f}"
    except psutil.Error:
        return ""
