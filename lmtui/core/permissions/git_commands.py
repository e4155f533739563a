"""Git commands that change a repository, as lmtui runs them without a shell: from a list of subcommands and options."""

from __future__ import annotations

import posixpath
import re
from typing import NamedTuple

from lmtui.core.permissions.shell_grammar import outline, parse, word_set

# Letters and names of options; a capital behind a colon, or a name with `=`, takes the next word.  None of them runs a program,
# asks, or reads or writes a file that it names, but for that of a message, which lmtui reads.
_OPTIONS = {
    "add": "AufvnN all update force verbose dry-run intent-to-add",
    "branch": "dDmMcCftqu: delete move copy force track no-track quiet set-upstream-to= unset-upstream",
    "checkout": "b:B:qtfm quiet track no-track ours theirs detach force orphan= merge",
    "cherry-pick": "nxm: no-commit mainline= continue abort skip quit allow-empty keep-redundant-commits",
    "commit": "am:qsoiC:F: message= file= all amend no-edit allow-empty allow-empty-message quiet signoff author= date= "
    "fixup= squash= reset-author only include reuse-message=",
    "fetch": "tpfqv all tags prune depth= unshallow quiet verbose dry-run force",
    "init": "qb: quiet initial-branch=",
    "merge": "m:qvX:F: file= ff no-ff ff-only squash no-commit commit message= no-edit abort continue quit quiet stat no-stat "
    "strategy-option= allow-unrelated-histories autostash no-autostash",
    "mv": "fknv force dry-run verbose",
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
    "tag": "adfm:F: annotate message= file= delete force",
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
_CHANGES_FILES = word_set("checkout cherry-pick merge mv pull rebase reset restore revert rm stash switch")
_REMOTE = re.compile(r"[A-Za-z0-9_][\w.-]*")
_GAPS = re.compile(r"\0(?:\s*(?:&&|[;\n])\s*\0)*\s*;?\s*")


_CHANGE_OF_FOLDER = re.compile(r"\A(cd [^\n|;&]+) \|\| exit\n")


class GitCommand(NamedTuple):
    """The arguments of a git command, and the folder below the workspace in which it runs."""

    folder: str
    arguments: tuple[str, ...]


def writing_git_commands(text: str, root: str = "/workspace") -> tuple[GitCommand, ...]:
    """Return the git commands that are a whole command line, one after the other, if one of them writes; else nothing.

    `root` is the workspace; `cd` and the option `-C` may name folders in it.
    """
    if "git" not in text:
        return ()
    text = _CHANGE_OF_FOLDER.sub(r"\1 &&\n", text.strip())
    commands = parse(text).commands
    rest, folder = text, ""
    found: list[GitCommand] = []
    for command in commands:
        rest = rest.replace(command.text, "\0", 1)
        words, (arguments, folders) = command.words, _without_globals(command.words)
        is_cd = words[0] == "cd" and len(words) == 2
        where = _folder(folder, words[1:] if is_cd else folders, root)
        if where is None or any(command.globs) or not (is_cd or (words[0] == "git" and arguments)):
            return ()
        if is_cd:
            folder = where
        else:
            found.append(GitCommand(where, arguments))
    is_plain = _GAPS.fullmatch(rest) and all(_writes(each.arguments) or not unsupported(each.arguments) for each in found)
    is_new = any(each.folder and each.arguments[0] == "init" for each in found)
    return tuple(found) if is_plain and not is_new and any(_writes(each.arguments) for each in found) else ()


def names_writing_git(text: str) -> bool:
    """Tell whether any part of a command line is a git command that changes a repository."""
    commands = outline(text).commands if "git" in text else ()
    return any(words[0] == "git" and _writes(_without_globals(words)[0]) for words in commands)


def changes_files(command: GitCommand) -> bool:
    """Tell whether a git command may change files of the work tree."""
    return command.arguments[0] in _CHANGES_FILES


def unsupported(arguments: tuple[str, ...]) -> str:
    """Return the word for which lmtui does not run a git command, empty where it runs it."""
    name = arguments[0]
    options = (_OPTIONS if _writes(arguments) else _READS).get(name)
    if options is None:
        return name
    read = _read(arguments[1:], options)
    if read.file == "-":
        return "-F -; give the message with -m"
    return read.unknown or next((word for word in read.plain[:1] if name in CONNECTS and not _REMOTE.fullmatch(word)), "")


def named_remote(arguments: tuple[str, ...]) -> str:
    """Return the remote that a git command names, empty where it takes the usual one."""
    return next(iter(_read(arguments[1:], _OPTIONS[arguments[0]]).plain), "")


def message_file(arguments: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the file from which a git command takes its message, empty for none, and the arguments without it."""
    read = _read(arguments[1:], _OPTIONS.get(arguments[0], ""))
    return read.file, (arguments[0], *read.others)


class _Read(NamedTuple):
    """Words that are neither options nor their values, the first unknown option, and the `file` of a message.

    `others` are all words but the option that names this file.
    """

    plain: list[str]
    unknown: str
    file: str
    others: tuple[str, ...]


def _read(words: tuple[str, ...], options: str) -> _Read:
    letters, *names = options.split(" ")
    plain: list[str] = []
    file, others = "", words
    rest = iter(range(len(words)))
    for at in rest:
        word = words[at]
        if word == "--":
            return _Read([*plain, *words[at + 1 :]], "", file, others)
        if not word.startswith("-"):
            plain.append(word)
            continue
        name, has_value, value = word[2:].partition("=")
        first = next((i for i, letter in enumerate(word[1:], 2) if f"{letter}:" in letters), len(word))
        if word.startswith("--"):
            takes_next = f"{name}=" in names and not has_value
            is_known = f"{name}=" in names or name in names
        else:
            takes_next = first == len(word) and f"{word[-1]}:" in letters
            is_known = set(word[1:first]) <= set(letters) - {":"}
            name, value = word[first - 1], word[first:]
        if not is_known:
            return _Read(plain, word, file, others)
        if takes_next:
            value = words[next(rest, at)]
        if name in ("F", "file"):
            flags = (word[: first - 1],) if word[1] != "-" and first > 2 else ()
            file, others = value, (*words[:at], *flags, *words[at + 1 + takes_next :])
    return _Read(plain, "", file, others)


def _without_globals(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the subcommand of a git command with its arguments, and the folders that `-C` names before it."""
    at, folders = 1, words[:0]
    while words[at : at + 1] and words[at] in ("-C", "--no-pager", "-P"):
        has_folder = words[at] == "-C"
        folders += words[at + 1 : at + 1 + has_folder]
        at += 1 + has_folder
    return words[at:], folders


def _folder(folder: str, paths: tuple[str, ...], root: str) -> str | None:
    """Return the folder in which a command runs after `cd` or `-C` in a folder, None outside the workspace."""
    for path in paths:
        inside = root + path.removeprefix("/workspace") if f"{path}/".startswith("/workspace/") else path
        whole = posixpath.normpath(posixpath.join(root, folder, inside))
        if path.startswith("-") or not f"{whole}/".startswith(f"{root}/"):
            return None
        folder = whole[len(root) + 1 :]
    return folder


def _writes(arguments: tuple[str, ...]) -> bool:
    if not arguments:
        return False
    lists = _LISTS.get(arguments[0])
    if lists is not None and lists.fullmatch(" ".join(arguments[1:2])):
        return False
    return arguments[0] in _OPTIONS
