"""The grammar of a program's options, as data, and what reading a command by it tells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lmtui.core.shell.command import SimpleCommand


def word_set(text: str) -> frozenset[str]:
    """Return the blank-separated words of a text: how the tables of programs and options are written."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class Risk:
    """A word that makes a command do more than its program's plain use: its place among the words, and why.

    A place behind the last word stands for what is missing (a script that would come from standard input): only a rule
    without wildcards covers that.
    """

    index: int
    why: str


@dataclass(frozen=True, slots=True)
class Review:
    """What is known of a command: whether it only reads, whose contents it shows (places of words), and its risks."""

    is_reader: bool = False
    shows: tuple[int, ...] = ()
    risks: tuple[Risk, ...] = ()


@dataclass(frozen=True, slots=True)
class OptionGrammar:
    """The options of a program that neither run nor write anything.

    Args:
        flags: one-letter options without a value.
        valued: one-letter options with a value.
        long: long options (blank-separated), which may carry `=value`.
        long_valued: long options whose value may be the next word.
        is_free: no option of this program runs or writes anything; `valued` only tells options' values from operands.
        has_numbers: `-5` is an option.
        skipped: so many first operands are no files (a pattern, a script), unless one of `replaces_skipped` is given.
        most: the highest number of operands; a further one would be written to.
        hides: it tells names, sizes or sums, not contents.
        needs: only with one of these options it does not write.
    """

    flags: str = ""
    valued: str = ""
    long: str = ""
    long_valued: str = ""
    is_free: bool = False
    has_numbers: bool = False
    skipped: int = 0
    replaces_skipped: str = ""
    most: int = 1000
    hides: bool = False
    needs: str = ""
    long_names: frozenset[str] = field(init=False, default=frozenset())
    long_valued_names: frozenset[str] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        object.__setattr__(self, "long_names", word_set(self.long))
        object.__setattr__(self, "long_valued_names", word_set(self.long_valued))


@dataclass(frozen=True, slots=True)
class Reading:
    """The words of a command told apart: places of the operands, of options' values, of unknown options; option names seen."""

    operands: tuple[int, ...]
    values: tuple[int, ...]
    unknown: tuple[int, ...]
    names: frozenset[str]


def read_options(words: tuple[str, ...], grammar: OptionGrammar, start: int = 1) -> Reading:
    """Tell options, values and operands apart, beginning at word `start`."""
    operands: list[int] = []
    values: list[int] = []
    unknown: list[int] = []
    names: set[str] = set()
    i = start
    while i < len(words):
        word = words[i]
        if word == "--":
            operands += range(i + 1, len(words))
            break
        if not word.startswith("-") or word == "-":
            operands.append(i)
        else:
            name, takes_next, is_known = _option(word, grammar)
            names |= name
            if not is_known:
                unknown.append(i)
            if takes_next:
                i += 1
                values.append(i)
                if not grammar.is_free and (i >= len(words) or _looks_like_option(words[i])):
                    unknown.append(min(i, len(words)))
        i += 1
    return Reading(tuple(operands), tuple(value for value in values if value < len(words)), tuple(unknown), frozenset(names))


def _looks_like_option(word: str) -> bool:
    return word.startswith("-") and not word[1:].isdigit()


def _option(word: str, grammar: OptionGrammar) -> tuple[set[str], bool, bool]:
    """Return the names of an option word, whether its value is the next word, and whether it is known."""
    if word.startswith("--"):
        name, is_equal, _ = word[2:].partition("=")
        is_valued = name in grammar.long_valued_names
        return {name}, is_valued and not is_equal, grammar.is_free or is_valued or name in grammar.long_names
    if grammar.has_numbers and word[1:].isdigit():
        return set(), False, True
    names: set[str] = set()
    for position, letter in enumerate(word[1:], 2):
        names.add(letter)
        if letter in grammar.valued:
            return names, position == len(word), True
        if letter not in grammar.flags and not grammar.is_free:
            return names, False, False
    return names, False, True


def review_reader(command: SimpleCommand, grammar: OptionGrammar, start: int = 1) -> Review:
    """Return what a command of a reading program does; it reads only if every option is known."""
    reading = read_options(command.words, grammar, start)
    risks = [Risk(i, f"{command.program} {_word(command, i)} is not on the list of what only reads") for i in reading.unknown]
    risks += [Risk(i, f"{command.program} may write its operand {command.words[i]}") for i in reading.operands[grammar.most :]]
    if grammar.most < 1000:
        risks += [Risk(i, "the pattern may stand for several files") for i in reading.operands if command.globs[i]]
    if not grammar.is_free:
        risks += glob_risks(command)
    if grammar.needs and not reading.names & set(grammar.needs.split()):
        risks.append(Risk(len(command.words), f"{command.program} may write files"))
    is_replaced = bool(reading.names & set(grammar.replaces_skipped.split()))
    files = reading.operands if is_replaced else reading.operands[grammar.skipped :]
    shows = () if grammar.hides else (*files, *_values_with_files(command, reading))
    return Review(is_reader=not risks, shows=tuple(shows), risks=tuple(risks))


def glob_risks(command: SimpleCommand) -> Iterator[Risk]:
    """Yield the patterns that may stand for a file named like an option."""
    for index, pattern in enumerate(command.globs):
        if pattern[:1] in ("*", "?") and index > 0:
            yield Risk(index, f"{command.words[index]} may stand for a file named like an option")


def _values_with_files(command: SimpleCommand, reading: Reading) -> Iterator[int]:
    """Yield the places of options that may carry the name of a file (`--file=x`, `-f x`)."""
    yield from reading.values
    yield from (i for i, word in enumerate(command.words) if word.startswith("-") and len(word) > 2)


def _word(command: SimpleCommand, index: int) -> str:
    return command.words[index] if index < len(command.words) else "with an option that lacks its value"
