"""What one simple command may do where files can be changed: wrappers of another one, interpreters, git, other programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from lmtui.core.permissions.shell_grammar import Risk, SimpleCommand, glob_risks, word_set
from lmtui.core.permissions.shell_programs import tool_risks

GIT_GLOBALS = word_set("--no-pager -P --no-optional-locks --literal-pathspecs --no-replace-objects")
# A name outside this list may be an alias from the repository's own settings, which runs anything.
_KNOWN = word_set(
    "add am apply archive bisect blame branch bundle checkout cherry-pick clean clone commit config describe diff fetch "
    "format-patch gc grep init log ls-remote merge mv notes prune pull push range-diff rebase reflog remote reset restore "
    "revert "
    "rm show sparse-checkout stash status submodule switch tag worktree update-index read-tree write-tree commit-tree "
    "show-branch symbolic-ref var rev-parse ls-files ls-tree rev-list shortlog name-rev merge-base diff-tree diff-index "
    "diff-files whatchanged show-ref cherry for-each-ref check-ignore count-objects cat-file annotate checkout-index"
)
_RISKY_LONG = word_set(
    "output ext-diff textconv open-files-in-pager upload-pack receive-pack exec template config separate-git-dir edit "
    "gpg-sign sign "
    "strategy tool extcmd help interactive remote-submodules show-signature filters local-user edit-todo edit-description"
)
_RISKY_LETTERS = {
    "commit": "eSct", "rebase": "xiSs", "clone": "cu", "pull": "sS", "merge": "eSs", "tag": "su", "am": "iS", "revert": "eSs",
    "cherry-pick": "eSs", "log": "O", "diff": "O", "show": "O", "grep": "O", "add": "ie", "archive": "o", "format-patch": "o",
}  # fmt: skip
_VALUED_LETTERS = {"commit": "mFC", "tag": "mF", "clone": "bo", "log": "nLSG", "merge": "mX"}
_NEVER = re.compile(r"(?:bisect run|submodule (?:foreach|add)|hook run|remote (?:add|set-url)|notes edit|bundle create)\Z")


def git_risks(command: SimpleCommand) -> Iterator[Risk]:
    """Yield the words by which a git command runs other programs, asks for an editor or writes outside its plain use."""
    words = command.words
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-C" and at + 1 < len(words) and not words[at + 1].startswith("-"):
            at += 1
        elif words[at] not in GIT_GLOBALS:
            yield Risk(at, f"git {words[at]} may run other programs or use another repository")
        at += 1
    if at < len(words):
        name = words[at]
        risky, valued = _RISKY_LETTERS.get(name, "S"), _VALUED_LETTERS.get(name, "") + "\0"
        end = words.index("--") if "--" in words else len(words)
        for i in range(at, len(words)):
            is_risk = name not in _KNOWN if i == at else i < end and _is_risky(name, words[i], risky, valued)
            if is_risk or (name == "config" and i > at and (i == at + 1 or not words[i].startswith("-"))):
                yield Risk(i, f"git {name} {words[i]} may run other programs or write elsewhere")
        yield from glob_risks(command)


def _is_risky(name: str, word: str, risky: str, valued: str) -> bool:
    if word.startswith("--"):
        return any(long.startswith(word[2:].partition("=")[0]) for long in _RISKY_LONG)
    if word.startswith("-"):
        return re.match(rf"-[^{risky}{valued}]*[{risky}]", word) is not None
    return "::" in word or _NEVER.match(f"{name} {word}") is not None


# Options without a value, and those with one; anything else makes the form unknown.
_FORMS = {
    "timeout": (r"-v|--foreground|--preserve-status|--(?:kill-after|signal)=\S+", r"-[ks]"), "nice": (r"-\d+|-n-?\d+", "-n"),
    "nohup": ("", ""), "time": ("-p", ""), "command": ("-p", ""), "stdbuf": (r"-[ioe]\w+", "-[ioe]"), "env": ("", ""),
}  # fmt: skip
_XARGS = (r"-[0rt]+|-[nPLI]\S+|--null|--no-run-if-empty|--verbose|-d\S+", "-[nPLdI]")
_RUNNERS = word_set("uv poetry pipenv pdm hatch rye")
_MODULES = word_set("pytest mypy ruff black isort pylint flake8 coverage tox nox pip")
_NAME = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*|\[")


def inner_place(words: tuple[str, ...]) -> int:
    """Return at which word the wrapped command begins, 0 where the command is not a wrapper or not in a known form."""
    if words[0] in _RUNNERS:
        return _named(words, 2 if words[1:2] == ("run",) else 0)
    module = module_place(words)
    return _named(words, module) if module and words[module] in _MODULES else transparent_place(words)


def transparent_place(words: tuple[str, ...], *, with_xargs: bool = False) -> int:
    """Return the same for wrappers that find the program just as the shell would.

    `with_xargs`: it is one too, though the program gets more words than are seen here.
    """
    forms = _XARGS if with_xargs and words[0] == "xargs" else _FORMS.get(words[0])
    flags, valued = forms or ("", "")
    place = 1
    while place < len(words) and forms:
        if valued and re.fullmatch(valued, words[place]):
            place += 2
        elif flags and re.fullmatch(flags, words[place]):
            place += 1
        else:
            break
    place = place if forms and place < len(words) and not words[place].startswith("-") else 0
    if words[0] == "timeout" and place:
        place = place + 1 if re.fullmatch(r"\d+(?:\.\d+)?[smhd]?", words[place]) else 0
    return _named(words, place)


def _named(words: tuple[str, ...], place: int) -> int:
    return place if 0 < place < len(words) and _NAME.fullmatch(words[place]) else 0


def module_place(words: tuple[str, ...]) -> int:
    """Return where the module of `python -m module` is, 0 where there is none."""
    if re.fullmatch(r"(?:.*/)?(?:python|pypy)[0-9.]*", words[0]):
        for i, word in enumerate(words[1:], 1):
            if word == "-m" and i + 1 < len(words):
                return i + 1
            if not re.fullmatch(r"-[uBOsSEIPqb]+", word):
                break
    return 0


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


_MOST_REVIEWED = 20
_HARMLESS = word_set("cd echo pwd true false cat head tail wc ls grep sort uniq cut tr")
_SORT = re.compile(
    r"-[bdfgiMhnRrVcCmsuz]+[0-9.,]*|-[kt].*|--(?:numeric-sort|reverse|unique|ignore-case|key=.*)|[^-].*", re.DOTALL
)


@lru_cache(maxsize=256)
def layers(command: SimpleCommand) -> tuple[SimpleCommand, ...]:
    """Return a command and, where it wraps others in a known form, those: the outermost first."""
    found = [command]
    while (place := inner_place(found[-1].words)) and not found[-1].globs[place] and len(found) <= _MOST_REVIEWED:
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
    words, place = command.words, inner_place(command.words)
    if place and command.globs[place]:
        place = 0
    # the program of a package, wherever it comes from: only a rule that names it covers it
    runs_package = words[0] in ("npx", "uvx", "bunx") and re.fullmatch(r"[a-z][a-z0-9-]*", "".join(words[1:2]))
    if depth <= _MOST_REVIEWED and place:
        yield Risk(place, f"{command.program} runs another program")
        yield from (Risk(risk.index + place, risk.why) for risk in _risks(command.from_word(place), depth + 1))
    elif depth <= _MOST_REVIEWED and runs_package:
        yield Risk(1, f"{command.program} fetches and runs a package")
        yield from (Risk(risk.index + 1, risk.why) for risk in _risks(command.from_word(1), depth + 1))
    elif depth > _MOST_REVIEWED or words[0] in _FORMS or (words[0] in _RUNNERS and words[1:2] == ("run",)):
        yield from (Risk(i, f"{command.program} runs another program") for i in range(1, len(words) + 1))
    elif command.program.rpartition("/")[2] == "git":
        yield from git_risks(command)
    elif is_interpreter(command.program):
        yield from interpreter_risks(command)
    else:
        yield from tool_risks(command)
