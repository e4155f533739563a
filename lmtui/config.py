"""Settings: defaults < user config.toml < workspace config.toml < .env < environment < flags, each value with its source.

A workspace is somebody else's until it is trusted: from its files only what is harmless or tightens is taken; the rest is
named.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from lmtui.core.errors import ConfigError
from lmtui.core.permissions import Mode
from lmtui.paths import config_dir, workspace_dir

MODES = tuple(str(mode) for mode in Mode)
SANDBOXES = ("auto", "docker", "podman", "bubblewrap", "landlock", "process")
NETWORKS = ("off", "on")


def _setting(
    default: Any,
    doc: str,
    *env: str,
    choices: tuple[str, ...] = (),
    at_least: float = -math.inf,
    at_most: float = math.inf,
    is_secret: bool = False,
) -> Any:
    """Declare a setting: its default, a line of help, the names it has in the environment, and what it may be."""
    metadata = {
        "doc": doc, "env": env, "choices": choices, "at_least": at_least, "at_most": at_most, "is_secret": is_secret,
    }  # fmt: skip
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting with its value."""

    workspace: str = _setting("", "the folder the agents work in; empty: the current folder", "WORKSPACE")
    url: str = _setting("", "address of the model server; empty: look on the usual ports", "LLM_URL", "OPENAI_BASE_URL")
    model: str = _setting("", "name of the model; empty: the server's own default", "LLM_MODEL")
    api_key: str = _setting(
        "", "key for the model server; local servers need none", "LLM_API_KEY", "OPENAI_API_KEY", is_secret=True
    )
    temperature: float = _setting(0.65, "sampling temperature, 0 to 2", "LLM_TEMPERATURE", "TEMPERATURE", at_least=0, at_most=2)
    seed: int = _setting(-1, "seed of the sampling; -1: none", "LLM_SEED")
    max_tokens: int = _setting(-1, "longest answer in tokens; -1: the server's own limit", "LLM_MAX_TOKENS")
    stall_timeout_s: float = _setting(
        560.0,
        "seconds of silence in the middle of an answer; the first token has no deadline; 0: no limit",
        "LLM_TIMEOUT",
        at_least=0,
    )
    max_retries: int = _setting(3, "how often a request that failed in passing is sent again", "LLM_MAX_RETRIES", at_least=0)
    retry_delay_s: float = _setting(0.5, "seconds before the first repetition; it doubles", "LLM_RETRY_DELAY", at_least=0)
    max_iterations: int = _setting(500, "requests in one turn", "MAX_ITERATIONS", at_least=1)
    timeout_s: float = _setting(0.0, "seconds that a turn may take; 0: no limit", at_least=0)
    mode: str = _setting("normal", "when to ask: manual, normal, auto, or plan (read only)", "PERMISSION_MODE", choices=MODES)
    allow: tuple[str, ...] = _setting((), "permission rules that allow, such as Shell(git status*)")
    deny: tuple[str, ...] = _setting((), "permission rules that forbid, such as Write(secrets/**)")
    sandbox: str = _setting("auto", "where commands run", "LMTUI_SANDBOX", choices=SANDBOXES)
    network: str = _setting("off", "network for commands", "LMTUI_NETWORK", choices=NETWORKS)
    image: str = _setting("lmtui-sandbox:1", "Docker image of the sandbox", "LMTUI_IMAGE")
    theme: str = _setting("", "colours of the screen; empty: the default theme", "LMTUI_THEME")


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings in force, where each came from (all sources of a list), and what the workspace's files do not get."""

    config: Config
    sources: Mapping[str, str]
    ignored: tuple[str, ...] = ()


SETTINGS = {each.name: each for each in fields(Config)}
_HARMLESS = frozenset({"theme", "temperature", "seed", "max_tokens", "deny"})
_MODE_RANK = {"plan": 0, "manual": 1, "normal": 2, "auto": 3}
_STRICTER: Mapping[str, Callable[[Any, Any], bool]] = {
    "mode": lambda new, now: _MODE_RANK[new] < _MODE_RANK[now],
    "max_iterations": lambda new, now: new > 0 and (new < now or now <= 0),  # 0 is no limit
    "network": lambda new, _: new == "off",
}


