"""Which skills of a folder wait for the user's yes: one holds for a SKILL.md as it is, and is asked for anew once it changed.

Nothing of a skill's own is run or obeyed before.  The answers are kept at user level.  Blocks (disk).
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lmtui.core.clean import clean, clean_line
from lmtui.core.errors import ConfigError
from lmtui.core.skills import SkillSource, SkillState
from lmtui.core.trust import TrustItem, check_shown
from lmtui.extensions.own_files import replace_file
from lmtui.extensions.skill_places import FOLDERS, Place, RawSkill, skills_in
from lmtui.paths import state_dir

_MAX_BYTES = 1_048_576
_MOST_ANSWERS = 1_000
_SHOWN_CHARS = 120
_READER = "lmtui.extensions.skill_file"  # imports the YAML parser, which takes a while
_DESCRIPTION = re.compile(r"^description:\s*(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Answers:
    """Digests of skills that were answered with yes or no."""

    allowed: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()

    def state_of(self, raw: RawSkill) -> SkillState:
        """Return where a folder's skill stands."""
        mark = digest(raw)
        if mark in self.allowed:
            return SkillState.READY
        return SkillState.REFUSED if mark in self.refused else SkillState.WAITING


def digest(raw: RawSkill) -> str:
    """Return what a yes holds for: the skill's folder and its SKILL.md to the byte."""
    return hashlib.sha256(os.fsencode(f"{raw.place.below}/{raw.folder}\0") + (raw.data or b"")).hexdigest()


def read_answers(workspace: Path) -> Answers:
    """Return what was answered for a folder."""
    try:
        with _file(workspace).open("rb") as file:
            found = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError):
        return Answers()
    lists = [found.get(name) if isinstance(found, dict) else None for name in ("allowed", "refused")]
    allowed, refused = (frozenset(map(str, each)) if isinstance(each, list) else frozenset() for each in lists)
    return Answers(allowed, refused)


class SkillsTrust:
    """What a folder's skills wait for; implements `core.trust.Trust`."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def waiting(self) -> Sequence[TrustItem]:
        """Return the skills that were not asked about yet, as they are now."""
        return [_item(raw) for raw in self._in_state(SkillState.WAITING)]

    def refused(self) -> Sequence[TrustItem]:
        """Return those that were answered with no and are the same since."""
        return [_item(raw) for raw in self._in_state(SkillState.REFUSED)]

    def trusted(self) -> Sequence[TrustItem]:
        """Return those that were answered with yes and are the same since."""
        return [_item(raw) for raw in self._in_state(SkillState.READY)]

    def revoke(self) -> None:
        """Forget every answer for the folder."""
        if read_answers(self._workspace) != Answers():
            _write(self._workspace, Answers())

    def answered_elsewhere(self) -> bool | None:
        """Return what another lmtui was answered; None where something still waits, or there is nothing."""
        answers = read_answers(self._workspace)
        states = {answers.state_of(raw) for raw in self._raw()}
        return None if not states or SkillState.WAITING in states else SkillState.REFUSED not in states

    def answer(self, shown: Sequence[TrustItem], *, is_trusted: bool) -> None:
        """Keep the answer for what was shown of what waits, or else of what was refused.

        Raises:
            ConfigError: it is another by now, or it cannot be kept.
        """
        open_ones = self._in_state(SkillState.WAITING) or self._in_state(SkillState.REFUSED)
        check_shown([_item(raw) for raw in open_ones], shown)
        marks = {digest(raw) for raw in open_ones}
        known = read_answers(self._workspace)
        if is_trusted:
            _write(self._workspace, Answers(known.allowed | marks, known.refused - marks))
        else:
            _write(self._workspace, Answers(known.allowed - marks, known.refused | marks))

    def _raw(self) -> list[RawSkill]:
        folders = [Place(SkillSource.FOLDER, self._workspace, folder, folder) for folder in FOLDERS]
        return [raw for place in folders for raw in skills_in(place) if raw.data is not None]

    def _in_state(self, state: SkillState) -> list[RawSkill]:
        answers = read_answers(self._workspace)
        return [raw for raw in self._raw() if answers.state_of(raw) is state]


def _item(raw: RawSkill) -> TrustItem:
    about = _description(raw.data or b"", raw.folder)
    short = about if len(about) <= _SHOWN_CHARS else f"{about[:_SHOWN_CHARS].rstrip()}…"
    return TrustItem("skill", raw.shown, clean_line(f"{raw.folder}: {short}" if short else raw.folder), digest(raw))


def _description(data: bytes, folder: str) -> str:
    """Return what a skill says of itself, also where its front matter is broken."""
    reader = importlib.import_module(_READER)
    try:
        return str(reader.read_skill(data, folder).description)
    except reader.BrokenSkill:
        match = _DESCRIPTION.search(clean(data[:4096].decode("utf-8", "replace")))
        return match[1].strip() if match else ""


def folders_with_yes() -> tuple[str, ...]:
    """Return the folders one of whose skills was answered with yes.  Blocks."""
    found: list[str] = []
    for file in sorted((state_dir() / "skills").glob("*.json")):
        try:
            kept = json.loads(file.read_bytes()[:_MAX_BYTES])
        except (OSError, ValueError):
            continue
        if isinstance(kept, dict) and kept.get("allowed") and isinstance(kept.get("folder"), str):
            found.append(kept["folder"])
    return tuple(found)


def _file(workspace: Path) -> Path:
    return state_dir() / "skills" / f"{hashlib.sha256(os.fsencode(workspace)).hexdigest()[:24]}.json"


def _write(workspace: Path, answers: Answers) -> None:
    file = _file(workspace)
    allowed, refused = sorted(answers.allowed)[:_MOST_ANSWERS], sorted(answers.refused)[:_MOST_ANSWERS]
    told = {"folder": str(workspace), "allowed": allowed, "refused": refused}
    try:
        replace_file(file, json.dumps(told))
    except OSError as error:
        raise ConfigError(f"the answer could not be kept in {file}: {error.strerror}", "Free the disk.") from error
