"""The folders of skills: what is in them, which of a folder's wait for the user's yes, and how one is added.  Blocks (disk).

A yes holds for a SKILL.md as it is, and is asked for again once it changed.  Nothing of a skill's own is run or obeyed before.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from lmtui.core.errors import LmtuiError, UsageError
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.core.trust import TrustItem
from lmtui.features.folder_consent import FolderConsent
from lmtui.features.skills.reader import BrokenSkill, read_skill
from lmtui.features.skills.values import SkillSource
from lmtui.plain_files import LINKED, NotPlain, is_linked, list_plain, open_own, own_folder, read_plain
from lmtui.store.session_logs import make_workspace_folder

SKILL_FILE = "SKILL.md"
FOLDERS = (".lmagent/skills", ".agents/skills", ".claude/skills")
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
    def shown(self) -> str:
        """Return it as the user knows it."""
        return sanitize_line("/".join(filter(None, (self.place.shown, self.folder, self.file))))


def places(workspace: Path, settings: Path, home: Path) -> list[SkillFolder]:
    """Return where skills may lie, the nearest first."""
    shipped = Path(__file__).parent / "shipped"
    return [
        *(SkillFolder(SkillSource.FOLDER, workspace, folder, folder) for folder in FOLDERS),
        SkillFolder(SkillSource.USER, settings / "skills", "", str(settings / "skills")),
        *(SkillFolder(SkillSource.USER, home / folder, "", f"~/{folder}") for folder in FOLDERS[1:]),
        SkillFolder(SkillSource.SHIPPED, shipped, "", "lmtui"),
    ]


def skills_in(place: SkillFolder) -> list[RawFile]:
    """Return what is in a place, by name; of a folder's links only that they are not followed."""
    is_own = place.source is not SkillSource.FOLDER
    if not is_own and is_linked(place.root, place.below):
        return [RawFile(place, "*", SKILL_FILE, problem=LINKED)]
    found = [(name, kind) for name, kind in list_plain(place.root, place.below) if kind != "file"]
    links = [name for name, kind in found if kind == "other"]
    names = [name for name, kind in found if kind == "folder" or (is_own and (place.root / name).is_dir())]
    read = (read_raw(place, name, SKILL_FILE) for name in [each for each in names if not each.startswith(".")][:_MOST_FILES])
    linked = [] if is_own else [RawFile(place, name, SKILL_FILE, problem=LINKED) for name in links[:_MOST_FILES]]
    return [each for each in read if each is not None] + linked


def files_in(place: SkillFolder) -> list[RawFile]:
    """Return the Markdown files of a place, by name; no link in it is followed."""
    if place.source is SkillSource.FOLDER and is_linked(place.root, place.below):
        return [RawFile(place, "", "", problem=LINKED)]
    names = [name for name, kind in list_plain(place.root, place.below) if kind != "folder" and name.endswith(".md")]
    read = (read_raw(place, "", name) for name in names[:_MOST_FILES])
    return [each for each in read if each is not None]


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


def _walk(root: Path, folder: str, within: str, found: list[str]) -> None:
    if within.count("/") >= _MOST_DEPTH:
        return
    for name, kind in list_plain(root, "/".join(filter(None, (folder, within.rstrip("/"))))):
        if len(found) >= _MOST_BESIDE or name in _PASSED_OVER or kind == "other":
            continue
        if kind == "folder":
            _walk(root, folder, f"{within}{name}/", found)
        elif f"{within}{name}" != SKILL_FILE:
            found.append(f"{within}{name}")


_SHOWN_CHARS = 120
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_DESCRIPTION = re.compile(r"^description:\s*(.+)$", re.MULTILINE)


def digest(raw: RawFile) -> str:
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
    raw, folder = RawFile(place, name, SKILL_FILE, data), place.root / place.below / name
    try:
        if place.source is SkillSource.FOLDER:
            make_workspace_folder(workspace)
        with own_folder(folder.parent, makes=True) as parent:
            os.mkdir(name, 0o755, dir_fd=parent)
        with open(folder / SKILL_FILE, "xb", opener=open_own) as file:
            file.write(data)
        if place.source is SkillSource.FOLDER:
            skills_trust(workspace).keep([digest(raw)])
    except FileExistsError as error:
        raise UsageError(f"{raw.shown} or its folder already exists", "Give this skill another name.") from error
    except (OSError, LmtuiError) as error:
        raise UsageError(f"could not write {raw.shown}: {error}", "Check permissions and free disk space.") from error
    return raw.shown


def _item(raw: RawFile) -> TrustItem:
    return TrustItem("skill", raw.shown, trust_text(raw.folder, _description(raw.data or b"", raw.folder)), digest(raw))


def trust_text(name: str, description: str) -> str:
    """Return what the user is asked about, in a line."""
    short = description if len(description) <= _SHOWN_CHARS else f"{description[:_SHOWN_CHARS].rstrip()}…"
    return sanitize_line(f"{name}: {short}" if short else name)


def _description(data: bytes, folder: str) -> str:
    """Return what a skill says of itself, also where its front matter is broken."""
    try:
        return read_skill(data, folder).description
    except BrokenSkill:
        match = _DESCRIPTION.search(sanitize(data[:4096].decode("utf-8", "replace")))
        return match[1].strip() if match else ""
