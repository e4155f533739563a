"""Every command that a text may run, in any form, and every path that it may name, for deny rules.

Generous on purpose: substitutions, wrappers, quoted scripts and escapes are looked through; if a text is too long for the
grammar, its words are still checked, in linear time.  Nothing that allows may use this.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from lmtui.core.permissions import path_patterns
from lmtui.core.permissions.rules import escape_glob, literal_of, matches_glob
from lmtui.core.permissions.shell_grammar import SimpleCommand, has_tree, outline, parse, unquoted, word_set
from lmtui.core.permissions.shell_review import NEVER_BROAD, is_interpreter, layers, risks_of

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
    """Match a rule against all words of a command; each that makes it do more has to be named without a wildcard."""
    words, wanted = command.words, list(pattern_words(pattern))
    is_open = bool(wanted) and wanted[-1].endswith("*") and not wanted[-1].endswith("\\*")
    if is_open:
        wanted[-1:] = _before_star(wanted)
    if len(words) < len(wanted) or (len(words) > len(wanted) and not is_open):
        return False
    if not all(map(matches_glob, wanted, words)):
        return False
    if len(words) == len(wanted) and all(map(literal_of, pattern_words(pattern))):
        return True  # every word is named: the user knows
    if any(map(_is_below_floor, layers(command))):
        return False
    named = {i for i, each in enumerate(wanted) if literal_of(each) is not None}
    return named.issuperset(risks_of(command))


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
        return match[0] if match[0][0] == "\\" else escape_glob(match[1] or match[2] or "")

    return tuple(quoted.sub(read, word) for word in words)


def _is_below_floor(command: SimpleCommand) -> bool:
    """Tell whether a command is hard to take back, or affects other machines: no wildcard covers it."""
    name, rest = command.program.rpartition("/")[2], command.words[1:]
    is_recursive = any(re.match(r"-[A-Za-z]*[rR]|--r", word) for word in rest)
    if name == "rm":
        places = [i for i, word in enumerate(command.words) if i and not word.startswith("-")]
        is_made = bool(places) and all(_is_made(command.words[i]) for i in places)
        return any(command.globs[i][:1] in ("*", "?") for i in places) or (is_recursive and not is_made)
    if name == "git":
        words = re.sub(r"\A(?:-[Cc] \S+ |-\S+ )*", "", " ".join(re.sub(r"\s|\A\Z", "_", word) for word in rest))
        return any(re.match(each, words, re.DOTALL) for each in _GIT)
    if name in _ALWAYS or name.startswith("mkfs.") or (is_recursive and re.fullmatch("chmod|chown|chgrp", name)):
        return True
    return not word_set(_PUBLISHING.get(name, "")).isdisjoint(rest)


def _is_made(path: str) -> bool:
    """Tell whether a path inside the workspace is something that a build makes again."""
    parts = path.removeprefix("./").rstrip("/").split("/")
    return not path.startswith(("/", "~")) and ".." not in parts and _MADE.match(parts[-1]) is not None


_MAX_DEPTH = 4
_MAX_WORDS = 48
_SEGMENT_BREAK = re.compile(r"[;&|\n\r(){}`<>]+|\$\(")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")
_KEYWORDS = word_set("then else elif do if while until time ! { ( coproc function")
_CARRIERS = NEVER_BROAD | word_set(
    "command nohup nice timeout time stdbuf find fd git tar rg sed awk uv poetry pipenv make docker"
)
_ANSI_C = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_EXPANSION = re.compile(r"[$`]")
_PIECES = re.compile(r"[\s;|&<>()`'\"={},:@]+")
_PROC = re.compile(r"\A/proc/(?:self|\d+)/(?:cwd|root/workspace)/")
_BREAK = re.compile(r"[\s;|&(]")
_QUOTE = re.compile(r"['\"\\]")
_DYNAMIC = re.compile(r"[$`*?\[{~]")
_LONG_LETTERS = {"--recursive": "r", "--force": "f", "--all": "a", "--verbose": "v", "--quiet": "q"}


@lru_cache(maxsize=256)
def mentioned(text: str) -> Mapping[str, tuple[tuple[str, ...], ...]]:
    """Return the words of every command that a text may run, by the program's name without its folder."""
    found: dict[str, dict[tuple[str, ...], None]] = {}
    for words in _mentioned(text, 0) if has_tree(text) else _in_segments(text):
        found.setdefault(words[0], {})[words] = None
    return {name: tuple(each) for name, each in found.items()}


