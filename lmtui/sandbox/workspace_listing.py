"""Listings of a workspace for people: a folder, all files, git's state.  What comes back is hostile and checked here."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence

from lmtui.core.errors import SandboxError
from lmtui.core.workspace import DirEntry, GitState
from lmtui.sandbox import replies
from lmtui.sandbox.guest import beneath
from lmtui.sandbox.guest.listing import MAX_BYTES
from lmtui.sandbox.host_paths import relative_path
from lmtui.sandbox.pool import SandboxPool
from lmtui.sandbox.supervisor_client import InstanceKind

_MAX_CHARS = 1000


_GLOB_TOKEN = re.compile(r"\\(.)|\[([!^]?+)(.[^\]]*)\]|\*{2,}/?|.", re.DOTALL)
_BRACES = {"{": ("(?:", 1), ",": ("|", 0), "}": (")", -1)}


def translate(pattern: str) -> str:
    r"""Return a regular expression for a glob with `*`, `**`, `?`, `[a-z]`, `[!a]`, `{a,b}` and `\` before a literal.

    Raises:
        SandboxError: the pattern is empty, too long or has a brace that does not close.
    """
    if not pattern or len(pattern) > _MAX_CHARS or "\0" in pattern:
        raise SandboxError("the glob is empty, too long or has a NUL character in it")
    body = pattern.removeprefix("./")
    source, depth = "", 0
    for token in _GLOB_TOKEN.finditer(body):
        text, literal, negation, members = token[0], *token.groups()
        if members:
            members = re.sub(r"([\\[^&~|])", r"\\\1", members).replace("--", r"-\-")
            source += f"(?!/)[{'^' if negation else ''}{members}]"
        elif text[0] == "*":
            source += "[^/]*" if text == "*" else "(?:.*/)?" if text[-1] == "/" else ".*"
        elif text == "{" or (depth and text in _BRACES):
            source, depth = source + _BRACES[text][0], depth + _BRACES[text][1]
        else:
            source += "[^/]" if text == "?" else re.escape(literal or text)
    if depth:
        raise SandboxError(f"the glob {body} has a brace that does not close")
    try:
        re.compile(source)
    except re.error as error:
        raise SandboxError(f"the glob {body} has a set that cannot be: {error}") from error
    return rf"(?s:{'' if '/' in body else '(?:.*/)?'}{source})\Z"


_CALL_S = 30.0
_KINDS = {"d": "dir", "f": "file", "l": "link", "o": "other"}
_STATES = {"!!": GitState.IGNORED, "??": GitState.UNTRACKED}
_STATES |= dict.fromkeys(("DD", "AU", "UD", "UA", "DU", "AA", "UU"), GitState.CONFLICTED)
_LETTERS = {"R": GitState.RENAMED, "A": GitState.ADDED, "D": GitState.DELETED}


class SandboxListing:
    """Lists what is in a workspace, however much it is."""

    def __init__(self, pool: SandboxPool) -> None:
        self._pool = pool

    async def folder(self, path: str) -> Sequence[DirEntry]:
        """Return the entries of a folder, folders first; `.git` and `.lmagent` are left out."""
        folder = relative_path(path, self._pool.workspace).rstrip("/")
        _, data = await self._call("folder", path=folder)
        return await asyncio.to_thread(_entries, folder, data)

    async def paths(self, max_paths: int) -> tuple[Sequence[str], bool]:
        """Return every file that ignore rules do not leave out, sorted, and whether there are more.

        A folder that is not a repository is walked without the names that are never meant; `.gitignore` holds there, too.
        """
        reply, data = await self._call("paths", max_paths=max_paths)
        found = await asyncio.to_thread(_paths, data)
        return found[:max_paths], reply.is_cut or len(found) > max_paths

    async def git_status(self) -> Mapping[str, GitState]:
        """Return what differs from the last commit and what is ignored; nothing without a repository."""
        _, data = await self._call("status")
        return await asyncio.to_thread(_states, data)

    async def _call(self, what: str, **fields: object) -> tuple[replies.ListingReply, bytes]:
        client = await self._pool.client(InstanceKind.VIEW)
        facts, data = await client.call("listing", {"what": what, **fields}, limit_s=_CALL_S)
        return replies.parse(facts, replies.ListingReply), data


def _records(data: bytes) -> list[str]:
    """Unpack records; a name that is not UTF-8 keeps its bytes as surrogates, so that it can be opened."""
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(data, MAX_BYTES + 1)
    except zlib.error as error:
        raise SandboxError("the sandbox sent a listing that cannot be read") from error
    if not unpacker.eof or len(raw) > MAX_BYTES:
        raise SandboxError("the sandbox sent a listing that is too long")
    return raw.decode("utf-8", "surrogateescape").split("\0") if raw else []


def _entries(folder: str, data: bytes) -> list[DirEntry]:
    prefix = f"{folder}/" if folder else ""
    found: list[DirEntry] = []
    for record in _records(data):
        kind, name = _KINDS.get(record[:1]), record[1:]
        if kind is None or "/" in name or name in ("", ".", "..") or len(name) > 255:
            raise SandboxError("the sandbox sent a listing with a name that cannot be")
        found.append(DirEntry(prefix + name, kind))
    return found


def _paths(data: bytes) -> list[str]:
    return sorted({path for path in _records(data) if _is_inside(path)})


def _states(data: bytes) -> dict[str, GitState]:
    return {path: state for path, state in _read_states(iter(_records(data))) if _is_inside(path)}


def _read_states(records: Iterator[str]) -> Iterator[tuple[str, GitState]]:
    """Read git's own form (git-status(1), porcelain format version 1 with `-z`): two letters, a space, a path."""
    for record in records:
        code, path = record[:2], record[3:].rstrip("/")
        if "R" in code or "C" in code:
            next(records, "")  # the name that it had
        yield path, _state(code)


def _state(code: str) -> GitState:
    by_letter = (state for letter, state in _LETTERS.items() if letter in code)
    return _STATES.get(code) or next(by_letter, GitState.MODIFIED)


def _is_inside(path: str) -> bool:
    if not path or path[0] == "/" or path[-1] == "/":
        return False
    if path.isascii() and "/." not in path and path[0] != ".":
        return len(path) <= beneath.MAX_PATH_BYTES
    return ".." not in path.split("/") and not beneath.is_protected(path)
