"""Settings: defaults < user config.toml < workspace config.toml < .env < environment < flags, each value with its source.

A workspace is somebody else's until it is trusted: from its files only what is harmless or tightens is taken; the rest is
named, and waits.
"""

from __future__ import annotations

import difflib
import hashlib
import io
import json
import logging
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmtui.core.errors import ConfigError, UsageError
from lmtui.core.roles import parse_roles
from lmtui.core.trust import TrustItem
from lmtui.parser_process import TooComplex, parsed, toml
from lmtui.paths import WORKSPACE_FOLDER, config_dir, workspace_dir
from lmtui.plain_files import NotPlain, is_plain_folder, open_own, read_plain
from lmtui.settings import IS_RETIRED, MODEL_SETTINGS, NETWORKS, RETIRED, SETTINGS, Config

__all__ = ["MODEL_SETTINGS", "SETTINGS", "Config", "Loaded", "load_config", "setting_flags"]

_MAX_TOML_BYTES, _MAX_DOTENV_BYTES = 1_048_576, 65_536
_MAX_QUICK_CHARS = 4_096  # parsed within 50 ms, whatever they are
_REFERENCES = ("file:", "keyring:")  # where a key is, not the key itself


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings in force, where each came from (all sources of a list), and what the workspace's files do not get.

    `retired` are settings of earlier versions, with what takes their place.  `waiting` are those of the folder that hold once
    it is trusted, `digest` the SHA-256 (hex) of them with their values: an answer holds for just that.  `not_used` is what
    files of another program say that has no meaning here.
    """

    config: Config
    sources: Mapping[str, str]
    ignored: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    waiting: tuple[TrustItem, ...] = ()
    digest: str = ""
    not_used: tuple[str, ...] = ()

    def has_flag(self, *names: str) -> bool:
        """Tell whether the command line gives one of these settings."""
        return any(self.sources[name] == "flag" for name in names)


_HARMLESS = frozenset({
    "theme", "temperature", "top_p", "repeat_penalty", "seed", "max_tokens", "call_form", "tools", "vision", "deny", "ask",
})  # fmt: skip
_RULES, _CLAUDE = ("allow", "ask", "deny"), ".claude/settings"
_ON, _OFF = ("true", "yes", "1"), ("false", "no", "0")  # other words for what is on or off
_MODE_RANK = {"plan": 0, "manual": 1, "normal": 2, "try": 3, "auto": 4}
_STRICTER: Mapping[str, Callable[[Any, Any], bool]] = {
    "mode": lambda new, now: _MODE_RANK[new] < _MODE_RANK[now],
    "max_iterations": lambda new, now: new > 0 and (new < now or now <= 0),  # 0 is no limit
    "mcp": lambda new, _: new == "off",
    "sub_agents": lambda new, _: new == "off",
    "network": lambda new, now: NETWORKS.index(new) < NETWORKS.index(now),
    "web": lambda new, _: new == "off",
}


def setting_flags(given: Iterable[str]) -> dict[str, Any]:
    """Return settings that were given as `KEY=VALUE`, the value as TOML has it or as plain text.

    Raises:
        ConfigError: no such setting (any more), or no value.
    """
    flags: dict[str, Any] = {}
    for text in given:
        name, sign, value = (part.strip() for part in text.partition("="))
        if not sign or name not in SETTINGS:
            problem = f"{text!r} does not set a known setting; write it as in -c seed=7"
            raise ConfigError(f"{name} {IS_RETIRED}" if name in RETIRED else problem, _nearest(name))
        try:
            flags[name] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            flags[name] = value
        flags[name] = tuple(flags[name]) if isinstance(flags[name], list) else flags[name]
    return flags


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name, SETTINGS, n=1)
    return f"Did you mean {near[0]}?" if near else "`lmtui config show` lists the settings."


def load_config(workspace: Path, environ: Mapping[str, str], flags: Mapping[str, Any], *, trusted: str = "") -> Loaded:
    """Read every source and return the settings in force.

    Args:
        workspace: whose files are read.
        environ: the environment.
        flags: values from the command line, None for those not given.
        trusted: the digest of what the user trusts of this workspace; empty trusts nothing.

    Raises:
        ConfigError: a value cannot be; the text names the setting, the source and what is possible.
    """
    retired: dict[str, None] = {}
    user = {str(config_dir() / "config.toml"): read_settings(config_dir() / "config.toml", retired)}
    outer = {
        "environment": _from_environ(environ, "the environment"),
        "flag": {name: convert(name, value, "a flag") for name, value in flags.items() if value is not None},
    }
    ignored: list[str] = []
    unused: dict[str, list[str]] = {}
    own = {**dict(_own_files(workspace, ignored, retired)), **dict(_claude_files(workspace, unused))}
    loose = _loosening(user, own)
    digest = hashlib.sha256(json.dumps(loose, sort_keys=True).encode()).hexdigest() if loose else ""
    if not loose or trusted != digest:
        ignored = [f"{name} in {source}" for source, names in loose.items() for name in names] + ignored
        own = {
            source: {name: value for name, value in found.items() if name not in loose.get(source, {})}
            for source, found in own.items()
        }
    values, sources = _merged(user | own | outer)
    if values.get("profile"):
        _use_profile(values, sources, (*user, *own, *outer))
    servers = ("url", "servers", *(["profiles"] if sources["url"].startswith("profile ") else []))
    named = {source for name in servers for source in sources[name].split(" + ")}
    if named & own.keys() and sources["api_key"] not in own and not sources["api_key"].startswith("profile "):
        values["api_key"] = ""  # the user's own key, and a server that the folder names
    waiting = tuple(
        TrustItem("permission rule" if name in _RULES else "setting", source, f"{name} = {shown(name, value)}", digest)
        for source, names in loose.items()
        for name, value in names.items()
    )
    told = {source: f"not used: {', '.join(names)}" for source, names in unused.items() if names}
    waiting += tuple(TrustItem("setting", source, text, digest) for source, text in told.items() if source in loose)
    not_used = tuple(f"{source}: {text}" for source, text in told.items())
    return Loaded(Config(**values), sources, tuple(ignored), tuple(retired), waiting, digest, not_used)


_Sources = Mapping[str, Mapping[str, Any]]


def _merged(found: _Sources) -> tuple[dict[str, Any], dict[str, str]]:
    """Return values and where they came from; a later source wins, lists grow."""
    values: dict[str, Any] = {}
    sources = dict.fromkeys(SETTINGS, "default")
    for source, settings in found.items():
        for name, value in settings.items():
            before = values.get(name, ()) if isinstance(value, tuple) else ()
            values[name] = (*before, *value) if before else value
            sources[name] = f"{sources[name]} + {source}" if before else source
    return values, sources


def _use_profile(values: dict[str, Any], sources: dict[str, str], order: tuple[str, ...]) -> None:
    """Put the server, model and key of the chosen profile in the place of what sources before that choice say.

    A key goes with its server: of a profile's server it is the profile's own, or that of a flag.

    Raises:
        ConfigError: the profile does not exist.
    """
    from lmtui.core.connection_profiles import find_connection  # noqa: PLC0415  (few have one, and every start is timed)

    name = values["profile"]
    profile = find_connection(values.get("profiles", ()), name)
    chosen_at = order.index(sources["profile"])

    def is_open(setting: str) -> bool:
        return sources[setting] == "default" or (sources[setting] != "flag" and order.index(sources[setting]) <= chosen_at)

    has_server = is_open("url") and bool(profile.url)
    found = {"model": profile.model} if is_open("model") and (has_server or (profile.model and not profile.url)) else {}
    if has_server:
        found["url"] = profile.url
    if has_server and sources["api_key"] != "flag":
        found["api_key"] = profile.api_key
    values |= found
    sources |= dict.fromkeys(found, f"profile {name}")


def _loosening(user: _Sources, own: _Sources) -> dict[str, dict[str, Any]]:
    """Return what an untrusted workspace may not set, by source."""
    values, _ = _merged(user)
    loose: dict[str, dict[str, Any]] = {}
    for source, found in own.items():
        is_strange = source.startswith(_CLAUDE)  # its rules are another program's, so all of them wait
        names = {name: value for name, value in found.items() if is_strange or not _tightens(name, value, values)}
        if names:
            loose[source] = names
        values |= {name: value for name, value in found.items() if name not in names}
    return loose


def _own_files(workspace: Path, ignored: list[str], retired: dict[str, None]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what the workspace's own files say, by source.

    A broken config.toml is an error, for it may forbid something; `.env` is also other programs', so what cannot be in it is
    named in `ignored` and stops nothing.
    """
    yield ".lmagent/config.toml", read_settings(workspace_dir(workspace) / "config.toml", retired, is_own=False)
    if "inbox" in SETTINGS and is_plain_folder(workspace, f"{WORKSPACE_FOLDER}/inbox"):
        yield ".lmagent/inbox", {"inbox": "on"}  # a folder that has one wants its tasks run: that waits for the user's word
    yield ".env", _from_environ(_dotenv(workspace), ".env", ignored)


