"""What `doctor` and `sandbox` look at: the backends, the image, the workspace, the tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from lmtui.core.errors import UsageError
from lmtui.providers.tokens import counter_name
from lmtui.runtime.process import drop_path_entries_below
from lmtui.sandbox.backend import FULL
from lmtui.sandbox.check import BackendReport, check_backends
from lmtui.sandbox.host_paths import check_workspace
from lmtui.sandbox.image import build_image

__all__ = ["FULL", "BackendReport", "backend_reports", "make_image", "tokenizer_name", "workspace_problem"]


async def backend_reports(workspace: Path) -> Sequence[BackendReport]:
    """Return, for each backend, whether it works here and what it isolates."""
    drop_path_entries_below(workspace)
    return await check_backends(workspace)


async def make_image(name: str, source: str, cache: Path | None, say: Callable[[str], None]) -> str:
    """Make the sandbox image and return its name; `say` gets a line for each step."""
    return await build_image(name, source=source, cache=cache, say=say)


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
