"""The user's yes or no to what a folder brings, kept at user level by its hash: what changes is asked about again.  Blocks."""

from __future__ import annotations

import contextlib
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
from lmtui.store.state_files import locked


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


ALLOWED, REFUSED = "allowed", "refused"


@dataclass(frozen=True, slots=True)
class FolderContent:
    """What a folder brings now; `digest` is the hash of all of it, for items without one of their own."""

    items: tuple[TrustItem, ...] = ()
    digest: str = ""

    def marked(self) -> tuple[TrustItem, ...]:
        """Return the items, each with the hash that an answer holds for."""
        return tuple(item if item.digest else replace(item, digest=self.digest) for item in self.items)


class FolderConsent:
    """The answers for one kind of things of one folder; implements `core.trust.Trust`.

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
        return bool(digest) and self.answers().get(digest) == ALLOWED

    def waiting(self) -> Sequence[TrustItem]:
        return self._answered(None)

    def refused(self) -> Sequence[TrustItem]:
        return self._answered(REFUSED)

    def trusted(self) -> Sequence[TrustItem]:
        return self._answered(ALLOWED)

    def _answered(self, answer: str | None) -> tuple[TrustItem, ...]:
        answers = self.answers()
        return tuple(item for item in self._read().marked() if answers.get(item.digest) == answer)

    def revoke(self) -> None:
        if self.answers():
            self._keep({})

    def answered_elsewhere(self) -> bool | None:
        answers = self.answers()
        found = {answers.get(item.digest) for item in self._read().marked()}
        return None if not found or None in found else REFUSED not in found

    def answer(self, shown: Sequence[TrustItem], *, is_trusted: bool) -> None:
        if open_ones := self.waiting() or self.refused():
            check_shown(open_ones, shown)
            self._answer([item.digest for item in open_ones], ALLOWED if is_trusted else REFUSED)

    def allow(self, digest: str) -> None:
        """Keep a yes to what the user just made here."""
        self._answer([digest], ALLOWED)

    def _answer(self, digests: Sequence[str], answer: str) -> None:
        there = {item.digest for item in self._read().marked()}
        known = {digest: word for digest, word in self.answers().items() if digest in there}
        self._keep({**known, **dict.fromkeys(digests, answer)})

    def answers(self) -> dict[str, str]:
        """Return the answers by hash."""
        found = _load(_file()).get(self._name, {})
        own = found.get(self._key, {}) if isinstance(found, dict) else {}
        kept = own.items() if isinstance(own, dict) else ()
        pairs = [(value, key) if key in (ALLOWED, REFUSED) else (key, value) for key, value in kept]  # older files: by answer
        return {digest: word for digest, word in pairs if isinstance(digest, str) and word in (ALLOWED, REFUSED)}

    def _keep(self, answers: dict[str, str]) -> None:
        file = _file()
        try:
            with locked(file.with_suffix(".lock")):  # other folders' answers are in the same file
                known = _load(file)
                of_kind = known.get(self._name)
                known[self._name] = {**(of_kind if isinstance(of_kind, dict) else {}), self._key: answers}
                replace_file(file, json.dumps(known, indent=1))
        except OSError as error:
            raise ConfigError(f"the answer could not be kept in {file}: {error.strerror}", "Free the disk.") from error


def folders_with_yes(name: str) -> tuple[str, ...]:
    """Return the folders of whose things of a kind some were answered with yes."""
    of_kind = _load(_file()).get(name)
    found = of_kind if isinstance(of_kind, dict) else {}
    return tuple(folder for folder, own in found.items() if isinstance(own, dict) and ALLOWED in (*own, *own.values()))


def _file() -> Path:
    return state_dir() / "brought.json"


def _load(file: Path) -> dict[str, object]:
    try:
        found = json.loads(file.read_bytes()[:_MAX_BYTES])
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
