"""Slash commands of files that are where a test puts them."""

from __future__ import annotations

from collections.abc import Sequence

from lmtui.core.errors import LmtuiError
from lmtui.core.prompt_text import FilledPrompt, PromptFile, find_prompt


class FakePromptFiles:
    """Files in a list."""

    def __init__(self) -> None:
        self.files: list[PromptFile] = []
        self.broken: LmtuiError | None = None

    def found(self) -> Sequence[PromptFile]:
        return self.files

    async def read(self, text: str) -> FilledPrompt | None:
        if self.broken:
            raise self.broken
        return find_prompt(self.files, text)
