"""What of an entry is not read as its writer may think: keys that nobody knows, and names that tools cannot be called by."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from lmtui.core.clean import clean_line
from lmtui.core.mcp import PREFIX
from lmtui.extensions.mcp_names import server_key

KEYS = (
    "name", "type", "transport", "command", "args", "env", "cwd", "url", "headers", "oauth", "disabled", "enabled", "sandbox",
    "network", "toolchains", "workspace", "memory_mb", "timeout_s", "start_timeout_s",
)  # fmt: skip
FILE_KEYS = ("mcpServers", "mcp_servers")
# Keys of other programs that change nothing here: words for people, and tools that would run there without being asked about.
_HARMLESS = frozenset({
    "description", "title", "icon", "version", "gallery", "tags", "alwaysAllow", "autoApprove", "trust", "$schema",
})  # fmt: skip
_MOST = 5
_CHARS = 40


def entry_warnings(name: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is wrong with an entry's name and its keys, in words."""
    unknown = [key for key in entry if key not in KEYS and key not in _HARMLESS]
    found = [key_words(key, KEYS) for key in unknown[:_MOST]]
    if len(unknown) > _MOST:
        found.append(f"and {len(unknown) - _MOST} more keys that are not known")
    if server_key(name) != name:
        why = "has other signs than letters, digits, _ and -" if _is_odd(name) else "is too long for names of tools"
        found.append(f"its name {why}: its tools, and rules for them, are called {PREFIX}{server_key(name)}__…")
    return tuple(found)


def file_warning(found: Mapping[str, Any]) -> str:
    """Return what is wrong with a file that names no servers but has a key that looks as if it should; empty for nothing."""
    if any(key in found for key in FILE_KEYS):
        return ""
    return next((key_words(key, FILE_KEYS) for key in found if _nearest(key, FILE_KEYS)), "")


def key_words(key: str, known: tuple[str, ...]) -> str:
    """Return that a key is not known, with the nearest one that is."""
    near = _nearest(key, known)
    told = clean_line(key)[:_CHARS]
    return f'the key "{told}" is not known' + (f': did you mean "{near}"?' if near else "; it is passed over")


def _nearest(key: str, known: tuple[str, ...]) -> str:
    by_low = {each.lower(): each for each in known}
    return next((by_low[each] for each in difflib.get_close_matches(key[:_CHARS].lower(), by_low, n=1)), "")


def _is_odd(name: str) -> bool:
    return not all(sign.isascii() and (sign.isalnum() or sign in "_-") for sign in name) or "__" in name
