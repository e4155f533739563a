"""What the prompt can do next to sending: completions, pastes and pictures, the history and the drafts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from lmtui.commands.session_commands import MODE_NOTES
from lmtui.core.errors import LmtuiError
from lmtui.core.event_text import CALL_CHOICES
from lmtui.core.permissions.decide import Mode
from lmtui.core.prompt_text import find_mentions
from lmtui.core.sanitize import sanitize_line
from lmtui.core.sessions import SessionHost
from lmtui.core.skills import SkillState
from lmtui.tui import themes
from lmtui.tui.completing import PROMPT_FILES, CompletionKind, CompletionRequest, path_offer, prompt_values, resource_offers
from lmtui.tui.controllers.paste_controller import PasteController
from lmtui.tui.controllers.send_controller import DraftController, Sending
from lmtui.tui.path_index import PathIndex, PathSearch
from lmtui.tui.wording import window_text
from lmtui.tui.workbench_api import Handler, WorkbenchApi

FRESH_S = 10.0
MAX_RECENT = 50


class CompletionController:
    """Knows the workspace's paths, as old as ten seconds at the most when a new path is begun."""

    def __init__(self, workbench: WorkbenchApi) -> None:
        self._workbench = workbench
        self._search: PathSearch | None = None
        self._known_at = float("-inf")
        self._mentioned: dict[str, None] = {}
        workbench.prompt.completing.values["modes"] = [(mode.value, MODE_NOTES[mode]) for mode in Mode]
        workbench.prompt.completing.values["calls"] = list(CALL_CHOICES.items())

    async def host_is_there(self) -> None:
        """Learn the values that take a moment to find."""
        files = await asyncio.to_thread(themes.theme_files)
        values = self._workbench.prompt.completing.values
        values["themes"] = [(name, themes.kind_text(file)) for name, file in files.items()]
        if (host := self._workbench.sessions.host) is not None:
            values[PROMPT_FILES] = prompt_values(await asyncio.to_thread(host.extensions.prompts.found))
            _ = host.extensions.mcp.listen(self._servers_changed)
            skills = await host.extensions.skills.found()
            values["skills"] = [(each.name, each.description) for each in skills if each.state is SkillState.READY]

    def _servers_changed(self) -> None:
        """Offer the prompts that servers have by now."""
        self._workbench.app.run_worker(self._offer_prompts(), group="prompt-commands", exclusive=True)

    async def _offer_prompts(self) -> None:
        if (host := self._workbench.sessions.host) is not None:
            found = await asyncio.to_thread(host.extensions.prompts.found)
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
        changed = list(self._workbench.active.facts.changes) if self._workbench.active is not None else []
        recent = list(dict.fromkeys((*reversed(changed), *self._mentioned)))
        found = await search.find(wanted.query, recent)
        notes = dict.fromkeys(changed, "changed")
        host = self._workbench.sessions.host
        resources = resource_offers(wanted.query, host.extensions.mcp.resources()) if host is not None else []
        self._workbench.prompt.offer(wanted, [*(path_offer(path, notes) for path in found), *resources])

    async def _known_paths(self, *, is_begun: bool) -> PathSearch | None:
        """Return the paths; those that are old are asked for again when a new path is begun."""
        host = self._workbench.sessions.host
        is_old = is_begun and time.monotonic() - self._known_at > FRESH_S
        if host is not None and (self._search is None or is_old):
            self._known_at = time.monotonic()
            try:
                paths: Sequence[str] = await host.files.paths()
            except LmtuiError as error:
                self._workbench.say(error.full_text(), "warning")
                return self._search
            self._search = PathSearch(await asyncio.to_thread(PathIndex.of, paths))
        return self._search


class PromptController:
    """Answers the prompt; `folder` is where histories and drafts are kept."""

    def __init__(self, workbench: WorkbenchApi, sending: Sending, folder: Path) -> None:
        self._workbench = workbench
        self._completion = CompletionController(workbench)
        self._pasting = PasteController(workbench, sending)
        self._drafts = DraftController(workbench, sending, folder, self._completion.sent)

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return self._pasting.handlers()

    async def host_is_there(self, host: SessionHost) -> None:
        """Learn what belongs to the workspace."""
        await self._drafts.load(host.workspace)
        await self._completion.host_is_there()

    async def attach(self, names: Sequence[str], text: str) -> None:
        """Begin the prompt with pictures and a text."""
        await self._pasting.attach(names, text)

    def changed(self) -> None:
        """Take note that the text changed."""
        self._drafts.changed()
        wanted = self._workbench.prompt.completing.wanted
        if wanted is not None and wanted.kind is CompletionKind.VALUE and wanted.source == "models":
            self._workbench.app.screen.run_worker(self._completion.models_wanted(), group="models", exclusive=True)

    def paths_wanted(self, wanted: CompletionRequest) -> None:
        """Offer paths."""
        self._completion.paths_wanted(wanted)

    async def pasted(self, text: str) -> None:
        """Take note of a paste."""
        await self._pasting.pasted(text)

    async def show(self, session_id: str) -> None:
        """Bring up the draft of a session."""
        await self._drafts.show(session_id)

    async def save(self) -> None:
        """Keep what is typed now."""
        await self._drafts.save()
