"""Interpreters: a rule may allow a script in a file; code in the command line or from standard input no wildcard does."""

from __future__ import annotations

import re

from lmtui.core.shell.command import SimpleCommand
from lmtui.core.shell.options import OptionGrammar, Review, Risk, glob_risks, read_options

_PYTHON = OptionGrammar(flags="uBOsSEIPvqbh", valued="WX", long="version help")
_SHELL = OptionGrammar(flags="euxvn", valued="o", long="norc noprofile version help posix")
_NODE = OptionGrammar(flags="vh", long="version help test watch check enable-source-maps no-warnings test-only trace-warnings")
_OTHER = OptionGrammar(flags="wv", long="version help")
_GRAMMARS = {
    "python": _PYTHON, "pypy": _PYTHON, "sh": _SHELL, "bash": _SHELL, "dash": _SHELL, "zsh": _SHELL, "ksh": _SHELL,
    "ash": _SHELL, "rbash": _SHELL, "node": _NODE, "nodejs": _NODE, "ruby": _OTHER, "perl": _OTHER, "php": _OTHER,
    "lua": _OTHER,
      "rscript": _OTHER, "julia": OptionGrammar(), "tclsh": OptionGrammar(),
    "guile": OptionGrammar(), "ghci": OptionGrammar(), "runghc": OptionGrammar(), "irb": OptionGrammar(),
    "java": OptionGrammar(),
    "ipython": OptionGrammar(), "jshell": OptionGrammar(), "scala": OptionGrammar(), "groovy": OptionGrammar(),
    "elixir": OptionGrammar(), "erl": OptionGrammar(), "swift": OptionGrammar(), "ocaml": OptionGrammar(),
    "racket": OptionGrammar(),
}  # fmt: skip


def is_interpreter(program: str) -> bool:
    """Tell whether a program runs code that it is given."""
    return _family(program) in _GRAMMARS


def review_interpreter(command: SimpleCommand) -> Review:
    """Return the risks of running an interpreter."""
    words = command.words
    grammar = _GRAMMARS[_family(command.program)]
    if place := module_place(words):
        return Review(risks=(Risk(place, f"{command.program} -m {words[place]} runs a module"), *glob_risks(command)))
    script = _script_place(words, grammar)
    reading = read_options(words[: script + 1], grammar)
    risks = [Risk(i, f"{command.program} {words[i] if i < len(words) else ''} runs code") for i in reading.unknown]
    if risks:  # what follows an unknown option may be its code
        risks += [Risk(i, f"{command.program} runs code") for i in range(reading.unknown[0] + 1, len(words))]
    elif script >= len(words) or words[script][0] in "-+":
        risks.append(Risk(max(script, len(words)), f"{command.program} runs what comes from standard input"))
    risks += glob_risks(command)
    return Review(risks=tuple(risks))


def module_place(words: tuple[str, ...]) -> int:
    """Return where the module of `python -m module` stands, 0 where there is none."""
    if _family(words[0]) not in ("python", "pypy"):
        return 0
    for i, word in enumerate(words[1:], 1):
        if word == "-m" and i + 1 < len(words):
            return i + 1
        if not re.fullmatch(r"-[uBOsSEIPqb]+", word):
            return 0
    return 0


def _script_place(words: tuple[str, ...], grammar: OptionGrammar) -> int:
    """Return where the script stands: everything behind it is the script's own."""
    i = 1
    while i < len(words) and words[i].startswith("-") and words[i] != "-":
        is_alone = len(words[i]) == 2 or words[i][-1] in grammar.valued
        i += 2 if words[i][1:2] != "-" and words[i][-1] in grammar.valued and is_alone else 1
    return i


def _family(program: str) -> str:
    return re.sub(r"[0-9.]+\Z", "", program.rpartition("/")[2]).lower()
