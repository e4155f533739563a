"""The hard floor: what is hard to take back or leaves the machine.  A wildcard in a rule does not cover it.

A rule that names the command to the letter does; in `auto` mode the user chose to have it run, and the sandbox contains it.
"""

from __future__ import annotations

import re

from lmtui.core.shell.command import SimpleCommand, word_set

_MADE = re.compile(
    r"(?:build|dist|target|out|node_modules|__pycache__|\.pytest_cache|\.mypy_cache|\.ruff_cache|\.tox|\.nox|htmlcov|coverage"
    r"|\.coverage|\.next|\.nuxt|\.parcel-cache|\.cache|\.hypothesis|\.eggs|[A-Za-z0-9_.-]+\.egg-info)/?\Z"
)
_GIT = {
    "push": (), "clean": (), "filter-branch": (), "filter-repo": (), "send-email": (), "reset": ("--hard", "--merge",
    "--keep"),
    "stash": ("drop", "clear"), "branch": ("-D", "-M", "-C", "-f", "--force"), "checkout": ("-f", "--force", "--", "."),
    "read-tree": (), "checkout-index": ("-f", "--force", "-a", "--all"),
    "update-ref": ("-d",),
    "switch": ("-f", "--force", "--discard-changes"), "restore": (), "reflog": ("expire", "delete"), "gc": ("--prune",),
    "worktree": ("remove",), "tag": ("-d", "--delete", "-f", "--force"), "rm": ("-r", "-f", "-rf", "--force"),
    "remote": ("remove", "rm"),
}  # fmt: skip
_PUBLISHING = {
    "npm": ("publish", "unpublish", "deprecate", "login", "adduser", "token", "access", "owner"), "pnpm": ("publish",),
    "yarn": ("publish", "npm"), "cargo": ("publish", "login", "owner", "yank"), "twine": (), "poetry": ("publish",),
    "uv": ("publish",), "hatch": ("publish",), "flit": ("publish",), "gem": ("push",), "docker": ("push", "login",
    "system", "rm",
    "rmi", "volume"), "mvn": ("deploy",), "gradle": ("publish",), "helm": ("install", "upgrade", "uninstall", "push"),
    "gh": ("release", "pr", "repo", "api", "secret", "workflow", "gist", "auth"), "terraform": ("apply", "destroy"),
    "kubectl": ("apply", "delete", "create", "replace", "patch", "scale", "drain", "exec"), "vsce": ("publish",),
}  # fmt: skip
_ALWAYS = word_set(
    "dd mkfs shred truncate shutdown reboot halt poweroff crontab systemctl iptables nft kill pkill killall twine wipefs "
    "fdisk "
    "parted mkswap swapoff useradd usermod userdel passwd chpasswd visudo"
)


def floor_reason(command: SimpleCommand) -> str:
    """Return why a command is below the hard floor, else an empty string."""
    name = command.program.rpartition("/")[2]
    rest = command.words[1:]
    operands = tuple(word for word in rest if not word.startswith("-"))
    if name == "rm":
        return _removal(command)
    if name == "git":
        return _git(rest)
    if name in _ALWAYS or name.startswith("mkfs."):
        return f"{name} is hard to take back"
    if name in ("chmod", "chown", "chgrp") and _has_letter(rest, "R", "recursive"):
        return f"{name} -R changes a whole tree"
    if name in _PUBLISHING and (not _PUBLISHING[name] or set(operands) & set(_PUBLISHING[name])):
        return f"{name} {operands[0] if operands else ''} reaches beyond this machine".replace("  ", " ")
    return ""


def _removal(command: SimpleCommand) -> str:
    places = [i for i, word in enumerate(command.words) if i and not word.startswith("-")]
    if any(command.globs[i][:1] in ("*", "?") for i in places):
        return "rm with a pattern removes whatever it meets"
    if not (_has_letter(command.words[1:], "r", "recursive") or _has_letter(command.words[1:], "R", "recursive")):
        return ""
    is_made = all(_is_made(command.words[i]) for i in places)
    return "" if places and is_made else "rm -r removes whole folders"


def _is_made(path: str) -> bool:
    """Tell whether a path inside the workspace is something that a build makes again."""
    parts = path.removeprefix("./").rstrip("/").split("/")
    return not path.startswith(("/", "~")) and ".." not in parts and _MADE.match(parts[-1]) is not None


def _git(rest: tuple[str, ...]) -> str:
    words = list(rest)
    while words and words[0].startswith("-"):
        words = words[2:] if words[0] in ("-C", "-c") else words[1:]
    if not words or words[0] not in _GIT:
        return ""
    triggers = _GIT[words[0]]
    if words[0] == "checkout" and not any(re.match(r"-[bBt]|--(?:orphan|track|detach)", word) for word in words):
        operands = [word for word in words[1:] if not word.startswith("-")]
        if len(operands) > 1 or any(word[:1] == ":" or word[-1:] == "/" for word in operands):
            return "git checkout of files throws work away"
    is_hit = not triggers or any(_is_trigger(word, trigger) for word in words[1:] for trigger in triggers)
    return f"git {words[0]} throws work away or sends it out" if is_hit else ""


def _is_trigger(word: str, trigger: str) -> bool:
    """Compare an option as git reads it: long ones may be abbreviated, one-letter ones stand in clusters."""
    if trigger.startswith("--") and len(trigger) > 2:
        return len(word) > 3 and trigger.startswith(word.partition("=")[0])
    if trigger.startswith("-") and len(trigger) == 2 and trigger != "--":
        return re.fullmatch(rf"-[A-Za-z]*{trigger[1]}[A-Za-z]*", word) is not None
    return word == trigger


def _has_letter(words: tuple[str, ...], letter: str, long: str) -> bool:
    """Tell whether an option is among the words, in a cluster or as a long name, abbreviated or not."""
    for word in words:
        if word.startswith("--") and len(word) > 2 and f"--{long}".startswith(word.partition("=")[0]):
            return True
        if re.match(r"-[A-Za-z]", word) and not word.startswith("--") and letter in word[1:]:
            return True
    return False
