"""Command lines whose words are fixed before they run: what a rule may allow where files can be changed.

A small part of bash, read by its own rules: words with quotes and escapes, file patterns, `;`, `&&`, `||`, `|`, line ends and
redirections to /dev/null.  Other bash syntax is not understood here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from lmtui.core import globs
from lmtui.core.shell.command import MAX_COMMANDS, MAX_WORDS, NotUnderstood, SimpleCommand, word_set

_PIECE = re.compile(
    r"(?P<plain>(?:[A-Za-z0-9_./:,@%+=^#~-]|[^\x00-\x7f])+|\$(?=[\s;|&]|\Z))|'(?P<single>[^']*)'"
    r"|\"(?P<double>(?:[^\"\\$`]|\\.|\$\?|\$(?=[ |)/\]\"]))*)\"|\\(?P<escaped>.)|(?P<status>\$\?)|(?P<any>\*|\?)"
    r"|(?P<one>\[[!^]?[A-Za-z0-9_.-]+\])|(?P<brace>\{[A-Za-z0-9/_-]*\})",
    re.DOTALL,
)
_BLANKS = re.compile(r"(?:[ \t]|\\\n)*(?:(?<=[\s;|&])#[^\n]*|\A#[^\n]*)?")
_OPERATOR = re.compile(r"&&|\|\|?(?!&)|;|\n")
_REDIRECTION = re.compile(r"(?:(?:[012]?>>?|&>>?)[ \t]*/dev/null|[12]?>&[12]|<[ \t]*/dev/null)(?=[\s;|&]|\Z)")
_ALONE = re.compile(r"[!\[\]](?=[\s;|&]|\Z)")
_MAX_PIECES = 100
_TILDE = re.compile(r"(?:\A|[:=])~")
_PROGRAM = re.compile(r"[A-Za-z0-9_./+-][A-Za-z0-9_./+@-]*|:|\[")
_KEYWORDS = word_set("if then else elif fi case esac for select while until do done in function coproc [[ ]] { } !")
_NAMES = {"$": "an expansion", "`": "a substitution", "&": "a background job", "<": "a redirection", ">": "a redirection",
          "{": "braces", "[": "brackets other than a simple set", "'": "an unclosed quote"}  # fmt: skip


class Word(NamedTuple):
    """What a word stands for: `text`, and where the shell would expand it to file names, the glob of them in `pattern`."""

    text: str
    pattern: str = ""


def simple_commands(source: str) -> Iterator[SimpleCommand]:
    """Yield the commands of a text.

    Raises:
        NotUnderstood: something in it is not fixed before it runs, or belongs to no simple command.
    """
    words: list[Word] = []
    at = start = end = commands = count = 0
    operator = ";"
    while True:
        at = _after_blanks(source, at)
        found = _OPERATOR.match(source, at)
        if found or at == len(source):
            if words:
                commands += 1
                yield _command(source[start:end], words)
            elif (found and found[0] != "\n") or (not found and operator in ("&&", "||", "|")):
                raise NotUnderstood("an operator has no command before or after it")
            if found is None:
                break
            operator = operator if found[0] == "\n" and not words else found[0]
            words, at = [], found.end()
        elif redirection := _REDIRECTION.match(source, at):
            at = end = redirection.end()
        else:
            word, end = read_word(source, at)
            start, at = (at if not words else start), end
            words, count = [*words, word], count + 1
        if commands > MAX_COMMANDS or count > MAX_WORDS:
            raise NotUnderstood(f"it has more than {MAX_COMMANDS} commands or {MAX_WORDS} words")
    if not commands:
        raise NotUnderstood("it holds no command")


def _after_blanks(source: str, at: int) -> int:
    match = _BLANKS.match(source, at)
    return match.end() if match else at


def read_word(source: str, at: int) -> tuple[Word, int]:
    """Read the word that begins at a place, and return where it ends.

    Raises:
        NotUnderstood: it is not fixed before the command runs, or its meaning depends on the shell's state.
    """
    if alone := _ALONE.match(source, at):
        return Word(alone[0]), alone.end()
    if source[at] in "&#|":
        raise NotUnderstood(f"it uses {_NAMES.get(source[at], source[at])}")
    pieces: list[tuple[str, str]] = []
    while at < len(source) and source[at] not in " \t\n;|&":
        if len(pieces) > _MAX_PIECES:
            raise NotUnderstood("one of its words has too many parts")
        match = _PIECE.match(source, at)
        if match is None:
            raise NotUnderstood(f"it uses {_NAMES.get(source[at], source[at])}")
        kind = match.lastgroup or ""
        piece = "0" if kind == "status" else _double_quoted(match[kind]) if kind == "double" else match[kind]
        pieces.append((kind, "" if kind == "escaped" and piece == "\n" else piece))
        at = match.end()
    if _TILDE.search("".join(piece if kind == "plain" else "\0" for kind, piece in pieces)):
        raise NotUnderstood("it uses ~ for a folder")
    is_glob = any(kind in ("any", "one") for kind, _ in pieces)
    patterns = (piece if kind == "any" else "?" if kind == "one" else globs.escape(piece) for kind, piece in pieces)
    return Word("".join(piece for _, piece in pieces), "".join(patterns) if is_glob else ""), at


def _double_quoted(inner: str) -> str:
    return re.sub(r"\\([\"\\$`])|\\\n|\$\?", lambda match: match[1] or ("0" if match[0] == "$?" else ""), inner)


def _command(text: str, words: list[Word]) -> SimpleCommand:
    name = words[0].text
    if name in _KEYWORDS or words[0].pattern or _PROGRAM.fullmatch(name) is None:
        raise NotUnderstood("a program's name is not a plain word")
    return SimpleCommand(text, tuple(word.text for word in words), tuple(word.pattern for word in words))
