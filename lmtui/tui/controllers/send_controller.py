"""What is sent from the prompt, what waits to be sent, and the ways to take it back.  Needed before the first frame."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from textual.content import Content
from textual.timer import Timer

from lmtui.core.sanitize import sanitize_line
from lmtui.tui.key_bindings import EARLY, first_key, hint_text
from lmtui.tui.lines.styled_text import fit
from lmtui.tui.prompt_store import PromptStore, Typed
from lmtui.tui.timing import call_after
from lmtui.tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from lmtui.tui.router import SessionView
    from lmtui.tui.workbench_api import Handler, WorkbenchApi


MAX_SHOWN = 3
LABEL_CELLS = 17
MARGIN_CELLS = 5
NOTICE_CELLS = 40


class Sending:
    """Gives what is submitted to the session on screen; until there is one it waits here."""

    def __init__(self, workbench: WorkbenchApi, task: str) -> None:
        self._workbench = workbench
        self._unsent = [Prompt.Submitted(task, Typed(task))] if task else []
        self.on_sent: Callable[[Typed], None] = lambda _: None

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {"prompt.take_back": self._take_back}

    def send(self, event: Prompt.Submitted) -> None:
        """Send a text, run a command of the user's own, or with nothing typed go on with what an interrupt left waiting."""
        active = self._workbench.active
        if not event.text:
            if active is not None and active.state.is_queue_paused:
                self._workbench.sessions.go_on(active)
            return
        if event.images and active is not None and active.state.model.is_blind:
            self._workbench.prompt.put_before(event.typed.text)
            self._workbench.say(f"{active.state.model.name} cannot read images: remove them, or choose another model", "error")
            return
        self.on_sent(event.typed)
        self._unsent.append(event)
        self.send_unsent()

    def send_unsent(self) -> None:
        """Send what was typed before there was a session, and what is typed now; it stays where there is none yet."""
        active = self._workbench.active
        if active is not None:
            unsent, self._unsent = self._unsent, []
            for event in unsent:
                self._give(active, event)
        self._workbench.draw()

    def _give(self, active: SessionView, event: Prompt.Submitted) -> None:
        self._workbench.panes.follow_chat()
        if not event.typed.text.startswith("!"):
            self._workbench.sessions.submit(
                active, event.text, typed=event.typed.text, images=event.images, is_now=event.is_now
            )
            if active.state.approvals:  # the question covers the row of what is queued
                when = "before the next step" if event.is_now else "after this turn"
                text = fit(sanitize_line(event.typed.text), NOTICE_CELLS)
                self._workbench.app.notify(f"Queued to send {when}: {text}", markup=False)
            return
        is_told = not event.text.startswith("!!")
        shell_text = event.text.lstrip("!").strip()
        if shell_text:
            self._workbench.sessions.run_command(active, shell_text, is_told=is_told)
        else:
            self._workbench.say("! runs a shell command; !! hides it from the model")

    def _take_back(self, _: str) -> None:
        active = self._workbench.active
        if active is not None and active.state.queued:
            text = active.session.waiting.drop(len(active.state.queued) - 1)
        else:
            text = self._unsent.pop().typed.text if self._unsent else ""
        self._workbench.prompt.put_before(text)
        self._workbench.prompt.focus()
        self._workbench.draw()

    def queue_content(self) -> Content | None:
        """Return what waits for the next step, and what for the end of the turn; None if nothing."""
        active = self._workbench.active
        state = active.state if active is not None else None
        queued = state.queued if state is not None else tuple(event.typed.text for event in self._unsent)
        now = state.next_step if state is not None else ()
        is_paused = state is not None and state.is_queue_paused
        later = "paused:" if is_paused else "after this turn:"
        style, room = "$warning" if is_paused else "$accent", self._workbench.app.size.width - LABEL_CELLS - MARGIN_CELLS
        lines: list[Content] = []
        for label, is_now in (("next step:", True), (later, False)):
            texts = [sanitize_line(text) for at, text in enumerate(queued) if (at in now) is is_now]
            more = [f"… {len(texts) - MAX_SHOWN} more"] if len(texts) > MAX_SHOWN else []
            for text in [*texts[:MAX_SHOWN], *more]:
                head = Content.styled((label if text is texts[0] else "").ljust(LABEL_CELLS), style)
                lines.append(head + Content.styled(fit(text, room), "$text"))
        if not lines:
            return None
        words = hint_text([EARLY.by_id("prompt.take_back")])
        send = f"{first_key(EARLY.by_id('prompt.send'))} to send · " if is_paused else ""
        return Content("\n").join([*lines, Content.styled(f"{' ' * LABEL_CELLS}{send}{words}", "$text-muted")])


QUIET_S = 1.0


class DraftController:
    """Writes a draft one second after the typing stops; nothing wakes up while nothing is typed.

    `on_sent` is called with each text that is sent.
    """

    def __init__(self, workbench: WorkbenchApi, sending: Sending, folder: Path, on_sent: Callable[[str], None]) -> None:
        self._workbench = workbench
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
        prompt = self._workbench.prompt
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
        prompt, store, before = self._workbench.prompt, self._store, self._session_id
        if before:
            await self.save()
        text = prompt.text
        found = await asyncio.to_thread(store.draft, session_id)
        if not before and not found.text:
            found = await asyncio.to_thread(store.take_newest_draft, session_id, frozenset(self._workbench.sessions.parked))
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
            self._workbench.say("your unsent text is in the history")

    def changed(self) -> None:
        """Take note that the text changed."""
        if self._timer is not None:
            self._timer.stop()
        self._timer = call_after(self._workbench.app, QUIET_S, self.save)

    async def save(self) -> None:
        """Write what is typed now."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        typed = self._workbench.prompt.folds.typed(self._workbench.prompt.text)
        store, session_id = self._store, self._session_id
        if store is None or not session_id or typed == self._saved:
            return
        self._saved = typed
        await self._write(lambda: store.save_draft(session_id, typed), "draft")

    def _sent(self, typed: Typed) -> None:
        store = self._store
        self._on_sent(typed.text)
        if store is not None:
            self._workbench.app.run_worker(self._write(lambda: store.add(typed), "history"), group="history")

    async def _write(self, write: Callable[[], None], what: str) -> None:
        async with self._writing:
            try:
                await asyncio.to_thread(write)
            except OSError as error:
                self._workbench.say(f"the {what} could not be written: {error.strerror}", "warning")
