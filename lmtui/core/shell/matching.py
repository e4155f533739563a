"""Rules for the shell against the words of a command: `git status *`, `npm test`, `sed -n *`."""

from __future__ import annotations

import re
from functools import lru_cache

from lmtui.core import globs
from lmtui.core.shell.command import SimpleCommand, word_set
from lmtui.core.shell.floor import floor_reason
from lmtui.core.shell.review import layers, risks_of

# Of these the second word says what is done: `git log*` means `git log` with anything behind it, not `git logx`.
WITH_SUBCOMMANDS = word_set(
    "git cargo go npm pnpm yarn pip pip3 uv poetry docker kubectl gh rustup apt brew make dotnet gradle mvn terraform"
)


def covers(pattern: str, command: SimpleCommand) -> bool:
    """Tell whether an allow rule covers a simple command, with everything that it may do."""
    return any(_covers_layer(pattern, layer) for layer in layers(command))


def _covers_layer(pattern: str, command: SimpleCommand) -> bool:
    named = named_places(pattern, command.words)
    if named is None:
        return False
    if len(named) == len(command.words) and all(globs.literal(word) for word in pattern_words(pattern)):
        return True  # every word is named: the user knows
    if any(floor_reason(layer) for layer in layers(command)):
        return False
    return all(risk.index in named for risk in risks_of(command))


def named_places(pattern: str, words: tuple[str, ...]) -> frozenset[int] | None:
    """Match a rule against all words of a command.

    Returns:
        The places of the words that the rule names without a wildcard, None where the rule does not match.
    """
    wanted = list(pattern_words(pattern))
    is_open = bool(wanted) and wanted[-1].endswith("*") and not wanted[-1].endswith("\\*")
    if is_open:
        wanted[-1:] = _before_star(wanted)
    if len(words) < len(wanted) or (len(words) > len(wanted) and not is_open):
        return None
    pairs = list(zip(wanted, words, strict=False))
    if not all(globs.matches(each, word) for each, word in pairs):
        return None
    return frozenset(i for i, (each, _) in enumerate(pairs) if globs.literal(each) is not None)


def _before_star(wanted: list[str]) -> list[str]:
    """Return what the last word of an open rule asks for: nothing for `*`, the word itself for `log*`, else the glob."""
    last = wanted[-1].rstrip("*")
    if not last:
        return []
    is_name = len(wanted) == 1 or (len(wanted) == 2 and wanted[0] in WITH_SUBCOMMANDS)
    return [last if is_name and re.fullmatch(r"[A-Za-z0-9_.-]+", last) else wanted[-1]]


@lru_cache(maxsize=512)
def pattern_words(pattern: str) -> tuple[str, ...]:
    """Cut a rule's pattern into globs, one a word; quotes hold words together and make what is in them literal."""
    words = re.findall(r"(?:'[^']*'|\"[^\"]*\"|\\.|\S)+", pattern, re.DOTALL)
    quoted = re.compile(r"\\.|'([^']*)'|\"([^\"]*)\"", re.DOTALL)

    def read(match: re.Match[str]) -> str:
        return match[0] if match[0][0] == "\\" else globs.escape(match[1] or match[2] or "")

    return tuple(quoted.sub(read, word) for word in words)
