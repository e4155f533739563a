"""Session logs: one append-only file of JSON lines per session, in `<workspace>/.lmagent/sessions/`.

A line is one event, in the format of `--output stream-json` too: an object with `seq`, `time` (UTC, ISO 8601 with Z),
`session`, `kind`, and the fields of the event.  Nothing is ever rewritten: what was appended stays, a torn last line (power
loss, full disk) is cut off and said.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import mmap
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lmtui.core import agent_events, budgets, events, model_events, prompt_parts, tool_scopes, verification
from lmtui.core.errors import SessionFileError
from lmtui.core.events import Envelope, Event, SessionOpened
from lmtui.core.messages import MAX_IMAGE_BYTES, Image, ImageRef, sniff
from lmtui.core.sanitize import pluralize
from lmtui.core.subagents import Brief, ChildResult
from lmtui.core.times import FIRST_YEAR, LAST_YEAR
from lmtui.paths import WORKSPACE_FOLDER, sessions_dir, state_dir, workspace_dir
from lmtui.plain_files import list_plain, open_own, own_folder
from lmtui.registry import features


def _events_of(module: ModuleType) -> Iterator[type[Event]]:
    for each in vars(module).values():
        if isinstance(each, type) and issubclass(each, Event) and each.kind and each.__module__ == module.__name__:
            yield each


_OF_FEATURES = (feature.load(name) for feature in features() for name in feature.events)
_CORE = (events, agent_events, model_events, budgets, prompt_parts, tool_scopes, verification)
EVENT_TYPES: tuple[type[Event], ...] = tuple(each for module in (*_CORE, *_OF_FEATURES) for each in _events_of(module))
_BY_KIND = {event_type.kind: event_type for event_type in EVENT_TYPES}


class UnknownKind(SessionFileError):
    """A line holds an event that this version does not know (one of a newer lmtui, or of a feature that is gone)."""


def encode(envelope: Envelope) -> str:
    """Return an event as one line of JSON, without the line break."""
    head = {
        "seq": envelope.seq,
        "time": envelope.time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "session": envelope.session,
        "kind": envelope.event.kind,
    }
    fields = _adapter(envelope.event.kind).dump_python(envelope.event, mode="json")
    return json.dumps(head | fields, ensure_ascii=False, separators=(",", ":"))


def decode(line: str) -> Envelope:
    """Read one line.

    Raises:
        UnknownKind: the event's kind is not one of this version.
        SessionFileError: it is not an event at all.
    """
    try:
        value = json.loads(line)
        kind = value["kind"]
        if kind not in _BY_KIND:
            raise UnknownKind(f"unknown event {str(kind)[:40]!r}")
        event = _adapter(kind).validate_python({key: each for key, each in value.items() if key not in _HEAD})
        return Envelope(int(value["seq"]), read_time(value["time"]), str(value["session"]), event)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, ValidationError) as error:
        raise SessionFileError(f"not an event: {line[:60]!r}") from error


def read_time(text: str) -> datetime:
    """Return the time of an event; one without a zone is UTC.

    Raises:
        ValueError: it is not a time, or one that cannot be told in every zone.
    """
    time = datetime.fromisoformat(text)
    if not FIRST_YEAR <= time.year <= LAST_YEAR:
        raise ValueError(f"no event can have happened in {time.year}")
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


_HEAD = frozenset({"seq", "time", "session", "kind"})


@functools.cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    """Return the kind's adapter, made when the first event of the kind is met: most runs meet few kinds."""
    return TypeAdapter(_BY_KIND[kind])


class AgentPapers:
    """Where the briefs and results of sub-agents are kept; what cannot be written is passed over.

    Args:
        workspace: the folder that the agents work in.
        session_id: whose agents they are.
        is_kept: they stay when an agent is done.
    """

    def __init__(self, workspace: Path, session_id: str, *, is_kept: bool) -> None:
        self._home = workspace_dir(workspace)
        self._session_id = session_id
        self._is_kept = is_kept

    def put_brief(self, agent: str, brief: Brief, told: str, *, parent: str, depth: int) -> None:
        head = {"agent_id": agent, "parent_id": parent, "depth": depth, "session_id": self._session_id}
        made = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        self._write(agent, "brief.json", {**head, **asdict(brief), "told": told, "created_at": made})

    def put_result(self, agent: str, result: ChildResult) -> None:
        if self._is_kept:
            self._write(agent, "result.json", {"agent_id": agent, **asdict(result.report), "missing": result.missing})
            return
        agents = self._home / "agents"
        with contextlib.suppress(OSError), own_folder(agents) as above, own_folder(agents / self._session_id) as folder:
            shutil.rmtree(agent, dir_fd=folder)
            os.rmdir(self._session_id, dir_fd=above)
            with own_folder(self._home) as home:
                os.rmdir(agents.name, dir_fd=home)

    def _write(self, agent: str, name: str, value: dict[str, object]) -> None:
        folder = self._home / "agents" / self._session_id / agent
        with contextlib.suppress(OSError, SessionFileError):
            _make(folder)
            with open(folder / name, "w", encoding="utf-8", errors="replace", opener=open_own) as file:
                file.write(json.dumps(value, ensure_ascii=False, indent=1, default=str))


