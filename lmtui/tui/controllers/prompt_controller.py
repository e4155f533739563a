"""What the prompt can do next to sending: completions, pastes and pictures, the history and the drafts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lmtui.commands.session_commands import MODE_NOTES
from lmtui.core.errors import LmtuiError
from lmtui.core.event_text import CALL_CHOICES
from lmtui.core.messages import MAX_IMAGE_BYTES, Image, sniff
from lmtui.core.permissions.rules import Mode
from lmtui.core.prompt_text import PromptFiles, find_mentions, mention_text
from lmtui.core.sanitize import sanitize_line
from lmtui.core.sessions import Archive, SessionHost, SessionSummary
from lmtui.core.tool_servers import ToolServers
from lmtui.core.workspace import GitState
from lmtui.paths import theme_files, without_keys
from lmtui.tui import themes
from lmtui.tui.completing import PROMPT_FILES, CompletionRequest, path_offer, prompt_values, resource_offers
from lmtui.tui.controllers.send_controller import DraftController, Sending
from lmtui.tui.editor import edit_text
from lmtui.tui.path_index import FuzzyPaths, offered_paths, with_folders
from lmtui.tui.widgets.start_page import suggested_prompts
from lmtui.tui.wording import window_text
from lmtui.tui.workbench_api import Handler, WorkbenchApi, tried

MAX_PATHS = 20
CLIPBOARD_TIMEOUT_S = 5.0
_LOOKS_LIKE_PATH = re.compile(r"""\s*['"]?(?:file://|~?/|\.{1,2}/|[A-Za-z]:\\)|\s*['"]?[^\s/]\S*\.\w{1,5}['"]?\s*\Z""")
_CLIPBOARD_COMMANDS = (
    ("wl-paste", "--no-newline", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("pngpaste", "-"),
)


def paths_in(text: str) -> list[str]:
    """Return the paths that a pasted text names and nothing else: quoted, `file://` or with escaped blanks; else nothing."""
    if not _LOOKS_LIKE_PATH.match(text) or "\0" in text:
        return []
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    try:
        words = [word for line in lines for word in ([line] if line.startswith("file://") else shlex.split(line))]
        return [_plain(word) for word in words[:MAX_PATHS]]
    except ValueError:
        return []


def _plain(word: str) -> str:
    return unquote(urlsplit(word).path) if word.startswith("file://") else str(_home(word))


def _home(word: str) -> Path:
    try:
        return Path(word).expanduser()
    except RuntimeError:  # no such user
        return Path(word)


def mentions_of(text: str, workspace: Path) -> tuple[str, list[Path]]:
    """Return the mentions that mean a pasted text, and the pictures among what it names.

    All it names must be there: a picture anywhere, anything else below the workspace.  Otherwise nothing is returned.
    """
    root = workspace.resolve()
    mentions: list[str] = []
    pictures: list[Path] = []
    for word in paths_in(text):
        path = root / word
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            return "", []
        if sniff(_read(real, 16)):
            pictures.append(real)
        elif real != root and real.is_relative_to(root):
            mentions.append(mention_text(f"{real.relative_to(root)}{'/' if real.is_dir() else ''}"))
        else:
            return "", []
    return " ".join(mentions), pictures


def read_picture(path: Path) -> Image | str:
    """Return a picture, or why it cannot be sent."""
    data = _read(path, MAX_IMAGE_BYTES + 1)
    if len(data) > MAX_IMAGE_BYTES:
        return f"{path.name} is larger than {MAX_IMAGE_BYTES // 1_000_000} MB; make it smaller first"
    media_type = sniff(data)
    return Image(path.name, media_type, data) if media_type else f"{path.name} is not a PNG, JPEG, GIF or WebP picture"


def clipboard_picture() -> Image | str:
    """Return the picture in the clipboard, or why there is none."""
    known = [each for each in _CLIPBOARD_COMMANDS if shutil.which(each[0])]
    if not known:
        return "cannot read images from the clipboard: install wl-clipboard, xclip or pngpaste"
    for each in known:
        try:
            ran = subprocess.run(
                each, env=without_keys(os.environ), capture_output=True, timeout=CLIPBOARD_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if len(ran.stdout) > MAX_IMAGE_BYTES:
            return f"the image in the clipboard is larger than {MAX_IMAGE_BYTES // 1_000_000} MB"
        if media_type := sniff(ran.stdout):
            return Image("clipboard", media_type, ran.stdout)
    return "no image in the clipboard"


def _read(path: Path, size: int) -> bytes:
    """Return the first bytes of a regular file, nothing where it is none or cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return b""
    with os.fdopen(fd, "rb") as file:
        return file.read(size)


