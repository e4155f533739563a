"""Every command that a text may run, in any form, and every path that it may name, for deny rules.

Generous on purpose: substitutions, wrappers, quoted scripts and escapes are looked through; if a text is too long for the
grammar, its words are still checked, in linear time.  Nothing that allows may use this.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from lmtui.core import globs, path_patterns
from lmtui.core.shell.command import word_set
from lmtui.core.shell.grammar import has_tree, outline, parse, unquoted
from lmtui.core.shell.matching import pattern_words
from lmtui.core.shell.review import is_interpreter
from lmtui.core.shell.tools import NEVER_BROAD

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
    if pattern == "*" or globs.matches(pattern, text):
        return True
    wanted = pattern_words(pattern)
    wanted = wanted[:-1] if wanted and wanted[-1].strip("*") == "" else wanted
    if not wanted:
        return True
    first = _word_glob(wanted[0])
    if (name := globs.literal(first)) and name not in _plain_text(text):
        return False
    found = mentioned(text)
    names = [first] if globs.literal(first) else [name for name in found if globs.matches(first, name)]
    return any(_follows(wanted[1:], words[1:]) for name in names for words in found.get(globs.literal(name) or name, ()))


def is_unclear(text: str, patterns: tuple[str, ...]) -> bool:
    """Tell whether a text may run what one of these rules is about without showing it.

    That is where a program's name, or the words of a program that a rule names, are only known when it runs, and where all
    words of a rule stand in something that is not understood: a script in another language, a command with broken grammar.
    """
    wanted = [names for pattern in patterns if (names := _plain_names(pattern))]
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


def _paths(text: str, hint: str) -> Iterator[str]:
    """Yield every word of a text that could be a path and has `hint` in it, without detours, as seen from the workspace."""
    for word in _words(text):
        if hint in word:
            yield straight(word)


def names_path(pattern: str, text: str) -> bool:
    """Tell whether a text names a path that a pattern matches, or its folder (`secrets` for `secrets/**`)."""
    hint = _hint(pattern, first=False)
    return any(path_patterns.matches(pattern, f"{path}/\0", covers_below=True) for path in _paths(text, hint))


def leads_to_path(pattern: str, text: str) -> bool:
    """Tell the same, including all parent folders."""
    return any(path_patterns.leads_to(pattern, path) for path in _paths(text, _hint(pattern, first=True)))


def straight(path: str) -> str:
    """Return a path without detours, relative to the workspace; what leads out of a folder is taken to lead into it."""
    normal = posixpath.normpath(_PROC.sub("", path) if path.startswith("/proc") else path)
    while normal.startswith("../"):
        normal = normal[3:]
    return normal.lstrip("/").removeprefix("workspace/")


def _hint(pattern: str, *, first: bool) -> str:
    """Return characters that are in each word which names what a pattern is about, or with `first` a folder on the way."""
    if "{" in pattern or "\\" in pattern:
        return ""
    parts = [part for part in pattern.split("/") if part != "**"]
    needed = parts[:1] if first or len(parts) == 1 else parts[:-1]
    return max((run for part in needed for run in re.split(r"[*?]|\[[^\]]*\]", part)), key=len, default="")


@lru_cache(maxsize=16)
def _plain_text(text: str) -> str:
    return _without_quotes(text)


@lru_cache(maxsize=16)
def _words(text: str) -> frozenset[str]:
    """Return the words of a text, as wholes, in pieces, and as the grammar reads them (a blank in quotes is part of a word)."""
    plain = _plain_text(text)
    found = {*plain.split(), *_PIECES.split(plain)}
    if has_tree(text):
        found.update(unquoted(word) for command in outline(text).commands for word in command)
    return frozenset(found - {""})


def _plain_names(pattern: str) -> tuple[str, ...]:
    """Return the words of a rule that are no options and no wildcards."""
    words = ((globs.literal(word.rstrip("*")) or "") for word in pattern_words(pattern))
    return tuple(word for word in words if word and not word.startswith("-"))


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
    """Tell whether a program may run what stands in its words."""
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


def _word_glob(word: str) -> str:
    return word.rstrip("*") if len(word) > 1 and re.fullmatch(r"[A-Za-z0-9_.-]+\*+", word) else word


def _follows(wanted: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """Tell whether words begin with what a rule says, whatever options stand between, in whatever order or cluster."""
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
        len(operands) >= len(names) and all(globs.matches(each, word) for each, word in zip(names, operands, strict=False))
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
    r"""Return what `$'…'` stands for (`\x72`, `\162`, `\u0072`, `\n`)."""
    return (
        re.sub(r"\\(?!u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{2}|[0-7]{1,3}|[nt\\'])", "", inner)
        .encode("latin-1", "backslashreplace")
        .decode("unicode_escape", "replace")
    )
