"""A command's output on its way to a screen or a model: decoded, cleaned, and put together from head and tail."""

from __future__ import annotations

import codecs
import re

from lmtui.core.clean import clean
from lmtui.core.ports import OutputSink

_MAX_HELD = 512
# A control sequence that may go on in the next piece, or a carriage return that may be half a line end.
_UNFINISHED = re.compile(
    r"(?:\x1b(?:[ -/]*|\[[0-?]*[ -/]*)|\x9b[0-?]*[ -/]*|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*\x1b?|\r)\Z"
)


class LiveOutput:
    """Turns pieces of bytes into clean text; characters and control sequences may be split between pieces."""

    def __init__(self, sink: OutputSink) -> None:
        self._sink = sink
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def __call__(self, data: bytes, skipped_bytes: int) -> None:
        """Take up a piece, before which some bytes may have been left out."""
        if skipped_bytes:
            self.finish()
            self._sink(f"\n… {skipped_bytes:,} bytes not shown …\n")
        text = self._held + self._decoder.decode(data)
        unfinished = _UNFINISHED.search(text, max(0, len(text) - _MAX_HELD))
        cut = unfinished.start() if unfinished else len(text)
        self._held = text[cut:]
        self._emit(text[:cut])

    def finish(self) -> None:
        """Let out what was held back."""
        text = self._held + self._decoder.decode(b"", final=True)
        self._held = ""
        self._decoder.reset()
        self._emit(text)

    def _emit(self, text: str) -> None:
        if shown := clean(text):
            self._sink(shown)


def whole_output(data: bytes, head_bytes: int, total_bytes: int, saved_path: str) -> str:
    """Return a command's output as the model reads it: all of it, or head and tail with what is missing said between."""
    left_out = total_bytes - len(data)
    if left_out <= 0:
        return clean(data.decode("utf-8", "replace"))
    head = clean(data[:head_bytes].decode("utf-8", "replace"))
    tail = clean(data[head_bytes:].decode("utf-8", "replace"))
    more = f"; the first of it is in {clean(saved_path)}" if saved_path else ""
    return f"{head}\n… {left_out:,} bytes left out{more} …\n{tail}"
