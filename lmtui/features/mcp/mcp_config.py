"""The files that name MCP servers, read into entries.  An error is one server's: the others are read all the same.

Formats: `{"mcpServers": {"name": {"command", "args", "env", "cwd"}}}` and `{"type": "http"|"sse", "url", "headers"}`, as other
programs have them; and a list `"mcp_servers": [{"name", "command": [], "env", "cwd"}]`.  Ours next to them: `disabled`,
`sandbox` ("host"), `network` (hosts), `toolchains` (folders), `workspace` ("read"), `memory_mb`, `oauth` (client_id,
client_secret, scope), and two limits in seconds, `timeout_s` for a call and `start_timeout_s`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from lmtui.core.errors import ConfigError, UsageError
from lmtui.core.permissions.rules import MCP
from lmtui.core.programs import FETCHERS
from lmtui.core.sanitize import escape_invisible_line, sanitize_line
from lmtui.features.mcp.tool_names import server_key
from lmtui.paths import config_dir, workspace_dir
from lmtui.plain_files import NotPlain, read_plain
from lmtui.store.state_files import write_whole

FILE_KEYS = {"mcpServers", "mcp_servers"}
# Keys of other programs that change nothing here: words for people, and tools that would run there without being asked about.
_HARMLESS = frozenset({
    "description", "title", "icon", "version", "gallery", "tags", "alwaysAllow", "autoApprove", "trust", "$schema",
})  # fmt: skip
_MOST = 5
_CHARS = 40


def entry_warnings(name: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is wrong with an entry's name and its keys, in words."""
    unknown = [key for key in entry if key not in KEYS and key not in _HARMLESS]
    found = [f'the key "{sanitize_line(key)[:_CHARS]}" is not known; it is ignored' for key in unknown[:_MOST]]
    if len(unknown) > _MOST:
        found.append(f"and {len(unknown) - _MOST} more keys that are not known")
    if (key := server_key(name)) != name:
        why = "is longer or has other signs than letters, digits, _ and -"
        found.append(f"its name {why}: its tools, and rules for them, are called {MCP}{key}__…")
    return tuple(found)


_MAX_BYTES = 1_048_576
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_HTTP_KINDS = {"http": "http", "streamable-http": "http", "streamable_http": "http", "streamablehttp": "http", "sse": "sse"}
_FOLDER_NAMES = ("WORKSPACE", "workspaceFolder", "CLAUDE_PROJECT_DIR")


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """One server as a file names it; variables are not put in yet.  `source` is the file, `is_own` whether it is the user's.

    `warnings` say what of it is not read as its writer may think.  `named` are the keys of its file that say where it runs,
    `chosen` those that the user decided in their place.
    """

    name: str
    source: str
    is_own: bool
    kind: str = "stdio"
    command: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    oauth: tuple[tuple[str, str], ...] = ()
    is_disabled: bool = False
    on_host: bool = False
    hosts: tuple[str, ...] = ()
    toolchains: tuple[str, ...] = ()
    can_write: bool = True
    memory_mb: int = 1024
    timeout_s: float = 300.0
    start_timeout_s: float = 30.0
    warnings: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Return the hash of all that decides what would run or be reached: a yes holds for this and nothing else."""
        parts = [
            self.kind, self.command, self.env, self.cwd, self.url, self.headers, self.on_host, self.hosts, self.toolchains,
            self.can_write, self.oauth,
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def words(self) -> str:
        """Return its command or address, as the file has it."""
        return escape_invisible_line(" ".join(self.command) if self.command else self.url)

    @property
    def reach_words(self) -> str:
        """Return where a program runs and what it reaches, each with who says so; empty for an address."""
        hosts = "on" if "*" in self.hosts or self.on_host else ", ".join(self.hosts) or "off"
        found = {"sandbox": "host" if self.on_host else "on", "network": hosts} if self.kind == "stdio" else {}
        return ", ".join(f"{key} {value} ({self._source_of(key)})" for key, value in found.items())

    def _source_of(self, key: str) -> str:
        if key == "network" and self.on_host:
            return "without a sandbox"
        fetches = f" for {PurePath(self.command[0]).name}" if key == "network" and self.hosts else ""
        return "your choice" if key in self.chosen else "its entry" if key in self.named else f"default{fetches}"

    @property
    def needs_yes(self) -> bool:
        """Tell whether the user has to be asked before it starts: it is the folder's, or it runs outside the sandbox."""
        return not self.is_own or self.on_host


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """What all files name together, by name, and what is wrong with them."""

    entries: tuple[ServerEntry, ...] = ()
    problems: tuple[str, ...] = ()


def config_files(workspace: Path) -> tuple[tuple[Path, bool], ...]:
    """Return the files that may name servers, the strongest first, and whether each is the user's own."""
    return ((workspace_dir(workspace) / "mcp.json", False), (workspace / ".mcp.json", False), (config_dir() / "mcp.json", True))


