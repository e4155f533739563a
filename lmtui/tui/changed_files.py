"""Which files a session changed, reduced from its events, with undo, redo and restored files taken into account."""

from __future__ import annotations

from collections.abc import Mapping

from lmtui.core.events import Envelope
from lmtui.core.file_events import FilesChanged, FilesRestored, step_id
from lmtui.core.workspace import FileChange, FileChangeKind

_OPPOSITE = {
    FileChangeKind.ADDED: FileChangeKind.DELETED,
    FileChangeKind.DELETED: FileChangeKind.ADDED,
    FileChangeKind.MODIFIED: FileChangeKind.MODIFIED,
}


class ChangedFiles:
    """The changes by file.  Each event counts once, however often it is given."""

    def __init__(self) -> None:
        self.net: dict[str, FileChange] = {}
        self._steps: dict[str, list[tuple[str, FileChange]]] = {}
        self._undone: list[tuple[str, FileChange]] = []
        self._seq = 0

    def copy(self) -> ChangedFiles:
        """Return the same state, to be carried on apart."""
        other = ChangedFiles()
        other.net, other._seq = dict(self.net), self._seq
        other._steps = {path: list(steps) for path, steps in self._steps.items()}
        other._undone = list(self._undone)
        return other

    def apply(self, envelope: Envelope) -> Mapping[str, FileChange]:
        """Take one event and return what it did to files; nothing for an event that is not about files, or is known."""
        event = envelope.event
        if not isinstance(event, FilesChanged | FilesRestored) or envelope.seq <= self._seq:
            return {}
        self._seq = envelope.seq
        told = {change.path: change for change in event.changes}
        changes = {path: told.get(path, FileChange(path, FileChangeKind.MODIFIED)) for path in event.files}
        match event:
            case FilesChanged():
                for path, change in changes.items():
                    self._steps.setdefault(path, []).append((step_id(envelope.seq), change))
                    self._add(path, change)
                return changes
            case FilesRestored(action="redo"):
                self._bring_back(event.calls, changes)
            case FilesRestored(action="restore"):
                self._put_back(changes, step_id(envelope.seq))
            case FilesRestored():
                self._take_away(event.calls, changes, step_id(envelope.seq))
        for path in changes:
            self.net.pop(path, None)
            for _, change in self._steps.get(path, ()):
                self._add(path, change)
        return changes

    def _add(self, path: str, change: FileChange) -> None:
        before = self.net.get(path)
        self.net[path] = change if before is None else _join(before, change)

    def _take_away(self, ids: tuple[str, ...], changes: Mapping[str, FileChange], own_id: str) -> None:
        for path, change in changes.items():
            steps = self._steps.get(path, [])
            taken = [step for step in steps if step[0] in ids]
            self._undone += taken
            self._steps[path] = [step for step in steps if step[0] not in ids]
            if not taken:
                self._put_back({path: change}, own_id)

    def _bring_back(self, ids: tuple[str, ...], changes: Mapping[str, FileChange]) -> None:
        for path in changes:
            back = [step for step in self._undone if step[0] in ids and step[1].path == path]
            self._undone = [step for step in self._undone if step not in back]
            self._steps.setdefault(path, []).extend(back)

    def _put_back(self, changes: Mapping[str, FileChange], own_id: str) -> None:
        """Drop the latest changes that a restored file exactly undoes; what undoes only a part of them is one more change."""
        for path, change in changes.items():
            steps = self._steps.setdefault(path, [])
            for at in range(len(steps) - 1, -1, -1):
                if _undoes(change, [step for _, step in steps[at:]]):
                    del steps[at:]
                    break
            else:
                steps.append((own_id, change))


def _undoes(change: FileChange, steps: list[FileChange]) -> bool:
    whole = steps[0]
    for step in steps[1:]:
        whole = _join(whole, step)
    counts = (whole.removed_lines, whole.added_lines)
    return change.kind is _OPPOSITE[whole.kind] and (change.added_lines, change.removed_lines) == counts


def _join(first: FileChange, then: FileChange) -> FileChange:
    """Return two changes of one file as one; a file that was added stays added until it is deleted."""
    kind = then.kind
    if first.kind is FileChangeKind.ADDED and kind is FileChangeKind.MODIFIED:
        kind = FileChangeKind.ADDED
    joined = "\n".join(diff.rstrip("\n") for diff in (first.diff, then.diff) if diff)
    return FileChange(
        then.path,
        kind,
        first.added_lines + then.added_lines,
        first.removed_lines + then.removed_lines,
        joined and joined + "\n",
    )
