"""What `doctor` and `sandbox` look at: the backends, the image, the workspace, the tokenizer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lmtui.core.errors import SandboxError, UsageError
from lmtui.core.ports import Sandbox
from lmtui.core.secrets import is_secret_path
from lmtui.providers.tokens import counter_name
from lmtui.runtime.process import drop_path_entries_below
from lmtui.sandbox.backend import FULL
from lmtui.sandbox.check import BackendReport, check_backends
from lmtui.sandbox.host_paths import check_workspace
from lmtui.sandbox.image import build_image
from lmtui.sandbox.project_image import DESCRIPTIONS, ImageSource, build_project_image, digest_of, find_source

__all__ = [
    "FULL",
    "BackendReport",
    "backend_reports",
    "make_image",
    "make_project_image",
    "project_image_source",
    "tokenizer_name",
    "workspace_problem",
]

_MOST_FILES, _MOST_BYTES = 5_000, 200 << 20


async def backend_reports(workspace: Path) -> Sequence[BackendReport]:
    """Return, for each backend, whether it works here and what it isolates."""
    drop_path_entries_below(workspace)
    return await check_backends(workspace)


async def make_image(name: str, source: str, cache: Path | None, say: Callable[[str], None]) -> str:
    """Make the sandbox image and return its name; `say` gets a line for each step."""
    return await build_image(name, source=source, cache=cache, say=say)


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


def workspace_problem(workspace: Path) -> UsageError | None:
    """Return why a folder cannot be worked in, None where it can."""
    try:
        check_workspace(workspace)
    except UsageError as error:
        return error
    return None


def tokenizer_name() -> str:
    """Return how tokens are counted on this machine."""
    return counter_name()