def read_servers(workspace: Path) -> ServerFiles:
    """Read every file; of servers with one name the strongest file's counts.  Blocks."""
    entries: dict[str, ServerEntry] = {}
    problems: list[str] = []
    for path, is_own in config_files(workspace):
        try:
            found = raw_entries(path, None if is_own else workspace)
        except ConfigError as error:
            problems.append(error.full_text())
            continue
        for name, value in found:
            try:
                entry = checked_entry(name, value, str(path), is_own=is_own)
                entries.setdefault(entry.name, entry)
            except ConfigError as error:
                problems.append(error.full_text())
    return ServerFiles(tuple(sorted(entries.values(), key=lambda entry: entry.name)), tuple(problems))


def expand(text: str, environ: Mapping[str, str], workspace: Path, where: str) -> str:
    """Return a text with `${NAME}` and `${NAME:-default}` put in.

    Raises:
        ConfigError: a variable is not set and has no default.
    """

    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if name in _FOLDER_NAMES:
            return str(workspace)
        found = environ.get(name, "") or default
        if found is None:
            raise ConfigError(f"{where}: the variable {name} is not set", f"Set it, or write ${{{name}:-default}}.")
        return found

    return _VARIABLE.sub(value, text)


def variables_in(text: str) -> tuple[str, ...]:
    """Return the names of the variables of the environment that a text wants put in."""
    return tuple(match[1] for match in _VARIABLE.finditer(text) if match[1] not in _FOLDER_NAMES)


_NAMES = r"token|secret|passw|passphrase|api.?key|credential|auth(?!or)|private|cookie|(^|[_-])(key|pat|pin|pwd)($|[_-])"
_SECRET_NAME = re.compile(_NAMES, re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9]{16,}")
_FEWEST_OF_EACH = 3


