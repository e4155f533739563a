"""The folders of skills and sub-agents: what is in them, what of a folder waits for a yes, how one is added.  Blocks (disk).

A yes holds for a file as it is, and is asked for again once it changed.  Nothing in it is run or obeyed before.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Generic, TypeVar

from lmtui.core.errors import LmtuiError, ToolError, UsageError
from lmtui.core.sanitize import clipped, sanitize_line
from lmtui.core.subagents import AgentDefinition, FileState
from lmtui.core.trust import TrustItem
from lmtui.features.folder_consent import ALLOWED, REFUSED, FolderConsent
from lmtui.features.skills.reader import BrokenSkill
from lmtui.features.skills.values import Skill, SkillSource
from lmtui.paths import config_dir
from lmtui.plain_files import LINKED, NotPlain, is_linked, list_plain, open_own, own_folder, read_plain
from lmtui.store.session_logs import make_workspace_folder

SKILL_FILE = "SKILL.md"
FOLDERS = {
    "skills": (".lmagent/skills", ".agents/skills", ".claude/skills"),
    "agents": (".lmagent/agents", ".claude/agents"),
}
MAX_SKILL_BYTES = 262_144
_MOST_FILES, _MOST_BESIDE, _MOST_DEPTH = 200, 50, 4
_PASSED_OVER = frozenset({"__pycache__", "node_modules", ".git"})


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """A folder that holds skills, `below` a `root`; above the root links are the user's own affair."""

    source: SkillSource
    root: Path
    below: str
    shown: str


@dataclass(frozen=True, slots=True)
class RawFile:
    """A file of a place as it lies there, in a `folder` made for it or in none: what is in it, or why it cannot be read."""

    place: SkillFolder
    folder: str
    file: str
    data: bytes | None = None
    problem: str = ""

    @property
    def name(self) -> str:
        """Return what it goes by where it gives no name."""
        return sanitize_line(self.folder or self.file.removesuffix(".md"))

    @property
    def content(self) -> bytes:
        """Return what is in it.

        Raises:
            BrokenSkill: it cannot be read.
        """
        if self.data is None:
            raise BrokenSkill(self.problem)
        return self.data

    @property
    def shown(self) -> str:
        """Return it as the user knows it."""
        return sanitize_line("/".join(filter(None, (self.place.shown, self.folder, self.file))))


def places(workspace: Path, kind: str) -> list[SkillFolder]:
    """Return where the files of a kind may lie, the nearest first."""
    folders, own = FOLDERS[kind], config_dir() / kind
    shipped = SkillFolder(SkillSource.SHIPPED, Path(__file__).parent / "shipped", "", "lmtui")
    return [
        *(SkillFolder(SkillSource.FOLDER, workspace, folder, folder) for folder in folders),
        SkillFolder(SkillSource.USER, own, "", str(own)),
        *(SkillFolder(SkillSource.USER, Path.home() / folder, "", f"~/{folder}") for folder in folders[1:]),
        *([shipped] if kind == "skills" else []),
    ]


def _skills_in(place: SkillFolder) -> list[RawFile]:
    """Return what is in a place, by name; of a folder's links only that they are not followed."""
    is_own = place.source is not SkillSource.FOLDER
    if not is_own and is_linked(place.root, place.below):
        return [RawFile(place, "*", SKILL_FILE, problem=LINKED)]
    found = [each for each in list_plain(place.root, place.below) if each[1] != "file" and not each[0].startswith(".")]
    read = (
        read_raw(place, name, SKILL_FILE) if is_own or kind == "folder" else RawFile(place, name, SKILL_FILE, problem=LINKED)
        for name, kind in found[:_MOST_FILES]
    )
    return [each for each in read if each is not None]


def _agents_in(place: SkillFolder) -> list[RawFile]:
    """Return the Markdown files of a place, by name; no link in it is followed."""
    if place.source is SkillSource.FOLDER and is_linked(place.root, place.below):
        return [RawFile(place, "", "", problem=LINKED)]
    names = [name for name, kind in list_plain(place.root, place.below) if kind != "folder" and name.endswith(".md")]
    read = (read_raw(place, "", name) for name in names[:_MOST_FILES])
    return [each for each in read if each is not None]


def files_beside(place: SkillFolder, folder: str) -> list[str]:
    """Return the other files of a skill, relative to its folder."""
    root, below = _root_of(place, folder)
    found, ahead = list[str](), [""]
    while ahead and len(found) < _MOST_BESIDE:
        within = ahead.pop(0)
        for name, kind in list_plain(root, f"{below}/{within}".strip("/")):
            if kind == "file" and within + name != SKILL_FILE:
                found.append(within + name)
            elif kind == "folder" and name not in _PASSED_OVER and within.count("/") < _MOST_DEPTH - 1:
                ahead.append(f"{within}{name}/")
    return sorted(found[:_MOST_BESIDE])


def read_beside(place: SkillFolder, folder: str, file: str, max_bytes: int) -> bytes | None:
    """Return a file of a skill, None where there is none; it must lie in the skill's folder.

    Raises:
        NotPlain: it is a link, no regular file, or lies elsewhere.
    """
    parts = file.removeprefix("./").split("/")
    if file.startswith("/") or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise NotPlain("it is not in the skill's folder")
    root, below = _root_of(place, folder)
    return read_plain(root, "/".join((*filter(None, [below]), *parts)), max_bytes)


def _root_of(place: SkillFolder, folder: str) -> tuple[Path, str]:
    """Return where links stop being followed for a skill, and its folder below that.

    Who keeps their own skills elsewhere and links to them means it; in a folder that others may have made nothing is a link.
    """
    below = "/".join(filter(None, (place.below, folder)))
    return (place.root, below) if place.source is SkillSource.FOLDER else (place.root / folder, "")


