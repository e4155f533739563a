"""Commands that are dangerous to allow: which words are, and why in a few words.  It warns people and decides nothing."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from lmtui.core.permissions.shell_grammar import outline, unquoted, word_set
from lmtui.core.permissions.shell_review import transparent_place

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
_STOPS = word_set("shutdown reboot halt poweroff")
_DISKS = re.compile(r"/dev/(?:sd|nvme|hd|vd|mmcblk|disk|mapper)\w*")
_SYSTEM = re.compile(
    r"(?:/(?:etc|usr|bin|sbin|lib\w*|boot|sys|proc|var|opt|root)(?:/|\Z)|~/\.(?:ssh|bashrc|profile|zshrc|gitconfig|config))"
)
_PUBLISHES = ("npm publish", "cargo publish", "twine upload", "gem push", "poetry publish", "uv publish")
_DESTROYS = {
    "terraform destroy": "destroys infrastructure",
    "kubectl delete": "deletes from the cluster",
    "crontab -r": "deletes all cron jobs",
}


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
    found = [Danger(reason, "", *match.span(1)) for pattern, reason in _SHAPES for match in pattern.finditer(text)]
    home = workspace if _is_within(workspace, cwd) else cwd
    at = 0
    seen = outline(text)
    for words in seen.commands:
        match = re.compile(r"(?:\s|\\\n)+".join(map(re.escape, words))).search(text, at)
        start, end = match.span() if match else (0, 0)
        at = start
        found += [Danger(each.reason, each.subject, start, end) for each in _of_command(tuple(map(unquoted, words)), cwd, home)]
    for target in seen.targets:
        if _DISKS.match(target) or (_SYSTEM.match(target) and not _is_within(home, target)):
            place = text.find(target)
            found.append(Danger("writes outside this folder", target, place, place + len(target) if place >= 0 else 0))
    by_root = [each for each in found if each.reason == "runs as root"]
    scripts = [each for each in found if "script" in each.reason and "sudo" in text[each.start : each.end]]
    if scripts:  # one reason says both
        found = [each for each in found if each not in by_root]
        found = [Danger("runs a downloaded script as root, unread", "", each.start, each.end) if each in scripts else each
                 for each in found]  # fmt: skip
    unique = {(each.reason, each.subject): each for each in reversed(found)}
    return tuple(sorted(unique.values(), key=lambda each: each.start))


def _of_command(words: tuple[str, ...], cwd: str, home: str) -> Iterator[Danger]:
    words, is_root = _unwrapped(words)
    if not words:
        return
    program, rest = words[0].rpartition("/")[2], words[1:]
    letters = {letter for word in rest if re.match(r"-[A-Za-z]", word) for letter in word[1:]}
    if program == "git":
        yield from _of_git(rest, letters)
    yield from _of_files(program, rest, letters, cwd, home)
    yield from _of_machine(program, rest)
    if is_root:
        yield Danger("runs as root", program)


def _of_files(program: str, rest: tuple[str, ...], letters: set[str], cwd: str, home: str) -> Iterator[Danger]:
    operands = [word for word in rest if not word.startswith("-")]
    if program in ("rm", "rmdir", "shred", "unlink"):
        yield from _deletes(operands, cwd, home, is_deep=bool(letters & {"r", "R", "f"}) or program == "shred")
    elif program == "find" and ("-delete" in rest or ("rm" in rest and "-exec" in rest)):
        yield from _deletes(operands[:1], cwd, home, is_deep=True)
    elif program == "chmod" and "R" in letters and any(re.fullmatch(r"0?777|a?\+rwx", word) for word in operands):
        yield Danger("lets everyone change files", " ".join(operands[1:]))
    elif program in ("chmod", "chown", "mv", "tee", "cp", "ln", "install"):
        written = operands if program in ("chmod", "chown", "mv", "tee") else operands[-1:]
        for word in written:
            if _SYSTEM.match(word) and not _is_within(home, word):
                yield Danger("writes outside this folder", word)
    elif program in ("curl", "wget"):
        sent = (re.sub(r".*@", "", word) for word in rest if re.search(r"(?:\A|=|-[dF])@[^-]", word))
        yield from (Danger("sends a file to the network", word) for word in sent)


def _of_machine(program: str, rest: tuple[str, ...]) -> Iterator[Danger]:
    first = " ".join((program, *rest[:1]))
    if program == "dd":
        disks = (word[3:] for word in rest if word.startswith("of=") and _DISKS.match(word[3:]))
        yield from (Danger("overwrites a disk", disk) for disk in disks)
    elif re.match(r"mkfs|wipefs|fdisk|parted|sfdisk", program):
        yield Danger("overwrites a disk", rest[-1] if rest else "")
    elif program == "kill" and rest[-1:] in (("-1",), ("1",)):
        yield Danger("ends every process")
    elif program in _STOPS or first in ("init 0", "init 6"):
        yield Danger("stops the machine")
    elif first in _PUBLISHES:
        yield Danger("publishes this package")
    elif first in _DESTROYS:
        yield Danger(_DESTROYS[first])


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
        elif words and (place := transparent_place(words, with_xargs=True)):
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


def _of_git(rest: tuple[str, ...], letters: set[str]) -> Iterator[Danger]:
    while rest[:1] and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in ("-C", "-c") else rest[1:]
    name, words = (rest[0] if rest else ""), rest[1:]
    operands = [word for word in words if not word.startswith("-")]
    if name == "push":
        refs = operands[1:]
        if (
            any(re.match(r"--force(?:-with-lease|=|\Z)|--force-if", word) for word in words)
            or "f" in letters
            or any(ref.startswith("+") for ref in refs)
        ):
            yield Danger("force-pushes", refs[0].lstrip("+") if refs else "")
        if "--mirror" in words or "--delete" in words or "d" in letters or any(ref.startswith(":") for ref in refs):
            yield Danger("deletes remote branches")
    elif name == "reset" and "--hard" in words:
        yield Danger("discards uncommitted changes")
    elif name == "clean" and ("f" in letters or "--force" in words):
        yield Danger("deletes untracked files")
    elif name in ("filter-branch", "filter-repo") or (name == "reflog" and "expire" in operands):
        yield Danger("rewrites the git history")
    elif name == "stash" and operands[:1] in (["drop"], ["clear"]):
        yield Danger("deletes stashed changes")


def _is_within(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
