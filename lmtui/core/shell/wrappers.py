"""Programs that run another program: what is run decides, if the wrapper is in a form that is known to change nothing else."""

from __future__ import annotations

import re

from lmtui.core.shell.command import SimpleCommand
from lmtui.core.shell.interpreters import module_place
from lmtui.core.shell.options import OptionGrammar, read_options

_PLAIN = OptionGrammar()
_GRAMMARS = {
    "timeout": OptionGrammar(flags="v", valued="ks", long="foreground preserve-status verbose kill-after signal"),
    "nice": OptionGrammar(valued="n", has_numbers=True), "nohup": _PLAIN, "time": OptionGrammar(flags="p"), "command": _PLAIN,
    "stdbuf": OptionGrammar(valued="ioe"), "env": _PLAIN,
}  # fmt: skip
_RUNNERS = frozenset({"uv", "poetry", "pipenv", "pdm", "hatch", "rye"})
_PACKAGE_RUNNERS = frozenset({"npx", "uvx", "bunx"})
# The wrapped program's words come from standard input too: only programs that no word can make do more than tell names.
_XARGS = OptionGrammar(flags="0rt", valued="nPLd", long="null no-run-if-empty verbose")
_FROM_INPUT = frozenset({"wc", "ls", "stat", "du", "basename", "dirname", "echo", "md5sum", "sha256sum", "realpath"})
_MODULES = frozenset({"pytest", "mypy", "ruff", "black", "isort", "pylint", "flake8", "coverage", "tox", "nox", "pip"})


def is_transparent(command: SimpleCommand) -> bool:
    """Tell whether a command is a wrapper that finds the program just as the shell would."""
    return command.program in _GRAMMARS


def is_wrapper(command: SimpleCommand) -> bool:
    """Tell whether a command is there to run another one, in whatever form."""
    return is_transparent(command) or (command.program in _RUNNERS and command.words[1:2] == ("run",))


def inner_place(command: SimpleCommand) -> int:
    """Return at which word the wrapped command begins, 0 where the command is no wrapper or not in a known form."""
    words = command.words
    grammar = _GRAMMARS.get(command.program)
    place = 0
    if command.program in _RUNNERS:
        place = 2 if words[1:2] == ("run",) else 0
    elif grammar is not None:
        place = _first_operand(words, grammar) + (1 if command.program == "timeout" else 0)
        if command.program == "timeout" and not re.fullmatch(r"\d+(?:\.\d+)?[smhd]?", "".join(words[place - 1 : place])):
            place = 0
    elif words:
        place = module_place(words)
        place = place if words[place] in _MODULES else 0
    if (
        not place
        or place >= len(words)
        or command.globs[place]
        or not re.fullmatch(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*", words[place])
    ):
        return 0
    return place


def runs_package(command: SimpleCommand) -> bool:
    """Tell whether a command runs the program of a package, wherever it comes from: only a rule that names it covers it."""
    words = command.words
    return command.program in _PACKAGE_RUNNERS and len(words) > 1 and re.fullmatch(r"[a-z][a-z0-9-]*", words[1]) is not None


def reads_names_from_input(command: SimpleCommand) -> bool:
    """Tell whether an xargs command runs one of the programs that only tell names and sums."""
    if command.program != "xargs":
        return False
    place = _first_operand(command.words, _XARGS)
    if 0 < place < len(command.words):
        return command.words[place] in _FROM_INPUT or command.words[place : place + 2] in (("grep", "-l"), ("grep", "-c"))
    return False


def _first_operand(words: tuple[str, ...], grammar: OptionGrammar) -> int:
    """Return the place of the first operand, 0 where an option is unknown before it."""
    for end in range(1, len(words)):
        reading = read_options(words[: end + 1], grammar)
        if reading.operands:
            return 0 if reading.unknown or words[end - 1] == "--" else end
    return 0
