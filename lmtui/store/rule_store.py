"""The rules that hold beyond a session, kept at user level: for one folder, or for every folder of the user.

The file is TOML, one table per folder and `["*"]` for all of them: `["/home/me/project"]` with `allow = ["Shell(make test)"]`,
`ask = […]` and `deny = […]`.  It may be edited manually (comments of one's own are not kept when a rule is added): deleting a
line revokes its rule.  What cannot be read is told and never overwritten.
"""

from __future__ import annotations

import contextlib
import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lmtui.core.errors import ConfigError, UsageError
from lmtui.core.permissions.rules import Effect, GrantScope, parse_rule
from lmtui.paths import config_dir
from lmtui.store.state_files import locked, write_whole

EVERYWHERE = "*"
_HEADER = "# Rules that hold beyond a session. Delete a line to revoke one."

Tables = dict[str, dict[Effect, list[str]]]


@dataclass(frozen=True, slots=True)
class StoredRule:
    """One kept rule: what it says, its text as it is in the file, and how far it reaches (workspace or user)."""

    effect: Effect
    text: str
    scope: GrantScope


def rules_file() -> Path:
    """Return the file of the kept rules."""
    return config_dir() / "rules.toml"


def read_rules(workspace: Path) -> tuple[StoredRule, ...]:
    """Return the rules that hold in a workspace, its own first.

    Raises:
        ConfigError: the file cannot be read; a rule that cannot be read must not be taken for none.
    """
    tables = _read()
    found = []
    for scope in (GrantScope.WORKSPACE, GrantScope.USER):
        for effect, texts in tables.get(_key(workspace, scope), {}).items():
            found += [StoredRule(effect, text, scope) for text in texts]
    return tuple(found)


def add_rule(workspace: Path, rule: str, scope: GrantScope = GrantScope.WORKSPACE, effect: Effect = Effect.ALLOW) -> None:
    """Keep a rule for a workspace or, with the user's scope, for every folder; one that is there already stays as it is.

    Raises:
        ConfigError: the file cannot be read or written.
    """
    with _locked():
        tables = _read()
        texts = tables.setdefault(_key(workspace, scope), {}).setdefault(effect, [])
        if not any(_is_same(text, rule) for text in texts):
            texts.append(rule)
            _write(tables)


def remove_rule(workspace: Path, rule: str, scope: GrantScope, effect: Effect = Effect.ALLOW) -> bool:
    """Take a rule back and tell whether it was there; only the same tool with the same pattern is the same rule.

    Raises:
        ConfigError: the file cannot be read or written.
    """
    with _locked():
        tables = _read()
        texts = tables.get(_key(workspace, scope), {}).get(effect, [])
        kept = [text for text in texts if not _is_same(text, rule)]
        if len(kept) == len(texts):
            return False
        texts[:] = kept
        _write(tables)
        return True


def _key(workspace: Path, scope: GrantScope) -> str:
    return EVERYWHERE if scope is GrantScope.USER else str(workspace)


def _is_same(one: str, other: str) -> bool:
    """Compare two rules by what they say: `bash(x)` and `Shell(x)` are one."""
    try:
        return parse_rule(one, Effect.ALLOW, "") == parse_rule(other, Effect.ALLOW, "")
    except UsageError:
        return one == other


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Hold the file against another lmtui that adds or removes at the same time."""
    try:
        with locked(rules_file().with_suffix(".lock")):
            yield
    except OSError as error:
        raise _not_kept(error.strerror) from error


def _write(tables: Tables) -> None:
    """Replace the file as a whole, readable by the user alone."""
    lines = [_HEADER]
    for folder, effects in tables.items():
        if not any(effects.values()):
            continue
        lines += ["", f"[{_quoted(folder)}]"]
        for effect, texts in effects.items():
            if texts:
                lines += [f"{effect} = [", *(f"  {_quoted(each)}," for each in texts), "]"]
    try:
        write_whole(rules_file(), "\n".join((*lines, "")), errors="strict")
    except UnicodeEncodeError as error:
        raise _not_kept("a name in it is not text") from error


def _not_kept(why: str | None) -> ConfigError:
    return ConfigError(f"{rules_file()} could not be changed: {why}", "What you said holds for this session.")


def _quoted(text: str) -> str:
    """Return a TOML basic string: JSON's form, with the one control character that JSON leaves bare."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _read() -> Tables:
    try:
        found = tomllib.loads(rules_file().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{rules_file()} cannot be read: {error}", "Fix it or delete it.") from error
    return {folder: _table(folder, table) for folder, table in found.items()}


def _table(folder: str, table: object) -> dict[Effect, list[str]]:
    """Return a folder's rules; one text means a list of one.

    Raises:
        ConfigError: something in it is not a rule.
    """
    rules: dict[Effect, list[str]] = {}
    for key, value in table.items() if isinstance(table, dict) else ((folder, None),):
        texts = value if isinstance(value, list) else [value]
        if key not in list(Effect) or not all(isinstance(text, str) for text in texts):
            raise ConfigError(
                f"{rules_file()}: {key!r} of {folder!r} is not a list of rules",
                f"Each folder has {', '.join(Effect)}, each a list of texts such as Shell(make test).",
            )
        rules[Effect(key)] = list(map(str, texts))
    return rules
