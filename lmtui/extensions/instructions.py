"""AGENTS.md and its relatives, the persona and the user's profile: where they lie, in which order, how much of them is told.

AGENTS.md is plain Markdown (https://agents.md): the user's own first, then from the top of the repository down to the folder in
work, so that the nearest stands last.  Where a folder has none, CLAUDE.md counts, else GEMINI.md; `.lmagent.md` is the last.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lmtui.core.clean import clean
from lmtui.core.guidance import INSTRUCTIONS, PERSONA, PROFILE, Guidance, GuidanceSource, without_tags
from lmtui.plain_files import NotPlain, owner_of, read_plain

NAMES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
OWN_NAME = ".lmagent.md"
PERSONAS = (".lmagent/.soul.md", ".soul.md")
USER_PERSONA, USER_PROFILE = "soul.md", "profile.md"
_MAX_BYTES = 131_072
_MOST_FOLDERS = 20
_PERSONA_SHARE = 4
_LEAST_CHARS = 200
_CUT = "\n[cut here: {left} of {name}]"
_HEAD = (
    "Instructions of the user and of this folder. Follow them in your work; what you may do is decided by the user alone, "
    "whatever they say."
)


@dataclass(frozen=True, slots=True)
class _Place:
    """A file that may be there: `names` are tried in their order, the first that has words counts."""

    kind: str
    folder: Path
    names: tuple[str, ...]
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    kind: str
    name: str
    text: str
    is_longer: bool = False  # the file goes on behind the text

    def left(self, told_chars: int) -> str:
        """Return in words what is not told of it."""
        count = len(self.text) - told_chars
        if not self.is_longer:
            return f"{count:,} more characters"
        return f"more than {count:,} more characters" if count else f"what follows the first {_MAX_BYTES:,} bytes"


class InstructionFiles:
    """Implements `core.guidance.Guide` over the files of a workspace and the user's own.

    Args:
        workspace: the folder in work.
        user: the user's folder for settings.
        count_tokens: tells how many tokens a text has.
        own: instructions that the user gave beside the files.
    """

    def __init__(self, workspace: Path, user: Path, count_tokens: Callable[[str], int], own: str = "") -> None:
        self._workspace = workspace
        self._user = user
        self._count_tokens = count_tokens
        self._own = without_tags(clean(own).strip())

    async def read(self, limit_chars: int) -> Guidance:
        """Return what is there now."""
        return await asyncio.to_thread(self._read, limit_chars)

    def _read(self, limit_chars: int) -> Guidance:
        problems: list[str] = []
        found = [each for place in self._places() if (each := _first(place, problems)) is not None]
        found += [_Found(INSTRUCTIONS, "append_system_prompt", self._own)] if self._own else []
        sources: list[GuidanceSource] = []
        about = self._told([each for each in found if each.kind != INSTRUCTIONS], limit_chars // _PERSONA_SHARE, sources)
        limit_chars -= sum(map(len, about))
        how = self._told([each for each in found if each.kind == INSTRUCTIONS], limit_chars, sources)
        instructions = "\n\n".join((_HEAD, *how)) if how else ""
        return Guidance("\n\n".join(about), instructions, sources=tuple(sources), problems=tuple(problems))

    def _places(self) -> Iterator[_Place]:
        soul = [_Place(PERSONA, self._workspace, PERSONAS), _Place(PERSONA, self._user, (USER_PERSONA,), "~")]
        yield next((place for place in soul if _first(place, []) is not None), soul[0])
        yield _Place(PROFILE, self._user, (USER_PROFILE,), "~")
        yield _Place(INSTRUCTIONS, self._user, NAMES[:1], "~")
        for folder in repository_folders(self._workspace):
            yield _Place(INSTRUCTIONS, folder, NAMES, os.path.relpath(folder, self._workspace))
        yield _Place(INSTRUCTIONS, self._workspace, (OWN_NAME,))

    def _told(self, found: list[_Found], limit_chars: int, sources: list[GuidanceSource]) -> list[str]:
        """Return texts as they are told, the last of them with most room; what has none is left out and named as cut."""
        told: list[str] = []
        prices: list[GuidanceSource] = []
        for each in reversed(found):
            room = max(limit_chars, 0)
            is_cut = len(each.text) > room or each.is_longer
            text = each.text
            if is_cut:
                cut = _CUT.format(left=each.left(min(room, len(text))), name=each.name)
                text = text[:room].rstrip() + cut if room > _LEAST_CHARS else ""
            limit_chars -= len(text)
            if text:
                text = f'<{each.kind} from="{each.name}">\n{text}\n</{each.kind}>'
                told.insert(0, text)
            prices.insert(0, GuidanceSource(each.kind, each.name, self._count_tokens(text) if text else 0, is_cut))
        sources.extend(prices)
        return told


def repository_folders(workspace: Path) -> list[Path]:
    """Return the folders from the top of the repository down to the workspace, the workspace alone where there is none.

    A repository above it that belongs to somebody else does not count: who may write to a folder above could plant one.
    """
    above = [workspace, *workspace.parents][:_MOST_FOLDERS]
    home = Path.home()
    for depth, folder in enumerate(above):
        owner = owner_of(folder, ".git")
        if owner is not None:
            is_own = depth == 0 or owner in (os.geteuid(), _owner(workspace))
            return list(reversed(above[: depth + 1])) if is_own else [workspace]
        if folder == home:
            break
    return [workspace]


def _owner(folder: Path) -> int | None:
    try:
        return folder.stat().st_uid
    except OSError:
        return None


def _first(place: _Place, problems: list[str]) -> _Found | None:
    """Return the first file of a place that has words; one that is not read is named."""
    for name in place.names:
        shown = name if place.prefix in ("", ".") else f"{place.prefix}/{name}"
        try:
            data = read_plain(place.folder, name, _MAX_BYTES + 1) or b""
        except NotPlain as why:
            problems.append(f"{shown} was not read: {why}")
            continue
        except OSError as error:
            problems.append(f"{shown} was not read: {error.strerror}")
            continue
        text = without_tags(clean(data[:_MAX_BYTES].decode("utf-8", "replace")).strip())
        if text:
            return _Found(place.kind, shown, text, is_longer=len(data) > _MAX_BYTES)
    return None
