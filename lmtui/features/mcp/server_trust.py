"""Which servers wait for the user's yes: those that a folder names, and those that run outside the sandbox.  Blocks (disk).

A yes holds for an entry as it is, by its hash: with another command, address or reach it is asked for again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter

from lmtui.core.errors import ConfigError, UsageError
from lmtui.core.sanitize import Redactor, escape_invisible_line, sanitize
from lmtui.core.tool_servers import Reach
from lmtui.core.trust import TrustItem, check_shown
from lmtui.features.folder_consent import replace_file
from lmtui.features.mcp.mcp_config import ServerEntry, read_servers, variables_in
from lmtui.features.mcp.tool_names import RawTool, plain, tools_digest
from lmtui.features.mcp.values import ServerState
from lmtui.paths import state_dir

_log = logging.getLogger(__name__)
_MAX_BYTES = 16_777_216
_MAX_LOG_BYTES = 1_048_576


@dataclass(frozen=True, slots=True)
class ServerChoice:
    """Where the user lets a server run: for the entry that has the digest `of` and no other.  None leaves it to the entry."""

    of: str = ""
    on_host: bool | None = None
    hosts: tuple[str, ...] | None = None

    def applied(self, entry: ServerEntry) -> ServerEntry:
        """Return an entry of a file as the user chose it to run."""
        if not self.of or self.of != entry.digest:
            return entry
        on_host = entry.on_host if self.on_host is None else self.on_host
        hosts = entry.hosts if self.hosts is None else self.hosts
        chosen = {"sandbox": self.on_host is not None, "network": self.hosts is not None}
        return replace(entry, on_host=on_host, hosts=hosts, chosen=tuple(key for key, is_set in chosen.items() if is_set))


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a server.

    `allowed` and `refused` are digests of an entry that the user said yes or no to, `tools_digest` that of the tools that
    were accepted last, and `tools_of` that of the entry that had them.  `accepted` has the digest of those that were accepted
    last in each kind of sandbox, as a server may name its zone or its paths.  `is_on` is the user's switch, None where they
    left it as the file has it.  `folder` is the workspace that names it, empty for the user's own.  `choice` is where the user
    lets it run, and `has_resources` whether it had any.
    """

    allowed: str = ""
    refused: str = ""
    tools_digest: str = ""
    tools_of: str = ""
    folder: str = ""
    tools: tuple[RawTool, ...] = ()
    is_on: bool | None = None
    choice: ServerChoice = ServerChoice()
    has_resources: bool = False
    accepted: Mapping[str, str] = field(default_factory=dict)


_KNOWN = TypeAdapter(Known)


