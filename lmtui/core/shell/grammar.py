"""The one place that knows the bash grammar (tree-sitter-bash): text in, our own values out.

The grammar's tree says where words and operators are; that bash reads the same is not taken on trust: between them may be
nothing but blanks, and each word must read as one literal word by bash's own quoting rules (`words.literal_word`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lmtui.core.shell.command import MAX_COMMANDS, MAX_NODES, NotUnderstood, ParsedCommand, SimpleCommand, is_small, objection
from lmtui.core.shell.words import literal_word

if TYPE_CHECKING:
    from tree_sitter import Node

_STRUCTURE = frozenset(
    {"program", "list", "pipeline", "redirected_statement", "subshell", "compound_statement", "negated_command"}
)
_OPERATORS = frozenset({";", "&&", "||", "|", "(", ")", "{", "}", "!", "\n"})
_WORDS = frozenset({"word", "number", "raw_string", "string", "concatenation", "simple_expansion"})
_REDIRECTION = re.compile(rb"(?:[012]?>>?|&>>?)[ \t]*/dev/null|[12]?>&[12]|<[ \t]*/dev/null")
_TEST = re.compile(rb"\[ (?:! )?(?:-[efdrwxsLhnz] )?[A-Za-z0-9_./-]+(?: = [A-Za-z0-9_./-]+)? \]")  # `[` with literals only
_BLANKS = re.compile(rb"(?:[ \t]|\\\n)*")
_GAP = re.compile(rb"(?:[ \t\n]|\\\n)*")
_PROGRAM = re.compile(r"[A-Za-z0-9_./+-][A-Za-z0-9_./+@-]*|:|\[")
_KEYWORDS = frozenset(
    {"if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while", "until", "do", "done", "in", "function",
     "coproc", "[[", "]]", "{", "}", "!"}
)  # fmt: skip
_ENDS_OF_DESCRIPTORS = tuple(b"0 1 2 3 4 5 6 7 8 9 }".split())  # `a2>x` and `{a}>x` name a descriptor
_MISSING = "the shell grammar (tree-sitter-bash) cannot be loaded here"


class _Token(NamedTuple):
    """A piece of the text: `kind` is word, redirection, operator or comment; `command` numbers the command it belongs to."""

    kind: str
    start: int
    end: int
    command: int = -1


class Outline(NamedTuple):
    """What a text would run and write as a whole, read generously: each command's raw words, also in substitutions and loops.

    `targets` are the files that redirections write, `sources` those that they read and loops name, `variables` those that are
    set.  In `problem` is why it is not understood.
    """

    commands: tuple[tuple[str, ...], ...] = ()
    targets: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    problem: str = ""


@lru_cache(maxsize=256)
def outline(text: str) -> Outline:
    """Return the outline of a text.  It is not exact: nothing that could do harm may rest on it."""
    problem = objection(text)
    root = None if problem else _tree(text)
    if root is None:
        return Outline(problem=problem or _MISSING)
    if root.descendant_count > MAX_NODES:
        return Outline(problem="it has too many parts")
    if root.has_error:
        return Outline(problem="it is not plain shell grammar")
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
                commands.append(tuple(unquoted(word) for word in _raw_words(node) if word))
            case "file_redirect":
                is_read = re.match(r"\d*<(?!>)", _text(node)) is not None
                (sources if is_read else targets).append(unquoted(_text(node.children[-1])))
            case "for_statement":
                sources += [unquoted(_text(each)) for each in node.children if each.type in _WORDS]
            case "variable_assignment":
                variables.append(_text(node.children[0]))
            case "function_definition" | "&":
                return Outline(problem=f"it uses {_name(node, b'')}")
    return Outline(tuple(each for each in commands if each), tuple(targets), tuple(sources), tuple(variables))


def unquoted(word: str) -> str:
    """Return a raw word without its quotes and escapes."""
    return re.sub(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\\n|\\(.)", r"\1\2\3", word, flags=re.DOTALL)


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _raw_words(node: Node) -> list[str]:
    """Return the words of a command as written, without redirections and assignments in front."""
    is_declaration = node.type != "command"
    left_out = ("redirect",) if is_declaration else ("redirect", "variable_assignment")
    return [_text(each) for each in node.children if not any(part in each.type for part in left_out)]


@lru_cache(maxsize=256)
def parse(text: str) -> ParsedCommand:
    """Return the simple commands of a command line, or why it was not understood."""
    problem = objection(text)
    if problem:
        return ParsedCommand(problem=problem)
    root = _tree(text)
    if root is None:
        return ParsedCommand(problem=_MISSING)
    if root.descendant_count > MAX_NODES:
        return ParsedCommand(problem="it has too many parts")
    source = text.encode()
    try:
        tokens = list(_tokens(root, source))
        _check_gaps(tokens, source)
        return ParsedCommand(tuple(_commands(tokens, source)))
    except NotUnderstood as error:
        return ParsedCommand(problem=str(error))


def commands_anywhere(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the raw words of every command in a text, also inside substitutions, functions and what has errors.

    Nothing is left out for being unclear: this is for what forbids, never for what allows.
    """
    root = _tree(text) if is_small(text) else None
    todo = [root] if root and root.descendant_count <= MAX_NODES else []
    while todo:
        node = todo.pop()
        todo += node.children
        if node.type in ("command", "declaration_command", "unset_command"):
            yield tuple(_text(each) for each in node.children if "redirect" not in each.type)


