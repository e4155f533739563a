"""Commands that are dangerous to allow: which words are, and why in a few words.  It warns people and decides nothing."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from lmtui.core.permissions.shell_grammar import outline, unquoted, word_set
from lmtui.core.permissions.shell_review import WRAPPER_OR_XARGS, inner_place

_ROOT = word_set("sudo doas su pkexec runuser")
_SHELL = (
    r"(?:sudo(?: +-\S+)* +)?(?:/\S*/)?(?:ba|z|da|k|fi)?sh\b"
    r"|(?:sudo +)?(?:python[0-9.]*|perl|ruby|node|php)\b(?= *(?:-|$|[;&|\n]))"
)
_DOWNLOAD = r"\b(?:curl|wget)\b[^|;&\n]*"
# Patterns over the whole text: the words that are marked are in the group, if there is one.
_SHAPES = (
    (re.compile(rf"{_DOWNLOAD}(\|\s*(?:{_SHELL}))"), "runs a downloaded script, unread"),
    (
        re.compile(rf"((?:{_SHELL}|\beval|\bsource|\.)\s[^|;&\n]*(?:<\(|\$\(|`)\s*(?:curl|wget)\b)"),
        "runs a downloaded script, unread",
    ),
    (re.compile(rf"\bbase64\b[^|;&\n]*(?:-d|-D|--decode)[^|;&\n]*(\|\s*(?:{_SHELL}))"), "runs hidden code"),
    (re.compile(r"(:\s*\(\s*\)\s*\{[^}]*\|[^}]*&[^}]*\})"), "starts processes without end"),
    (re.compile(r"(\b(?:DROP|TRUNCATE)\s+(?:DATABASE|SCHEMA|TABLE)\b)", re.IGNORECASE), "deletes database tables"),
)
_DISK = r"/dev/(?:sd|nvme|hd|vd|mmcblk|disk|mapper)\w*"
_SYSTEM = re.compile(
    r"(?:/(?:etc|usr|bin|sbin|lib\w*|boot|sys|proc|var|opt|root)(?:/|\Z)|~/\.(?:ssh|bashrc|profile|zshrc|gitconfig|config))"
)
_GIT = r"git (?:-[Cc] \S+ |-\S+ )*"
# Patterns over the words of one command: what it is about is in the group, if there is one.
_WORDS = tuple(
    (re.compile(rf"(?:{pattern})(?!\S)"), reason)
    for pattern, reason in (
        (rf"dd .*\bof=({_DISK})", "overwrites a disk"),
        (r"(?:mkfs|wipefs|fdisk|parted|sfdisk)\S*(?:.* (\S+))?", "overwrites a disk"),
        (r"kill (?:.* )?-?1\Z", "ends every process"),
        (r"shutdown|reboot|halt|poweroff|init [06]", "stops the machine"),
        (r"(?:npm|cargo|poetry|uv) publish|twine upload|gem push", "publishes this package"),
        (r"terraform destroy", "destroys infrastructure"),
        (r"kubectl delete", "deletes from the cluster"),
        (r"crontab -r", "deletes all cron jobs"),
        (r"chmod (?=.*-\w*R)(?:-\S+ )*(?:0?777|a?\+rwx)(?: -\S+)* ?(.*)", "lets everyone change files"),
        (r"(?:curl|wget)\b.*(?:[= ]|-[dF])@([^- ]\S*)", "sends a file to the network"),
        (
            _GIT + r"push(?=.* (?:--force(?:[-=]| |\Z)|-\w*f|\+))(?:(?: -\S+)* [^- ]\S*)?(?:(?: -\S+)* \+?([^- ]\S*))?.*",
            "force-pushes",
        ),
        (_GIT + r"push.* (?:--mirror|--delete|-\w*d\S*|:\S+)", "deletes remote branches"),
        (_GIT + r"reset .*--hard", "discards uncommitted changes"),
        (_GIT + r"clean .*(?:--force|-\w*f\w*)", "deletes untracked files"),
        (_GIT + r"(?:filter-branch|filter-repo|reflog .*expire)", "rewrites the git history"),
        (_GIT + r"stash (?:-\S+ )*(?:drop|clear)", "deletes stashed changes"),
    )
)


@dataclass(frozen=True, slots=True)
class Danger:
    """Why a command is dangerous, what it is about (such as a path), and the words, from and up to in the text."""

    reason: str
    subject: str = ""
    start: int = 0
    end: int = 0

    @property
    def text(self) -> str:
        """Return the reason with its subject."""
        return f"{self.reason}: {self.subject}" if self.subject else self.reason


@lru_cache(maxsize=64)
def dangers(text: str, cwd: str = "/workspace", workspace: str = "/workspace") -> tuple[Danger, ...]:
    """Return what is dangerous about a command line, each reason once, in the order of the text.

    Args:
        text: the command as it would be given to bash.
        cwd: the folder in which it would run.
        workspace: the folder that it may change; `cwd` where that is outside of it.
    """
    found = [
        Danger(reason.replace("script", "script as root") if "sudo" in match[1] else reason, "", *match.span(1))
        for pattern, reason in _SHAPES
        for match in pattern.finditer(text)
    ]
    home = workspace if _is_within(workspace, cwd) else cwd
    at = 0
    seen = outline(text)
    for words in seen.commands:
        match = re.compile(r"(?:\s|\\\n)+".join(map(re.escape, words))).search(text, at)
        start, end = match.span() if match else (0, 0)
        at = start
        found += [Danger(each.reason, each.subject, start, end) for each in _of_command(tuple(map(unquoted, words)), cwd, home)]
    for target in seen.targets:
        if re.match(_DISK, target) or (_SYSTEM.match(target) and not _is_within(home, target)):
            place = text.find(target)
            found.append(Danger("writes outside this folder", target, place, place + len(target) if place >= 0 else 0))
    if any("as root, unread" in each.reason for each in found):  # one reason says both
        found = [each for each in found if each.reason != "runs as root"]
    unique = {(each.reason, each.subject): each for each in reversed(found)}
    return tuple(sorted(unique.values(), key=lambda each: each.start))


def _of_command(words: tuple[str, ...], cwd: str, home: str) -> Iterator[Danger]:
    words, is_root = _unwrapped(words)
    if not words:
        return
    program, rest = words[0].rpartition("/")[2], words[1:]
    line = " ".join(re.sub(r"\s", "_", word) for word in (program, *rest))
    for pattern, reason in _WORDS:
        if match := pattern.match(line):
            yield Danger(reason, match[1] or "" if pattern.groups else "")
    operands = [word for word in rest if not word.startswith("-")]
    if program in ("rm", "rmdir", "shred", "unlink"):
        yield from _deletes(operands, cwd, home, is_deep=bool(re.search(r" -\w*[rRf]", line)) or program == "shred")
    elif program == "find" and ("-delete" in rest or {"rm", "-exec"} <= set(rest)):
        yield from _deletes(operands[:1], cwd, home, is_deep=True)
    elif program in ("chmod", "chown", "mv", "tee", "cp", "ln", "install"):
        for word in operands[-1:] if program in ("cp", "ln", "install") else operands:
            if _SYSTEM.match(word) and not _is_within(home, word):
                yield Danger("writes outside this folder", word)
    if is_root:
        yield Danger("runs as root", program)


def _unwrapped(words: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """Return a command without what it is wrapped in, and whether it runs as root."""
    is_root = False
    for _ in range(5):
        if words and words[0].rpartition("/")[2] in _ROOT:
            is_root = True
            words = words[1:]
            while words and words[0].startswith("-"):
                words = words[2:] if words[0] in ("-u", "-g", "-h", "-p") else words[1:]
            words = words or ("a shell",)
        elif words and (place := inner_place(words, WRAPPER_OR_XARGS)):
            words = words[place:]
        else:
            break
    return words, is_root


def _deletes(operands: list[str], cwd: str, home: str, *, is_deep: bool) -> Iterator[Danger]:
    for word in operands:
        if re.match(r"~|\$\{?HOME", word):
            yield Danger("deletes in your home folder", word)
        elif word.startswith("$"):
            continue
        else:
            path = posixpath.normpath(posixpath.join(cwd, word.rstrip("*") or "."))
            if not _is_within(home, path) and not path.startswith("/tmp/"):  # noqa: S108 - a path of the user, not a file of ours
                yield Danger("deletes outside this folder", word)
            elif is_deep and path == home:
                yield Danger("deletes everything in this folder")
            elif is_deep and (path == f"{home}/.git" or path.startswith(f"{home}/.git/")):
                yield Danger("deletes the git history", word)


def _is_within(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
