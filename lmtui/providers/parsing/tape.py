"""Text that arrives in pieces and is read from left to right, with a way back."""

from __future__ import annotations


class Tape:
    """What is not yet read stands in `text` from `at` on."""

    def __init__(self) -> None:
        self.text = ""
        self.at = 0

    @property
    def is_read(self) -> bool:
        """Tell whether nothing is left."""
        return self.at == len(self.text)

    def put(self, text: str) -> None:
        """Add text at the end, and forget what was read."""
        self.text = self.text[self.at :] + text if not self.is_read else text
        self.at = 0

    def take(self, end: int) -> str:
        """Read up to a place."""
        taken = self.text[self.at : end]
        self.at = max(end, self.at)
        return taken

    def rewind(self, text: str) -> None:
        """Go back to before a text that was read, whether it is still here or not."""
        if self.at >= len(text) and self.text.startswith(text, self.at - len(text)):
            self.at -= len(text)
        else:
            self.text = text + self.text[self.at :]
            self.at = 0
