"""What was typed, kept per workspace: the prompt's history, and a draft for each session.  Blocks (disk)."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from lmtui.core.messages import Image
from lmtui.core.sanitize import sanitize_line

MAX_FOUND = 50
MAX_SEARCHED_CHARS = 2000


class SentHistory:
    """The texts sent before, oldest first, and where in them the prompt is."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._index = 0
        self._unsent = ""

    def load(self, earlier: Sequence[str]) -> None:
        """Put what was sent in earlier runs before what was sent in this one."""
        self.texts = [*earlier, *self.texts]
        self._index = len(self.texts)

    def add(self, text: str) -> None:
        """Take note of a text that was sent, and go back to the end."""
        if not self.texts or self.texts[-1] != text:
            self.texts.append(text)
        self._index, self._unsent = len(self.texts), ""

    def walk(self, step: int, now: str) -> str | None:
        """Return the text one step on, None at either end; `now` is kept for when one comes back to the end."""
        index = self._index + step
        if not 0 <= index <= len(self.texts):
            return None
        if self._index == len(self.texts):
            self._unsent = now
        self._index = index
        return self._unsent if index == len(self.texts) else self.texts[index]

    def search(self, query: str) -> list[str]:
        """Return what has all words, the newest first."""
        words, newest = query.lower().split(), dict.fromkeys(reversed(self.texts))
        found = (text for text in newest if all(word in text[:MAX_SEARCHED_CHARS].lower() for word in words))
        return list(islice(found, MAX_FOUND))


MAX_LINES = 10
MAX_CHARS = 1000
_TOKEN = re.compile(r"\[(?:pasted \d+ (?:lines|characters)|image) #\d+(?: [^\[\]\n]*)?\]")


@dataclass(frozen=True, slots=True)
class Typed:
    """A text as it is in the prompt, with what its paste tokens mean."""

    text: str
    pastes: Mapping[str, str] = field(default_factory=dict)


def is_large(text: str) -> bool:
    """Tell whether a paste is folded."""
    return len(text) > MAX_CHARS or text.count("\n") >= MAX_LINES


class Folds:
    """What the tokens mean.  Numbers are not used twice, so that a text that comes back still means the same."""

    def __init__(self) -> None:
        self._pastes: dict[str, str] = {}
        self._images: dict[str, Image] = {}
        self._number = 0

    def fold(self, text: str) -> str:
        """Return a token for a paste."""
        lines = text.count("\n") + 1
        size = f"{lines} lines" if lines > MAX_LINES else f"{len(text)} characters"
        token = f"[pasted {size} #{self._next()}]"
        self._pastes[token] = text
        return token

    def add_image(self, image: Image) -> str:
        """Return a token for a picture."""
        name = re.sub(r"[\[\]\n]", "_", sanitize_line(image.name))[:60]
        token = f"[image #{self._next()} {name}]"
        self._images[token] = image
        return token

    def load(self, pastes: Mapping[str, str]) -> None:
        """Know the pastes of an earlier run again."""
        for token, text in pastes.items():
            number = re.search(r"#(\d+)", token)
            if _TOKEN.fullmatch(token) and number:
                self._pastes[token] = text
                self._number = max(self._number, int(number[1]))

    def expand(self, text: str) -> str:
        """Return the text with every paste whole; tokens of pictures stay, they name them."""
        return _TOKEN.sub(lambda match: self._pastes.get(match[0], match[0]), text)

    def images(self, text: str) -> tuple[Image, ...]:
        """Return the pictures that a text names, each once."""
        found = dict.fromkeys(match[0] for match in _TOKEN.finditer(text))
        return tuple(self._images[token] for token in found if token in self._images)

    def typed(self, text: str) -> Typed:
        """Return a text with what its paste tokens mean."""
        tokens = (match[0] for match in _TOKEN.finditer(text))
        return Typed(text, {token: self._pastes[token] for token in tokens if token in self._pastes})

    def at(self, line: str, column: int, *, before: bool = False, after: bool = False) -> tuple[int, int] | None:
        """Return where in a line the token is that a column is in; `before` and `after` say which of its ends counts."""
        for match in _TOKEN.finditer(line):
            start, end = match.span()
            is_known = match[0] in self._pastes or match[0] in self._images
            if is_known and (start < column < end or (after and column == end) or (before and column == start)):
                return start, end
        return None

    def _next(self) -> int:
        self._number += 1
        return self._number


MAX_ENTRIES = 1000
MAX_DRAFTS = 50
_SUFFIX = ".json"
_HOLDER = os.urandom(8).hex()  # this process: as a number it may have been another's
_held: dict[Path, int] = {}  # the locked file of this process in each folder of drafts


