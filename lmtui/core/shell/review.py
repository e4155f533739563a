"""What one simple command may do where files can be changed: wrappers of another one, interpreters, git, other programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from lmtui.core.shell.command import Risk, SimpleCommand, glob_risks, word_set
from lmtui.core.shell.git import git_risks
from lmtui.core.shell.tools import tool_risks

# Options without a value, and those with one; anything else makes the form unknown.
_FORMS = {
    "timeout": (r"-v|--foreground|--preserve-status|--(?:kill-after|signal)=\S+", r"-[ks]"), "nice": (r"-\d+|-n-?\d+", "-n"),
    "nohup": ("", ""), "time": ("-p", ""), "command": ("-p", ""), "stdbuf": (r"-[ioe]\w+", "-[ioe]"), "env": ("", ""),
}  # fmt: skip
_XARGS = (r"-[0rt]+|-[nPLI]\S+|--null|--no-run-if-empty|--verbose|-d\S+", "-[nPLdI]")
_RUNNERS = word_set("uv poetry pipenv pdm hatch rye")
_MODULES = word_set("pytest mypy ruff black isort pylint flake8 coverage tox nox pip")
_NAME = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*|\[")


def is_wrapper(words: tuple[str, ...]) -> bool:
    """Tell whether a command is there to run another one, in whatever form."""
    return words[0] in _FORMS or (words[0] in _RUNNERS and words[1:2] == ("run",))


def inner_place(words: tuple[str, ...]) -> int:
    """Return at which word the wrapped command begins, 0 where the command is no wrapper or not in a known form."""
    if words[0] in _RUNNERS:
        return _named(words, 2 if words[1:2] == ("run",) else 0)
    module = module_place(words)
    return _named(words, module) if module and words[module] in _MODULES else transparent_place(words)


def transparent_place(words: tuple[str, ...], *, with_xargs: bool = False) -> int:
    """Return the same for wrappers that find the program just as the shell would.

    `with_xargs`: it is one too, though the program gets more words than are seen here.
    """
    forms = _XARGS if with_xargs and words[0] == "xargs" else _FORMS.get(words[0])
    place = _behind_options(words, *forms) if forms else 0
    if words[0] == "timeout" and place:
        place = place + 1 if re.fullmatch(r"\d+(?:\.\d+)?[smhd]?", words[place]) else 0
    return _named(words, place)


def _named(words: tuple[str, ...], place: int) -> int:
    return place if 0 < place < len(words) and _NAME.fullmatch(words[place]) else 0


def module_place(words: tuple[str, ...]) -> int:
    """Return where the module of `python -m module` stands, 0 where there is none."""
    if re.fullmatch(r"(?:.*/)?(?:python|pypy)[0-9.]*", words[0]):
        for i, word in enumerate(words[1:], 1):
            if word == "-m" and i + 1 < len(words):
                return i + 1
            if not re.fullmatch(r"-[uBOsSEIPqb]+", word):
                break
    return 0


def runs_package(words: tuple[str, ...]) -> bool:
    """Tell whether a command runs the program of a package, wherever it comes from: only a rule that names it covers it."""
    return words[0] in ("npx", "uvx", "bunx") and len(words) > 1 and re.fullmatch(r"[a-z][a-z0-9-]*", words[1]) is not None


def _behind_options(words: tuple[str, ...], flags: str, valued: str) -> int:
    at = 1
    while at < len(words):
        if valued and re.fullmatch(valued, words[at]):
            at += 2
        elif flags and re.fullmatch(flags, words[at]):
            at += 1
        else:
            break
    return at if at < len(words) and not words[at].startswith("-") else 0


# Options allowed before the script; other interpreters allow none.
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
    """Yield the words by which an interpreter runs inline code or a module."""
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
    """Tell whether a command changes nothing whatever its words are, so that it may accompany one that a rule allows."""
    program, words = command.program, command.words[1:]
    if program == "sort":
        return all(map(_SORT.fullmatch, words)) and not any(command.globs)
    if program == "uniq":
        return sum(not word.startswith("-") for word in words) <= 1 and not any(command.globs)
    if program == "set":
        return all(re.fullmatch(r"-[eux]+o?|-o|pipefail", word) for word in words)
    return program in _HARMLESS


def _risks(command: SimpleCommand, depth: int) -> Iterator[Risk]:
    """Yield the risks of a command with this many wrappers; with too many, nothing is known."""
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
