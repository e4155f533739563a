"""What can be asked of the conversation on screen: search it, copy code from it."""

from __future__ import annotations

from lmtui.tui.lines.transcript import Transcript
from lmtui.tui.stage import Handler, Stage
from lmtui.tui.widgets.search_line import SearchLine


class ChatPart:
    """Answers the commands of the conversation."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._line = SearchLine()

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {"chat.find": self._find, "chat.copy_code": self._copy_code}

    @property
    def _transcript(self) -> Transcript | None:
        current = self._stage.panes.current if self._stage.panes is not None else None
        return current.transcript if current is not None else None

    async def _find(self, words: str) -> None:
        transcript = self._transcript
        if transcript is None or transcript.parent is None:
            return
        before = self._stage.app.focused
        if not transcript.is_on_screen or self._stage.pane != "chat":
            self._stage.go_to("chat")
        if words:
            transcript.focus()
            transcript.find(words)
            transcript.go_to_match()
            return
        if self._line.parent is None and self._stage.panes is not None:
            await self._stage.panes.query_one("#chat-pane").mount(self._line)
        self._line.open_for(transcript, before)

    def _copy_code(self, _: str) -> None:
        transcript = self._transcript
        if transcript is None:
            return
        fence, number, count = transcript.next_fence()
        if fence is None:
            self._stage.say("no code fence here; y copies the whole message")
            return
        self._stage.app.copy_to_clipboard(fence.code)
        if count > 1:
            self._stage.say(f"code {number} of {count}")