class PasteController:
    """Answers the commands about what is in the prompt."""

    def __init__(self, workbench: WorkbenchApi) -> None:
        self._workbench = workbench

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {"prompt.editor": self._edit, "prompt.image": self._image}

    async def pasted(self, text: str) -> None:
        """Put mentions and tokens in place of a pasted text that names files."""
        host, prompt = self._workbench.sessions.host, self._workbench.prompt
        if host is None or not paths_in(text):
            return
        mentions, paths = await asyncio.to_thread(mentions_of, text, host.workspace)
        tokens, has_problems = await self._add(paths)
        words = " ".join((*([mentions] if mentions else []), *tokens))
        if words and not has_problems and prompt.replace_last(text, f"{words} ") and tokens:
            self._warn_if_blind()

    async def attach(self, names: Sequence[str], text: str) -> None:
        prompt = self._workbench.prompt
        tokens, _ = await self._add(map(Path, names))
        prompt.replace_text(" ".join((*tokens, text or prompt.text)))
        if tokens:
            self._warn_if_blind()

    async def _add(self, paths: Iterable[Path]) -> tuple[list[str], bool]:
        """Keep pictures, and return their tokens and whether one could not be read."""
        found = [await asyncio.to_thread(read_picture, path) for path in paths]
        problems = [each for each in found if isinstance(each, str)]
        if problems:
            self._workbench.say("; ".join(problems), "error")
        return [self._workbench.prompt.folds.add_image(each) for each in found if isinstance(each, Image)], bool(problems)

    async def _image(self, _: str) -> None:
        found = await asyncio.to_thread(clipboard_picture)
        if isinstance(found, str):
            self._workbench.say(found, "warning")
            return
        self._workbench.prompt.insert(f"{self._workbench.prompt.folds.add_image(found)} ")
        self._warn_if_blind()

    def _warn_if_blind(self) -> None:
        """Say so where the model in use is known to see no pictures; where nobody knows, they are sent."""
        active = self._workbench.active
        if active is not None and active.state.model.is_blind:
            self._workbench.say(
                f"{active.state.model.name} cannot read images; choose another model before you send", "warning"
            )

    async def _edit(self, _: str) -> None:
        """Let the user's editor write the prompt's text; what it does not save changes nothing."""
        prompt = self._workbench.prompt
        await prompt.settle()
        text = await edit_text(
            self._workbench.app, prompt.text, "prompt.md", say=lambda text: self._workbench.say(text, "error")
        )
        if text is not None:
            prompt.replace_text(text.rstrip("\n"))
        prompt.focus()


FRESH_S = 10.0
MAX_RECENT = 50


