"""Programs that run another program: what is run decides, if the wrapper is in a form that changes nothing else."""

from __future__ import annotations

import re

from lmtui.core.shell.command import word_set

# Options without a value, and those with one; whatever else stands there makes the form unknown.
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
