"""What the prompt can do beside sending: completions, pastes and pictures, the history and the drafts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lmtui.core.sessions import SessionHost
from lmtui.tui.completing import Kind, Wanted
from lmtui.tui.parts.completing import CompletionPart
from lmtui.tui.parts.drafts import DraftPart
from lmtui.tui.parts.pasting import PastingPart
from lmtui.tui.parts.sending import Sending
from lmtui.tui.stage import Handler, Stage


class PromptPart:
    """Answers the prompt; `folder` is where histories and drafts are kept."""

    def __init__(self, stage: Stage, sending: Sending, folder: Path) -> None:
        self._stage = stage
        self._completion = CompletionPart(stage)
        self._pasting = PastingPart(stage, sending)
        self._drafts = DraftPart(stage, sending, folder, self._completion.sent)

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
        wanted = self._stage.prompt.completing.wanted
        if wanted is not None and wanted.kind is Kind.VALUE and wanted.source == "models":
            self._stage.app.screen.run_worker(self._completion.models_wanted(), group="models", exclusive=True)

    def paths_wanted(self, wanted: Wanted) -> None:
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
