"""Thinking that a server leaves inside the text: `<think>…</think>` at the start of an answer, taken apart as it streams."""

from __future__ import annotations

_OPEN = ("<think>", "<thinking>")
_CLOSE = ("</think>", "</thinking>")


class ThinkSplitter:
    """Splits streamed text into thinking and answer; the split does not depend on how the text was cut."""

    def __init__(self) -> None:
        self._is_open = False
        self._is_decided = False
        self._held = ""
        self._skips_space = False

    def feed(self, text: str) -> tuple[str, str]:
        """Return (thinking, answer) that this piece adds; a possible beginning of a tag is held back."""
        self._held += text
        if not self._is_decided:
            start = self._held.lstrip()
            tag = next((tag for tag in _OPEN if start.startswith(tag)), None)
            if tag is not None:
                self._is_open, self._held = True, start[len(tag) :]
            elif any(tag.startswith(start) for tag in _OPEN):
                return "", ""
            self._is_decided = True
        if not self._is_open:
            return "", self._answer()
        for tag in _CLOSE:
            before, found, after = self._held.partition(tag)
            if found:
                self._is_open, self._held, self._skips_space = False, after, True
                return before, self._answer()
        keep = max((n for tag in _CLOSE for n in range(1, len(tag)) if self._held.endswith(tag[:n])), default=0)
        cut = len(self._held) - keep
        thinking, self._held = self._held[:cut], self._held[cut:]
        return thinking, ""

    def finish(self) -> tuple[str, str]:
        """Return what was held back, now that no more comes."""
        held, self._held = self._held, ""
        return (held, "") if self._is_open else ("", held)

    def _answer(self) -> str:
        answer, self._held = self._held, ""
        if self._skips_space:
            answer = answer.lstrip()
            self._skips_space = not answer
        return answer