class CompletionController:
    """Knows the workspace's paths, as old as ten seconds at the most when a new path is begun."""

    def __init__(self, workbench: WorkbenchApi) -> None:
        self._workbench = workbench
        self._search: FuzzyPaths | None = None
        self._known_at = float("-inf")
        self._mentioned: dict[str, None] = {}
        workbench.prompt.completing.values["modes"] = [(mode.value, MODE_NOTES[mode]) for mode in Mode]
        workbench.prompt.completing.values["calls"] = list(CALL_CHOICES.items())

    async def host_is_there(self) -> None:
        """Learn the values that take a moment to find."""
        files = await asyncio.to_thread(theme_files)
        values = self._workbench.prompt.completing.values
        values["themes"] = [(name, " · ".join(themes.kind_text(file))) for name, file in files.items()]
        if (host := self._workbench.sessions.host) is not None:
            await self._offer_prompts()
            if ToolServers in host.extensions:
                _ = host.extensions[ToolServers].listen(self._servers_changed)

    def _servers_changed(self) -> None:
        """Offer the prompts that servers have by now."""
        self._workbench.app.run_worker(self._offer_prompts(), group="prompt-commands", exclusive=True)

    async def _offer_prompts(self) -> None:
        host = self._workbench.sessions.host
        if host is not None and PromptFiles in host.extensions:
            found = await asyncio.to_thread(host.extensions[PromptFiles].found)
            self._workbench.prompt.completing.values[PROMPT_FILES] = prompt_values(found)

    def sent(self, text: str) -> None:
        """Take note of what was mentioned: it is offered first."""
        for mention in find_mentions(text):
            self._mentioned.pop(mention.path, None)
            self._mentioned = {mention.path: None, **self._mentioned}
        self._mentioned = dict.fromkeys(list(self._mentioned)[:MAX_RECENT])

    def paths_wanted(self, wanted: CompletionRequest) -> None:
        """Look for paths next to what continues; what was looked for before is given up."""
        screen = self._workbench.app.screen
        screen.run_worker(self._offer_paths(wanted), group="paths", exclusive=True)

    async def models_wanted(self) -> None:
        """Ask the servers for their models, so that `/model` can offer them."""
        host = self._workbench.sessions.host
        if host is None or "models" in self._workbench.prompt.completing.values:
            return
        servers = await host.servers.find()
        self._workbench.prompt.completing.values["models"] = [
            (model.name, sanitize_line(f"{server.kind}  {window_text(model.window_tokens)}"))
            for server in servers
            for model in server.chat_models
        ]

    async def _offer_paths(self, wanted: CompletionRequest) -> None:
        search = await self._known_paths(is_begun=not wanted.query)
        if search is None:
            return
        changed = list(self._workbench.active.state.changes) if self._workbench.active is not None else []
        recent = list(dict.fromkeys((*reversed(changed), *self._mentioned)))
        found = await asyncio.to_thread(offered_paths, search, wanted.query, recent)
        notes = dict.fromkeys(changed, "changed")
        host = self._workbench.sessions.host
        servers = host.extensions[ToolServers] if host is not None and ToolServers in host.extensions else None
        resources = resource_offers(wanted.query, servers.resources()) if servers is not None else []
        self._workbench.prompt.offer(wanted, [*(path_offer(path, notes) for path in found), *resources])

    async def _known_paths(self, *, is_begun: bool) -> FuzzyPaths | None:
        """Return the paths; those that are old are asked for again when a new path is begun."""
        host = self._workbench.sessions.host
        is_old = is_begun and time.monotonic() - self._known_at > FRESH_S
        if host is not None and (self._search is None or is_old):
            self._known_at = time.monotonic()
            paths = await tried(self._workbench, host.files.paths(), "warning")
            if paths is not None:
                self._search = await asyncio.to_thread(lambda: FuzzyPaths(with_folders(paths)))
        return self._search


LOOKED_AT = 10


def last_session(archive: Archive, opened: Collection[str]) -> SessionSummary | None:
    """Return the session that was used last and is open nowhere, None where there is none.  Blocks (disk)."""
    found = (each for each in archive.find(limit=LOOKED_AT) if each.id not in opened and not each.is_elsewhere)
    return next((each for each in found if each.title), None)


class PromptController:
    """Answers the prompt; `folder` is where histories and drafts are kept."""

    def __init__(self, workbench: WorkbenchApi, sending: Sending, folder: Path) -> None:
        self._workbench = workbench
        self.completion = CompletionController(workbench)
        self.pasting = PasteController(workbench)
        self.drafts = DraftController(workbench, sending, folder, self.completion.sent)

    async def host_is_there(self, host: SessionHost) -> None:
        """Learn what belongs to the workspace."""
        await self.drafts.load(host.workspace)
        await self.completion.host_is_there()

    async def suggest(self) -> None:
        """Suggest what to ask in this folder, and find the session that was used last in it."""
        sessions, start = self._workbench.sessions, self._workbench.start
        if (host := sessions.host) is None:
            return
        names: list[str] = []
        is_dirty, last = False, None
        with contextlib.suppress(LmtuiError):
            names = [entry.path for entry in await host.files.list("")]
            is_dirty = any(state is not GitState.IGNORED for state in (await host.files.git_status()).values())
        with contextlib.suppress(LmtuiError):
            last = await asyncio.to_thread(last_session, host.archive, frozenset(sessions.views))
        start.learn(suggested_prompts(names, is_dirty=is_dirty), last)
        self._workbench.draw()
        if start.marks_last and not self._workbench.prompt.text:
            start.marks_last = False
            self._workbench.prompt.mark_suggestion(len(start.suggestions) - 1)

    def changed(self) -> None:
        """Take note that the text changed."""
        self.drafts.changed()
        wanted = self._workbench.prompt.completing.wanted
        if wanted is not None and wanted.kind == "value" and wanted.source == "models":
            self._workbench.app.screen.run_worker(self.completion.models_wanted(), group="models", exclusive=True)
