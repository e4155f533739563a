"""The rules that the user granted for always, per workspace, at user level: `lmtui config` shows them, deleting a line revokes.

The file is TOML, one table per folder: `["/home/me/project"]` with `allow = ["Shell(make test)"]`.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from lmtui.core.errors import ConfigError
from lmtui.paths import config_dir


def rules_file() -> Path:
    """Return the file of the granted rules."""
    return config_dir() / "rules.toml"


def read_rules(workspace: Path) -> tuple[str, ...]:
    """Return the rules granted for a workspace.

    Raises:
        ConfigError: the file cannot be read; a rule that cannot be read must not be taken for none.
    """
    return tuple(_read().get(str(workspace), ()))


def add_rule(workspace: Path, rule: str) -> None:
    """Keep a rule for a workspace.

    Raises:
        ConfigError: the file cannot be read or written.
    """
    rules = _read()
    mine = rules.setdefault(str(workspace), [])
    if rule in mine:
        return
    mine.append(rule)
    lines = ["# Granted with “always” in approvals. Delete a line to revoke it."]
    for folder, allowed in rules.items():
        lines += ["", f"[{_quoted(folder)}]", "allow = ["]
        lines += [*(f"  {_quoted(each)}," for each in allowed), "]"]
    try:
        rules_file().parent.mkdir(parents=True, exist_ok=True)
        draft = rules_file().with_suffix(".new")
        draft.write_text("\n".join(lines) + "\n", encoding="utf-8")
        draft.replace(rules_file())
    except OSError as error:
        raise ConfigError(
            f"the rule could not be kept in {rules_file()}: {error.strerror}", "It holds for this session."
        ) from error


def _quoted(text: str) -> str:
    """Return a TOML basic string: JSON's form, with the one control character that JSON leaves bare."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _read() -> dict[str, list[str]]:
    try:
        found = tomllib.loads(rules_file().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{rules_file()} cannot be read: {error}", "Mend or remove it.") from error
    return {
        folder: [str(rule) for rule in table.get("allow", [])] for folder, table in found.items() if isinstance(table, dict)
    }