def name_of(workspace: Path) -> str:
    """Return what names a workspace in the user's state folder."""
    return hashlib.sha256(str(workspace).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def write_private(path: Path, text: str) -> None:
    """Write a file that is the user's alone, in one step.  Blocks."""
    new = path.with_suffix(f".{_HOLDER}.new")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    new.replace(path)


class PromptStore:
    """Files in the user's state folder, named after a hash of the workspace's path; lost files lose nothing else."""

    def __init__(self, folder: Path, workspace: Path) -> None:
        name = name_of(workspace)
        self._history = folder / f"{name}.jsonl"
        self._drafts = folder / f"{name}.drafts"

    def history(self) -> list[Typed]:
        """Return what was sent, oldest first; lines that cannot be read are left out."""
        try:
            lines = self._history.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return []
        return [entry for entry, _ in map(_read, lines[-MAX_ENTRIES:]) if entry.text]

    def add(self, typed: Typed) -> None:
        """Append to the history.

        Raises:
            OSError: it could not be written.
        """
        self._history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self._history, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "a", encoding="utf-8", errors="replace") as file:
            file.write(_line(typed))

    def draft(self, session_id: str) -> Typed:
        """Return what was typed in a session and not sent."""
        return self._read_draft(self._drafts / f"{session_id}{_SUFFIX}")[0]

    def take_newest_draft(self, session_id: str, others: Collection[str] = ()) -> Typed:
        """Return the newest draft of this workspace that no running lmtui holds; from now on it is this session's.

        What belongs to one of `others` (sessions that are open again) stays there.
        """
        for path in self._paths():
            typed, holder = self._read_draft(path)
            if typed.text and path.name.removesuffix(_SUFFIX) not in others and not _is_held(self._drafts, holder):
                with contextlib.suppress(OSError):
                    self.save_draft(session_id, typed)
                    path.unlink(missing_ok=True)
                return typed
        return Typed("")

    def save_draft(self, session_id: str, typed: Typed) -> None:
        """Keep a draft, in one step; an empty one removes the file.

        Raises:
            OSError: it could not be written.
        """
        path = self._drafts / f"{session_id}{_SUFFIX}"
        if not typed.text:
            path.unlink(missing_ok=True)
            return
        self._drafts.mkdir(parents=True, exist_ok=True, mode=0o700)
        _hold(self._drafts)
        write_private(path, _line(typed, holder=_HOLDER))
        for old in self._paths()[MAX_DRAFTS:]:
            old.unlink(missing_ok=True)

    def _paths(self) -> list[Path]:
        """Return the files of drafts, newest first."""
        try:
            found = [
                (entry.stat().st_mtime_ns, entry.path) for entry in os.scandir(self._drafts) if entry.name.endswith(_SUFFIX)
            ]
        except OSError:
            return []
        return [Path(path) for _, path in sorted(found, reverse=True)]

    def _read_draft(self, path: Path) -> tuple[Typed, str]:
        """Return a draft and the name of the process that wrote it."""
        try:
            return _read(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError):
            return Typed(""), ""


def _line(typed: Typed, **more: str) -> str:
    """Return a text as one line of JSON: a string, or an object where it holds more."""
    value = {"text": typed.text, "pastes": dict(typed.pastes), **more} if typed.pastes or more else typed.text
    return json.dumps(value) + "\n"


def _read(line: str) -> tuple[Typed, str]:
    """Return a text and the name of the process that wrote it; nothing for what is not ours."""
    try:
        value = json.loads(line)
    except ValueError:
        return Typed(""), ""
    fields = value if isinstance(value, dict) else {"text": value}
    text, pastes = fields.get("text"), fields.get("pastes")
    known = pastes.items() if isinstance(pastes, dict) else ()
    typed = Typed(text, {key: each for key, each in known if isinstance(each, str)}) if isinstance(text, str) else Typed("")
    return typed, str(fields.get("holder", ""))


def _hold(folder: Path) -> None:
    """Lock a file by which other processes see that this one runs; the lock ends with it."""
    if folder not in _held:
        fd = _held[folder] = os.open(folder / f".{_HOLDER}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_held(folder: Path, holder: str) -> bool:
    """Tell whether another process that wrote a draft still runs."""
    if holder == _HOLDER or not re.fullmatch("[0-9a-f]{16}", holder):
        return False
    file = folder / f".{holder}.lock"
    try:
        with file.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.unlink(missing_ok=True)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    return False
