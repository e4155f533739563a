"""The user's yes or no to what a folder brings, kept at user level by its hash: what changes is asked about again.  Blocks."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from lmtui.core.errors import ConfigError
from lmtui.core.trust import TrustItem, check_shown
from lmtui.paths import WORKSPACE_FOLDER, config_dir, state_dir
from lmtui.plain_files import open_own, own_folder
from lmtui.store.state_files import locked, write_whole


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
BROUGHT_SETTINGS, BROUGHT_SERVERS = "settings", "MCP servers"
_SHOWN_KINDS = {"agents": "sub-agents", "memory": "notes"}
Answers = dict[str, dict[str, dict[str, str]]]  # by kind, folder and hash


class FolderConsent:
    """What a folder brings of one kind, and the answers to it.

    Args:
        folder: the workspace; None for what is the user's own, for which an answer holds in every folder.
        kind: its name in the file of the answers.
        read: returns what is there now, each with the hash that an answer holds for.
        answered: called after an answer was kept.
        revoked: called before that where the answers were taken back.
    """

    def __init__(
        self,
        folder: Path | None,
        kind: str,
        read: Callable[[], Sequence[TrustItem]],
        answered: Callable[[], object] = lambda: None,
        revoked: Callable[[], object] = lambda: None,
    ) -> None:
        self.key = "" if folder is None else str(folder.resolve())
        self.kind, self.read, self.answered, self.revoked = kind, read, answered, revoked

    def answers(self) -> Mapping[str, str]:
        """Return the answers by hash."""
        return _load().get(self.kind, {}).get(self.key, {})

    def holds(self, digest: str) -> bool:
        """Tell whether the user said yes to what has this hash."""
        return bool(digest) and self.answers().get(digest) == ALLOWED

    def keep(self, digests: Sequence[str], answer: str = ALLOWED) -> None:
        """Keep an answer, by default a yes; a yes to what is not there any more is forgotten.

        Raises:
            ConfigError: it cannot be kept.
        """
        there = {item.digest for item in self.read()}
        with _changing() as known:
            own = known.setdefault(self.kind, {})
            kept = {digest: word for digest, word in own.get(self.key, {}).items() if digest in there or word == REFUSED}
            own[self.key] = {**kept, **dict.fromkeys(digests, answer)}


class FolderTrust:
    """All that a folder brings, by its parts; implements `core.trust.Trust`."""

    def __init__(self, *parts: FolderConsent) -> None:
        self.parts = parts

    def waiting(self) -> Sequence[TrustItem]:
        return [item for _, item in self._answered(None)]

    def refused(self) -> Sequence[TrustItem]:
        return [item for _, item in self._answered(REFUSED)]

    def trusted(self) -> Sequence[TrustItem]:
        return [item for _, item in self._answered(ALLOWED)]

    def _answered(self, *wanted: str | None) -> list[tuple[FolderConsent, TrustItem]]:
        known = [(part, part.answers()) for part in self.parts]
        return [(part, item) for part, answers in known for item in part.read() if answers.get(item.digest) in wanted]

    def revoke(self) -> None:
        with _changing() as known:
            for folders in known.values():
                for part in self.parts:
                    _ = folders.pop(part.key, None)
        for part in reversed(self.parts):  # the settings last: a file of them that cannot be read keeps no server running
            part.revoked()
            part.answered()

    def answered_elsewhere(self) -> bool | None:
        if self.waiting() or not self._answered(ALLOWED, REFUSED):
            return None
        for part in self.parts:
            part.answered()
        return not self.refused()

    def answer(self, shown: Sequence[TrustItem], *, is_trusted: bool) -> None:
        found = self._answered(None) or self._answered(REFUSED)
        check_shown([item for _, item in found], shown)
        digests: dict[FolderConsent, list[str]] = {}
        for part, item in found:
            digests.setdefault(part, []).append(item.digest)
        for part, own in digests.items():
            part.keep(own, ALLOWED if is_trusted else REFUSED)
            part.answered()


def trusted_folders() -> Mapping[str, tuple[str, ...]]:
    """Return every folder of which something was trusted, by name, with the kinds of what; some may have changed since."""
    kinds: dict[str, tuple[str, ...]] = {}
    for kind, folders in _load().items():
        for folder, own in folders.items():
            if folder and ALLOWED in own.values():
                kinds[folder] = (*kinds.get(folder, ()), _SHOWN_KINDS.get(kind, kind))
    return dict(sorted(kinds.items()))


def _file() -> Path:
    return state_dir() / "brought.json"


@contextlib.contextmanager
def _changing() -> Iterator[Answers]:
    """Let the answers be changed, which other processes do too, and keep them.

    Raises:
        ConfigError: they cannot be kept.
    """
    file = _file()
    try:
        with locked(file.with_suffix(".lock")):
            yield (known := _load())
            write_whole(file, json.dumps(known, indent=1))
            with contextlib.suppress(OSError):
                (config_dir() / "trust.json").unlink()  # its yes must not count again once this file is gone
    except OSError as error:
        raise ConfigError(f"the answer could not be kept in {file}: {error.strerror}", "Free the disk.") from error


def _load() -> Answers:
    """Return the answers; a file that cannot be read trusts nothing."""
    try:
        found = json.loads(_file().read_bytes()[:_MAX_BYTES])
        known = {kind: {folder: _by_hash(own) for folder, own in folders.items()} for kind, folders in found.items()}
    except FileNotFoundError:
        known = {}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {BROUGHT_SETTINGS: {}}
    return known if BROUGHT_SETTINGS in known else {**_earlier(), **known}


def _by_hash(own: Mapping[str, str]) -> dict[str, str]:
    """Return a folder's answers; the oldest files have the hash by the answer."""
    pairs = [(value, key) if key in (ALLOWED, REFUSED) else (key, value) for key, value in own.items()]
    return {digest: word for digest, word in pairs if word in (ALLOWED, REFUSED)}


def _earlier() -> Answers:
    """Return the answers to settings and servers as earlier versions kept them: the first answer here takes their place."""
    settings: dict[str, dict[str, str]] = {}
    servers: dict[str, dict[str, str]] = {}
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        for folder, answer in json.loads((config_dir() / "trust.json").read_bytes()).items():
            settings[folder] = {str(answer["digest"]): ALLOWED if answer["is_trusted"] is True else REFUSED}
    for file in (state_dir() / "mcp").glob("*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            known = json.loads(file.read_bytes())
            answers = {f"{file.stem}:{known[word]}": word for word in (ALLOWED, REFUSED) if known[word]}
            servers.setdefault(known.get("folder", ""), {}).update(answers)
    return {BROUGHT_SETTINGS: settings, BROUGHT_SERVERS: servers}
