"""Files that no process in the sandbox may see: those that deny rules protect from reading, and those with secret names.

The sandbox hides them; this module only makes the expressions that find them.  They are ASCII, need nothing but `re`, and match
the bytes of a path relative to the workspace, that of a folder with `/` behind it: `re.compile(source.encode()).match(path)`.
A folder that matches is hidden with everything in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from lmtui.core import path_patterns
from lmtui.core.rules import Effect, Rule
from lmtui.core.secrets import is_secret_path, secret_regex
from lmtui.core.tool_facts import Deed, tools_that

__all__ = [
    "MaskExpressions",
    "mask_expressions",
    "mask_regex",
    "masking_patterns",
    "revealing_patterns",
    "reveals_secret",
    "secret_regex",
]

_READERS = tools_that(Deed.SHOWS)


@dataclass(frozen=True, slots=True)
class MaskExpressions:
    """Expressions for paths: `denied` by a rule, `secret` by name, `shown` although secret; empty ones match nothing."""

    denied: str = ""
    secret: str = field(default_factory=secret_regex)
    shown: str = ""


@lru_cache(maxsize=32)
def mask_expressions(rules: tuple[Rule, ...]) -> MaskExpressions:
    """Return the masks that follow from the rules."""
    denied, shown = masking_patterns(rules), revealing_patterns(rules)
    return MaskExpressions(mask_regex(denied) if denied else "", secret_regex(), mask_regex(shown) if shown else "")


def masking_patterns(rules: tuple[Rule, ...]) -> tuple[str, ...]:
    """Return the patterns of all files that rules deny for reading.

    A rule that denies a whole tool (`Read`) hides no file.
    """
    return _patterns(rules, Effect.DENY)


def revealing_patterns(rules: tuple[Rule, ...]) -> tuple[str, ...]:
    """Return the patterns of secret files that rules allow to read: only those that name such files (`Read(.env)`)."""
    return tuple(pattern for pattern in _patterns(rules, Effect.ALLOW) if reveals_secret(pattern))


def reveals_secret(pattern: str) -> bool:
    """Tell whether each path that a pattern matches would count as a secret file: `**/*.pem` does, `src/**` does not."""
    names = [each.replace("**/", "").replace("*", "x").replace("?", "x") for each in path_patterns.alternatives(pattern)]
    return all(is_secret_path(name) for name in names)


def mask_regex(patterns: tuple[str, ...]) -> str:
    """Return one expression for normalized patterns; without patterns it matches nothing."""
    return path_patterns.regex(patterns)


def _patterns(rules: tuple[Rule, ...], effect: Effect) -> tuple[str, ...]:
    found = [rule.pattern for rule in rules if rule.effect is effect and rule.tool in (*_READERS, "*") and rule.pattern != "*"]
    return tuple(dict.fromkeys(found))
