"""Named connections of the setting `profiles`: a server, a model and where its key is, in one text each."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lmtui.core.errors import ConfigError, UsageError
from lmtui.core.hosts import base_url, is_same_server

PROFILES_URL = "profile:"  # the address under which profiles are listed next to the servers
_NAME = re.compile(r"\s*([A-Za-z0-9][\w.-]{0,40})\s*:(?:\s+(.*))?", re.DOTALL)
_REFERENCES = ("file:", "keyring:")
_HINT = 'Write it as "gpu: url=http://gpu:8080 model=qwen3-coder api_key=file:~/.gpu.key".'


@dataclass(frozen=True, slots=True)
class ConnectionProfile:
    """A named connection; what is empty is as the other settings say.  `api_key` says where the key is, and is never one."""

    name: str
    url: str = ""
    model: str = ""
    api_key: str = ""

    @property
    def text(self) -> str:
        """Return the server and the model, for a list."""
        return "  ".join(part for part in (self.url.removeprefix("http://"), self.model) if part)


def parse_connections(texts: Iterable[str]) -> dict[str, ConnectionProfile]:
    """Read the setting `profiles`; of two with one name the later holds.

    Raises:
        ConfigError: an entry cannot be read.  The text shows no value: one may be a key.
    """
    found: dict[str, ConnectionProfile] = {}
    for text in texts:
        match = _NAME.fullmatch(text)
        if match is None:
            raise ConfigError("profiles: an entry has no name", _HINT)
        found[match[1]] = _profile(match[1], match[2] or "")
    return found


def _profile(name: str, text: str) -> ConnectionProfile:
    try:
        words = [word.partition("=") for word in shlex.split(text)]
    except ValueError as error:
        raise ConfigError(f"profiles: {name} has an open quote", _HINT) from error
    values = {key: value for key, sign, value in words if sign}
    if len(values) != len(words) or not values or not values.keys() <= {"url", "model", "api_key"}:
        raise ConfigError(f"profiles: {name} may have url=, model= and api_key=, each once", _HINT)
    url, key = values.get("url", ""), values.get("api_key", "")
    if key and not key.startswith(_REFERENCES):
        raise ConfigError(f"profiles: the api_key of {name} has to be file:PATH or keyring:NAME", _HINT)
    if key and not url:
        raise ConfigError(f"profiles: {name} has an api_key but no url", _HINT)
    if "@" in url:
        raise ConfigError(f"profiles: the url of {name} holds a name or password", _HINT)
    try:
        _ = base_url(url) if url else ""
    except UsageError as error:
        raise ConfigError(f"profiles: the url of {name} is not an address", _HINT) from error
    return ConnectionProfile(name, url, values.get("model", ""), key)


def find_connection(texts: Iterable[str], name: str) -> ConnectionProfile:
    """Return a profile by its name.

    Raises:
        ConfigError: there is none; the hint lists those there are.
    """
    found = parse_connections(texts)
    if name not in found:
        hint = f"There are: {', '.join(found)}." if found else f"The setting profiles has none. {_HINT}"
        raise ConfigError(f"no profile {name!r}", hint)
    return found[name]


def connection_of(texts: Iterable[str], url: str) -> ConnectionProfile | None:
    """Return the profile that names a server, None where none does."""
    profiles = parse_connections(texts).values()
    return next((each for each in profiles if each.url and is_same_server(each.url, url)), None)


@dataclass(frozen=True, slots=True)
class PoolEntry:
    """A server of the setting `servers`; `api_key` says where its key is, empty for the key of the settings.

    With `is_host`, the address is a host name: it adds all servers on the usual ports, without a key.
    """

    url: str
    api_key: str = ""
    is_host: bool = False


_POOL_HINT = 'Write it as "http://gpu2:8080", or use a host name or a profile name.'
_HOST = re.compile(r"[A-Za-z0-9](?:[\w.-]{0,251}[A-Za-z0-9])?", re.ASCII)


def parse_pool(texts: Iterable[str], profiles: Sequence[str]) -> tuple[PoolEntry, ...]:
    """Parse the setting `servers`; drops duplicates, and uses the key of a profile with the same address.

    Raises:
        ConfigError: an entry is invalid.
    """
    known = parse_connections(profiles)
    found: list[PoolEntry] = []
    for name in texts:
        profile = known.get(name)
        url = profile.url if profile is not None else name
        try:
            _ = base_url(url)
        except UsageError as error:
            raise ConfigError(
                f"servers: {name[:60]!r} is not an address, a host name or a profile with a url", _POOL_HINT
            ) from error
        if not any(is_same_server(url, each.url) for each in found):
            is_host = profile is None and bool(_HOST.fullmatch(url))
            named = profile or (None if is_host else connection_of(profiles, url))
            found.append(PoolEntry(url, named.api_key if named is not None else "", is_host=is_host))
    return tuple(found)
