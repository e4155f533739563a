"""What each backend does on this machine, for `lmtui sandbox check`: each is started and put to its self-test."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from lmtui.core.errors import SandboxUnavailable
from lmtui.sandbox.backend import Isolation
from lmtui.sandbox.docker import DEFAULT_IMAGE
from lmtui.sandbox.host_paths import check_workspace
from lmtui.sandbox.select import BACKENDS, Options, make_backend, start

_CHECKED = tuple(name for name in BACKENDS if name != "auto")


@dataclass(frozen=True, slots=True)
class BackendReport:
    """One backend: whether it works, if not why and what to do, what it isolates, and how long it took to start."""

    name: str
    works: bool
    why_not: str
    fix: str
    isolation: Isolation
    start_ms: int


_FIXES = {
    "docker": "Start the Docker engine, then make the image with `lmtui sandbox image`.",
    "podman": "Start Podman's socket (systemctl --user start podman.socket), then make the image with `lmtui sandbox image`.",
    "landlock": "Use a kernel with Landlock (5.19 or later), or Docker.",
    "bubblewrap": "Allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1), or use Docker.",
}


async def check_backends(workspace: Path, *, network: str = "none", image: str = DEFAULT_IMAGE) -> list[BackendReport]:
    """Try every backend in a workspace, strongest first; nothing of them runs afterwards.

    Raises:
        UsageError: the workspace cannot be one.
    """
    folder = await asyncio.to_thread(check_workspace, workspace)
    return [await _check(name, folder, network, image) for name in _CHECKED]


async def _check(name: str, workspace: Path, network: str, image: str) -> BackendReport:
    backend = make_backend(name, workspace, Options(network, image=image))
    started = time.monotonic()
    try:
        guard, _, client = await start(backend, workspace)
    except SandboxUnavailable as refusal:
        fix = refusal.hint or _FIXES.get(name, "")
        return BackendReport(name, works=False, why_not=str(refusal), fix=fix, isolation=Isolation(), start_ms=0)
    else:
        elapsed_ms = int((time.monotonic() - started) * 1000)
        await client.close()
        await guard.close()
        return BackendReport(name, works=True, why_not="", fix="", isolation=backend.isolation, start_ms=elapsed_ms)
    finally:
        await backend.close()
