"""What was typed, kept: the history of a workspace, and the draft of each session, so that a crash loses none of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from textual.timer import Timer

from lmtui.tui.folding import Typed
from lmtui.tui.parts.sending import Sending
from lmtui.tui.prompt_store import PromptStore
from lmtui.tui.stage import Stage
from lmtui.tui.timers import call_after

QUIET_S = 1.0


class DraftPart:
    """Writes a draft one second after the typing stops; nothing wakes up while nothing is typed.

    `on_sent` is called with each text that is sent.
    """

    def __init__(self, stage: Stage, sending: Sending, folder: Path, on_sent: Callable[[str], None]) -> None:
        self._stage = stage
        self._sending = sending
        self._folder = folder
        self._on_sent = on_sent
        self._store: PromptStore | None = None
        self._session_id = self._wanted_id = ""  # whose text stands in the prompt, and whose is to
        self._saved = Typed("")
        self._timer: Timer | None = None
        self._writing = asyncio.Lock()

    async def load(self, workspace: Path) -> None:
        """Read the history; from here on what is sent and typed is kept."""
        store = PromptStore(self._folder, workspace)
        past = await asyncio.to_thread(store.history)
        prompt = self._stage.prompt
        for entry in past:
            prompt.folds.load(entry.pastes)
        sent_before = [prompt.folds.typed(text) for text in prompt.history_texts.texts]
        prompt.history_texts.load([entry.text for entry in past])
        self._store = store
        self._sending.on_sent = self._sent
        for typed in sent_before:
            self._sent(typed)

    async def show(self, session_id: str) -> None:
        """Keep the draft of the session that was on screen and bring up that of another."""
        self._wanted_id = session_id
        if self._store is None or session_id == self._session_id:
            return
        prompt, store, before = self._stage.prompt, self._store, self._session_id
        if before:
            await self.save()
        text = prompt.text
        found = await asyncio.to_thread(store.draft, session_id)
        if not before and not found.text:
            found = await asyncio.to_thread(store.take_newest_draft, session_id, frozenset(self._stage.desk.parked))
        if self._wanted_id != session_id:
            return  # another session is on screen by now
        self._session_id = session_id
        if prompt.text == text and (before or (found.text and not text)):
            prompt.folds.load(found.pastes)
            self._saved = found
            prompt.replace_text(found.text)
        elif found.text not in ("", prompt.text):  # typing has begun already, and would take its place
            prompt.folds.load(found.pastes)
            prompt.history_texts.add(found.text)
            await self._write(lambda: store.add(found), "history")
            self._stage.say("what was not sent the last time is in the history")

    def changed(self) -> None:
        """Take note that the text changed."""
        if self._timer is not None:
            self._timer.stop()
        self._timer = call_after(self._stage.app, QUIET_S, self.save)

    async def save(self) -> None:
        """Write what is typed now."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        typed = self._stage.prompt.folds.typed(self._stage.prompt.text)
        store, session_id = self._store, self._session_id
        if store is None or not session_id or typed == self._saved:
            return
        self._saved = typed
        await self._write(lambda: store.save_draft(session_id, typed), "draft")

    def _sent(self, typed: Typed) -> None:
        store = self._store
        self._on_sent(typed.text)
        if store is not None:
            self._stage.app.run_worker(self._write(lambda: store.add(typed), "history"), group="history")

    async def _write(self, write: Callable[[], None], what: str) -> None:
        async with self._writing:
            try:
                await asyncio.to_thread(write)
            except OSError as error:
                self._stage.say(f"the {what} could not be written: {error.strerror}", "warning")