def read_raw(place: SkillFolder, folder: str, file: str) -> RawFile | None:
    """Return a file of a place, None where there is none."""
    try:
        data = read_beside(place, folder, file, MAX_SKILL_BYTES + 1)
    except (NotPlain, OSError) as error:
        return RawFile(place, folder, file, problem=str(error))
    if data is not None and len(data) > MAX_SKILL_BYTES:
        return RawFile(place, folder, file, problem=f"it has more than {MAX_SKILL_BYTES:,} bytes")
    return RawFile(place, folder, file, data) if data is not None else None


_SHOWN_CHARS, _MOST_KEPT = 120, 1_500
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_TRUST = "The user has to trust it first: `lmtui trust`, or /trust on the screen. "
_ANSWERED = {ALLOWED: FileState.READY, REFUSED: FileState.REFUSED}
Defined = TypeVar("Defined", Skill, AgentDefinition)


class DefinitionFiles(Generic[Defined]):
    """What the files of a workspace and its user define by name; those of the folder wait for a yes to each as it is.

    Args:
        workspace: the folder.
        kind: `skills` or `agents`; also its name in the file of the answers.
        noun: what one is called.
        parse: returns what a file defines, also a broken one.
    """

    def __init__(self, workspace: Path, kind: str, noun: str, parse: Callable[[RawFile], Defined]) -> None:
        self.noun, self.places = noun, places(workspace, kind)
        self._files_in = _skills_in if kind == "skills" else _agents_in
        self._parsed: Callable[[RawFile], Defined] = lru_cache(_MOST_KEPT)(parse)
        self.trust = FolderConsent(workspace, kind, self._brought)

    def found(self) -> list[tuple[RawFile, Defined]]:
        """Return all by name, each with its file; the first that is ready hides its namesakes."""
        answers = self.trust.answers()
        first: dict[str, Defined] = {}
        judged: list[tuple[RawFile, Defined]] = []
        for raw, given in self._read():
            is_asked = given.state is FileState.READY and raw.place.source is SkillSource.FOLDER
            state = _ANSWERED.get(answers.get(digest(raw), ""), FileState.WAITING)
            each = replace(given, state=state) if is_asked else given
            before = first.setdefault(key_of(each.name), each) if each.state is FileState.READY else each
            why = f"the one in {before.place} goes before it"
            judged.append((raw, each if before is each else replace(each, state=FileState.HIDDEN, problem=why)))
        return sorted(judged, key=lambda pair: pair[1].name)

    def ready(self, name: str, most: int | None = None) -> tuple[RawFile, Defined]:
        """Return the one of a name that can be used.

        Raises:
            ToolError: there is none; the text says why, and which there are, at most so many.
        """
        found = self.found()
        wanted, ready = key_of(name), {key_of(each[1].name): each for each in found if each[1].state is FileState.READY}
        if wanted in ready:
            return ready[wanted]
        names = [each.name for _, each in ready.values()]
        there = f"There are: {', '.join(names[:most])}." if names else "There are none."
        if held := next((each for _, each in found if key_of(each.name) == wanted), None):
            why = ", ".join(filter(None, (held.state, held.problem)))
            way_out = _TRUST if held.state in (FileState.WAITING, FileState.REFUSED) else ""
            raise ToolError(f"{self.noun} {held.name} ({held.place}) cannot be used: {why}", f"{way_out}{there}")
        close = difflib.get_close_matches(wanted, names, n=1)
        raise ToolError(f"no {self.noun} {name[:60]!r}", f"Did you mean {close[0]}? {there}" if close else there)

    def _read(self) -> list[tuple[RawFile, Defined]]:
        return [(raw, self._parsed(raw)) for place in self.places for raw in self._files_in(place)]

    def _brought(self) -> list[TrustItem]:
        return [
            TrustItem(
                self.noun, each.place, sanitize_line(f"{each.name}: {clipped(each.description, _SHOWN_CHARS)}"), digest(raw)
            )
            for raw, each in self._read()
            if raw.place.source is SkillSource.FOLDER and each.state is FileState.READY
        ]


def key_of(name: str) -> str:
    """Return a name as names are compared."""
    return name.strip().lstrip("/").lower().replace("_", "-").replace(" ", "-")


def digest(raw: RawFile) -> str:
    """Return what a yes holds for: the skill's folder, or the file's name, and the file to the byte."""
    return hashlib.sha256(os.fsencode(f"{raw.place.below}/{raw.folder or raw.file}\0") + (raw.data or b"")).hexdigest()


def add_skill(place: SkillFolder, workspace: Path, name: str, data: bytes) -> RawFile:
    """Write a SKILL.md into a new folder of a place and return it.

    Raises:
        UsageError: something of that name is there, or it cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{sanitize_line(name)[:60]!r} is not a name for a skill", "Use lower case letters, digits and hyphens."
        )
    raw, folder = RawFile(place, name, SKILL_FILE, data), place.root / place.below / name
    try:
        if place.source is SkillSource.FOLDER:
            make_workspace_folder(workspace)
        with own_folder(folder.parent, makes=True) as parent:
            os.mkdir(name, 0o755, dir_fd=parent)
        with open(folder / SKILL_FILE, "xb", opener=open_own) as file:
            file.write(data)
    except FileExistsError as error:
        raise UsageError(f"{raw.shown} or its folder already exists", "Give this skill another name.") from error
    except (OSError, LmtuiError) as error:
        raise UsageError(f"could not write {raw.shown}: {error}", "Check permissions and free disk space.") from error
    return raw
