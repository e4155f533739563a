"""Which folders the user trusts, at user level: for each the hash of what it brought when the user answered.

The file is JSON, one object: `{"/home/me/project": {"digest": "<sha256>", "is_trusted": true}}`; it can be deleted.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from lmtui.core.errors import ConfigError
from lmtui.paths import config_dir


@dataclass(frozen=True, slots=True)
class TrustAnswer:
    """What the user said of a folder, and for what; `digest` empty: not asked yet."""

    digest: str = ""
    is_trusted: bool = False


def trust_file() -> Path:
    """Return the file of the answers."""
    return config_dir() / "trust.json"


def read_trust(workspace: Path) -> TrustAnswer:
    """Return the answer for a folder; a file that cannot be read trusts nothing."""
    found = _read().get(str(workspace.resolve()))
    if not isinstance(found, dict) or not isinstance(found.get("digest"), str):
        return TrustAnswer()
    return TrustAnswer(found["digest"], found.get("is_trusted") is True)


def trusted_folders() -> tuple[str, ...]:
    """Return the folders whose settings are trusted, as they were when the user answered."""
    return tuple(name for name, found in _read().items() if isinstance(found, dict) and found.get("is_trusted") is True)


def write_trust(workspace: Path, answer: TrustAnswer) -> None:
    """Keep the answer for a folder.

    Raises:
        ConfigError: it cannot be kept.
    """
    answers = _read() | {str(workspace.resolve()): {"digest": answer.digest, "is_trusted": answer.is_trusted}}
    draft = trust_file().with_suffix(".new")
    try:
        draft.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(answers, file, indent=1)
        draft.replace(trust_file())
    except OSError as error:
        raise ConfigError(f"the answer could not be kept in {trust_file()}: {error.strerror}", "Free the disk.") from error


def _read() -> dict[str, object]:
    try:
        found = json.loads(trust_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
