"""The user's yes or no to what a folder brings, kept at user level by its hash: what changes is asked about again.  Blocks."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lmtui.core.errors import ConfigError
from lmtui.core.trust import TrustItem, check_shown
from lmtui.paths import WORKSPACE_FOLDER, state_dir
from lmtui.plain_files import open_own, own_folder


def replace_file(file: Path, text: str) -> None:
    """Put a text in the place of a file's; its folder is made where it is missing.  Blocks.

    Raises:
        OSError: it cannot be written; the file is as it was.
    """
    if WORKSPACE_FOLDER not in file.parts:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = file.with_name(f".{file.name}-{secrets.token_hex(4)}")
    with own_folder(file.parent, makes=True) as folder:
        try:
            with open(draft, "x", encoding="utf-8", opener=open_own) as opened:
                opened.write(text)
            os.replace(draft.name, file.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            with contextlib.suppress(FileNotFoundError):  # it became the file
                os.unlink(draft.name, dir_fd=folder)


_MAX_BYTES = 4_194_304


@dataclass(frozen=True, slots=True)
class FolderContent:
    """What a folder brings now, with the hash of all of it (empty: nothing)."""

    items: tuple[TrustItem, ...] = ()
    digest: str = ""

    def marked(self) -> tuple[TrustItem, ...]:
        """Return the items, each with the hash of all of it."""
        return tuple(replace(item, digest=self.digest) for item in self.items)


class FolderConsent:
    """The answer for one kind of things of one folder; implements `core.trust.Trust`.

    Args:
        workspace: the folder.
        name: of the kind, for the file of the answers.
        read: returns what the folder brings now.
    """

    def __init__(self, workspace: Path, name: str, read: Callable[[], FolderContent]) -> None:
        self._key = str(workspace.resolve())
        self._name = name
        self._read = read

    def holds(self, digest: str) -> bool:
        """Tell whether the user said yes to what has this hash."""
        return bool(digest) and self._answers().get("allowed") == digest

    def waiting(self) -> Sequence[TrustItem]:
        brought = self._read()
        return () if not brought.digest or brought.digest in self._answers().values() else brought.marked()

    def refused(self) -> Sequence[TrustItem]:
        brought = self._read()
        return brought.marked() if brought.digest and self._answers().get("refused") == brought.digest else ()

    def trusted(self) -> Sequence[TrustItem]:
        brought = self._read()
        return brought.marked() if self.holds(brought.digest) else ()

    def revoke(self) -> None:
        if self._answers():
            self._keep({})

    def answered_elsewhere(self) -> bool | None:
        digest = self._read().digest
        answers = self._answers()
        return answers.get("allowed") == digest if digest and digest in answers.values() else None

    def answer(self, shown: Sequence[TrustItem], *, is_trusted: bool) -> None:
        brought = self._read()
        if brought.digest:
            check_shown(brought.marked(), shown)
            self._keep({"allowed" if is_trusted else "refused": brought.digest})

    def _answers(self) -> dict[str, str]:
        found = _load(_file()).get(self._name, {})
        own = found.get(self._key, {}) if isinstance(found, dict) else {}
        return {name: each for name, each in own.items() if isinstance(each, str)} if isinstance(own, dict) else {}

    def _keep(self, answers: dict[str, str]) -> None:
        file = _file()
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with file.with_suffix(".lock").open("w") as lock:  # other folders' answers are in the same file
                fcntl.flock(lock, fcntl.LOCK_EX)
                known = _load(file)
                of_kind = known.get(self._name)
                known[self._name] = {**(of_kind if isinstance(of_kind, dict) else {}), self._key: answers}
                replace_file(file, json.dumps(known, indent=1))
        except OSError as error:
            raise ConfigError(f"the answer could not be kept in {file}: {error.strerror}", "Free the disk.") from error


def folders_with_yes(name: str) -> tuple[str, ...]:
    """Return the folders whose things of a kind were answered with yes."""
    of_kind = _load(_file()).get(name)
    found = of_kind if isinstance(of_kind, dict) else {}
    return tuple(folder for folder, own in found.items() if isinstance(own, dict) and own.get("allowed"))


def _file() -> Path:
    return state_dir() / "brought.json"


def _load(file: Path) -> dict[str, object]:
    try:
        found = json.loads(file.read_bytes()[:_MAX_BYTES])
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
