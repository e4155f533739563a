"""What one simple command may do in the instance where files can be changed, whatever its program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from lmtui.core.shell.command import Risk, SimpleCommand, word_set
from lmtui.core.shell.git import git_risks
from lmtui.core.shell.interpreters import interpreter_risks, is_interpreter
from lmtui.core.shell.tools import tool_risks
from lmtui.core.shell.wrappers import inner_place, is_wrapper, runs_package

_MOST_WRAPPED = 20
_HARMLESS = word_set("cd echo pwd true false cat head tail wc ls grep sort uniq cut tr")
_SORT = re.compile(
    r"-[bdfgiMhnRrVcCmsuz]+[0-9.,]*|-[kt].*|--(?:numeric-sort|reverse|unique|ignore-case|key=.*)|[^-].*", re.DOTALL
)


@lru_cache(maxsize=256)
def layers(command: SimpleCommand) -> tuple[SimpleCommand, ...]:
    """Return a command and, where it wraps others in a known form, those: the outermost first."""
    found = [command]
    while (place := inner_place(found[-1].words)) and not found[-1].globs[place] and len(found) <= _MOST_WRAPPED:
        found.append(found[-1].from_word(place))
    return tuple(found)


@lru_cache(maxsize=256)
def risks_of(command: SimpleCommand) -> tuple[Risk, ...]:
    """Return the words that make a command do more than its program's plain use, with what it wraps."""
    return tuple(_risks(command, 0))


def is_harmless(command: SimpleCommand) -> bool:
    """Tell whether a command changes nothing whatever its words are, so that it may stand beside one that a rule allows."""
    program, words = command.program, command.words[1:]
    if program == "sort":
        return all(map(_SORT.fullmatch, words)) and not any(command.globs)
    if program == "uniq":
        return sum(not word.startswith("-") for word in words) <= 1 and not any(command.globs)
    if program == "set":
        return all(re.fullmatch(r"-[eux]+o?|-o|pipefail", word) for word in words)
    return program in _HARMLESS


def _risks(command: SimpleCommand, depth: int) -> Iterator[Risk]:
    """Yield the risks of a command that so many others wrap; of very many nothing is known."""
    place = inner_place(command.words)
    if place and command.globs[place]:
        place = 0
    if depth <= _MOST_WRAPPED and place:
        yield Risk(place, f"{command.program} runs another program")
        yield from (Risk(risk.index + place, risk.why) for risk in _risks(command.from_word(place), depth + 1))
    elif depth <= _MOST_WRAPPED and runs_package(command.words):
        yield Risk(1, f"{command.program} fetches and runs a package")
        yield from (Risk(risk.index + 1, risk.why) for risk in _risks(command.from_word(1), depth + 1))
    elif depth > _MOST_WRAPPED or is_wrapper(command.words):
        yield from (Risk(i, f"{command.program} runs another program") for i in range(1, len(command.words) + 1))
    elif command.program.rpartition("/")[2] == "git":
        yield from git_risks(command)
    elif is_interpreter(command.program):
        yield from interpreter_risks(command)
    else:
        yield from tool_risks(command)
