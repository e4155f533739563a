"""The Markdown files of notes: `.lmagent/memory.md` of a folder and `memory.md` among the user's settings.

What is not a note in them (headings, comments, code) stays as it is.  A change is made under a
lock, so that two sessions that add at once lose nothing.  All functions block.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from lmtui.core.errors import ConfigError, SessionFileError, UsageError
from lmtui.core.sanitize import sanitize_line
from lmtui.core.trust import TrustItem
from lmtui.features.folder_consent import FolderConsent
from lmtui.features.memory.notes import MemoryScope, Note, check_note, lines_with_notes, note_line, parse_notes
from lmtui.paths import WORKSPACE_FOLDER, config_dir, state_dir
from lmtui.plain_files import NotPlain, read_plain
from lmtui.store.session_logs import make_workspace_folder
from lmtui.store.state_files import locked, write_whole

NAME = "memory.md"
KIND = "note"
_MAX_BYTES = 262_144
_HEADS = {MemoryScope.PROJECT: "# Notes for this folder", MemoryScope.USER: "# Notes for all folders"}
_CHECK = "Check permissions and free disk space."
_NO_TRUST = "To review them, type /trust or run `lmtui trust`."


@dataclass(frozen=True, slots=True)
class MemoryText:
    """A memory file as it is: its text, or why it is not read."""

    text: str = ""
    problem: str = ""
    is_cut: bool = False


def with_note(text: str, note: Note) -> str:
    """Return a file with a note at its end; the same where it has it already."""
    if any(each.key == note.key for each in parse_notes(text, note.scope)):
        return text
    head = text if text.strip() else f"{_HEADS[note.scope]}\n\n"
    return f"{head}{'' if head.endswith(chr(10)) else chr(10)}{note_line(note)}\n"


def edited(text: str, scope: MemoryScope, keys: Collection[str], new: Note | None = None) -> str:
    """Return a file without the notes with these keys, wherever they are said; `new` takes the place of the first."""
    kept: list[str] = []
    for line, note in lines_with_notes(text, scope):
        if note is None or note.key not in keys:
            kept.append(line)
        elif new is not None:
            kept.append(f"{note_line(new)}\n")
            new = None
    return "".join(kept)


class MemoryFiles:
    """The notes of a workspace and its user.

    The file of a workspace counts as what its folder brings: until the user trusts it whole, it is
    not used and not changed. What lmtui writes into one that is trusted, or new, is trusted with
    it.
    """

    def __init__(self, workspace: Path) -> None:
        self._places = {MemoryScope.PROJECT: (workspace, f"{WORKSPACE_FOLDER}/{NAME}"), MemoryScope.USER: (config_dir(), NAME)}
        self.trust = FolderConsent(workspace, "memory", lambda: _content(self._read(MemoryScope.PROJECT)))

    def path(self, scope: MemoryScope) -> Path:
        """Return the file of a scope."""
        return Path(*self._places[scope])

    def _read(self, scope: MemoryScope) -> MemoryText:
        """Return a file as it is now; of one that is longer the whole lines in the first 256 KiB."""
        path, problem = self.path(scope), ""
        try:
            data = read_plain(*self._places[scope], _MAX_BYTES + 1) or b""
        except (NotPlain, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            return MemoryText(problem=f"could not read {path}: {why}")
        is_cut = len(data) > _MAX_BYTES
        if is_cut:
            problem = f"{path} is larger than {_MAX_BYTES:,} bytes; notes beyond that are ignored. Shorten the file."
            data = data[:_MAX_BYTES].rpartition(b"\n")[0]
        text = data.decode("utf-8", "replace")
        if not is_cut and text.encode() != data:
            problem = f"{path} is not UTF-8 text. Save it as UTF-8."
        return MemoryText(text, problem, is_cut)

    def notes(self) -> tuple[Note, ...]:
        """Return every note that may be used, those of the folder first."""
        project, user = self._read(MemoryScope.PROJECT), parse_notes(self._read(MemoryScope.USER).text, MemoryScope.USER)
        return (*parse_notes(project.text, MemoryScope.PROJECT), *user) if self._is_trusted(project) else user

    def problems(self) -> list[str]:
        """Return why notes are missing, in words."""
        project = self._read(MemoryScope.PROJECT)
        waits = f"{self.path(MemoryScope.PROJECT)} has notes that you have not trusted; none are used. {_NO_TRUST}"
        found = (project.problem, "" if self._is_trusted(project) else waits, self._read(MemoryScope.USER).problem)
        return [each for each in found if each]

    def add(self, note: Note) -> bool:
        """Keep a note, with today's date where it has none; False where it is kept already, in either file.

        Raises:
            UsageError: see `WorkspaceMemory.add`.
        """
        date = note.date or f"{datetime.now(UTC).astimezone():%Y-%m-%d}"
        note = replace(note, text=check_note(note.text), date=date)
        if any(each.key == note.key for each in self.notes()):
            return False
        self._change(note.scope, lambda text: with_note(text, note))
        return True

    def remove(self, gone: Sequence[Note]) -> None:
        """Take out these notes.

        Raises:
            UsageError: see `WorkspaceMemory.remove`.
        """
        for changed in {note.scope for note in gone}:
            keys = {note.key for note in gone if note.scope is changed}
            self._change(changed, partial(edited, scope=changed, keys=keys))

    def replace(self, old: Note, new: Note) -> None:
        """Put a note in the place of another.

        Raises:
            UsageError: the old one is gone; see `add`.
        """
        new = replace(new, text=check_note(new.text))
        if all(each.key != old.key or each.scope is not old.scope for each in self.notes()):
            raise UsageError("this note no longer exists", "Check the list again.")
        if old.scope is not new.scope:
            self._change(new.scope, lambda text: with_note(text, new))
        kept = new if old.scope is new.scope else None
        self._change(old.scope, lambda text: edited(text, old.scope, (old.key,), kept))

    def _change(self, scope: MemoryScope, edit: Callable[[str], str]) -> None:
        """Put another text in the place of a file's, in one step; what fails leaves it as it was."""
        path, is_project = self.path(scope), scope is MemoryScope.PROJECT
        name = hashlib.sha256(os.fsencode(path)).hexdigest()[:24]
        try:
            with locked(state_dir() / "locks" / name):
                now = self._read(scope)
                if now.problem:
                    raise UsageError(now.problem)
                if is_project and not self._is_trusted(now):
                    raise UsageError(f"{path} has notes that you have not trusted", _NO_TRUST)
                if (text := edit(now.text)) == now.text:
                    return
                if is_project:
                    make_workspace_folder(self._places[scope][0])
                write_whole(path, text, errors="strict")
                if is_project:
                    self._bless(MemoryText(text))
        except SessionFileError as error:
            raise UsageError(str(error), error.hint) from error
        except OSError as error:
            raise UsageError(f"could not write {path}: {error.strerror}", _CHECK) from error

    def _is_trusted(self, found: MemoryText) -> bool:
        return all(self.trust.holds(item.digest) for item in _content(found)[:1])

    def _bless(self, found: MemoryText) -> None:
        """Trust a text, unless the file is another by now: that waits for the user."""
        with contextlib.suppress(ConfigError):
            self.trust.keep([item.digest for item in _content(found)[:1]])


def _content(found: MemoryText) -> list[TrustItem]:
    """Return every line that a memory file says, shown as it is."""
    notes = parse_notes(found.text, MemoryScope.PROJECT)
    marks = "\0".join(note_line(note) for note in notes) + ("\0cut" if found.is_cut else "")
    digest = hashlib.sha256(marks.encode("utf-8", "surrogatepass")).hexdigest()
    return [TrustItem(KIND, f"{WORKSPACE_FOLDER}/{NAME}", sanitize_line(note.text), digest) for note in notes]
