"""The workspace's own settings: shown to who is asked to trust them, and in force once they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lmtui.config import Loaded, load_config
from lmtui.core.errors import SandboxError
from lmtui.core.trust import TrustItem
from lmtui.features.folder_consent import ALLOWED, BROUGHT_SETTINGS, FolderConsent, FolderTrust, trusted_folders
from lmtui.plain_files import open_own

__all__ = ["trusted_folders"]  # what else front ends need, who see no feature

OWN_SETTINGS = ".lmagent/config.toml"
_MAX_BYTES = 1_048_576


def read_own_settings(workspace: Path) -> bytes:
    """Return the folder's own settings, to be shown; a link is not followed.  Blocks.

    Raises:
        SandboxError: they cannot be read.
    """
    try:
        with open(workspace / OWN_SETTINGS, "rb", opener=open_own) as file:
            return file.read(_MAX_BYTES)
    except OSError as error:
        raise SandboxError(f"{OWN_SETTINGS} cannot be read: {error.strerror}") from error


def load_trusted(workspace: Path, environ: Mapping[str, str], flags: Mapping[str, Any]) -> Loaded:
    """Return the settings in force, with those of the folder where they are trusted; see `load_config`.  Blocks."""
    answers = FolderConsent(workspace, BROUGHT_SETTINGS, tuple).answers()
    trusted = next((digest for digest, answer in answers.items() if answer == ALLOWED), "")
    return load_config(workspace, environ, flags, trusted=trusted)


def with_settings(
    trust: FolderTrust, workspace: Path, read: Callable[[], Sequence[TrustItem]], answered: Callable[[], object] = lambda: None
) -> FolderTrust:
    """Return what else a folder brings, together with its settings."""
    return FolderTrust(FolderConsent(workspace, BROUGHT_SETTINGS, read, answered), *trust.parts)
