"""Interpreters: a rule may allow a script in a file; code in the command line or from standard input no wildcard does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lmtui.core.shell.command import Risk, SimpleCommand, glob_risks, word_set
from lmtui.core.shell.wrappers import module_place

# What may stand before the script; of all others nothing may.
_OPTIONS = {
    "python": r"-[uBOsSEIPvqbh]+|-[WX].+|--version|--help", "node": r"-[vh]|--(?:version|help|test|watch|check|test-only"
    r"|enable-source-maps|no-warnings|trace-warnings)",
    "sh": r"-[euxvn]+|-e?u?o|pipefail|--(?:norc|noprofile|version|help|posix)", "ruby": r"-[wv]+|--version|--help",
}  # fmt: skip
_LIKE = {"pypy": "python", "nodejs": "node"} | dict.fromkeys(word_set("bash dash zsh ksh ash rbash"), "sh")
_LIKE |= dict.fromkeys(word_set("perl php lua rscript"), "ruby")
_ALL = frozenset({*_OPTIONS, *_LIKE}) | word_set(
    "julia tclsh guile ghci runghc irb java ipython jshell scala groovy elixir erl swift ocaml racket"
)


def is_interpreter(program: str) -> bool:
    """Tell whether a program runs code that it is given."""
    return _family(program) in _ALL


def interpreter_risks(command: SimpleCommand) -> Iterator[Risk]:
    """Yield the words by which an interpreter runs code that is in no file, or a module."""
    words = command.words
    if place := module_place(words):
        yield Risk(place, f"{command.program} -m {words[place]} runs a module")
    else:
        family = _family(command.program)
        options = _OPTIONS.get(_LIKE.get(family, family), "(?!)")
        script = next((i for i, word in enumerate(words[1:], 1) if not re.fullmatch(options, word)), len(words))
        if script >= len(words) or words[script][:1] in ("-", "+", ""):
            yield from (Risk(i, f"{command.program} runs code") for i in range(script, max(script, len(words) - 1) + 1))
    yield from glob_risks(command)


def _family(program: str) -> str:
    return re.sub(r"[0-9.]+\Z", "", program.rpartition("/")[2]).lower()