@lru_cache(maxsize=8)
def _tree(text: str) -> Node | None:
    """Return the root of a text's tree, None where this platform has no grammar.  Loaded here: only shell decisions need it."""
    try:
        import tree_sitter as engine  # noqa: PLC0415  (deferred)
        import tree_sitter_bash as bash  # noqa: PLC0415  (deferred)

        parser = engine.Parser(engine.Language(bash.language()))  # one a call: decisions are made in threads too
        return parser.parse(text.encode("utf-8", "replace")).root_node
    except (ImportError, OSError, ValueError):
        return None


def _tokens(root: Node, source: bytes) -> Iterator[_Token]:
    """Yield the pieces of the text in order.

    Raises:
        NotUnderstood: a node is not on the positive list.
    """
    if root.has_error:
        raise NotUnderstood("it is not plain shell grammar")
    count = 0
    todo = [(root, -1)]
    while todo:
        node, command = todo.pop()
        kind = node.type
        if kind in _STRUCTURE:
            todo += [(child, -1) for child in reversed(node.children)]
        elif kind == "command":
            count += 1
            todo += [(child, count) for child in reversed(node.children)]
        elif kind == "test_command" and _TEST.fullmatch(source, node.start_byte, node.end_byte):
            count += 1
            found = re.finditer(rb"[^ ]+", source[node.start_byte : node.end_byte])
            yield from (_Token("word", node.start_byte + w.start(), node.start_byte + w.end(), count) for w in found)
        elif kind == "command_name":
            todo += [(child, command) for child in node.children]
        elif kind in _WORDS and command > 0:
            yield _Token("word", node.start_byte, node.end_byte, command)
        elif kind == "file_redirect" and _REDIRECTION.fullmatch(source, node.start_byte, node.end_byte):
            yield _Token("redirection", node.start_byte, node.end_byte, command)
        elif kind == "comment" and not source[node.start_byte : node.end_byte].endswith(b"\\"):
            yield _Token("comment", node.start_byte, node.end_byte)
        elif kind in _OPERATORS and not node.is_named:
            yield _Token("operator", node.start_byte, node.end_byte)
        else:
            raise NotUnderstood(f"it uses {_name(node, source)}")


def _name(node: Node, source: bytes) -> str:
    """Return what a node is, in words."""
    words = {"&": "a background job", "|&": "|&", "file_redirect": "a redirection"}
    if node.type in words:
        return words[node.type]
    if node.is_named:
        kind = node.type.replace("_", " ")
        return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")[:20] or node.type


def _check_gaps(tokens: list[_Token], source: bytes) -> None:
    """Check that bash cuts the text at the same places.

    Raises:
        NotUnderstood: something lies between two pieces, or two pieces touch that bash would join.
    """
    end = 0
    last: _Token | None = None
    for token in tokens:
        gap = source[end : token.start]
        inside = last is not None and last.command == token.command and token.command > 0
        if not (_BLANKS if inside else _GAP).fullmatch(gap):
            raise NotUnderstood("it is not read the same way by bash and by the grammar")
        if not gap and last is not None and _must_part(last, token, source):
            raise NotUnderstood("two of its parts touch")
        if last is not None and _begins_command(last, token, source) and not _is_break(last, gap, source):
            raise NotUnderstood("two of its commands follow each other without a sign between them")
        last, end = token, token.end
    if not _GAP.fullmatch(source[end:]):
        raise NotUnderstood("something follows its end")


def _begins_command(last: _Token, token: _Token, source: bytes) -> bool:
    if token.kind == "operator":
        return source[token.start : token.end] in (b"(", b"{", b"!")
    return token.command > 0 and token.command != last.command


def _is_break(last: _Token, gap: bytes, source: bytes) -> bool:
    """Tell whether a command may begin behind a piece: after an operator that opens or parts, a comment or a line's end."""
    is_operator = last.kind == "operator" and source[last.start : last.end] not in (b")", b"}")
    return is_operator or last.kind == "comment" or b"\n" in gap.replace(b"\\\n", b"")


def _must_part(last: _Token, token: _Token, source: bytes) -> bool:
    """Tell whether two pieces without a blank between them would be one for bash, or other ones than the grammar says."""
    text = source[last.start : last.end]
    if last.kind == "operator":
        return text in (b"{", b"!")
    if token.kind == "operator":
        return source[token.start : token.end] in (b"{", b"!", b"(")
    return not (last.kind == "word" and token.kind == "redirection" and text[-1:] not in _ENDS_OF_DESCRIPTORS)


def _commands(tokens: list[_Token], source: bytes) -> Iterator[SimpleCommand]:
    """Yield the simple commands, their words read."""
    order = list(dict.fromkeys(token.command for token in tokens if token.command > 0))
    if not order:
        raise NotUnderstood("it holds no command")
    if len(order) > MAX_COMMANDS:
        raise NotUnderstood(f"it has more than {MAX_COMMANDS} commands")
    for number in order:
        pieces = [token for token in tokens if token.command == number]
        raw = [source[token.start : token.end].decode() for token in pieces if token.kind == "word"]
        read = [literal_word(word) for word in raw]
        if not read or raw[0] in _KEYWORDS or _PROGRAM.fullmatch(read[0].text) is None:
            raise NotUnderstood("a program's name is not a plain word")
        text = source[pieces[0].start : pieces[-1].end].decode()
        yield SimpleCommand(text, tuple(word.text for word in read), tuple(word.pattern for word in read))