class ImageFolder:
    """Keeps pictures as `<folder>/<sha256>`; implements `core.ports.Images`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[str, Image] = {}

    def put(self, image: Image) -> ImageRef:
        name = hashlib.sha256(image.data).hexdigest()
        ref = ImageRef(name, image.media_type, image.name, len(image.data))
        draft = f".{name}.{os.getpid()}"
        try:
            with own_folder(self._folder, makes=True) as folder:
                with open(self._folder / draft, "wb", opener=open_own) as file:
                    file.write(image.data)
                os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            raise SessionFileError(
                f"cannot keep the picture {image.name}: {error.strerror}", "Free some space on the disk, then go on."
            ) from error
        self._kept[name] = image
        return ref

    def get(self, ref: ImageRef) -> Image | None:
        if ref.sha256 in self._kept:
            return self._kept[ref.sha256]
        if len(ref.sha256) != 64 or not ref.sha256.isalnum():
            return None
        try:
            with open(self._folder / ref.sha256, "rb", opener=open_own) as file:
                data = file.read(MAX_IMAGE_BYTES + 1)
        except OSError:
            return None
        media_type = sniff(data)
        if not media_type or hashlib.sha256(data).hexdigest() != ref.sha256:
            return None
        image = self._kept[ref.sha256] = Image(ref.name, media_type, data)
        return image

    def delete(self) -> None:
        """Delete the folder and what is in it, as far as that can be done; of a link in its place only the link."""
        with contextlib.suppress(OSError), own_folder(self._folder.parent) as above:
            try:
                shutil.rmtree(self._folder.name, dir_fd=above)
            except OSError:
                os.unlink(self._folder.name, dir_fd=above)


SESSION_ID = re.compile(r"\d{8}_\d{6}_[0-9a-f]{6}\Z")


def new_session_id(now: datetime) -> str:
    """Return a fresh id, `YYYYMMDD_HHMMSS_xxxxxx`."""
    return f"{now.astimezone(UTC):%Y%m%d_%H%M%S}_{secrets.token_hex(3)}"


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """What a log holds, and what had to be left out of it (`problems`, one line each)."""

    events: tuple[Envelope, ...]
    problems: tuple[str, ...]


class SessionFile:
    """A session's log, open for appending and locked; implements `core.ports.SessionLog`."""

    def __init__(self, path: Path) -> None:
        """Open or create the log.

        Raises:
            SessionFileError: it cannot be written, or another lmtui has it open.
        """
        self.path = path
        try:
            self._fd = open_own(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        except OSError as error:
            raise _cannot("open", path, error) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            raise SessionFileError(
                f"session {path.stem} is open in another lmtui",
                "Close it there, or attach to the host that has it: lmtui attach.",
            ) from error
        self._cut_torn_line()

    def append(self, envelope: Envelope) -> None:
        data = encode(envelope).encode("utf-8", "backslashreplace") + b"\n"  # half a character as JSON's escape
        size: int | None = None
        try:
            size = os.fstat(self._fd).st_size
            written = 0
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError as error:
            if size is not None:
                os.ftruncate(self._fd, size)
            raise _cannot("write", self.path, error) from error

    def sync(self) -> None:
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise _cannot("write", self.path, error) from error

    def close(self) -> None:
        """Let go of the file and its lock; idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _cut_torn_line(self) -> None:
        size = os.fstat(self._fd).st_size
        if size == 0 or os.pread(self._fd, 1, size - 1) == b"\n":
            return
        with mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ) as data:
            end = data.rfind(b"\n") + 1
        os.ftruncate(self._fd, end)


class SessionStore:
    """The sessions of one workspace."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._folder = sessions_dir(workspace)

    def create(self, session_id: str) -> SessionFile:
        """Start a log.

        Raises:
            SessionFileError: the workspace's state folder cannot be made or written.
        """
        make_workspace_folder(self._workspace)
        _make(self._folder)
        file = SessionFile(self._folder / f"{session_id}.jsonl")
        with contextlib.suppress(OSError):
            _known().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _known().open("a", encoding="utf-8") as known:
                known.write(f"{self._mark(session_id)}\n")
        return file

    def is_ours(self, session_id: str) -> bool:
        """Tell whether this user's lmtui made a session, in this folder: a log that came with one grants nothing."""
        try:
            return self._mark(session_id) in _known().read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return False

    def _mark(self, session_id: str) -> str:
        """Return the line that says that a session was made here; the folder is in JSON's form, which has no line breaks."""
        return f"{session_id} {json.dumps(str(self._workspace.resolve()))}"

    def open(self, session_id: str) -> SessionFile:
        """Open an existing log for appending.

        Raises:
            SessionFileError: there is none, or another lmtui has it open.
        """
        return SessionFile(self.path(session_id))

    def path(self, session_id: str) -> Path:
        """Return the file of a session, given by its id or a unique end of it.

        Raises:
            SessionFileError: none or several match.
        """
        wanted = session_id.strip()
        matches = [path for path in self.paths() if path.stem.endswith(wanted)] if wanted else []
        exact = [path for path in matches if path.stem == wanted]
        if len(exact or matches) == 1:
            return (exact or matches)[0]
        what = "several sessions end" if matches else "no session is called or ends"
        raise SessionFileError(f"{what} with {wanted!r} in {self._workspace}", "`lmtui sessions` lists them.")

    def is_in_use(self, session_id: str) -> bool:
        """Tell whether an lmtui, this one or another, has a session open, given by its whole id."""
        path = self._folder / f"{session_id}.jsonl"
        return bool(SESSION_ID.match(session_id)) and is_in_use(path)

    def images(self, session_id: str) -> ImageFolder:
        """Return where the pictures of a session are kept."""
        return ImageFolder(self._folder / f"{session_id}.images")

    def paths(self) -> list[Path]:
        """Return all logs, newest first."""
        names = [name for name, kind in list_plain(self._workspace, f"{WORKSPACE_FOLDER}/sessions") if kind == "file"]
        stems = (name.removesuffix(".jsonl") for name in names if name.endswith(".jsonl"))
        return [self._folder / f"{stem}.jsonl" for stem in sorted(stems, reverse=True) if SESSION_ID.match(stem)]

    def delete(self, session_id: str) -> None:
        """Delete a log.

        Raises:
            SessionFileError: there is none, another lmtui has it open, or it cannot be deleted.
        """
        path = self.path(session_id)
        self.open(path.stem).close()
        self.images(path.stem).delete()
        try:
            with own_folder(self._folder) as folder:
                os.unlink(path.name, dir_fd=folder)
        except OSError as error:
            raise _cannot("delete", path, error) from error


def make_workspace_folder(workspace: Path) -> None:
    """Make the folder that lmtui keeps its state of a workspace in, out of git's sight.

    Raises:
        SessionFileError: it cannot be made, or is a link.
    """
    _make(workspace_dir(workspace))
    ignore = workspace_dir(workspace) / ".gitignore"
    try:
        with open(ignore, "x", encoding="utf-8", opener=open_own) as file:
            file.write("*\n")
    except FileExistsError:
        return
    except OSError as error:
        raise _cannot("make", ignore, error) from error


def _make(folder: Path) -> None:
    try:
        with own_folder(folder, makes=True):
            pass
    except OSError as error:
        raise _cannot("make", folder, error) from error


def is_in_use(path: Path) -> bool:
    """Tell whether an lmtui, this one or another, has a log open, or holds another lock file."""
    try:
        with open(path, "rb", opener=open_own) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def load(path: Path) -> LoadedLog:
    """Read a log; what cannot be read is left out and said.

    Raises:
        SessionFileError: the file cannot be read, or is not a session of lmtui.
    """
    events: list[Envelope] = []
    problems: list[str] = []
    unknown = 0
    for number, line, is_torn in _lines(path):
        if is_torn:
            problems.append(f"the last line of {path.name} was torn (a crash or a full disk) and is left out")
            break
        try:
            events.append(decode(line))
        except UnknownKind:
            unknown += 1
        except SessionFileError as error:
            if number == 1:
                raise SessionFileError(
                    f"{path} is not a session of lmtui: {error}", "`lmtui sessions` lists those there are."
                ) from error
            problems.append(f"line {number} of {path.name} cannot be read and is left out")
    if unknown:
        them = "it" if unknown == 1 else "them"
        left = f"{pluralize(unknown, 'event')} of {path.name} {'was' if unknown == 1 else 'were'} left out"
        problems.append(f"{left}: a newer lmtui, or a feature that was removed, wrote {them}")
    if events and not isinstance(events[0].event, SessionOpened):
        raise SessionFileError(f"{path} is not a session of lmtui: it does not begin with session_opened")
    return LoadedLog(tuple(events), tuple(problems))


def known_sessions() -> dict[str, Path]:
    """Return the ids of the sessions that this user's lmtui made, each with its folder.  Blocks."""
    found: dict[str, Path] = {}
    with contextlib.suppress(OSError):
        for line in _known().read_text(encoding="utf-8", errors="replace").splitlines():
            session_id, _, folder = line.partition(" ")
            with contextlib.suppress(ValueError, TypeError, RecursionError):
                found[session_id] = Path(json.loads(folder))
    return found


def _known() -> Path:
    """Return the file that lists the sessions made by this user and where, outside every workspace."""
    return state_dir() / "sessions.txt"


def _lines(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield (number from 1, text, whether the line's end is missing)."""
    try:
        with open(path, "rb", opener=open_own) as file:
            for number, raw in enumerate(file, 1):
                yield number, raw.decode("utf-8", "replace").rstrip("\n"), not raw.endswith(b"\n")
    except OSError as error:
        raise _cannot("read", path, error) from error


def _cannot(verb: str, path: Path, error: OSError) -> SessionFileError:
    full = "Free some space on the disk, then go on." if error.errno in (28, 122) else "Check the folder's owner and rights."
    return SessionFileError(f"cannot {verb} {path}: {error.strerror}", full)