def load_config(workspace: Path, environ: Mapping[str, str], flags: Mapping[str, Any]) -> Loaded:
    """Read every source and return the settings in force.

    Args:
        workspace: whose files are read; they are not trusted.
        environ: the environment.
        flags: values from the command line, None for those not given.

    Raises:
        ConfigError: a value cannot be; the text names the setting, the source and what is possible.
    """
    values: dict[str, Any] = {}
    sources = dict.fromkeys(SETTINGS, "default")
    ignored: list[str] = []

    def take(found: Mapping[str, Any], source: str) -> None:
        for name, value in found.items():
            before = values.get(name, ()) if isinstance(value, tuple) else ()
            values[name] = (*before, *value) if before else value
            sources[name] = f"{sources[name]} + {source}" if before else source

    take(_from_toml(config_dir() / "config.toml"), str(config_dir() / "config.toml"))
    for found, source in _untrusted(workspace, ignored):
        safe = {name: value for name, value in found.items() if _tightens(name, value, values)}
        ignored += [f"{name} in {source}" for name in found if name not in safe]
        take(safe, source)
    take(_from_environ(environ, "the environment"), "environment")
    take({name: convert(name, value, "a flag") for name, value in flags.items() if value is not None}, "flag")
    return Loaded(Config(**values), sources, tuple(ignored))


def _untrusted(workspace: Path, ignored: list[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield what the workspace's own files say.

    A broken config.toml is an error, for it may forbid something; `.env` is also other programs', so what cannot be in it is
    named in `ignored` and stops nothing.
    """
    yield _from_toml(workspace_dir(workspace) / "config.toml"), ".lmagent/config.toml"
    pairs = _dotenv(workspace / ".env")
    found: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        key = next((key for key in setting.metadata["env"] if pairs.get(key, "").strip()), None)
        if key is None:
            continue
        try:
            found[name] = convert(name, pairs[key].strip(), f"{key} in .env")
        except ConfigError:
            ignored.append(f"{key} in .env")
    yield found, ".env"


def _tightens(name: str, value: Any, values: Mapping[str, Any]) -> bool:
    """Tell whether an untrusted workspace may set this."""
    if name in _HARMLESS:
        return True
    stricter = _STRICTER.get(name)
    return stricter is not None and stricter(value, values.get(name, SETTINGS[name].default))


def _from_toml(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", "Mend or remove it.") from error
    for name in found:
        if name not in SETTINGS:
            close = difflib.get_close_matches(name, SETTINGS, n=1)
            hint = f"Did you mean {close[0]}?" if close else "`lmtui config show` lists the settings."
            raise ConfigError(f"{path} has no setting called {name!r}", hint)
    return {name: convert(name, value, str(path)) for name, value in found.items()}


def _from_environ(environ: Mapping[str, str], source: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        key = next((key for key in setting.metadata["env"] if environ.get(key, "").strip()), None)
        if key is not None:
            found[name] = convert(name, environ[key].strip(), f"{key} in {source}")
    return found


def convert(name: str, value: Any, source: str) -> Any:
    """Return a setting's value in its own type.

    Raises:
        ConfigError: it cannot be that.
    """
    setting = SETTINGS[name]
    choices = setting.metadata["choices"]
    if name == "network" and isinstance(value, bool):
        value = "on" if value else "off"
    if choices and value not in choices:
        raise ConfigError(f"{name} cannot be {value!r} ({source})", f"It is one of {', '.join(choices)}.")
    kind = str(setting.type)
    try:
        converted = _KINDS[kind][1](value)
        if setting.metadata["is_secret"]:
            converted = _key(converted)
        elif kind in ("int", "float") and not setting.metadata["at_least"] <= converted <= setting.metadata["at_most"]:
            raise ValueError
        return converted
    except (ValueError, TypeError, OverflowError) as error:
        told = "that" if setting.metadata["is_secret"] else repr(value)
        hint = f"It is {_KINDS[kind][0]}: {setting.metadata['doc']}."
        raise ConfigError(f"{name} cannot be {told} ({source})", hint) from error


def _key(value: str) -> str:
    """Return a key without the line break that files end with; it goes into a header, so nothing else may be in it."""
    key = value.strip()
    if not key.isascii() or not all(char.isprintable() for char in key):
        raise ValueError
    return key


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError
    return tuple(_text(each) for each in value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not math.isfinite(number := float(value)):
        raise ValueError
    return number


def _whole(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError
    return int(value)


_KINDS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "str": ("a text", _text),
    "int": ("a whole number", _whole),
    "float": ("a number", _number),
    "tuple[str, ...]": ("a list of texts", _texts),
}
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?:(['\"])(.*?)\2|(.*?))\s*(?:(?<=\s)#.*)?\Z")


def _dotenv(path: Path) -> dict[str, str]:
    """Return the pairs of a `.env` file; quotes and a comment behind a space are taken off, other lines passed over."""
    try:
        if not path.is_file() or path.stat().st_size > 65536:
            return {}
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return {}
    pairs = (_LINE.match(line) for line in text.splitlines() if not line.lstrip().startswith("#"))
    return {pair[1]: pair[3] if pair[2] else pair[4] for pair in pairs if pair}


def shown(name: str, value: Any) -> str:
    """Return a value for a person: secrets as dots, nothing as a dash."""
    if SETTINGS[name].metadata["is_secret"] and value:
        return "•" * 8
    if value in ("", ()):
        return "–"
    return ", ".join(value) if isinstance(value, tuple) else str(value)
