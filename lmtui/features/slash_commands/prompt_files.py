"""Markdown files that are slash commands: found, read, and the ones with commands of a folder's kept until they are trusted."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from lmtui.command_line import OK, TRUST_HINT, WARNING, CheckRow
from lmtui.commands.table import command_table
from lmtui.core.offers import Offers
from lmtui.core.prompt_text import FilledPrompt, PromptFile, PromptFiles, find_prompt
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.core.trust import TrustItem
from lmtui.features.folder_consent import FolderConsent
from lmtui.features.front_matter import allowed_rules, read_front
from lmtui.features.service import FeatureHost, WorkspaceFeature
from lmtui.paths import config_dir
from lmtui.plain_files import LINKED, NotPlain, is_linked, list_plain, read_plain
from lmtui.tools.registry import ToolRegistry
from lmtui.tools.text import read_words

FOLDER_PLACES = (".lmagent/commands", ".claude/commands")
OWN_PLACE = "commands"
_MAX_BYTES = 262_144
_MOST_FILES, _MOST_FOLDERS, _MOST_DEEP = 500, 200, 4
_SHOWN_CHARS = 120


class MarkdownPrompts:
    """Implements `core.prompt_text.PromptFiles` over files.

    Args:
        workspace: the folder.
        canonical: returns our name of a tool, and raises `ToolError` where there is none.
    """

    def __init__(self, workspace: Path, canonical: Callable[[str], str]) -> None:
        self._workspace = workspace
        self._canonical = canonical

    def found(self) -> Sequence[PromptFile]:
        files = read_files(self._workspace)  # once: what is trusted is what is used
        is_trusted = commands_trust(self._workspace).holds(digest_of(files))
        known: dict[str, PromptFile] = {}
        hidden: list[PromptFile] = []
        for raw in files:
            file = self._checked(raw)
            if file.name in known and file.is_own:
                file = replace(file, name=file.whole_name)
            if file.problem or file.name in known:
                other = known[file.name].source if file.name in known else ""
                hidden.append(file if file.problem else replace(file, problem=f"hidden by {other}"))
            else:
                known[file.name] = file if file.is_own or is_trusted or not file.commands else replace(file, may_run=False)
        return sorted((*known.values(), *hidden), key=lambda file: (file.name, bool(file.problem)))

    async def read(self, text: str) -> FilledPrompt | None:
        return find_prompt(await asyncio.to_thread(self.found), text)

    def _checked(self, raw: PromptFile) -> PromptFile:
        if raw.problem:
            return raw
        if raw.name.lower() in command_table().names or raw.name.startswith(("user:", "project:")):
            raw = replace(raw, name=raw.whole_name)  # the short name is another's
        if raw.allowed is None:
            return raw
        rules, warnings = allowed_rules(raw.allowed[0], self._canonical)
        return replace(raw, allowed=rules, warnings=(*raw.warnings, *warnings))


def commands_trust(workspace: Path) -> FolderConsent:
    """Return what the commands inside a folder's files wait for."""

    def brought() -> list[TrustItem]:
        files = read_files(workspace)
        digest = digest_of(files)
        return [
            TrustItem("command", file.source, sanitize_line(f"/{file.name} runs {command}"), digest)
            for file in _with_commands(files)
            for command in file.commands
        ]

    return FolderConsent(workspace, "commands", brought)


def digest_of(found: Sequence[PromptFile]) -> str:
    """Return the hash of the folder's files that run commands, empty where there are none."""
    files = _with_commands(found)
    text = "\0".join(f"{file.source}\0{file.body}" for file in files)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if files else ""


def _with_commands(found: Sequence[PromptFile]) -> list[PromptFile]:
    return [file for file in found if not file.is_own and file.commands]


def read_files(workspace: Path) -> list[PromptFile]:
    """Read every file, the folder's before the user's own; `allowed` still are its words.  Blocks.

    A folder's place that is a link, or behind one, is named and not read; the user's own may be a link.
    """
    places = [*((workspace, name) for name in FOLDER_PLACES), (config_dir() / OWN_PLACE, "")]
    linked = [PromptFile(name, "", name, problem=LINKED) for name in FOLDER_PLACES if is_linked(workspace, name)]
    paths = ((root, place, path) for root, place in places for path in itertools.islice(_paths(root, place), _MOST_FILES))
    return linked + [_read(root, path, place) for root, place, path in paths]


def _paths(root: Path, place: str) -> Iterator[str]:
    """Yield the Markdown files below a place, relative to the root; links below it are not followed, but named."""
    folders = [(place, 0)]
    for _ in range(_MOST_FOLDERS):
        if not folders:
            return
        folder, depth = folders.pop()
        inner: list[tuple[str, int]] = []
        for name, kind in list_plain(root, folder):
            path = f"{folder}/{name}" if folder else name
            if (kind != "folder" and name.lower().endswith(".md")) or (kind == "other" and "." not in name):
                yield path
            elif kind == "folder" and not name.startswith(".") and depth < _MOST_DEEP:
                inner.append((path, depth + 1))
        folders += reversed(inner)


def _read(root: Path, path: str, place: str) -> PromptFile:
    """Return what a file says; one of no place below its root is the user's own."""
    name = ":".join(Path(path).relative_to(place).with_suffix("").parts)
    source = path if place else str(root / path)
    like = PromptFile(sanitize_line(name), "", sanitize_line(source), is_own=not place)
    if any(sign in name for sign in " ./\n\t"):
        return replace(like, problem="its name has a blank or a dot in it, so it cannot be typed")
    try:
        data = read_plain(root, path, _MAX_BYTES + 1)
    except NotPlain as error:
        return replace(like, problem=f"not read: {error}")
    if data is None or len(data) > _MAX_BYTES:
        return replace(like, problem="not read: it is larger than 256 KB" if data else "not read: it is gone")
    front = read_front(sanitize(read_words(data)))
    allowed = front.fields.get("allowed-tools", front.fields.get("allowed_tools"))
    first = next((line.strip("# ") for line in front.body.split("\n") if line.strip("# ")), "")
    return replace(
        like,
        body=front.body,
        description=sanitize_line(front.fields.get("description") or first)[:_SHOWN_CHARS],
        argument_hint=sanitize_line(front.fields.get("argument-hint", ""))[:60],
        allowed=(allowed,) if allowed is not None else None,
        model=sanitize_line(front.fields.get("model", "")),
        problem="" if front.body else "it says nothing",
        warnings=(front.problem,) if front.problem else (),
    )


class PromptFilesService(WorkspaceFeature):
    """The commands of a workspace's files and its user's."""

    def __init__(self, host: FeatureHost, extensions: Offers) -> None:
        super().__init__(host, extensions)
        self._prompts = MarkdownPrompts(host.workspace, ToolRegistry().canonical)
        extensions.add(PromptFiles, self._prompts)
        self.trust = (commands_trust(host.workspace),)

    async def check(self, *, is_offline: bool) -> Sequence[CheckRow]:
        """Name the commands, and what is wrong with them."""
        del is_offline
        prompts = await asyncio.to_thread(self._prompts.found)
        usable = ", ".join(f"/{file.name}" for file in prompts if not file.problem)
        rows = [CheckRow("commands", OK, usable)] if usable else []
        for file in prompts:
            rows += [CheckRow("commands", WARNING, f"{file.source}: {why}") for why in (file.problem, *file.warnings) if why]
            waits = CheckRow("commands", WARNING, f"needs approval: what {file.source} runs", TRUST_HINT)
            rows += [] if file.may_run else [waits]
        return rows
