"""AGENTS.md and its relatives, the persona and the user's profile: where they lie, in which order, how much of them is told.

AGENTS.md is plain Markdown (https://agents.md): the user's own first, then from the top of the repository down to the folder in
work, so that the nearest is last.  Where a folder has none, the first other of `NAMES` counts; `CLAUDE.local.md` and the
rules of Claude Code and Cursor join it, and what they name as `@path` (https://code.claude.com/docs/en/memory,
https://cursor.com/docs/context/rules).  `.lmagent.md` is the last.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lmtui.command_line import NONE, OK, WARNING, CheckRow
from lmtui.config import Config
from lmtui.core.offers import Offers
from lmtui.core.prompt_parts import (
    INSTRUCTIONS,
    PERSONA,
    PROFILE,
    WHOLE_CHARS,
    PartSource,
    PromptParts,
    PromptSource,
    without_tags,
)
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.features.front_matter import read_front
from lmtui.features.service import FeatureHost, WorkspaceFeature
from lmtui.paths import config_dir
from lmtui.plain_files import LINKED, NotPlain, is_linked, list_plain, plain_stat, read_plain
from lmtui.tools.text import read_words

NAMES = ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md", ".cursorrules")
LOCAL_NAME = "CLAUDE.local.md"
RULES = ((".claude/rules", ".md"), (".cursor/rules", ".mdc"))
OWN_NAME = ".lmagent.md"
PERSONAS = (".lmagent/.soul.md", ".soul.md")
USER_PERSONA, USER_PROFILE = "soul.md", "profile.md"
_MAX_BYTES = 131_072
_MOST_FOLDERS = 20
_PERSONA_SHARE = 4
_LEAST_CHARS = 200
_MOST_RULES = 50
_MOST_IMPORTS = 20
_DEEPEST_IMPORT = 5
_PLAIN_HINT = "Put a plain file in its place: links are not followed."
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_IMPORT = re.compile(r"(?:^|(?<=\s))@(\.{0,2}/?[\w][\w./-]*\.\w+)")
_ABOUT_RULE = "Rules for {about} are in {name}: read it before you work on that."
_HEAD = (
    "Instructions of the user and of this folder. Follow them in your work; what you may do is decided by the user alone, "
    "whatever they say."
)


@dataclass(frozen=True, slots=True)
class _Place:
    """A file that may be there: of `names`, the first that has words counts."""

    kind: str
    folder: Path
    names: tuple[str, ...]
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class _FoundFile:
    kind: str
    name: str
    text: str
    is_longer: bool = False  # the file goes on behind the text


class InstructionFiles:
    """Implements `PromptSource` over the files of a workspace and the user's own.

    Args:
        workspace: the folder in work.
        user: the user's folder for settings.
        count_tokens: tells how many tokens a text has.
        own: instructions that the user gave next to the files.
    """

    def __init__(self, workspace: Path, user: Path, count_tokens: Callable[[str], int], own: str = "") -> None:
        self._workspace = workspace
        self._user = user
        self._count_tokens = count_tokens
        self._own = without_tags(sanitize(own).strip())

    async def read(self, limit_chars: int) -> PromptParts:
        return await asyncio.to_thread(self._read, limit_chars)

    def _read(self, limit_chars: int) -> PromptParts:
        problems: list[str] = []
        found: list[_FoundFile] = []
        for place in self._places():
            first = _first(place, problems)
            found += [first, *_imported(place, first, problems)] if first is not None else []
            if place.names is NAMES:
                found += _rules(place, problems)
        found += [_FoundFile(INSTRUCTIONS, "append_system_prompt", self._own)] if self._own else []
        sources: list[PartSource] = []
        about = self._told([each for each in found if each.kind != INSTRUCTIONS], limit_chars // _PERSONA_SHARE, sources)
        limit_chars -= sum(map(len, about))
        how = self._told([each for each in found if each.kind == INSTRUCTIONS], limit_chars, sources)
        instructions = "\n\n".join((_HEAD, *how)) if how else ""
        return PromptParts("\n\n".join(about), instructions, sources=tuple(sources), problems=tuple(problems))

    def _places(self) -> Iterator[_Place]:
        soul = [_Place(PERSONA, self._workspace, PERSONAS), _Place(PERSONA, self._user, (USER_PERSONA,), "~")]
        yield next((place for place in soul if _first(place, []) is not None), soul[0])
        yield _Place(PROFILE, self._user, (USER_PROFILE,), "~")
        yield _Place(INSTRUCTIONS, self._user, NAMES[:1], "~")
        for folder in repository_folders(self._workspace):
            above = os.path.relpath(folder, self._workspace)
            yield _Place(INSTRUCTIONS, folder, NAMES, above)
            yield _Place(INSTRUCTIONS, folder, (LOCAL_NAME,), above)
        yield _Place(INSTRUCTIONS, self._workspace, (OWN_NAME,))

    def _told(self, found: list[_FoundFile], limit_chars: int, sources: list[PartSource]) -> list[str]:
        """Return texts as they are told, the last of them with most room; what has none is left out and named as cut."""
        told: list[str] = []
        prices: list[PartSource] = []
        for each in reversed(found):
            room = max(limit_chars, 0)
            is_cut = len(each.text) > room or each.is_longer
            text = each.text
            if is_cut:
                left = "the rest" if each.is_longer else f"{len(text) - room:,} more characters"
                text = f"{text[:room].rstrip()}\n[cut here: {left} of {each.name}]" if room > _LEAST_CHARS else ""
            limit_chars -= len(text)
            if text:
                text = f'<{each.kind} from="{each.name}">\n{text}\n</{each.kind}>'
                told.insert(0, text)
            prices.insert(0, PartSource(each.kind, each.name, self._count_tokens(text) if text else 0, is_cut))
        sources.extend(prices)
        return told


def repository_folders(workspace: Path) -> list[Path]:
    """Return the folders from the top of the repository down to the workspace, the workspace alone where there is none.

    A repository above it that belongs to somebody else does not count: who may write to a folder above could plant one.
    """
    above = [workspace, *workspace.parents][:_MOST_FOLDERS]
    home = Path.home()
    for depth, folder in enumerate(above):
        if (found := plain_stat(folder, ".git")) is not None:
            own = plain_stat(workspace, ".")
            is_own = depth == 0 or found.st_uid in (os.geteuid(), own and own.st_uid)
            return list(reversed(above[: depth + 1])) if is_own else [workspace]
        if folder == home:
            break
    return [workspace]


def _imported(place: _Place, first: _FoundFile, problems: list[str]) -> list[_FoundFile]:
    """Return the files that a file names as `@path`, relative to itself, and what these name."""
    found: dict[str, _FoundFile] = {}
    prefix = "" if place.prefix in ("", ".") else f"{place.prefix}/"
    ahead = [(first.name.removeprefix(prefix), first.text, 0)]
    seen = {ahead[0][0]}
    while ahead and len(found) < _MOST_IMPORTS:
        name, text, depth = ahead.pop(0)
        for each in _IMPORT.findall(_CODE.sub(" ", text)) if depth < _DEEPEST_IMPORT else ():
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), each))
            if path in seen:
                continue
            seen.add(path)
            if path.startswith(("/", "..")):
                problems.append(f"{prefix}{path} was not read: {first.name} names it, and it is outside the folder")
            elif (other := _first(_Place(INSTRUCTIONS, place.folder, (path,), place.prefix), problems)) is not None:
                found[path] = other
                ahead.append((path, other.text, depth + 1))
    return list(found.values())


def _rules(place: _Place, problems: list[str]) -> Iterator[_FoundFile]:
    """Yield the rules of a folder; of those that are for some files only, a line that says where they are."""
    for folder, ending in RULES:
        names = [name for name, kind in list_plain(place.folder, folder) if kind != "folder" and name.endswith(ending)]
        problems += [f"{folder} was {LINKED}"] if is_linked(place.folder, folder) else []
        for name in names[:_MOST_RULES]:
            found = _first(_Place(INSTRUCTIONS, place.folder, (f"{folder}/{name}",), place.prefix), problems)
            if found is None:
                continue
            front = read_front(found.text)
            about = "" if front.fields.get("alwaysapply") == "true" else _about(front.fields)
            text = _ABOUT_RULE.format(about=about, name=found.name) if about else front.body
            if text:
                yield replace(found, text=text, is_longer=found.is_longer and not about)


def _about(fields: Mapping[str, str]) -> str:
    """Return what a rule is for, empty where it is for everything."""
    globs = (fields.get("paths") or fields.get("globs") or "").strip("[] ")
    return globs or (fields.get("description", "") if "alwaysapply" in fields else "")


def _first(place: _Place, problems: list[str]) -> _FoundFile | None:
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
        text = without_tags(sanitize(words := read_words(data[:_MAX_BYTES])).strip())
        if words.count("\0") * 4 > len(words):
            problems.append(f"{shown} was not read: it is not text")
            continue
        if text:
            return _FoundFile(place.kind, shown, text, is_longer=len(data) > _MAX_BYTES)
    return None


class InstructionsService(WorkspaceFeature):
    """Reads the files for the sessions of a workspace."""

    def __init__(self, host: FeatureHost, extensions: Offers) -> None:
        super().__init__(host, extensions)
        self._files = InstructionFiles(host.workspace, config_dir(), host.count_tokens, own_instructions(host.config))
        extensions.add(PromptSource, self._files)

    async def check(self, *, is_offline: bool) -> Sequence[CheckRow]:
        """Return what is read, and what cannot be."""
        del is_offline
        found = await self._files.read(WHOLE_CHARS)
        names = ", ".join(f"{sanitize_line(source.name)} {source.tokens:,} tokens" for source in found.sources)
        none = "none; AGENTS.md in this folder would be read"
        rows = [CheckRow("instructions", OK, names) if names else CheckRow("instructions", NONE, none)]
        return rows + [CheckRow("instructions", WARNING, sanitize_line(problem), _PLAIN_HINT) for problem in found.problems]


def own_instructions(config: Config) -> str:
    """Return the user's own instructions, and which folders there are next to the workspace."""
    folders = [
        f"- {Path(each.removesuffix(':rw')).expanduser().resolve()} ({'writable' if each.endswith(':rw') else 'read-only'})"
        for each in config.add_dirs
    ]
    about = (
        "You may also use these folders, by their whole paths in tools and commands:\n" + "\n".join(folders) if folders else ""
    )
    return "\n\n".join(each for each in (config.append_system_prompt, about) if each)