class Memory:
    """The memory of one server.  `known` is read when it is made; what cannot be kept holds for this process.  Blocks.

    `written` is the entry as its file has it.

    Tools that another entry of the same name had are not known where an entry needs a yes: one that changed and was trusted
    again begins afresh.
    """

    def __init__(self, workspace: Path, entry: ServerEntry) -> None:
        self.written = entry
        self._scope = scope = "" if entry.is_own else str(workspace)
        mark = hashlib.sha256(f"{scope}\0{entry.name}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
        folder = state_dir() / "mcp"
        self._file = folder / f"{plain(entry.name)[:40]}-{mark}.json"
        self.log = ServerLog(self._file.with_suffix(".log"))
        self.token_file = self._file.with_suffix(".login.json")
        self.known = self._read()

    @property
    def entry(self) -> ServerEntry:
        """Return the entry as it runs: as its file has it, but for what the user chose."""
        return self.known.choice.applied(self.written)

    def look_again(self) -> None:
        """Read again what another lmtui, or a question, may have written."""
        self.known = self._read()

    def keep(self, known: Known) -> None:
        """Take what is known from now on, and write it down; answers that another lmtui kept meanwhile stay."""
        before, theirs = self.known, self._read()
        self.known = known = replace(known, tools_of=self.written.digest if known.tools_digest else "", folder=self._scope)
        answers = ("allowed", "refused", "choice")
        kept = {name: getattr(theirs, name) for name in answers if getattr(known, name) == getattr(before, name)}
        try:
            replace_file(self._file, json.dumps(asdict(replace(known, **kept))))
        except OSError as error:
            _log.warning("%s cannot be written: %s", self._file, error)

    def accepts(self, tools: Sequence[RawTool]) -> bool:
        """Tell whether tools need no yes: they were accepted, in whichever sandbox, or are the first that it has."""
        known = self.known
        return not known.tools_digest or tools_digest(tools) in (known.tools_digest, *known.accepted.values())

    def accept(self, tools: Sequence[RawTool], place: str) -> None:
        """Keep the tools that it has in a place, instead of those that were accepted there before."""
        digest, kind = tools_digest(tools), re.split("[,:]", place)[0]
        accepted = {**self.known.accepted, kind: digest}
        self.keep(replace(self.known, tools=tuple(tools), tools_digest=digest, accepted=accepted))

    def _read(self) -> Known:
        known = _read(self._file)
        is_others = self.written.needs_yes and known.tools_of not in ("", self.written.digest)
        return replace(known, tools=(), tools_digest="", tools_of="", accepted={}) if is_others else known


def folders_with_yes() -> tuple[str, ...]:
    """Return the folders one of whose servers was answered with yes.  Blocks."""
    found = (known.folder for _, known in _all_known() if known.allowed)
    return tuple(dict.fromkeys(folder for folder in found if folder))


def forget_folder(folder: str) -> None:
    """Forget every answer for servers that a folder named, those too that it does not name now.  Blocks.

    Raises:
        ConfigError: one cannot be forgotten.
    """
    for file, known in _all_known():
        if known.folder == folder and (known.allowed or known.refused or known.choice.of):
            try:
                file.unlink()
            except OSError as error:
                raise ConfigError(f"{file} cannot be removed: {error.strerror}", "Remove it yourself.") from error


def _all_known() -> list[tuple[Path, Known]]:
    files = sorted((state_dir() / "mcp").glob("*.json"))
    return [(file, _read(file)) for file in files if not file.name.endswith(".login.json")]


_LAST_CHARS, _TAIL_CHARS = 200, 4_000
_HEAD = "--- "
# Lines that say what we did with it, and where npm keeps its own log.
_NO_NEWS = re.compile(rf"{_HEAD}|lmtui: it ended|npm (notice|(error|ERR!) +(A complete log|/))")


class ServerLog:
    """What a server says next to its answers, cleaned, bounded and without secrets.

    `last` is its last line, `tail` the last few of this start.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.redactor = Redactor(())
        self.last = self.tail = ""
        self._size_bytes = -1

    def begin(self, words: str) -> None:
        """Begin a start of the server; `words` say which."""
        self.add(f"{_HEAD}{words}\n".encode())
        self.last = self.tail = ""

    def add(self, data: bytes) -> None:
        """Put more behind it; what cannot be written is dropped."""
        text = sanitize(self.redactor.text(data.decode("utf-8", "replace")))
        own = [each for line in text.splitlines() if (each := line.strip()) and not _NO_NEWS.match(line)]
        self.last = own[-1][:_LAST_CHARS] if own else self.last
        self.tail = "\n".join((self.tail, *own))[-_TAIL_CHARS:]
        try:
            if self._size_bytes < 0:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._size_bytes = self.path.stat().st_size if self.path.exists() else 0
            if self._size_bytes > _MAX_LOG_BYTES:
                self.path.replace(self.path.with_suffix(".old.log"))
                self._size_bytes = 0
            with self.path.open("a", encoding="utf-8", errors="replace") as file:
                self._size_bytes += file.write(text)
        except OSError as error:
            _log.info("%s cannot be written: %s", self.path, error)


def _read(file: Path) -> Known:
    """Return what a file keeps; nothing where it cannot be read."""
    try:
        with file.open("rb") as opened:
            return _KNOWN.validate_json(opened.read(_MAX_BYTES))
    except (OSError, ValueError):
        return Known()


KIND = "MCP server"


def resting_state(entry: ServerEntry, known: Known) -> ServerState | None:
    """Return why a server does not start, None where it does."""
    if known.is_on is False or (entry.is_disabled and known.is_on is not True):
        return ServerState.OFF
    if entry.needs_yes and known.allowed != entry.digest:
        return ServerState.REFUSED if known.refused == entry.digest else ServerState.WAITING
    return None


def answered(entry: ServerEntry, known: Known, *, is_trusted: bool) -> Known:
    """Return what is known of a server once the user has answered."""
    allowed, refused = (entry.digest, "") if is_trusted else ("", entry.digest)
    return replace(known, allowed=allowed, refused=refused)


def set_choice(
    workspace: Path, name: str, *, on_host: bool | None = None, hosts: tuple[str, ...] | None = None, is_reset: bool = False
) -> ServerEntry:
    """Keep where the user lets a server run, and return its entry as it runs now.  Blocks.

    None leaves what the user chose before, unless `is_reset` takes that back first.  A server that may start needs no other
    yes for a choice; the way back to what its entry says is asked about.

    Raises:
        UsageError: no such server, or it is not started here.
    """
    written = next((entry for entry in read_servers(workspace).entries if entry.name == name), None)
    if written is None:
        raise UsageError(f"no MCP server {name!r}", "`lmtui mcp list` names them.")
    if written.kind != "stdio":
        raise UsageError(f"the MCP server {name!r} has an address, so lmtui does not start it", "Its own machine runs it.")
    memory = Memory(workspace, written)
    known, may_start = memory.known, resting_state(memory.entry, replace(memory.known, is_on=True)) is None
    before = ServerChoice() if is_reset or known.choice.of != written.digest else known.choice
    on_host, hosts = before.on_host if on_host is None else on_host, before.hosts if hosts is None else hosts
    is_chosen = on_host is not None or hosts is not None
    choice = ServerChoice(written.digest, on_host, hosts) if is_chosen else ServerChoice()
    allowed = choice.applied(written).digest if is_chosen and may_start else known.allowed
    memory.keep(replace(known, choice=choice, allowed=allowed))
    return memory.entry


def set_reach(workspace: Path, name: str, reach: Reach) -> ServerEntry:
    """Keep one of the choices that the question offers; see `set_choice`."""
    on_host = None if reach is Reach.ENTRY else reach is Reach.HOST
    hosts = ("*",) if reach is Reach.NETWORK else None
    return set_choice(workspace, name, on_host=on_host, hosts=hosts, is_reset=True)


class ServersTrust:
    """What a folder's servers wait for; implements `core.trust.Trust`.

    Args:
        workspace: the folder.
        on_answer: called after an answer was kept.
    """

    def __init__(self, workspace: Path, on_answer: Callable[[], None]) -> None:
        self._workspace = workspace
        self._on_answer = on_answer

    def waiting(self) -> Sequence[TrustItem]:
        return [_item(entry) for entry, _ in self._in_state(ServerState.WAITING)]

    def refused(self) -> Sequence[TrustItem]:
        return [_item(entry) for entry, _ in self._in_state(ServerState.REFUSED)]

    def trusted(self) -> Sequence[TrustItem]:
        return [_item(entry) for entry, memory in self._asked_about() if memory.known.allowed == entry.digest]

    def revoke(self) -> None:
        for _, memory in self._asked_about():
            if memory.known.allowed or memory.known.refused:
                memory.keep(Known(is_on=memory.known.is_on))
        forget_folder(str(self._workspace))
        self._on_answer()

    def answered_elsewhere(self) -> bool | None:
        states = [resting_state(entry, memory.known) for entry, memory in self._asked_about()]
        if not states or ServerState.WAITING in states:
            return None
        self._on_answer()
        return ServerState.REFUSED not in states

    def answer(self, shown: Sequence[TrustItem], *, is_trusted: bool) -> None:
        open_ones = self._in_state(ServerState.WAITING) or self._in_state(ServerState.REFUSED)
        check_shown([_item(entry) for entry, _ in open_ones], shown)
        for entry, memory in open_ones:
            memory.keep(answered(entry, memory.known, is_trusted=is_trusted))
        self._on_answer()

    def _in_state(self, state: ServerState) -> list[tuple[ServerEntry, Memory]]:
        return [(entry, memory) for entry, memory in self._asked_about() if resting_state(entry, memory.known) is state]

    def _asked_about(self) -> list[tuple[ServerEntry, Memory]]:
        memories = [Memory(self._workspace, entry) for entry in read_servers(self._workspace).entries]
        return [(memory.entry, memory) for memory in memories if memory.entry.needs_yes]


def _item(entry: ServerEntry) -> TrustItem:
    place = "outside the sandbox, " if entry.on_host else ""
    choice = ", as you chose" if entry.chosen else ""
    hosts = "every host" if "*" in entry.hosts else ", ".join(entry.hosts)
    reach = f", may reach {hosts}" if hosts else ""
    variables = f", with {', '.join(name for name, _ in entry.env)}" if entry.env else ""
    sends = f", sending {', '.join(name for name, _ in entry.headers)}" if entry.headers else ""
    folders = f", reading {', '.join(entry.toolchains)}" if entry.toolchains else ""
    begins = f", in {entry.cwd}" if entry.cwd else ""
    login = f", logging in with {', '.join(name for name, _ in entry.oauth)}" if entry.oauth else ""
    given = f", given your {', '.join(f'${name}' for name in _variables(entry))}" if _variables(entry) else ""
    reads = "" if entry.can_write or entry.url else ", workspace read-only"
    words = f"{entry.name}: {place}{entry.words}{begins}{variables}{sends}{login}{given}{folders}{reach}{reads}{choice}"
    started = entry.name if entry.kind == "stdio" else ""
    return TrustItem(KIND, entry.source, escape_invisible_line(words), entry.digest, started)


def _variables(entry: ServerEntry) -> tuple[str, ...]:
    """Return the variables of the user's environment that an entry is given."""
    values = [value for pairs in (entry.env, entry.headers, entry.oauth) for _, value in pairs]
    found = [name for text in (*entry.command, entry.url, entry.cwd, *values) for name in variables_in(text)]
    return tuple(dict.fromkeys(found))