def fits(pattern: str, text: str) -> bool:
    """Tell whether a rule that forbids (or asks) is about something in a text.  Its words are a beginning: more may follow."""
    if pattern == "*" or matches_glob(pattern, text):
        return True
    wanted = pattern_words(pattern)
    wanted = wanted[:-1] if wanted and wanted[-1].strip("*") == "" else wanted
    if not wanted:
        return True
    first = wanted[0].rstrip("*") if re.fullmatch(r"[A-Za-z0-9_.-]+\*+", wanted[0]) else wanted[0]
    if (name := literal_of(first)) and name not in _plain_text(text):
        return False
    found = mentioned(text)
    names = [first] if literal_of(first) else [name for name in found if matches_glob(first, name)]
    return any(_follows(wanted[1:], words[1:]) for name in names for words in found.get(literal_of(name) or name, ()))


def is_unclear(text: str, patterns: tuple[str, ...]) -> bool:
    """Tell whether a text may run what one of these rules is about without showing it.

    That is where a program's name, or the words of a program that a rule names, are only known when it runs, and where all
    words of a rule are in something that is not understood: a script in another language, a command with broken grammar.
    """
    literals = ([literal_of(word.rstrip("*")) or "-" for word in pattern_words(pattern)] for pattern in patterns)
    wanted = [names for words in literals if (names := tuple(word for word in words if word[0] != "-"))]
    parsed = parse(text)
    if parsed.problem == "":
        if not any(_carries(each.program) for each in parsed.commands):
            return False
        behind = " ".join(_without_quotes(" ".join(each.words[1:])) for each in parsed.commands)  # `echo rm x | sh` too
        return any(_holds(behind, names) for names in wanted)
    if not has_tree(text) and _EXPANSION.search(text):
        return True
    if any(_is_dynamic(words, wanted) for words in outline(text).commands):
        return True
    return any(_holds(_plain_text(text), names) for names in wanted)


def names_path(pattern: str, text: str) -> bool:
    """Tell whether a text names a path that a pattern matches, or its folder (`secrets` for `secrets/**`)."""
    hint = _hint(pattern)
    paths = (straight(word) for word in _words(text) if hint in word)
    return any(path_patterns.matches(pattern, f"{path}/\0", covers_below=True) for path in paths)


def straight(path: str) -> str:
    """Return a path without detours, relative to the workspace; what leads out of a folder is taken to lead into it."""
    normal = posixpath.normpath(_PROC.sub("", path) if path.startswith("/proc") else path)
    while normal.startswith("../"):
        normal = normal[3:]
    return normal.lstrip("/").removeprefix("workspace/")


def _hint(pattern: str) -> str:
    """Return characters that are in each word which names what a pattern is about."""
    if "{" in pattern or "\\" in pattern:
        return ""
    parts = [part for part in pattern.split("/") if part != "**"]
    needed = parts[:-1] or parts
    return max((run for part in needed for run in re.split(r"[*?]|\[[^\]]*\]", part)), key=len, default="")


@lru_cache(maxsize=16)
def _plain_text(text: str) -> str:
    return _without_quotes(text)


@lru_cache(maxsize=16)
def _words(text: str) -> frozenset[str]:
    """Return the words of a text, whole and in pieces, and as the grammar reads them (with blanks in quotes)."""
    plain = _plain_text(text)
    found = {*plain.split(), *_PIECES.split(plain)}
    if has_tree(text):
        found.update(unquoted(word) for command in outline(text).commands for word in command)
    return frozenset(found - {""})


def _holds(text: str, names: tuple[str, ...]) -> bool:
    return all(name in text and re.search(rf"(?<![A-Za-z0-9_-]){re.escape(name)}(?![A-Za-z0-9_-])", text) for name in names)


def _in_segments(text: str) -> Iterator[tuple[str, ...]]:
    for segment in set(_SEGMENT_BREAK.split(_plain_text(text))):
        yield from _undressed(segment.split(maxsplit=_MAX_WORDS))


