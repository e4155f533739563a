"""The user's own `mcp.json`, changed an entry at a time: what else is in it stays as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmtui.core.errors import ConfigError, UsageError
from lmtui.extensions.mcp_config import checked_entry, config_files, raw_entries
from lmtui.extensions.own_files import replace_file
from lmtui.paths import config_dir

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
    _write(file, {**found, _KEY: {**found.get(_KEY, {}), name: dict(value)}})
    return file


def remove_server(name: str, workspace: Path) -> Path:
    """Take an entry out of the user's own file and return the file.

    Raises:
        UsageError: there is none of that name, or it is in a file of the workspace.
        ConfigError: the file is broken.
    """
    file, found = _own()
    servers = found.get(_KEY, {})
    if name not in servers:
        place = entry_of(name, workspace)[0]
        raise UsageError(f"the server {name!r} is in {place}", "Take it out there: lmtui changes no file of a folder.")
    _write(file, {**found, _KEY: {key: value for key, value in servers.items() if key != name}})
    return file


def entry_of(name: str, workspace: Path) -> tuple[Path, object]:
    """Return the file that names a server, and its entry as it stands there.

    Raises:
        UsageError: there is none of that name.
        ConfigError: a file is broken.
    """
    for file, is_own in config_files(workspace):
        found = dict(raw_entries(file, None if is_own else workspace))
        if name in found:
            return file, found[name]
    raise UsageError(f"there is no MCP server {name!r}", "`lmtui mcp list` names them.")


def _own() -> tuple[Path, dict[str, Any]]:
    file = config_dir() / "mcp.json"
    raw_entries(file, None)
    found = json.loads(file.read_text(encoding="utf-8-sig")) if file.is_file() else {}
    return file, found


def _write(file: Path, found: Mapping[str, object]) -> None:
    try:
        replace_file(file.resolve(), json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from error
