"""The only module that uses the bash grammar (tree-sitter-bash): text in, our own values out."""

from __future__ import annotations

import re
import sys
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lmtui.core.shell.command import NotUnderstood, ParsedCommand, is_small, objection
from lmtui.core.shell.words import simple_commands

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_MAX_NODES = 1500
_PARSING = threading.Lock()
_COMMANDS = ("command", "declaration_command", "unset_command")
_WORDS = ("word", "number", "raw_string", "string", "concatenation")
_QUOTE = re.compile(r"['\"\\]")
_QUOTED = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\\n|\\(.)", re.DOTALL)
_MISSING = "the shell grammar (tree-sitter-bash) cannot be loaded, or the command has too many parts"
_LETTERS = 0xC0
_WIDE, _NARROWED = re.compile(r"[^\x00-\x7f]"), re.compile(r"[\xc0-\xdf]{5}")


class Outline(NamedTuple):
    """What a text would run and write as a whole, read generously: each command's raw words, also in substitutions and errors.

    `targets` are the files that redirections write, `sources` those that they read and loops name, `variables` those that are
    set.  `problem` says why it is not understood.
    """

    commands: tuple[tuple[str, ...], ...] = ()
    targets: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
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
    variables: list[str] = []
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
            case "variable_assignment":
                variables.append(_text(node.children[0]))
            case "function_definition" | "&" | "`" as kind:
                problem = problem or f"it uses a {kind.replace('_', ' ')}"
    return Outline(tuple(filter(None, commands)), tuple(targets), tuple(sources), tuple(variables), problem)


@lru_cache(maxsize=1024)
def unquoted(word: str) -> str:
    """Return a raw word without its quotes and escapes."""
    return _QUOTED.sub(r"\1\2\3", word) if _QUOTE.search(word) else word


def _raw_words(node: Node) -> list[str]:
    """Return the words of a command as written, without redirections and assignments in front."""
    left_out = ("redirect", "variable_assignment") if node.type == "command" else ("redirect",)
    return [_text(each) for each in node.children if not any(part in each.type for part in left_out)]


def _text(node: Node) -> str:
    """Return what a node stands for, as it was written."""
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
