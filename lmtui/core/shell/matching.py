"""Rules for the shell against the words of a command: `git status *`, `npm test`, `sed -n *`."""

from __future__ import annotations

import re
from functools import lru_cache

from lmtui.core import globs
from lmtui.core.shell.command import SimpleCommand, word_set
from lmtui.core.shell.review import layers, risks_of

_MADE = re.compile(
    r"(?:build|dist|target|out|node_modules|__pycache__|\.(?:pytest|mypy|ruff|parcel-)?_?cache|\.tox|\.nox|htmlcov|\.?coverage"
    r"|\.next|\.nuxt|\.hypothesis|\.eggs|[A-Za-z0-9_.-]+\.egg-info)/?\Z"
)
# Patterns for the words from the subcommand on, joined by spaces.
_FORCED = r"(?:.* )?(?:-[A-Za-z]*{}|--{})"
_GIT = (
    r"(?:push|clean|filter-branch|filter-repo|send-email|restore|read-tree)(?: |\Z)", r"reset (?:.* )?--[hmk]",
    r"stash (?:drop|clear)", "branch " + _FORCED.format("[DMCf]", "f"), "checkout " + _FORCED.format("f", r"(?:f|\Z| )"),
    r"checkout (?:.* )?(?:\.|:\S*|\S*/)(?: |\Z)", "checkout-index " + _FORCED.format("[fa]", "[fa]"), r"update-ref (?:.* )?-d",
    r"checkout (?!(?:.* )?(?:-[bBt]|--orphan|--track|--detach))(?:-\S+ )*[^- ]\S* +[^- ]", "switch " + _FORCED.format("f",
    "(?:f|di)"),
    r"reflog (?:expire|delete)", r"gc (?:.* )?--p", r"worktree (?:remove|prune)", "tag " + _FORCED.format("[df]", "[df]"),
    "rm " + _FORCED.format("[rf]", "f"), r"remote (?:remove|rm)",
)  # fmt: skip
_PUBLISHING = {
    "npm": "publish unpublish deprecate login adduser token access owner", "pnpm": "publish", "yarn": "publish npm",
    "cargo": "publish login owner yank", "poetry": "publish", "uv": "publish", "hatch": "publish", "flit": "publish",
    "gem": "push",
    "docker": "push login system rm rmi volume", "mvn": "deploy", "gradle": "publish", "helm": "install upgrade uninstall push",
    "gh": "release pr repo api secret workflow gist auth", "terraform": "apply destroy", "vsce": "publish",
    "kubectl": "apply delete create replace patch scale drain exec",
}  # fmt: skip
_ALWAYS = word_set(
    "dd mkfs shred truncate shutdown reboot halt poweroff crontab systemctl iptables nft kill pkill killall twine wipefs fdisk "
    "parted mkswap swapoff useradd usermod userdel passwd chpasswd visudo"
)
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


def floor_reason(command: SimpleCommand) -> str:
    """Return why a command is below the hard floor, else an empty string."""
    name, rest = command.program.rpartition("/")[2], command.words[1:]
    if name == "rm":
        return _removal(command)
    if name == "git":
        words = re.sub(r"\A(?:-[Cc] \S+ |-\S+ )*", "", " ".join(rest))
        is_hit = any(re.match(each, words, re.DOTALL) for each in _GIT)
        return f"git {words.partition(' ')[0]} discards work or publishes it" if is_hit else ""
    if name in _ALWAYS or name.startswith("mkfs."):
        return f"{name} is hard to take back"
    if name in ("chmod", "chown", "chgrp") and _is_recursive(rest):
        return f"{name} -R changes a whole tree"
    found = [word for word in rest if word in _PUBLISHING.get(name, "").split()]
    return f"{name} {found[0]} affects other machines" if found else ""


def _removal(command: SimpleCommand) -> str:
    places = [i for i, word in enumerate(command.words) if i and not word.startswith("-")]
    if any(command.globs[i][:1] in ("*", "?") for i in places):
        return "rm with a pattern removes whatever it meets"
    is_made = bool(places) and all(_is_made(command.words[i]) for i in places)
    return "rm -r removes whole folders" if _is_recursive(command.words[1:]) and not is_made else ""


def _is_made(path: str) -> bool:
    """Tell whether a path inside the workspace is something that a build makes again."""
    parts = path.removeprefix("./").rstrip("/").split("/")
    return not path.startswith(("/", "~")) and ".." not in parts and _MADE.match(parts[-1]) is not None


def _is_recursive(words: tuple[str, ...]) -> bool:
    return any(re.match(r"-[A-Za-z]*[rR]|--r", word) for word in words)
