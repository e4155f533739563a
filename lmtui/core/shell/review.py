"""What one simple command does, whatever its program: the one place that knows which grammar belongs to which program."""

from __future__ import annotations

from functools import lru_cache

from lmtui.core.shell.command import SimpleCommand
from lmtui.core.shell.git import review_git
from lmtui.core.shell.interpreters import is_interpreter, review_interpreter
from lmtui.core.shell.options import Review, Risk, review_reader
from lmtui.core.shell.readers import FIXED_COMMANDS, READERS, VERSION_PROGRAMS
from lmtui.core.shell.scripts import review_awk, review_find, review_sed
from lmtui.core.shell.tools import review_tool
from lmtui.core.shell.wrappers import inner_place, is_transparent, is_wrapper, reads_names_from_input, runs_package

_MOST_WRAPPED = 20
_SCRIPTED = {
    "sed": review_sed, "find": review_find, "git": review_git,
    "awk": review_awk, "gawk": review_awk, "mawk": review_awk, "nawk": review_awk,
}  # fmt: skip


@lru_cache(maxsize=256)
def layers(command: SimpleCommand) -> tuple[SimpleCommand, ...]:
    """Return a command and, where it wraps others in a known form, those: the outermost first."""
    found = [command]
    while place := inner_place(found[-1]):
        found.append(found[-1].from_word(place))
    return tuple(found)


@lru_cache(maxsize=256)
def review(command: SimpleCommand) -> Review:
    """Return what a command does, with what it wraps."""
    return _reviewed(command, 0)


def _reviewed(command: SimpleCommand, depth: int) -> Review:
    """Return what a command does that so many others wrap; of very many nothing is known."""
    if depth > _MOST_WRAPPED:
        return _runs_any(command)
    if _tells_version(command) or reads_names_from_input(command):
        return Review(is_reader=True)
    place = inner_place(command)
    if place:
        inner = _reviewed(command.from_word(place), depth + 1)
        risks = (Risk(place, f"{command.program} runs another program"), *_shifted(inner.risks, place))
        shows = tuple(index + place for index in inner.shows)
        return Review(inner.is_reader and is_transparent(command), shows, risks)
    if command.words[:2] in (("command", "-v"), ("command", "-V")):
        return Review(is_reader=True)
    if runs_package(command):
        inner = _reviewed(command.from_word(1), depth + 1)
        return Review(risks=(Risk(1, f"{command.program} fetches and runs a package"), *_shifted(inner.risks, 1)))
    if is_wrapper(command):
        return _runs_any(command)
    return _of_program(command)


def _runs_any(command: SimpleCommand) -> Review:
    return Review(risks=tuple(Risk(i, f"{command.program} runs another program") for i in range(1, len(command.words) + 1)))


def _of_program(command: SimpleCommand) -> Review:
    name = command.program.rpartition("/")[2]
    if name in _SCRIPTED:
        found = _SCRIPTED[name](command)
    elif name in READERS:
        found = review_reader(command, READERS[name])
    elif is_interpreter(name):
        found = review_interpreter(command)
    else:
        found = review_tool(command)
    # A program given by its path is another program: its name tells nothing of what it does.
    return found if name == command.program else Review(shows=found.shows, risks=found.risks)


def _tells_version(command: SimpleCommand) -> bool:
    words = command.words
    is_asking = len(words) == 2 and words[1] in ("--version", "--help") and words[0] in VERSION_PROGRAMS
    return is_asking or words in FIXED_COMMANDS


def _shifted(risks: tuple[Risk, ...], by: int) -> tuple[Risk, ...]:
    return tuple(Risk(risk.index + by, risk.why) for risk in risks)
