"""Listings of any length: one folder, every file that ignore rules do not leave out, and what git tells of them.

Each is a text of NUL-ended records, as raw as the disk has it, packed so that it travels in one answer.  Runs in a keeper.
"""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from . import beneath, execute, git, search
from .beneath import Refused, Root
from .protocol import Message, pack
from .settings import Settings

MAX_BYTES = 16_777_216
MAX_RESULT_BYTES = 24_000_000  # packed, where nothing of it can be made smaller
_GIT_S = 15.0
_FILES = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]
_STATUS = ["status", "--porcelain=v1", "-z", "--ignored=matching", "--untracked-files=normal", "--ignore-submodules=dirty"]


def answer(root: Root, message: Message, settings: Settings, program: bytes) -> Message:
    """Return the listing that a message asks for; `source` is folder, git, walk or none.

    Raises:
        Refused: no such folder, or no such listing.
    """
    match message["what"]:
        case "folder":
            return _packed("folder", _folder(root, str(message["path"])))
        case "paths":
            listed = _git(_FILES, settings, program)
            if listed is not None:
                return _packed("git", _records(listed))
            return _packed("walk", _walk(root, int(message["max_paths"])))
        case "status":
            listed = _git(_STATUS, settings, program)
            return _packed("none" if listed is None else "git", _records(listed or b""))
        case _:
            raise Refused("no such listing")


def _packed(source: str, records: Iterable[bytes]) -> Message:
    kept: list[bytes] = []
    room = MAX_BYTES
    is_cut = False
    for record in records:
        room -= len(record) + 1
        if room < 0:
            is_cut = True
            break
        kept.append(record)
    data = zlib.compress(b"\0".join(kept), 1)
    return {"source": source, "count": len(kept), "is_cut": is_cut, "data": pack(data)}


def _records(listed: bytes) -> list[bytes]:
    return listed.removesuffix(b"\0").split(b"\0") if listed else []


def _folder(root: Root, path: str) -> Iterator[bytes]:
    """Yield a letter for the kind (d, f, l, o) and the name of each entry, folders first."""
    with root.opened(path, os.O_RDONLY | os.O_DIRECTORY) as (folder, _), os.scandir(folder) as found:
        entries = [(_kind(entry), entry.name) for entry in found if not beneath.is_protected(entry.name)]
    entries.sort(key=lambda entry: (entry[0] != "d", entry[1]))
    for kind, name in entries:
        yield os.fsencode(kind + name)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "l"
    if entry.is_dir(follow_symlinks=False):
        return "d"
    return "f" if entry.is_file(follow_symlinks=False) else "o"


def _walk(root: Root, max_paths: int) -> Iterator[bytes]:
    with root.opened("", os.O_RDONLY | os.O_DIRECTORY) as (folder, _):
        for number, path in enumerate(search.walk(folder, "", 10 * max_paths)):
            if number > max_paths:
                return
            yield path.encode("utf-8", "replace")


def _git(arguments: list[str], settings: Settings, program: bytes) -> bytes | None:
    """Return what git prints, None where it is not there, or the folder is not a repository."""
    if not (Path(settings.root) / ".git").exists():
        return None
    try:
        whole, environment = git.command(arguments, settings)
        environment = git.without_drivers(environment, whole[0], settings)
    except Refused:
        return None
    with tempfile.TemporaryFile() as output:
        command = execute.Command(whole, environment, _GIT_S, settings.root, program, is_listing=True)
        ended = execute.run(command, os.dup(output.fileno()), settings)
        if ended["exit"] != 0:
            return None
        output.seek(0)
        return output.read(MAX_BYTES)