def secrets_of(entry: ServerEntry, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the values that an entry holds or takes from the environment and that look like secrets."""
    options = [(name, word) for name, word in pairwise(entry.command) if name.startswith("-")]
    options += [(word.partition("=")[0], word.partition("=")[2]) for word in entry.command]
    for name, text in (*entry.env, *entry.headers, *entry.oauth, *options, ("", entry.url)):
        variables = variables_in(text)
        if not variables:
            yield from _parts(name, text)
        for variable in variables:
            yield from _parts(f"{name}_{variable}", environ.get(variable, ""))


def _parts(name: str, value: str) -> Iterator[str]:
    """Yield a value that is a secret by its name or by its looks, with and without the scheme before it (`Bearer …`)."""
    if "://" in value:
        yield from _of_address(value)
    elif _is_made(value) or (_SECRET_NAME.search(name) and not value.startswith(("/", "~/", "./", "../"))):
        yield value
        yield from value.split() if " " in value else ()


def _is_made(value: str) -> bool:
    """Tell whether a value has a long word of letters and digits mixed, as no person names a thing or a place."""
    counts = [(sum(map(str.isdigit, word)), len(word)) for word in _WORD.findall(value)]
    return any(_FEWEST_OF_EACH <= digits <= length - _FEWEST_OF_EACH for digits, length in counts)


def _of_address(text: str) -> Iterator[str]:
    """Yield the password of an address, and what of its query is one."""
    try:
        found = urlsplit(text)
        password = found.password or ""
    except ValueError:
        return
    yield from (password, unquote(password))
    yield from (value for name, value in parse_qsl(found.query) if _SECRET_NAME.search(name))


def raw_entries(path: Path, workspace: Path | None) -> Sequence[tuple[str, object]]:
    """Return names with what is behind them; a workspace's link could lead anywhere, the user's own where they want.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        file = path if workspace is not None else path.resolve()
        root = workspace if workspace is not None else file.parent
        data = read_plain(root, file.relative_to(root).as_posix(), _MAX_BYTES + 1)
        if data is None:
            return ()
        if len(data) > _MAX_BYTES:
            raise ConfigError(f"{path} cannot be read: it is too large", "Fix it or delete it.")
        found = json.loads(data.decode("utf-8-sig"))
    except (NotPlain, OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", "Fix it or delete it.") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path} has no object at its top", 'Write {"mcpServers": {…}}.')
    servers, listed = found.get("mcpServers", {}), found.get("mcp_servers", [])
    if not isinstance(servers, dict) or not isinstance(listed, list):
        raise ConfigError(f"{path}: mcpServers is not an object, or mcp_servers no list", 'Write {"mcpServers": {…}}.')
    if found and not found.keys() & FILE_KEYS:
        raise ConfigError(f"{path} has no servers", 'Write {"mcpServers": {…}}.')
    named = [(str(value.get("name", "")) if isinstance(value, dict) else "", value) for value in listed]
    return [*servers.items(), *named]


def checked_entry(name: str, value: object, source: str, *, is_own: bool) -> ServerEntry:
    """Return an entry of a file.

    Raises:
        ConfigError: it cannot be; the text names the file, the server and the key.
    """
    where = f"{source}: server {name or '(without a name)'!r}"
    if not name.strip() or not isinstance(value, dict):
        raise ConfigError(f"{where} has no name or is not an object", 'Write "name": {"command": "…"}.')
    try:
        read = _RawEntry.model_validate({key: found for key, found in value.items() if found is not None and key != "name"})
    except ValidationError as error:
        problem = error.errors()[0]
        key, found = problem["loc"][0], sanitize_line(repr(value.get(str(problem["loc"][0]))))[:80]
        raise ConfigError(f"{where}: {key} cannot be {found}", f"{problem['msg']}.") from error
    kind = read.type or read.transport or ("http" if "url" in value else "stdio")
    command = (*([read.command] if isinstance(read.command, str) and read.command else read.command), *read.args)
    if kind != "stdio" and kind not in _HTTP_KINDS:
        raise ConfigError(f"{where} has the type {kind!r}", "It is stdio, http or sse.")
    if kind == "stdio" and not command:
        raise ConfigError(f"{where} has no command", 'Give it a "command", or a "url" with "type": "http".')
    if kind != "stdio" and not re.match(r"https?://[^/\s]", read.url):
        raise ConfigError(f"{where} has no address that begins with http:// or https://", 'Give it a "url".')
    fetches = kind == "stdio" and PurePath(command[0]).name in FETCHERS
    is_everywhere = read.network in (True, "on", "*") or (read.network is None and fetches)
    return ServerEntry(
        **read.model_dump(include={"env", "cwd", "url", "headers", "oauth", "toolchains", "timeout_s"}),
        name=name.strip()[:100],
        source=source,
        is_own=is_own,
        kind=_HTTP_KINDS.get(kind, "stdio"),
        command=command if kind == "stdio" else (),
        is_disabled=value.get("disabled") is True or value.get("enabled") is False,
        on_host=kind == "stdio" and read.sandbox == "host",
        hosts=("*",) if is_everywhere else read.network if isinstance(read.network, tuple) else (),
        can_write=read.workspace != "read",
        memory_mb=int(read.memory_mb),
        start_timeout_s=read.start_timeout_s or (120.0 if fetches else 30.0),
        warnings=entry_warnings(name.strip()[:100], value),
        named=tuple(key for key in ("sandbox", "network") if value.get(key) is not None),
    )


_Text = Annotated[str, BeforeValidator(lambda found: str(found) if isinstance(found, int | float) else found)]
_Words = Annotated[str, BeforeValidator(lambda found: found or "")]
_Texts = Annotated[tuple[_Text, ...], BeforeValidator(lambda found: found or ())]
_Pairs = Annotated[
    tuple[tuple[str, _Text], ...],
    BeforeValidator(lambda found: tuple(found.items()) if isinstance(found, dict) else found or ()),
]


class _RawEntry(BaseModel):
    """The keys of one entry that are read."""

    type: _Words = ""
    transport: _Words = ""
    command: _Texts | _Words = ""
    args: _Texts = ()
    env: _Pairs = ()
    cwd: _Words = ""
    url: _Words = ""
    headers: _Pairs = ()
    oauth: _Pairs = ()
    sandbox: Literal["auto", "host"] = "auto"
    network: bool | Literal["on", "off", "*", "none", ""] | _Texts | None = None
    toolchains: _Texts = ()
    workspace: Literal["write", "read"] = "write"
    memory_mb: float = Field(1024, ge=64, le=65_536)
    timeout_s: float = Field(300.0, ge=1, le=86_400)
    start_timeout_s: float | None = Field(None, ge=1, le=3600)


KEYS = ("name", *_RawEntry.model_fields, "disabled", "enabled")
_KEY = "mcpServers"


def add_server(name: str, value: Mapping[str, object]) -> Path:
    """Write an entry into the user's own file and return the file.

    Raises:
        UsageError: there is one of that name.
        ConfigError: the entry cannot be, or the file is broken.
    """
    file, found = _own()
    if name in dict(raw_entries(file, None)):
        raise UsageError(f"there is a server {name!r} in {file}", f"Remove it first: lmtui mcp remove {name}")
    checked_entry(name, dict(value), str(file), is_own=True)
    return _write(file, {**found, _KEY: {**found.get(_KEY, {}), name: dict(value)}})


def remove_server(name: str, workspace: Path) -> Path:
    """Take an entry out of the user's own file and return the file.

    Raises:
        UsageError: there is none of that name, or it is in a file of the workspace.
        ConfigError: the file is broken.
    """
    file, found = _own()
    servers = found.get(_KEY, {})
    if name not in servers:
        place = named_entry(name, workspace).source
        raise UsageError(f"the server {name!r} is in {place}", "Take it out there: lmtui changes no file of a folder.")
    return _write(file, {**found, _KEY: {key: value for key, value in servers.items() if key != name}})


def named_entry(name: str, workspace: Path) -> ServerEntry:
    """Return the entry of a server.  Blocks.

    Raises:
        UsageError: there is none of that name.
    """
    found = next((entry for entry in read_servers(workspace).entries if entry.name == name), None)
    if found is None:
        raise UsageError(f"no MCP server {name!r}", "`lmtui mcp list` names them.")
    return found


def _own() -> tuple[Path, dict[str, Any]]:
    file = config_dir() / "mcp.json"
    raw_entries(file, None)
    return file, json.loads(file.read_text(encoding="utf-8-sig")) if file.is_file() else {}


def _write(file: Path, found: Mapping[str, object]) -> Path:
    try:
        write_whole(file.resolve(), json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from error
    return file
