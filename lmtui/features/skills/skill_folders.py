"""The folders of skills: what is in them, which of a folder's wait for the user's yes, and how one is added.  Blocks (disk).

A yes holds for a SKILL.md as it is, and is asked for again once it changed.  Nothing of a skill's own is run or obeyed before.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lmtui.core.errors import LmtuiError, UsageError
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.core.trust import TrustItem
from lmtui.features.folder_consent import FolderConsent
from lmtui.features.skills.reader import BrokenSkill, read_skill
from lmtui.features.skills.values import SkillSource
from lmtui.plain_files import LINKED, NotPlain, is_linked, list_plain, open_plain_folder, read_plain
from lmtui.store.session_logs import make_workspace_folder

SKILL_FILE = "SKILL.md"
FOLDERS = (".lmagent/skills", ".agents/skills", ".claude/skills")
MAX_SKILL_BYTES = 262_144
_MOST_SKILLS = 200
_MOST_FILES, _MOST_DEPTH = 50, 4
_PASSED_OVER = frozenset({"__pycache__", "node_modules", ".git"})


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """A folder that holds skills, `below` a `root`; above the root links are the user's own affair."""

    source: SkillSource
    root: Path
    below: str
    shown: str


@dataclass(frozen=True, slots=True)
class RawSkill:
    """A skill as it lies there: its folder, its SKILL.md (None where it cannot be read) and why."""

    place: SkillFolder
    folder: str
    data: bytes | None
    problem: str = ""

    @property
    def shown(self) -> str:
        """Return its SKILL.md as the user knows it."""
        return sanitize_line(f"{self.place.shown}/{self.folder}/{SKILL_FILE}")


def places(workspace: Path, settings: Path, home: Path) -> list[SkillFolder]:
    """Return where skills may lie, the nearest first."""
    shipped = Path(__file__).parent / "shipped"
    return [
        *(SkillFolder(SkillSource.FOLDER, workspace, folder, folder) for folder in FOLDERS),
        SkillFolder(SkillSource.USER, settings / "skills", "", str(settings / "skills")),
        *(SkillFolder(SkillSource.USER, home / folder, "", f"~/{folder}") for folder in FOLDERS[1:]),
        SkillFolder(SkillSource.SHIPPED, shipped, "", "lmtui"),
    ]


def skills_in(place: SkillFolder) -> list[RawSkill]:
    """Return what is in a place, by name; of a folder's links only that they are not followed."""
    is_own = place.source is not SkillSource.FOLDER
    if not is_own and is_linked(place.root, place.below):
        return [RawSkill(place, "*", None, LINKED)]
    entries = _entries(place.root, place.below, follows=is_own)
    names = [name for name, is_folder in entries if is_folder and not name.startswith(".")]
    raw = [_raw(place, name) for name in names[:_MOST_SKILLS]]
    links = () if is_own else [name for name, kind in list_plain(place.root, place.below) if kind == "other"]
    return [each for each in raw if each is not None] + [RawSkill(place, name, None, LINKED) for name in links[:_MOST_SKILLS]]


def files_beside(place: SkillFolder, folder: str) -> list[str]:
    """Return the other files of a skill, relative to its folder."""
    found: list[str] = []
    _walk(*_root_of(place, folder), "", found)
    return found


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
    return (place.root, f"{place.below}/{folder}") if place.source is SkillSource.FOLDER else (place.root / folder, "")


def _raw(place: SkillFolder, folder: str) -> RawSkill | None:
    try:
        data = read_beside(place, folder, SKILL_FILE, MAX_SKILL_BYTES + 1)
    except (NotPlain, OSError) as error:
        return RawSkill(place, folder, None, sanitize_line(str(error)))
    if data is None:
        return None
    is_long = len(data) > MAX_SKILL_BYTES
    return (
        RawSkill(place, folder, None, f"it has more than {MAX_SKILL_BYTES:,} bytes")
        if is_long
        else RawSkill(place, folder, data)
    )


