"""Git commands that change a repository, as lmtui runs them without a shell: from a list of subcommands and options."""

from __future__ import annotations

import re

from lmtui.core.permissions.shell_grammar import SimpleCommand, outline, parse, word_set

# Letters and names of options; a capital behind a colon, or a name with `=`, takes the next word.  None of them runs a program,
# asks, or reads or writes a file that it names.
_OPTIONS = {
    "add": "AufvnN all update force verbose dry-run intent-to-add",
    "branch": "dDmMcCftqu: delete move copy force track no-track quiet set-upstream-to= unset-upstream",
    "checkout": "b:B:qtfm quiet track no-track ours theirs detach force orphan= merge",
    "cherry-pick": "nxm: no-commit mainline= continue abort skip quit allow-empty keep-redundant-commits",
    "commit": "am:qsoiC: message= all amend no-edit allow-empty allow-empty-message quiet signoff author= date= fixup= squash= "
    "reset-author only include reuse-message=",
    "fetch": "tpfqv all tags prune depth= unshallow quiet verbose dry-run force",
    "init": "qb: quiet initial-branch=",
    "merge": "m:qvX: ff no-ff ff-only squash no-commit commit message= no-edit abort continue quit quiet stat no-stat "
    "strategy-option= allow-unrelated-histories autostash no-autostash",
    "pull": "rqv rebase no-rebase ff ff-only no-ff autostash no-autostash tags prune quiet verbose no-edit no-commit squash "
    "allow-unrelated-histories",
    "push": "ufdqvn set-upstream tags follow-tags force force-with-lease delete quiet verbose dry-run all atomic",
    "rebase": "qfrX: onto= continue abort skip quit autostash no-autostash autosquash no-autosquash keep-base root quiet "
    "force-rebase rebase-merges update-refs strategy-option= no-stat fork-point no-fork-point",
    "reset": "q hard soft mixed keep merge quiet",
    "restore": "s:SWqm source= staged worktree ours theirs quiet merge",
    "revert": "nm: no-edit no-commit mainline= continue abort skip quit",
    "rm": "rfqn force cached quiet dry-run",
    "stash": "uakm:q include-untracked all keep-index staged message= index quiet",
    "switch": "c:C:dftqm create= force-create= detach force discard-changes track no-track guess no-guess quiet orphan= merge",
    "tag": "adfm: annotate message= delete force",
}
_LISTS = {
    "branch": re.compile(r"(-[arvl]+|--(list|all|remotes|show-current|verbose|contains|merged|no-merged|sort|format)\b.*)?"),
    "tag": re.compile(r"(-[ln]\d*|--(list|contains|points-at|merged|sort|format)\b.*)?"),
    "stash": re.compile(r"list|show"),
}
# Those that may run between them, as they show no contents of files: git sees secret files.
_READS = {
    "status": "sb short branch porcelain", "branch": "arvl all remotes list show-current verbose", "tag": "l list",
    "log": "n:0123456789 oneline decorate graph max-count=",
}  # fmt: skip
CONNECTS = frozenset({"fetch", "pull", "push"})
_CHANGES_FILES = word_set("checkout cherry-pick merge pull rebase reset restore revert rm stash switch")
_REMOTE = re.compile(r"[A-Za-z0-9_][\w.-]*")
_GAPS = re.compile(r"\0(?:\s*(?:&&|[;\n])\s*\0)*\s*;?\s*")


def writing_git_commands(text: str, root: str = "/workspace") -> tuple[tuple[str, ...], ...]:
    """Return the arguments of git commands that are a whole command, one after the other, if one of them writes; else nothing.

    `root` is the workspace, which a `cd` at the beginning or the option `-C` may name.
    """
    if "git" not in text:
        return ()
    commands = parse(text).commands
    rest = text.strip()
    for command in commands:
        rest = rest.replace(command.text, "\0", 1)
    here = ((".",), ("/workspace",), (root,))
    if commands and commands[0].words[:1] == ("cd",) and commands[0].words[1:] in here:
        commands = commands[1:]
    found = tuple(_arguments(command, here) for command in commands)
    is_plain = _GAPS.fullmatch(rest) and all(each and (_writes(each) or not unsupported(each)) for each in found)
    return found if is_plain and any(map(_writes, found)) else ()


def names_writing_git(text: str) -> bool:
    """Tell whether any part of a command line is a git command that changes a repository."""
    return "git" in text and any(each[:1] == ("git",) and each[1:2] and _writes(each[1:]) for each in outline(text).commands)


def changes_files(arguments: tuple[str, ...]) -> bool:
    """Tell whether a git command may change files of the work tree."""
    return arguments[0] in _CHANGES_FILES


def unsupported(arguments: tuple[str, ...]) -> str:
    """Return the word for which lmtui does not run a git command, empty where it runs it."""
    name = arguments[0]
    options = (_OPTIONS if _writes(arguments) else _READS).get(name)
    if options is None:
        return name
    plain, unknown = _operands(arguments[1:], options)
    return unknown or next((word for word in plain[:1] if name in CONNECTS and not _REMOTE.fullmatch(word)), "")


def named_remote(arguments: tuple[str, ...]) -> str:
    """Return the remote that a git command names, empty where it takes the usual one."""
    plain, _ = _operands(arguments[1:], _OPTIONS[arguments[0]])
    return plain[0] if plain else ""


def _operands(words: tuple[str, ...], options: str) -> tuple[list[str], str]:
    """Return the words that are neither options nor their values, and the first option that is not known."""
    letters, *names = options.split(" ")
    plain: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            return [*plain, *rest], ""
        if not word.startswith("-"):
            plain.append(word)
            continue
        long, has_value, _ = word[2:].partition("=")
        if word.startswith("--"):
            takes_next = f"{long}=" in names and not has_value
            is_known = f"{long}=" in names or long in names
        else:
            first = next((at for at, letter in enumerate(word[1:], 2) if f"{letter}:" in letters), len(word))
            takes_next = first == len(word) and f"{word[-1]}:" in letters
            is_known = set(word[1:first]) <= set(letters) - {":"}
        if not is_known:
            return plain, word
        if takes_next:
            next(rest, "")
    return plain, ""


def _arguments(command: SimpleCommand, here: tuple[tuple[str], ...]) -> tuple[str, ...]:
    """Return the arguments of a plain git command that runs `here`, empty for any other."""
    words = command.words
    if words[:1] != ("git",) or any(command.globs):
        return ()
    words = words[2:] if words[1:2] == ("-C",) and words[2:3] in here else words
    at = next((i for i, word in enumerate(words[1:], 1) if word not in ("--no-pager", "-P")), len(words))
    return words[at:] if at < len(words) and not words[at].startswith("-") else ()


def _writes(arguments: tuple[str, ...]) -> bool:
    lists = _LISTS.get(arguments[0])
    if lists is not None and lists.fullmatch(" ".join(arguments[1:2])):
        return False
    return arguments[0] in _OPTIONS
