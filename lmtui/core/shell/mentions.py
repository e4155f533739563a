"""What forbids looks here: every command that a text may run, in any dress, and whether some of it stays unclear.

Generous on purpose: substitutions, wrappers, quoted scripts, escapes and paths are all looked through.  Nothing that allows
may use this.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from lmtui.core import globs
from lmtui.core.shell.grammar import commands_anywhere, parse
from lmtui.core.shell.interpreters import is_interpreter
from lmtui.core.shell.matching import pattern_words
from lmtui.core.shell.options import word_set
from lmtui.core.shell.tools import NEVER_BROAD

_MAX_DEPTH = 4
_MAX_CHARS = 16 * 1024
_MAX_WORDS = 48
_MAX_MOVES = 4
_MOST_PLACES = 40_000
_MOVERS = frozenset({"cd", "pushd", "-C", "--chdir"})
_SEGMENT_BREAK = re.compile(r"[;&|\n\r(){}`<>]+|\$\(")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")
_KEYWORDS = word_set("then else elif do if while until time ! { ( coproc function")
_CARRIERS = NEVER_BROAD | word_set(
    "command nohup nice timeout time stdbuf find fd git tar rg sed awk uv poetry pipenv make docker"
)
_ANSI_C = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_EXPANSION = re.compile(r"[$`]")
_PIECES = re.compile(r"[\s;|&<>()`'\"={},:@]+")
_DYNAMIC = re.compile(r"[$`*?\[{~]")
_LONG_LETTERS = {"--recursive": "r", "--force": "f", "--all": "a", "--verbose": "v", "--quiet": "q"}


@lru_cache(maxsize=256)
def mentioned(text: str) -> frozenset[tuple[str, ...]]:
    """Return the words of every command that a text may run; the program without its folder."""
    return frozenset(_mentioned(text, 0))


def fits(pattern: str, text: str) -> bool:
    """Tell whether a rule that forbids (or asks) is about something in a text.  Its words are a beginning: more may follow."""
    if pattern == "*" or globs.matches(pattern, text):
        return True
    wanted = pattern_words(pattern)
    return any(_begins(wanted, words) for words in mentioned(text))


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
    if "$" in text[_MAX_CHARS:] or "`" in text[_MAX_CHARS:]:
        return True  # too long to be looked through
    if any(_is_dynamic(words, wanted) for words in commands_anywhere(text[:_MAX_CHARS])):
        return True
    return any(_holds(_without_quotes(text), names) for names in wanted)


def _plain_names(pattern: str) -> tuple[str, ...]:
    """Return the words of a rule that are no options and no wildcards."""
    words = ((globs.literal(word.rstrip("*")) or "") for word in pattern_words(pattern))
    return tuple(word for word in words if word and not word.startswith("-"))


def _holds(text: str, names: tuple[str, ...]) -> bool:
    return all(re.search(rf"(?<![A-Za-z0-9_-]){re.escape(name)}(?![A-Za-z0-9_-])", text) for name in names)


def paths_mentioned(text: str) -> frozenset[str]:
    """Return every word of a text that could be a path, also values behind `=`, as seen from the workspace.

    Ways round are made straight: `a/../b` and `/workspace/b` are `b`, and behind `cd a` a word `b` is `a/b` too, unless
    that would be too many (`has_more_paths`).
    """
    return _places(text)[0]


def has_more_paths(text: str) -> bool:
    """Tell whether a text goes to so many folders that not all of the paths it may mean are looked at."""
    return _places(text)[1]


@lru_cache(maxsize=256)
def _places(text: str) -> tuple[frozenset[str], bool]:
    words = {word for command in mentioned(text) for word in command[1:]}
    words |= {piece for word in (*words, _without_quotes(text)) for piece in _PIECES.split(word)}
    plain = {straight(word) for word in words if word}
    found = {*plain, *(word.removeprefix("./") for word in words if word)}
    steps = {straight(after) for command in mentioned(text) for word, after in pairwise(command) if word in _MOVERS}
    folders = steps
    for _ in range(min(len(steps), _MAX_MOVES) - 1):
        if len(folders) * len(steps) > _MOST_PLACES:
            return frozenset(found - {""}), True
        folders = folders | {straight(f"{one}/{other}") for one in folders for other in steps}
    if len(folders) * (len(plain) + len(steps)) > _MOST_PLACES:
        return frozenset(found - {""}), True
    found |= folders
    found |= {straight(f"{folder}/{word}") for folder in folders for word in (*plain, *steps)}
    return frozenset(found - {""}), False


def straight(path: str) -> str:
    """Return a path without detours, relative to the workspace; what leads out of a folder is taken to lead into it."""
    normal = posixpath.normpath(path)
    while normal.startswith("../"):
        normal = normal[3:]
    normal = normal.removeprefix("//").removeprefix("/") if normal.startswith("/") else normal
    return normal.removeprefix("workspace/") if path.startswith("/") else normal


def _mentioned(text: str, depth: int) -> Iterator[tuple[str, ...]]:
    text = text[:_MAX_CHARS]
    raw = [each.words for each in parse(text).commands]
    for form in {text, text.replace("\\\n", "")}:
        raw += commands_anywhere(form)
        raw += [tuple(_without_quotes(segment).split()) for segment in _SEGMENT_BREAK.split(form)]
    for words in raw:
        plain = [_without_quotes(word) for word in words]
        while plain and (not plain[0] or _ASSIGNMENT.match(plain[0]) or plain[0] in _KEYWORDS):
            del plain[0]
        if plain:
            yield from _dressed(tuple(plain))
        if depth < _MAX_DEPTH:
            for word in words:
                yield from _scripts(_unquoted(word), text, depth)
                yield from _scripts(_unquoted(word.partition("=")[2]), text, depth)


def _scripts(inner: str, text: str, depth: int) -> Iterator[tuple[str, ...]]:
    """Yield the commands in a quoted word, which may be a script for another shell."""
    if inner != text and re.search(r"[\s;&|(]", inner):
        yield from _mentioned(inner, depth + 1)


def _dressed(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield a command, and for one that runs others all that may be the other."""
    first = words[0].rpartition("/")[2]
    yield (first, *words[1:])
    if _carries(first):
        for i in range(1, min(len(words), _MAX_WORDS)):
            name = words[i].rpartition("/")[2]
            if name and not name.startswith("-"):
                yield (name, *words[i + 1 : i + _MAX_WORDS])


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


