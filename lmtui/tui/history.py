"""What was sent before: walked through with the arrow keys and searched."""

from __future__ import annotations

from collections.abc import Sequence

MAX_FOUND = 50
MAX_SEARCHED_CHARS = 2000


class History:
    """The texts sent before, oldest first, and where in them the prompt stands."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._index = 0
        self._unsent = ""

    def load(self, earlier: Sequence[str]) -> None:
        """Put what was sent in earlier runs before what was sent in this one."""
        self.texts = [*earlier, *self.texts]
        self._index = len(self.texts)

    def add(self, text: str) -> None:
        """Take note of a text that was sent, and go back to the end."""
        if not self.texts or self.texts[-1] != text:
            self.texts.append(text)
        self._index, self._unsent = len(self.texts), ""

    def walk(self, step: int, now: str) -> str | None:
        """Return the text one step on, None at either end; `now` is kept for when one comes back to the end."""
        index = self._index + step
        if not 0 <= index <= len(self.texts):
            return None
        if self._index == len(self.texts):
            self._unsent = now
        self._index = index
        return self._unsent if index == len(self.texts) else self.texts[index]

    def search(self, query: str) -> list[str]:
        """Return what fits, the best and then the newest first: all words, else their letters in order."""
        words = query.lower().split()
        newest = list(dict.fromkeys(reversed(self.texts)))
        if not words:
            return newest[:MAX_FOUND]
        lowered = [(text, text[:MAX_SEARCHED_CHARS].lower()) for text in newest]
        whole = [text for text, lower in lowered if all(word in lower for word in words)]
        letters = "".join(words)
        known = set(whole)
        loose = [text for text, lower in lowered if text not in known and has_in_order(letters, lower)]
        return (whole + loose)[:MAX_FOUND]


def has_in_order(letters: str, text: str) -> bool:
    """Tell whether a text has all letters in their order, whatever stands between them."""
    at = -1
    for letter in letters:
        at = text.find(letter, at + 1)
        if at < 0:
            return False
    return True