def _walk(root: Path, folder: str, within: str, found: list[str]) -> None:
    if within.count("/") >= _MOST_DEPTH:
        return
    for name, is_folder in _entries(root, "/".join(filter(None, (folder, within.rstrip("/")))), follows=False):
        if len(found) >= _MOST_FILES or name in _PASSED_OVER:
            continue
        if is_folder:
            _walk(root, folder, f"{within}{name}/", found)
        elif f"{within}{name}" != SKILL_FILE:
            found.append(f"{within}{name}")


def _entries(root: Path, below: str, *, follows: bool) -> Iterator[tuple[str, bool]]:
    """Yield the names of files and folders by name; links are passed over, or with `follows` those to folders are taken."""
    if not follows:
        yield from ((name, kind == "folder") for name, kind in list_plain(root, below) if kind != "other")
        return
    try:
        with os.scandir(root / below) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in found:
        is_folder = entry.is_dir()
        if is_folder or entry.is_file(follow_symlinks=False):
            yield entry.name, is_folder


_SHOWN_CHARS = 120
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_DESCRIPTION = re.compile(r"^description:\s*(.+)$", re.MULTILINE)


def digest(raw: RawSkill) -> str:
    """Return what a yes holds for: the skill's folder and its SKILL.md to the byte."""
    return hashlib.sha256(os.fsencode(f"{raw.place.below}/{raw.folder}\0") + (raw.data or b"")).hexdigest()


def skills_trust(workspace: Path) -> FolderConsent:
    """Return what a folder's skills wait for."""

    def brought() -> list[TrustItem]:
        folders = [SkillFolder(SkillSource.FOLDER, workspace, folder, folder) for folder in FOLDERS]
        return [_item(raw) for place in folders for raw in skills_in(place) if raw.data is not None]

    return FolderConsent(workspace, "skills", brought)


def add_skill(place: SkillFolder, workspace: Path, name: str, data: bytes) -> str:
    """Write a SKILL.md into a new folder of a place and return where; in a workspace it alone is trusted with that.

    Raises:
        UsageError: something of that name is there, or it cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{sanitize_line(name)[:60]!r} is not a name for a skill", "Use lower case letters, digits and hyphens."
        )
    raw = RawSkill(place, name, data)
    try:
        if place.source is SkillSource.FOLDER:
            make_workspace_folder(workspace)
        place.root.mkdir(parents=True, exist_ok=True)
        parent = open_plain_folder(place.root, place.below, makes=True)
        try:
            os.mkdir(name, 0o755, dir_fd=parent)
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        finally:
            os.close(parent)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(SKILL_FILE, flags, 0o644, dir_fd=folder), "wb") as file:
                file.write(data)
        finally:
            os.close(folder)
        if place.source is SkillSource.FOLDER:
            skills_trust(workspace).keep([digest(raw)])
    except FileExistsError as error:
        raise UsageError(f"{raw.shown} or its folder already exists", "Give this skill another name.") from error
    except (OSError, LmtuiError) as error:
        raise UsageError(f"could not write {raw.shown}: {error}", "Check permissions and free disk space.") from error
    return raw.shown


def _item(raw: RawSkill) -> TrustItem:
    about = _description(raw.data or b"", raw.folder)
    short = about if len(about) <= _SHOWN_CHARS else f"{about[:_SHOWN_CHARS].rstrip()}…"
    return TrustItem("skill", raw.shown, sanitize_line(f"{raw.folder}: {short}" if short else raw.folder), digest(raw))


def _description(data: bytes, folder: str) -> str:
    """Return what a skill says of itself, also where its front matter is broken."""
    try:
        return read_skill(data, folder).description
    except BrokenSkill:
        match = _DESCRIPTION.search(sanitize(data[:4096].decode("utf-8", "replace")))
        return match[1].strip() if match else ""
