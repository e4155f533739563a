"""Whether the user trusts what the workspace's own files bring: the settings that loosen wait for one answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lmtui.config import Config, Loaded, load_config
from lmtui.core.errors import SandboxError
from lmtui.core.trust import TrustItem, check_shown
from lmtui.plain_files import open_own
from lmtui.store.rule_store import TrustAnswer, read_trust, trust_file, write_trust

__all__ = ["OWN_SETTINGS", "FolderTrust", "load_trusted", "read_own_settings", "read_trust", "trust_file"]


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
    answer = read_trust(workspace)
    return load_config(workspace, environ, flags, trusted=answer.digest if answer.is_trusted else "")


class FolderTrust:
    """A folder with its own settings; implements `core.trust.Trust`.

    Args:
        loaded: the settings as they were read.
        reload: reads them again, with what is trusted by now.
        use: takes the settings that are in force after an answer.
    """

    def __init__(self, workspace: Path, loaded: Loaded, reload: Callable[[], Loaded], use: Callable[[Config], None]) -> None:
        self._workspace = workspace
        self._loaded = loaded
        self._reload = reload
        self._use = use

    def waiting(self) -> Sequence[TrustItem]:
        return self._answered(None)

    def refused(self) -> Sequence[TrustItem]:
        return self._answered(is_trusted=False)

    def trusted(self) -> Sequence[TrustItem]:
        return self._answered(is_trusted=True)

    def _answered(self, is_trusted: bool | None) -> Sequence[TrustItem]:
        """Return what waits, if that is the answer to it as it is now; None for what was not answered."""
        answer = read_trust(self._workspace)
        now = answer.is_trusted if answer.digest == self._loaded.digest else None
        return self._loaded.waiting if now is is_trusted else ()

    def revoke(self) -> None:
        if read_trust(self._workspace).digest:
            write_trust(self._workspace, TrustAnswer())
            self._take_up()

    def answered_elsewhere(self) -> bool | None:
        answer = read_trust(self._workspace)
        if not self._loaded.waiting or answer.digest != self._loaded.digest:
            return None
        if answer.is_trusted:
            self._take_up()
        return answer.is_trusted

    def answer(self, shown: Sequence[TrustItem], *, is_trusted: bool) -> None:
        check_shown(self._loaded.waiting, shown)
        write_trust(self._workspace, TrustAnswer(self._loaded.digest, is_trusted))
        self._take_up()

    def _take_up(self) -> None:
        self._loaded = self._reload()
        self._use(self._loaded.config)
