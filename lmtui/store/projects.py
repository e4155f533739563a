"""The user's projects: `projects.json` in the state folder, and what can be told of each without a session in it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, ValidationError

from lmtui.core.errors import JobsError, UsageError
from lmtui.core.folders import KnownProject
from lmtui.core.sanitize import pluralize
from lmtui.paths import WORKSPACE_FOLDER, state_dir
from lmtui.registry import features
from lmtui.store.session_logs import SessionStore
from lmtui.store.state_files import locked, write_whole
from lmtui.store.summaries import Summaries

MOST_ENTRIES = 20_000
MOST_LEVELS = 3
_MOST_SESSIONS = 20
_MOST_PROJECTS = 1_000
_MAX_TEXT_CHARS = 4_096


def _text(value: str) -> str:
    if not value or len(value) > _MAX_TEXT_CHARS or "\0" in value:
        raise ValueError("not a name")
    return value


_Text = Annotated[str, AfterValidator(_text)]  # pydantic's own limits refuse names that are not UTF-8


class _ProjectEntry(BaseModel):
    """A project as the file has it."""

    path: _Text
    name: _Text
    last_used: Annotated[AwareDatetime, Field(ge=datetime(2000, 1, 1, tzinfo=UTC), lt=datetime(3000, 1, 1, tzinfo=UTC))] | None
    tags: tuple[_Text, ...]


class ProjectStore:
    """The list of projects; all methods block (disk).  What cannot be read in it is passed over, and stays in the file."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file or state_dir() / "projects.json"

    def read(self) -> tuple[list[KnownProject], list[str]]:
        """Return the projects, the one used last first, and in words what could not be read."""
        try:
            entries = self._entries()
        except (OSError, ValueError, TypeError, RecursionError) as error:
            return [], [f"{self.file} cannot be read, and counts as empty: {error}"]
        found = [(number, _project(each)) for number, each in enumerate(entries, 1)]
        problems = [f"{self.file}: entry {number} is not a project; skipped" for number, each in found if each is None]
        projects = [each for _, each in found if each is not None]
        return sorted(projects, key=lambda each: each.last_used.timestamp() if each.last_used else 0.0, reverse=True), problems

    def put(self, folder: Path, *, used: datetime | None = None, tags: Sequence[str] = ()) -> KnownProject:
        """Add a folder, or keep when it was used and what else it is tagged with.

        Raises:
            OSError: the file cannot be written.
        """
        with self._changing() as entries:
            at = next((number for number, each in enumerate(entries) if _path(each) == str(folder)), len(entries))
            known = (_project(entries[at]) if at < len(entries) else None) or KnownProject(str(folder), folder.name or "/")
            project = replace(known, last_used=used or known.last_used, tags=tuple(dict.fromkeys((*known.tags, *tags))))
            entry = {name: getattr(project, name) for name in _ProjectEntry.model_fields}
            entries[at:] = [_ProjectEntry.model_construct(**entry).model_dump(mode="json"), *entries[at + 1 :]]
            del entries[:-_MOST_PROJECTS]
        return project

    def remove(self, project: KnownProject) -> None:
        """Forget a project; its folder stays.

        Raises:
            OSError: the file cannot be written.
        """
        with self._changing() as entries:
            entries[:] = [each for each in entries if _path(each) != project.path]

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[object]]:
        """Hold the entries for a change, alone; a file that cannot be read is put aside as `projects.broken`."""
        with locked(self.file.with_suffix(".lock")):
            try:
                entries = self._entries()
            except (ValueError, TypeError, RecursionError):
                self.file.replace(self.file.with_suffix(".broken"))
                entries = []
            yield entries
            write_whole(self.file, json.dumps(entries, indent=1))

    def _entries(self) -> list[object]:
        try:
            found: object = json.loads(self.file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        if not isinstance(found, list):
            raise TypeError("it is not a list")
        return found


def _path(entry: object) -> object:
    return entry.get("path") if isinstance(entry, Mapping) else None


def _project(entry: object) -> KnownProject | None:
    """Return an entry of the file, None where it is not a project."""
    try:
        found = KnownProject(**dict(_ProjectEntry.model_validate(entry)))
    except ValidationError:
        return None
    return found if found.path.startswith("/") else None


def find_project(projects: Sequence[KnownProject], wanted: str) -> KnownProject:
    """Return a project by its path or its name.

    Raises:
        UsageError: none is called that, or several are.
    """
    path = os.path.realpath(Path(wanted).expanduser())
    found = [each for each in projects if each.path in (wanted, path)] or [each for each in projects if each.name == wanted]
    if len(found) != 1:
        what = f"{len(found)} projects are called" if found else "no project is called"
        raise UsageError(f"{what} {wanted[:80]!r}", "`lmtui projects` lists them; name its path.")
    return found[0]


def look_at(project: KnownProject) -> KnownProject:
    """Return a project with what features and its newest sessions say; nothing in its folder is changed.  Blocks."""
    folder = Path(project.path)
    try:
        if not folder.is_dir():
            return replace(project, problem="the folder is gone")
        for feature in features():
            project = feature.load(feature.look)(project) if feature.look else project
    except (JobsError, OSError) as error:
        project = replace(project, problem=str(error))
    store = SessionStore(folder)
    waiting = sum(each.state == "waits" and store.is_ours(each.id) for each in Summaries(store).find(limit=_MOST_SESSIONS))
    needs = f"{pluralize(waiting, 'session')} {'wait' if waiting > 1 else 'waits'} for approval"
    return replace(project, needs=(*project.needs, needs)) if waiting else project


def scan(root: Path) -> tuple[list[Path], bool]:
    """Return the projects in a folder and three levels below it, and whether the scan stopped at 20,000 entries.

    A project has a folder `.lmagent`, a `factory.yaml` or a `plans/*.md`.  Links are not followed; hidden folders and
    `node_modules` are skipped.  Blocks.
    """
    found, level, seen = [], [root], 0
    for _ in range(MOST_LEVELS + 1):
        below: list[Path] = []
        for folder in level:
            entries = _listed(folder, MOST_ENTRIES - seen)
            plans = _listed(folder / "plans", MOST_ENTRIES - seen - len(entries)) if entries.get("plans") else {}
            seen += len(entries) + len(plans)
            has_plans = any(name.endswith(".md") and name != "README.md" and not is_folder for name, is_folder in plans.items())
            if has_plans or entries.get(WORKSPACE_FOLDER) or entries.get("factory.yaml") is False:
                found.append(folder)
            if seen >= MOST_ENTRIES:
                return found, True
            names = (name for name, is_folder in entries.items() if is_folder and name != "node_modules")
            below += [folder / name for name in sorted(names) if not name.startswith(".")]
        level = below
    return found, False


def _listed(folder: Path, most: int) -> dict[str, bool]:
    """Return the files and folders in a folder by name, True for folders; links are left out."""
    try:
        with os.scandir(folder) as entries:
            return {
                each.name: each.is_dir(follow_symlinks=False)
                for each in itertools.islice(entries, max(0, most))
                if not each.is_symlink()
            }
    except OSError:
        return {}
