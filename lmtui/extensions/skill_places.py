"""Where skills lie, and their files as they are on disk.  Blocks (disk); no link is followed that others could have planted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lmtui.core.clean import clean_line
from lmtui.core.skills import SkillSource
from lmtui.plain_files import NotPlain, list_plain, read_plain

SKILL_FILE = "SKILL.md"
FOLDERS = (".lmagent/skills", ".agents/skills", ".claude/skills")
MAX_SKILL_BYTES = 262_144
_MOST_SKILLS = 200
_MOST_FILES, _MOST_DEPTH = 50, 4
_PASSED_OVER = frozenset({"__pycache__", "node_modules", ".git"})


@dataclass(frozen=True, slots=True)
class Place:
    """A folder that holds skills, `below` a `root`; above the root links are the user's own affair."""

    source: SkillSource
    root: Path
    below: str
    shown: str


@dataclass(frozen=True, slots=True)
class RawSkill:
    """A skill as it lies there: its folder, its SKILL.md (None where it cannot be read) and why."""

    place: Place
    folder: str
    data: bytes | None
    problem: str = ""

    @property
    def shown(self) -> str:
        """Return its SKILL.md as the user knows it."""
        return clean_line(f"{self.place.shown}/{self.folder}/{SKILL_FILE}")


def places(workspace: Path, settings: Path, home: Path) -> list[Place]:
    """Return where skills may lie, the nearest first."""
    shipped = Path(__file__).parent / "skills_shipped"
    return [
        *(Place(SkillSource.FOLDER, workspace, folder, folder) for folder in FOLDERS),
        Place(SkillSource.USER, settings / "skills", "", str(settings / "skills")),
        *(Place(SkillSource.USER, home / folder, "", f"~/{folder}") for folder in FOLDERS[1:]),
        Place(SkillSource.SHIPPED, shipped, "", "lmtui"),
    ]


def skills_in(place: Place) -> list[RawSkill]:
    """Return what is in a place, by name; nothing where it is not there or is behind a link."""
    entries = _entries(place.root, place.below, follows=place.source is not SkillSource.FOLDER)
    names = [name for name, is_folder in entries if is_folder and not name.startswith(".")]
    raw = [_raw(place, name) for name in names[:_MOST_SKILLS]]
    return [each for each in raw if each is not None]


def files_beside(place: Place, folder: str) -> list[str]:
    """Return the other files of a skill, relative to its folder."""
    found: list[str] = []
    _walk(*_root_of(place, folder), "", found)
    return found


def read_beside(place: Place, folder: str, file: str, max_bytes: int) -> bytes | None:
    """Return a file of a skill, None where there is none; it must lie in the skill's folder.

    Raises:
        NotPlain: it is a link, no regular file, or lies elsewhere.
    """
    parts = file.removeprefix("./").split("/")
    if file.startswith("/") or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise NotPlain("it is not in the skill's folder")
    root, below = _root_of(place, folder)
    return read_plain(root, "/".join((*filter(None, [below]), *parts)), max_bytes)


def _root_of(place: Place, folder: str) -> tuple[Path, str]:
    """Return where links stop being followed for a skill, and its folder below that.

    Who keeps their own skills elsewhere and links to them means it; in a folder that others may have made nothing is a link.
    """
    return (place.root, f"{place.below}/{folder}") if place.source is SkillSource.FOLDER else (place.root / folder, "")


def _raw(place: Place, folder: str) -> RawSkill | None:
    try:
        data = read_beside(place, folder, SKILL_FILE, MAX_SKILL_BYTES + 1)
    except (NotPlain, OSError) as error:
        return RawSkill(place, folder, None, clean_line(str(error)))
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