def _mentioned(text: str, depth: int) -> Iterator[tuple[str, ...]]:
    raw = [each.words for each in parse(text).commands]
    for form in {text, text.replace("\\\n", "")}:
        raw += outline(form).commands
        raw += [tuple(_without_quotes(segment).split()) for segment in _SEGMENT_BREAK.split(form)]
    plain = {word: _without_quotes(word) for word in {word for words in raw for word in words}}
    for words in dict.fromkeys(map(tuple, raw)):
        yield from _undressed([plain[word] for word in words])
    quoted = (word for word in plain if _BREAK.search(word))
    glued = r"\A[^'\"]*"  # `-S'rm x'`, `--command='rm x'`
    scripts = {unquoted(_ansi_c(each)) for word in quoted for each in (word, word.partition("=")[2], re.sub(glued, "", word))}
    for script in scripts - {text}:  # for another shell
        yield from _mentioned(script, depth + 1) if depth < _MAX_DEPTH and _QUOTE.search(script) else _in_segments(script)


def _undressed(words: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield a command, and for one that runs others all that may be the other."""
    at = 0
    while at < len(words) and (not words[at] or _ASSIGNMENT.match(words[at]) or words[at] in _KEYWORDS):
        at += 1
    if at == len(words):
        return
    first = words[at].rpartition("/")[2]
    yield (first, *words[at + 1 :])
    for i in range(at + 1, min(len(words), at + _MAX_WORDS)) if _carries(first) else ():
        name = words[i].rpartition("/")[2]
        if name and not name.startswith("-"):
            yield (name, *words[i + 1 : i + _MAX_WORDS])


@lru_cache(maxsize=1024)
def _carries(program: str) -> bool:
    """Tell whether a program may run what is in its words."""
    name = program.rpartition("/")[2]
    return name in _CARRIERS or is_interpreter(name)


def _is_dynamic(words: tuple[str, ...], wanted: list[tuple[str, ...]]) -> bool:
    """Tell whether what a command runs is only known when it runs."""
    names = [word for word in words if not _ASSIGNMENT.match(word)]
    if not names:
        return False
    if names[0].startswith("$'") or _DYNAMIC.search(re.sub(r"'[^']*'", "", names[0])):
        return True
    program = _without_quotes(names[0]).rpartition("/")[2]
    is_asked_about = _carries(program) or any(program == each[0] for each in wanted)
    return is_asked_about and any(_EXPANSION.search(re.sub(r"'[^']*'", "", word)) for word in names[1:])


def _follows(wanted: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """Tell whether words begin with what a rule says, whatever options are between, in whatever order or cluster."""
    options = [word for word in words if word.startswith("-")]
    longs = {word.partition("=")[0] for word in options}
    letters = {letter for word in options if not word.startswith("--") for letter in word[1:]}
    letters |= {"r"} if any(re.fullmatch("-[rfRF]+", word) for word in options) and "R" in letters else set()
    letters |= {each for long, each in _LONG_LETTERS.items() for word in longs if len(word) > 3 and long.startswith(word)}
    if not all(_has_option(each, letters, longs) for each in wanted if each.startswith("-")):
        return False
    names = [each for each in wanted if not each.startswith("-")]
    every = [word for word in words if not word.startswith("-")]
    # a word after an option may be its value
    behind = [
        word for i, word in enumerate(words) if not word.startswith("-") and not (i and re.fullmatch(r"-[^=]*", words[i - 1]))
    ]
    return any(
        len(operands) >= len(names) and all(matches_glob(each, word) for each, word in zip(names, operands, strict=False))
        for operands in (every, behind)
    )


def _has_option(wanted: str, letters: set[str], longs: set[str]) -> bool:
    if wanted.startswith("--"):
        name = wanted.rstrip("*").partition("=")[0]
        letter = _LONG_LETTERS.get(name, "\0")
        return letter in letters or any(len(long) > 3 and (name.startswith(long) or long.startswith(name)) for long in longs)
    return wanted in longs or set(wanted[1:].rstrip("*")) <= letters


def _without_quotes(text: str) -> str:
    if not _QUOTE.search(text):
        return text
    return re.sub(r"\\\n|[\\'\"]", "", _ansi_c(text))


def _ansi_c(text: str) -> str:
    return _ANSI_C.sub(lambda match: _decoded(match[1]), text) if "$'" in text else text


@lru_cache(maxsize=1024)
def _decoded(inner: str) -> str:
    r"""Return what `$'…'` means (`\x72`, `\162`, `\u0072`, `\n`)."""
    return (
        re.sub(r"\\(?!u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{2}|[0-7]{1,3}|[nt\\'])", "", inner)
        .encode("latin-1", "backslashreplace")
        .decode("unicode_escape", "replace")
    )