def _claude_files(workspace: Path, unused: dict[str, list[str]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the permission rules of Claude Code's files; what else they say is added to `unused`, by source."""
    for source in (f"{_CLAUDE}.json", f"{_CLAUDE}.local.json"):
        try:
            data = read_plain(workspace, source, _MAX_TOML_BYTES + 1)
            if data is None:
                continue
            found = json.loads(data.decode("utf-8-sig")) if len(data) <= _MAX_TOML_BYTES else None
        except (NotPlain, OSError, ValueError, RecursionError):
            found = None
        from lmtui.core.claude_settings import claude_rules  # noqa: PLC0415  (few workspaces have one, and every start is timed)

        rules, unused[source] = claude_rules(found) if isinstance(found, dict) else ({}, ["all of it: it cannot be read"])
        yield source, dict(rules)


def _tightens(name: str, value: Any, values: Mapping[str, Any]) -> bool:
    """Tell whether an untrusted workspace may set this."""
    if name in _HARMLESS:
        return True
    stricter = _STRICTER.get(name)
    return stricter is not None and stricter(value, values.get(name, SETTINGS[name].default))


def read_settings(path: Path, retired: dict[str, None], *, is_own: bool = True) -> dict[str, Any]:
    """Return the settings of a TOML file, nothing where there is none; only the user's own may be behind a link.

    Those that earlier versions had are left out, and added to `retired`.

    Raises:
        ConfigError: it cannot be read, or says what cannot be.
    """
    try:
        with open(path.resolve() if is_own else path, "rb", opener=open_own) as file:
            data = file.read(_MAX_TOML_BYTES + 1)
        if len(data) > _MAX_TOML_BYTES:
            raise TooComplex("too large")
        text = data.decode()
        found = tomllib.loads(text) if is_own or len(text) <= _MAX_QUICK_CHARS else parsed(toml, text)
        if not isinstance(found, dict):
            raise ConfigError(f"{path} cannot be read: {found}", "Fix it or delete it.")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError, TooComplex) as error:
        why = f"it is {error}" if isinstance(error, TooComplex) else error
        raise ConfigError(f"{path} cannot be read: {why}", "Fix it or delete it.") from error
    retired.update((f"{name} in config.toml {IS_RETIRED}", None) for name in sorted(RETIRED & found.keys()))
    for name in found.keys() - RETIRED - SETTINGS.keys():
        raise ConfigError(f"{path} has no setting called {name!r}", _nearest(name))
    return {name: convert(name, value, str(path)) for name, value in found.items() if name not in RETIRED}


def _from_environ(environ: Mapping[str, str], source: str, ignored: list[str] | None = None) -> dict[str, Any]:
    """Return the settings among variables; what cannot be is added to `ignored`, or without that an error."""
    found: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        key = next((key for key in setting.metadata["env"] if environ.get(key, "").strip()), None)
        try:
            found |= {name: convert(name, environ[key].strip(), f"{key} in {source}")} if key is not None else {}
        except ConfigError:
            if ignored is None:
                raise
            ignored.append(f"{key} in {source}")
    return found


def _as_choice(value: Any, choices: tuple[str, ...]) -> Any:
    """Return a truth, as TOML and the environment write it, as the choice that it means."""
    word = str(value).strip().lower() if isinstance(value, bool | str) else value
    if word in choices or "on" not in choices:
        return word if isinstance(value, bool) else value
    return "on" if word in _ON else "off" if word in _OFF else value


def convert(name: str, value: Any, source: str) -> Any:
    """Return a setting's value in its own type.

    Raises:
        ConfigError: it cannot be that.
    """
    setting = SETTINGS[name]
    choices = setting.metadata["choices"]
    if choices:
        value = _as_choice(value, choices)
    if choices and value not in choices:
        raise ConfigError(f"{name} cannot be {value!r} ({source})", f"It is one of {', '.join(choices)}.")
    kind = str(setting.type)
    try:
        converted = _typed(kind, value)
        if name == "roles":
            _check_words(parse_roles, converted, source)
        elif converted and name in ("budget", "check_profiles", "goal", "profiles", "url", "web_search"):
            from lmtui.core import budgets, connection_profiles, hosts, verification  # noqa: PLC0415  (few set one, and every start is timed)

            parsers = {
                "budget": budgets.whole_budget, "check_profiles": verification.parse_profiles, "url": hosts.base_url,
                "profiles": connection_profiles.parse_connections, "web_search": hosts.parse_search_backend,
                "goal": verification.check_goal,
            }  # fmt: skip
            _check_words(parsers[name], converted, source if name.endswith("profiles") else f"{name}, {source}")
        if setting.metadata["is_secret"]:
            converted = _key(converted)
        elif kind in ("int", "float") and not setting.metadata["at_least"] <= converted <= setting.metadata["at_most"]:
            raise ValueError
        return converted
    except (ValueError, TypeError, OverflowError) as error:
        told = "that" if setting.metadata["is_secret"] else repr(value)
        hint = f"It is {_KINDS[kind]}: {setting.metadata['doc']}."
        raise ConfigError(f"{name} cannot be {told} ({source})", hint) from error


def _check_words(parse: Callable[[Any], object], value: object, source: str) -> None:
    try:
        _ = parse(value)
    except (ConfigError, UsageError) as error:
        raise ConfigError(f"{error} ({source})", error.hint) from error


def _key(value: str) -> str:
    """Return a key without the line break that files end with."""
    key = value.strip()
    if not key.isascii() or not all(char.isprintable() for char in key):
        raise ValueError
    return key


_KINDS = {
    "str": "a text", "int": "a whole number", "float": "a number", "tuple[str, ...]": "a list of texts",
}  # fmt: skip


def _typed(kind: str, value: Any) -> Any:
    """Return a value in its own type; a truth is not a number.

    Raises:
        ValueError: it cannot be that.
    """
    is_list = isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    if kind == "str" and isinstance(value, str):
        return value
    if kind.startswith("tuple") and is_list:
        return tuple(value)
    if kind == "float" and not isinstance(value, bool) and math.isfinite(number := float(value)):
        return number
    is_part = isinstance(value, float) and not value.is_integer()
    if kind == "int" and not isinstance(value, bool) and not is_part:
        return int(value)
    raise ValueError


def _dotenv(workspace: Path) -> dict[str, str]:
    """Return the pairs of a workspace's `.env`; lines that cannot be read are skipped."""
    try:
        data = read_plain(workspace, ".env", _MAX_DOTENV_BYTES + 1)
    except (NotPlain, OSError):
        return {}
    if data is None or len(data) > _MAX_DOTENV_BYTES:
        return {}
    from dotenv import dotenv_values  # noqa: PLC0415  (few workspaces have a .env, and every start is timed)

    logging.getLogger("dotenv").setLevel(logging.ERROR)  # it warns of each line that it cannot read
    pairs = dotenv_values(stream=io.StringIO(data.decode("utf-8-sig", "replace")), interpolate=False)
    return {name: value for name, value in pairs.items() if value is not None}


def shown(name: str, value: Any) -> str:
    """Return a value for a person: secrets as dots (not where they are kept), nothing as a dash."""
    if SETTINGS[name].metadata["is_secret"] and value and not str(value).startswith(_REFERENCES):
        return "•" * 8
    if value in ("", ()):
        return "–"
    return ", ".join(value) if isinstance(value, tuple) else str(value)
