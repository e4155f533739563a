"""The hard floor: what is hard to take back or leaves the machine.  A wildcard in a rule does not cover it.

A rule that names the command to the letter does; in `auto` mode the user chose to have it run, and the sandbox contains it.
"""

from __future__ import annotations

import re

from lmtui.core.shell.command import SimpleCommand, word_set

_MADE = re.compile(
    r"(?:build|dist|target|out|node_modules|__pycache__|\.(?:pytest|mypy|ruff|parcel-)?_?cache|\.tox|\.nox|htmlcov|\.?coverage"
    r"|\.next|\.nuxt|\.hypothesis|\.eggs|[A-Za-z0-9_.-]+\.egg-info)/?\Z"
)
# What is looked for in the words from the sub-command on, joined by blanks.
_FORCED = r"(?:.* )?(?:-[A-Za-z]*{}|--{})"
_GIT = (
    r"(?:push|clean|filter-branch|filter-repo|send-email|restore|read-tree)(?: |\Z)", r"reset (?:.* )?--[hmk]",
    r"stash (?:drop|clear)", "branch " + _FORCED.format("[DMCf]", "f"), "checkout " + _FORCED.format("f", r"(?:f|\Z| )"),
    r"checkout (?:.* )?(?:\.|:\S*|\S*/)(?: |\Z)", "checkout-index " + _FORCED.format("[fa]", "[fa]"), r"update-ref (?:.* )?-d",
    r"checkout (?!(?:.* )?(?:-[bBt]|--orphan|--track|--detach))(?:-\S+ )*[^- ]\S* +[^- ]", "switch " + _FORCED.format("f",
    "(?:f|di)"),
    r"reflog (?:expire|delete)", r"gc (?:.* )?--p", r"worktree (?:remove|prune)", "tag " + _FORCED.format("[df]", "[df]"),
    "rm " + _FORCED.format("[rf]", "f"), r"remote (?:remove|rm)",
)  # fmt: skip
_PUBLISHING = {
    "npm": "publish unpublish deprecate login adduser token access owner", "pnpm": "publish", "yarn": "publish npm",
    "cargo": "publish login owner yank", "poetry": "publish", "uv": "publish", "hatch": "publish", "flit": "publish",
    "gem": "push",
    "docker": "push login system rm rmi volume", "mvn": "deploy", "gradle": "publish", "helm": "install upgrade uninstall push",
    "gh": "release pr repo api secret workflow gist auth", "terraform": "apply destroy", "vsce": "publish",
    "kubectl": "apply delete create replace patch scale drain exec",
}  # fmt: skip
_ALWAYS = word_set(
    "dd mkfs shred truncate shutdown reboot halt poweroff crontab systemctl iptables nft kill pkill killall twine wipefs fdisk "
    "parted mkswap swapoff useradd usermod userdel passwd chpasswd visudo"
)


def floor_reason(command: SimpleCommand) -> str:
    """Return why a command is below the hard floor, else an empty string."""
    name, rest = command.program.rpartition("/")[2], command.words[1:]
    if name == "rm":
        return _removal(command)
    if name == "git":
        words = re.sub(r"\A(?:-[Cc] \S+ |-\S+ )*", "", " ".join(rest))
        is_hit = any(re.match(each, words, re.DOTALL) for each in _GIT)
        return f"git {words.partition(' ')[0]} throws work away or sends it out" if is_hit else ""
    if name in _ALWAYS or name.startswith("mkfs."):
        return f"{name} is hard to take back"
    if name in ("chmod", "chown", "chgrp") and _is_recursive(rest):
        return f"{name} -R changes a whole tree"
    found = [word for word in rest if word in _PUBLISHING.get(name, "").split()]
    return f"{name} {found[0]} reaches beyond this machine" if found else ""


def _removal(command: SimpleCommand) -> str:
    places = [i for i, word in enumerate(command.words) if i and not word.startswith("-")]
    if any(command.globs[i][:1] in ("*", "?") for i in places):
        return "rm with a pattern removes whatever it meets"
    is_made = bool(places) and all(_is_made(command.words[i]) for i in places)
    return "rm -r removes whole folders" if _is_recursive(command.words[1:]) and not is_made else ""


def _is_made(path: str) -> bool:
    """Tell whether a path inside the workspace is something that a build makes again."""
    parts = path.removeprefix("./").rstrip("/").split("/")
    return not path.startswith(("/", "~")) and ".." not in parts and _MADE.match(parts[-1]) is not None


def _is_recursive(words: tuple[str, ...]) -> bool:
    return any(re.match(r"-[A-Za-z]*[rR]|--r", word) for word in words)