def _begins(wanted: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """Tell whether a command begins with what a rule says, whatever options stand between, in whatever order or cluster."""
    wanted = wanted[:-1] if wanted and wanted[-1].strip("*") == "" else wanted
    if not wanted:
        return True
    if not globs.matches(_word_glob(wanted[0]), words[0]):
        return False
    letters, longs, operands = _sorted(words[1:])
    for each in wanted[1:]:
        if each.startswith("-") and not _has_option(each, letters, longs):
            return False
    names = [each for each in wanted[1:] if not each.startswith("-")]
    return any(_follows(names, sequence) for sequence in operands)


def _word_glob(word: str) -> str:
    return word.rstrip("*") if len(word) > 1 and re.fullmatch(r"[A-Za-z0-9_.-]+\*+", word) else word


def _sorted(words: tuple[str, ...]) -> tuple[set[str], set[str], list[list[str]]]:
    """Return one-letter options, long options, and the operands, with and without words that may be an option's value."""
    letters: set[str] = set()
    longs: set[str] = set()
    every: list[str] = []
    behind: list[str] = []
    last = ""
    for word in words:
        if word.startswith("--"):
            longs.add(word.partition("=")[0])
            letters |= {letter for long, letter in _LONG_LETTERS.items() if len(word) > 3 and long.startswith(word)}
        elif word.startswith("-"):
            letters |= set(word[1:].lower() if word[1:].lower() in ("r", "rf", "fr") else word[1:])
            longs.add(word)
        else:
            every.append(word)
            if not last.startswith("-") or "=" in last:
                behind.append(word)
        last = word
    return letters, longs, [every, behind]


def _has_option(wanted: str, letters: set[str], longs: set[str]) -> bool:
    if wanted.startswith("--"):
        name = wanted.rstrip("*").partition("=")[0]
        letter = _LONG_LETTERS.get(name, "\0")
        return letter in letters or any(len(long) > 3 and (name.startswith(long) or long.startswith(name)) for long in longs)
    return wanted in longs or set(wanted[1:].rstrip("*")) <= letters


def _follows(names: list[str], operands: list[str]) -> bool:
    if len(operands) < len(names):
        return False
    return all(globs.matches(each, word) for each, word in zip(names, operands, strict=False))


def _without_quotes(text: str) -> str:
    text = _ANSI_C.sub(lambda match: _decoded(match[1]), text)
    return re.sub(r"\\\n|[\\'\"]", "", text)


def _decoded(inner: str) -> str:
    r"""Return what `$'…'` stands for (`\x72`, `\162`, `\u0072`, `\n`)."""

    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "xuU" and len(code) > 1:
            return chr(int(code[1:], 16) % 0x110000)
        return chr(int(code, 8)) if code[0] in "01234567" else {"n": "\n", "t": "\t"}.get(code, code)

    return re.sub(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|.)", one, inner, flags=re.DOTALL)


def _unquoted(word: str) -> str:
    """Return a word as the program gets it, so far as quotes go; what is inside stays a script with its blanks."""
    decoded = _ANSI_C.sub(lambda match: _decoded(match[1]), word)
    if len(decoded) > 1 and decoded[0] == decoded[-1] and decoded[0] in "'\"":
        decoded = decoded[1:-1]
    return re.sub(r'\\(["\\$`])', r"\1", decoded)
