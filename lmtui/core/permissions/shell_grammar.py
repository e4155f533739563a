"""The only module that uses the bash grammar (tree-sitter-bash): text in, our own values out."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lmtui.core.permissions.rules import escape_glob
from lmtui.core.sanitize import escape_invisible

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


MAX_BYTES = 4096
MAX_COMMANDS = 20
MAX_WORDS = 200
_MAX_PIPES = 200


def word_set(text: str) -> frozenset[str]:
    """Return the blank-separated words of a text: how the tables of programs and options are written."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One program with its words.  `text` is the command as written, `words` are literal, quotes and escapes resolved.

    `globs` runs next to `words`: the pattern of a word that the shell would expand to file names, empty for the others.
    """

    text: str
    words: tuple[str, ...]
    globs: tuple[str, ...]

    @property
    def program(self) -> str:
        """Return the first word."""
        return self.words[0] if self.words else ""

    def from_word(self, index: int) -> SimpleCommand:
        """Return the command that begins at a later word (what a wrapper runs)."""
        return SimpleCommand(self.text, self.words[index:], self.globs[index:])


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    """A whole command line: its simple commands in order, or in `problem` why it was not understood (then it has none)."""

    commands: tuple[SimpleCommand, ...] = ()
    problem: str = ""


class NotUnderstood(Exception):
    """A command uses something that is not on the list of what may pass unasked; the text says what."""


def is_small(text: str) -> bool:
    """Tell whether the grammar can read a text within a few milliseconds."""
    return len(text) <= MAX_BYTES and len(text.encode("utf-8", "replace")) <= MAX_BYTES and text.count("|") <= _MAX_PIPES


def objection(text: str) -> str:
    """Return why a text is not even given to the grammar, else an empty string."""
    if not is_small(text):
        return f"it is longer than {MAX_BYTES} bytes or has more than {_MAX_PIPES} pipes"
    for char in text:
        if char in "\n\t" or " " <= char <= "~":
            continue
        if not char.isprintable() or char == "\u2800" or escape_invisible(char) != char:
            return f"it holds the character U+{ord(char):04X}"
    return "" if text.strip() else "it is empty"


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
    """What a word means: `text`, and where the shell would expand it to file names, the glob of them in `pattern`."""

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
        blanks = _BLANKS.match(source, at)
        at = blanks.end() if blanks else at
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
    patterns = (piece if kind == "any" else "?" if kind == "one" else escape_glob(piece) for kind, piece in pieces)
    return Word("".join(piece for _, piece in pieces), "".join(patterns) if is_glob else ""), at


def _double_quoted(inner: str) -> str:
    return re.sub(r"\\([\"\\$`])|\\\n|\$\?", lambda match: match[1] or ("0" if match[0] == "$?" else ""), inner)


def _command(text: str, words: list[Word]) -> SimpleCommand:
    name = words[0].text
    if name in _KEYWORDS or words[0].pattern or _PROGRAM.fullmatch(name) is None:
        raise NotUnderstood("a program's name is not a plain word")
    return SimpleCommand(text, tuple(word.text for word in words), tuple(word.pattern for word in words))


_MAX_NODES = 1500
_PARSING = threading.Lock()
_WORDS = ("word", "number", "raw_string", "string", "concatenation")
_QUOTE = re.compile(r"['\"\\]")
_QUOTED = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\\n|\\(.)", re.DOTALL)
_MISSING = "the shell grammar (tree-sitter-bash) cannot be loaded, or the command has too many parts"
_LETTERS = 0xC0
_WIDE, _NARROWED = re.compile(r"[^\x00-\x7f]"), re.compile(r"[\xc0-\xdf]{5}")


class Outline(NamedTuple):
    """What a text would run and write as a whole, read generously: each command's raw words, also in substitutions and errors.

    `targets` are the files that redirections write, `sources` those that they read and loops name.  `problem` says why
    it is not understood.
    """

    commands: tuple[tuple[str, ...], ...] = ()
    targets: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    problem: str = ""


def has_tree(text: str) -> bool:
    """Tell whether the grammar can look through a text within a few milliseconds."""
    root = _tree(text) if is_small(text) else None
    return root is not None and root.descendant_count <= _MAX_NODES


@lru_cache(maxsize=256)
def parse(text: str) -> ParsedCommand:
    """Return the simple commands of a command line with fixed words, or why it has others."""
    problem = objection(text)
    if problem or _tree(text) is None:
        return ParsedCommand(problem=problem or _MISSING)
    try:
        return ParsedCommand(tuple(simple_commands(text)))
    except NotUnderstood as error:
        return ParsedCommand(problem=str(error))


@lru_cache(maxsize=256)
def outline(text: str) -> Outline:
    """Return the outline of a text, even of one with a problem.  Nothing that could do harm may rely on a missing outline."""
    root = _tree(text) if has_tree(text) else None
    if root is None:
        return Outline(problem=objection(text) or _MISSING)
    problem = objection(text) or ("it is not plain shell grammar" if root.has_error else "")
    commands: list[tuple[str, ...]] = []
    targets: list[str] = []
    sources: list[str] = []
    todo = [root]
    while todo:
        node = todo.pop()
        todo += reversed(node.children)
        match node.type:
            case "command" | "declaration_command" | "unset_command":
                commands.append(tuple(_raw_words(node)))
            case "file_redirect":
                is_read = re.match(r"\d*<(?!>)", _text(node)) is not None
                (sources if is_read else targets).append(unquoted(_text(node.children[-1])))
            case "for_statement":
                sources += [unquoted(_text(each)) for each in node.children if each.type in _WORDS]
            case "function_definition" | "&" | "`" as kind:
                problem = problem or f"it uses a {kind.replace('_', ' ')}"
    return Outline(tuple(filter(None, commands)), tuple(targets), tuple(sources), problem)


@lru_cache(maxsize=1024)
def unquoted(word: str) -> str:
    """Return a raw word without its quotes and escapes."""
    return _QUOTED.sub(r"\1\2\3", word) if _QUOTE.search(word) else word


def _raw_words(node: Node) -> list[str]:
    """Return the words of a command as written, without redirections and assignments in front."""
    left_out = ("redirect", "variable_assignment") if node.type == "command" else ("redirect",)
    return [_text(each) for each in node.children if not any(part in each.type for part in left_out)]


def _text(node: Node) -> str:
    """Return what a node means, as it was written."""
    return _NARROWED.sub(_widened, (node.text or b"").decode("utf-8", "replace"))


def _narrowed(found: re.Match[str]) -> str:
    """Return five letters below U+0100 for one character.

    The grammar's scanner looks up classes of characters in a C table of 384 entries, and crashes on those far beyond it.
    """
    return "".join(chr(_LETTERS + (ord(found[0]) >> shift & 31)) for shift in (20, 15, 10, 5, 0))


def _widened(found: re.Match[str]) -> str:
    number = sum(ord(letter) - _LETTERS << shift for letter, shift in zip(found[0], (20, 15, 10, 5, 0), strict=True))
    return chr(number) if number <= sys.maxunicode else found[0]


@lru_cache(maxsize=8)
def _tree(text: str) -> Node | None:
    """Return the root of a text's tree, None where this platform has no grammar."""
    with _PARSING:  # threads decide too, and one parser serves all: freeing a language while others parse crashes Python
        parser = _parser()
        if parser is None:
            return None
        clean = text.encode("utf-8", "replace").decode("utf-8")
        return parser.parse(_WIDE.sub(_narrowed, clean).encode("utf-8")).root_node


@lru_cache(maxsize=1)
def _parser() -> Parser | None:
    """Return the parser.  Loaded here: only shell decisions need it."""
    try:
        import tree_sitter as engine  # noqa: PLC0415  (deferred)
        import tree_sitter_bash as bash  # noqa: PLC0415  (deferred)

        return engine.Parser(engine.Language(bash.language()))
    except (ImportError, OSError, ValueError):
        return None
