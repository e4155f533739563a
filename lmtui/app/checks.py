"""What `doctor` and `sandbox` look at: the backends, the image, the workspace, the tokenizer."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmtui.core.errors import SandboxError, SandboxUnavailable, UsageError
from lmtui.core.permissions.path_patterns import is_secret_path
from lmtui.core.ports import Sandbox
from lmtui.models.tokens import counter_name
from lmtui.paths import state_dir
from lmtui.sandbox.backend import FULL, Isolation, Options
from lmtui.sandbox.host_paths import check_workspace
from lmtui.sandbox.images import (
    DESCRIPTIONS,
    ImageSource,
    build_image,
    build_project_image,
    digest_of,
    find_source,
)
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
    isolation: Isolation
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
        return BackendReport(name, works=False, why_not=str(refusal), fix=fix, isolation=Isolation(), start_ms=0)
    else:
        elapsed_ms = int((time.monotonic() - started) * 1000)
        await client.close()
        await guard.close()
        return BackendReport(name, works=True, why_not="", fix="", isolation=backend.isolation, start_ms=elapsed_ms)
    finally:
        await backend.close()


_MOST_FILES, _MOST_BYTES = 5_000, 200 << 20


async def project_image_source(sandbox: Sandbox) -> tuple[ImageSource, dict[str, str]]:
    """Return how a project describes its image, and the texts that say so.

    Raises:
        UsageError: it does not, or in a way that lmtui cannot build.
    """
    texts: dict[str, str] = {}
    for name in DESCRIPTIONS:
        with contextlib.suppress(SandboxError):
            texts[name] = (await sandbox.read_file(name)).data.decode("utf-8", "replace")
    source = find_source(texts)
    if source is None:
        names = "neither a Dockerfile nor a .devcontainer/devcontainer.json or .devcontainer.json"
        raise UsageError(f"this project has {names}", "Build an image yourself and set image = NAME.")
    if source.dockerfile and source.dockerfile not in texts:
        texts[source.dockerfile] = (await sandbox.read_file(source.dockerfile)).data.decode("utf-8", "replace")
    return source, texts


async def make_project_image(
    workspace: Path, sandbox: Sandbox, source: ImageSource, texts: Mapping[str, str], say: Callable[[str], None]
) -> str:
    """Build the image of a project and return its name; ignored files and secret files are not sent to the engine.

    Raises:
        UsageError: the project has more files than can be sent.
        SandboxUnavailable: the build fails.
    """
    files: dict[str, tuple[bytes, int]] = {}
    if source.dockerfile:
        paths = await sandbox.glob(f"{source.context}/**" if source.context else "**", _MOST_FILES + 1)
        size_bytes = 0
        for path in dict.fromkeys((source.dockerfile, *(path for path in paths if not is_secret_path(path)))):
            file = await sandbox.read_file(path, _MOST_BYTES)
            size_bytes += file.size_bytes
            if size_bytes > _MOST_BYTES or len(paths) > _MOST_FILES:
                what = f"the project has more than {_MOST_FILES:,} files or {_MOST_BYTES >> 20} MB"
                raise UsageError(f"{what} to send to Docker", "Build the image yourself and set image = NAME.")
            files[path] = file.data, file.mode
        files[source.dockerfile] = texts[source.dockerfile].encode(), 0o644  # what was shown is what is built
    return await asyncio.to_thread(build_project_image, workspace, source, digest_of(texts), files, say)


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
