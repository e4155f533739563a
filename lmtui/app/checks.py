"""What `doctor` and `sandbox` look at: the backends, the image, the workspace, the tokenizer."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmtui.core.errors import SandboxUnavailable, UsageError
from lmtui.models.tokens import counter_name
from lmtui.paths import state_dir
from lmtui.sandbox.backend import FULL, Options
from lmtui.sandbox.host_paths import check_workspace
from lmtui.sandbox.images import build_image
from lmtui.sandbox.select import BACKENDS, make_backend, prove, start

__all__ = ["FULL", "build_image", "counter_name"]  # what else front ends need, who see no sandbox and no models

_CHECKED = tuple(name for name in BACKENDS if name != "auto")


@dataclass(frozen=True, slots=True)
class BackendReport:
    """One backend: whether it works, if not why and what to do, what it isolates, and how long it took to start."""

    name: str
    works: bool
    why_not: str
    fix: str
    isolation: tuple[str, ...]
    start_ms: int


_FIXES = {
    "docker": "Start the Docker engine, then make the image with `lmtui sandbox image`.",
    "podman": "Start Podman's socket (systemctl --user start podman.socket), then make the image with `lmtui sandbox image`.",
    "landlock": "Use a kernel with Landlock (5.19 or later), or Docker.",
    "bubblewrap": "Allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1), or use Docker.",
}


async def backend_reports(workspace: Path) -> Sequence[BackendReport]:
    """Try every backend in a workspace, strongest first; nothing of them runs afterwards.

    Raises:
        UsageError: the workspace cannot be one.
    """
    folder = await asyncio.to_thread(check_workspace, workspace)
    return [await _check(name, folder) for name in _CHECKED]


async def _check(name: str, workspace: Path) -> BackendReport:
    options = Options()
    backend = make_backend(name, workspace, options)
    started = time.monotonic()
    try:
        await prove(backend, options)
        guard, _, client = await start(backend, workspace)
    except SandboxUnavailable as refusal:
        fix = refusal.hint or _FIXES.get(name, "")
        return BackendReport(name, works=False, why_not=str(refusal), fix=fix, isolation=(), start_ms=0)
    else:
        elapsed_ms = int((time.monotonic() - started) * 1000)
        await client.close()
        await guard.close()
        return BackendReport(name, works=True, why_not="", fix="", isolation=backend.isolation, start_ms=elapsed_ms)
    finally:
        await backend.close()


def free_space(workspace: Path) -> Mapping[Path, int]:
    """Return the free bytes of the disks that the workspace and lmtui's own state are on, by folder."""
    folders = [next(each for each in (folder, *folder.parents) if each.exists()) for folder in (workspace, state_dir())]
    return {folder: shutil.disk_usage(folder).free for folder in {each.stat().st_dev: each for each in folders}.values()}


def workspace_problem(workspace: Path) -> UsageError | None:
    """Return why a folder cannot be worked in, None where it can."""
    try:
        check_workspace(workspace)
    except UsageError as error:
        return error
    return None
