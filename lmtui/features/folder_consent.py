"""The user's yes or no to what a folder brings, kept at user level by its hash: what changes is asked about again.  Blocks."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lmtui.core.errors import ConfigError
from lmtui.core.trust import TrustItem, check_shown
from lmtui.paths import state_dir
from lmtui.store.state_files import locked, write_whole

_MAX_BYTES = 4_194_304
ALLOWED, REFUSED = "allowed", "refused"
BROUGHT_SETTINGS, BROUGHT_SERVERS = "settings", "MCP servers"
_Answers = dict[str, dict[str, tuple[str, list[TrustItem]]]]  # by folder, and by kind and hash: the answer, and to what


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
        self.kind, self.read, self.answered, self.revoked = f"{kind}:", read, answered, revoked

    def answers(self) -> Mapping[str, str]:
        """Return the answers by hash."""
        found = _load().get(self.key, {})
        return {key.removeprefix(self.kind): answer for key, (answer, _) in found.items() if key.startswith(self.kind)}

    def items(self, *wanted: str | None) -> list[TrustItem]:
        """Return what is there now with one of these answers (None: without one), and how it differs from what was trusted."""
        known, now = _load().get(self.key, {}), self.read()
        before = [
            item for key, (answer, items) in known.items() if answer == ALLOWED for item in items if key.startswith(self.kind)
        ]
        found = [(item, known.get(self.kind + item.digest, (None,))[0]) for item in now]
        return [
            item if answer else replace(item, change=_change(item, now, before)) for item, answer in found if answer in wanted
        ]

    def holds(self, digest: str) -> bool:
        """Tell whether the user said yes to what has this hash."""
        return bool(digest) and self.answers().get(digest) == ALLOWED

    def keep(self, digests: Sequence[str], answer: str = ALLOWED) -> None:
        """Keep an answer, by default a yes; a yes to what is not there any more is forgotten.

        Raises:
            ConfigError: it cannot be kept.
        """
        now: dict[str, list[TrustItem]] = {}
        for item in self.read():
            now.setdefault(self.kind + item.digest, []).append(item)
        with _changing() as known:
            own = known.get(self.key, {})
            gone = {key for key, (word, _) in own.items() if word == ALLOWED and key.startswith(self.kind) and key not in now}
            kept = {key: found for key, found in own.items() if key not in gone}
            known[self.key] = kept | {self.kind + digest: (answer, now.get(self.kind + digest, [])) for digest in digests}


def _place(item: TrustItem) -> tuple[str, str, str]:
    return item.kind, item.source, item.text.partition(" ")[0]  # a name comes first


def _change(item: TrustItem, now: Sequence[TrustItem], before: Sequence[TrustItem]) -> str:
    """Return in words how an item differs from what was trusted in its place; empty where nothing was trusted before."""
    old, new = ([each.text for each in items if _place(each) == _place(item)] for items in (before, now))
    if item.text in old:
        return "" if sum(each.digest == item.digest for each in now) > 1 else "contents changed"
    gone = [text for text in old if text not in new]
    return f"was {gone[0]}" if len(gone) == 1 else "new" if before else ""


class FolderTrust:
    """All that a folder brings, by its parts; implements `core.trust.Trust`."""

    def __init__(self, *parts: FolderConsent) -> None:
        self.parts = parts

    def waiting(self) -> Sequence[TrustItem]:
        return self._items(None)

    def refused(self) -> Sequence[TrustItem]:
        return self._items(REFUSED)

    def trusted(self) -> Sequence[TrustItem]:
        return self._items(ALLOWED)

    def _items(self, *wanted: str | None) -> list[TrustItem]:
        return [item for part in self.parts for item in part.items(*wanted)]

    def revoke(self) -> None:
        with _changing() as known:
            for part in self.parts:
                _ = known.pop(part.key, None)
        for part in reversed(self.parts):  # the settings last: a file of them that cannot be read keeps no server running
            part.revoked()
            part.answered()

    def answered_elsewhere(self) -> bool | None:
        if self.waiting() or not self._items(ALLOWED, REFUSED):
            return None
        for part in self.parts:
            part.answered()
        return not self.refused()

    def answer(self, shown: Sequence[TrustItem], *, is_trusted: bool) -> None:
        wanted = None if self.waiting() else REFUSED
        found = [(part, part.items(wanted)) for part in self.parts]
        check_shown([item for _, items in found for item in items], shown)
        for part, items in found:
            if items:
                part.keep([item.digest for item in items], ALLOWED if is_trusted else REFUSED)
                part.answered()


def trusted_folders() -> Mapping[str, Sequence[TrustItem]]:
    """Return what was trusted in every folder, by the folder's name; some of it may have changed since."""
    found = {
        folder: [item for answer, items in own.values() if answer == ALLOWED for item in items]
        for folder, own in sorted(_load().items())
        if folder
    }
    return {folder: items for folder, items in found.items() if items}


@contextlib.contextmanager
def _changing() -> Iterator[_Answers]:
    """Let the answers be changed, which other processes do too, and keep them.

    Raises:
        ConfigError: they cannot be kept.
    """
    file = state_dir() / "trust.json"
    try:
        with locked(file.with_suffix(".lock")):
            yield (known := _load())
            values = {
                folder: {
                    key: [answer, [(item.kind, item.source, item.text) for item in items]]
                    for key, (answer, items) in own.items()
                }
                for folder, own in known.items()
            }
            write_whole(file, json.dumps(values, indent=1))
    except OSError as error:
        raise ConfigError(f"the answer could not be kept in {file}: {error.strerror}", "Free the disk.") from error


def _load() -> _Answers:
    """Return the answers; a file that cannot be read trusts nothing."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {
            folder: {
                key: (answer, [TrustItem(str(kind), str(source), str(text)) for kind, source, text in items])
                for key, (answer, items) in own.items()
                if answer in (ALLOWED, REFUSED)
            }
            for folder, own in json.loads((state_dir() / "trust.json").read_bytes()[:_MAX_BYTES]).items()
        }
    return {}
