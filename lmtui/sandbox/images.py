"""A local container engine, and the image that its instances start from.

The SDK blocks.  Containers that dead processes left are found by their labels.

The default image is pulled by a name that the user gives, or built from Debian packages, for `lmtui sandbox image`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from lmtui.core.errors import SandboxUnavailable, UsageError
from lmtui.core.sanitize import sanitize_line
from lmtui.paths import without_keys

if TYPE_CHECKING:
    from docker import DockerClient


_OWNER = "lmtui"
_HOME_SOCKETS = ("{home}/.docker/run/docker.sock", "{home}/.colima/default/docker.sock")
_SOCKETS = ("/var/run/docker.sock", "{runtime}/docker.sock", *_HOME_SOCKETS)


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


def reap_dead(engine: DockerClient) -> None:
    """Remove containers whose lmtui is gone.  Blocks."""
    from docker.errors import APIError  # noqa: PLC0415  (heavy SDK, see `connect`)

    mine = labels()
    for container in engine.containers.list(
        all=True, ignore_removed=True, filters={"label": f"{_OWNER}.host={mine[f'{_OWNER}.host']}"}
    ):
        pid, started = container.labels.get(f"{_OWNER}.pid", ""), container.labels.get(f"{_OWNER}.started", "")
        if not (pid.isdigit() and _started(int(pid)) == started):
            with contextlib.suppress(APIError):
                container.remove(force=True)


def labels() -> dict[str, str]:
    """Return what tells whose a container is: the machine (and its process namespace), the process, and its start."""
    host = Path("/proc/sys/kernel/random/boot_id")
    namespace = Path("/proc/self/ns/pid")
    boot = host.read_text(encoding="ascii").strip() if host.exists() else "host"
    where = f"{boot}:{namespace.readlink()}" if namespace.is_symlink() else boot
    return {f"{_OWNER}.host": where, f"{_OWNER}.pid": str(os.getpid()), f"{_OWNER}.started": _started(os.getpid())}


def _started(pid: int) -> str:
    try:
        return f"{psutil.Process(pid).create_time():.2f}"
    except psutil.Error:
        return ""


DEFAULT_IMAGE = "lmtui-sandbox:3"
Say = Callable[[str], None]

_SCRIPT = Path(__file__).with_name("image.sh")
_OR_PULL = "pull an image: lmtui sandbox image --from NAME"
_CHANGES = ("ENV PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8", "WORKDIR /", 'CMD ["bash"]')
_BUILD_FAILED = "Look at the network and the disk, then try again."
_ENGINE_S = 900


async def build_image(name: str = DEFAULT_IMAGE, *, source: str = "", say: Say) -> str:
    """Make the sandbox image and return its name.

    Args:
        name: the name that it gets; empty for the default.
        source: an image to pull instead of building one, with its registry (`registry/name:tag`).
        say: called with a line for each step; what a build prints goes to the terminal.

    Raises:
        UsageError: the source has no registry in its name.
        SandboxUnavailable: no engine, or what is needed to build is missing; the hint says what to do.
    """
    image = name or DEFAULT_IMAGE
    engine = await asyncio.to_thread(connect, find_socket(), _ENGINE_S)
    try:
        if source:
            await _pull(engine, source, image, say)
        else:
            await _build(engine, image, say)
    finally:
        await asyncio.to_thread(engine.close)
    say(f"{image} is ready")
    return image


async def _build(engine: DockerClient, image: str, say: Say) -> None:
    if not (shutil.which("debootstrap") or shutil.which("debootstrap", path="/usr/sbin:/sbin")):
        raise SandboxUnavailable("debootstrap is not installed", f"Install it, or {_OR_PULL}")
    if os.geteuid() != 0:
        raise SandboxUnavailable("debootstrap needs root", f"Run it as root, or {_OR_PULL}")
    with tempfile.TemporaryDirectory(prefix="lmtui-image-") as folder:
        script = ["/bin/sh", str(_SCRIPT), folder, sys.executable]
        running = asyncio.to_thread(
            subprocess.run, script, stdin=subprocess.DEVNULL, stdout=2, env=without_keys(os.environ), check=False
        )
        if (await running).returncode != 0:
            raise SandboxUnavailable("the image cannot be built", _BUILD_FAILED)
        say("importing into the engine")
        repository, _, tag = image.partition(":")
        taking = partial(engine.api.import_image_from_file, repository=repository, tag=tag or "latest", changes=list(_CHANGES))
        with _explained("the engine does not take the image", "Look at the engine's log."):
            await asyncio.to_thread(taking, f"{folder}/root.tar")
            await asyncio.to_thread(engine.images.get, image)


async def _pull(engine: DockerClient, source: str, image: str, say: Say) -> None:
    host = source.split("/", 1)[0]
    if "/" not in source or not any(sign in host for sign in ".:"):
        raise UsageError(f"{source} does not say which registry it is in", "Write it as registry/name:tag.")
    say(f"pulling {sanitize_line(source)}")
    with _explained(f"{source} cannot be pulled", "Leave --from out to build it here."):
        pulled = await asyncio.to_thread(engine.images.pull, source)
        await asyncio.to_thread(pulled.tag, *image.rsplit(":", 1))


@contextlib.contextmanager
def _explained(what: str, hint: str) -> Iterator[None]:
    """Say what could not be done when the engine refuses something, or a file cannot be used."""
    from docker.errors import DockerException  # noqa: PLC0415  (heavy SDK, see docker.py)

    try:
        yield
    except (OSError, DockerException) as error:
        raise SandboxUnavailable(f"{what}: {sanitize_line(str(getattr(error, 'explanation', error)))}", hint) from error
