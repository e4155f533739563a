"""Slash commands that workspaces, users and MCP servers bring, as one list; a server's prompt is asked for when it is typed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace

from lmtui.core.mcp import PREFIX, McpPrompt
from lmtui.core.prompt_files import FilledPrompt, Piece, PromptFile, find_prompt
from lmtui.core.slash_names import slash_call
from lmtui.extensions.mcp_offers import argument_hint, typed_arguments
from lmtui.extensions.mcp_room import McpRoom
from lmtui.extensions.prompt_files import MarkdownPrompts

_PATIENCE_S = 10.0
_MARK = re.compile(r"<(?=/?prompt\b)", re.IGNORECASE)


class AllPrompts:
    """Implements `core.prompt_files.PromptFiles`.

    Args:
        files: those of Markdown files.
        room: the servers.
        is_on: servers are started.
    """

    def __init__(self, files: MarkdownPrompts, room: McpRoom, *, is_on: bool) -> None:
        self._files, self._room, self._is_on = files, room, is_on

    def found(self) -> Sequence[PromptFile]:
        """Return every command as it is now; see `core.prompt_files.PromptFiles.found`."""
        prompts = [_as_file(prompt) for prompt in self._room.prompts()]
        names = {prompt.name: prompt.source for prompt in prompts}
        files = [
            replace(each, problem=f"hidden by {names[each.name]}") if each.name in names else each
            for each in self._files.found()
        ]
        return sorted((*files, *prompts), key=lambda file: (file.name, bool(file.problem)))

    async def read(self, text: str) -> FilledPrompt | None:
        """Return the prompt that a typed text calls up; see `core.prompt_files.PromptFiles.read`."""
        name, words = slash_call(text.strip()) or ("", "")
        if self._is_on and name.startswith(PREFIX):
            if name not in {prompt.name for prompt in self._room.prompts()}:
                await self._room.settle(_PATIENCE_S)
            prompt = next((prompt for prompt in self._room.prompts() if prompt.name == name), None)
            if prompt is not None:
                return await self._filled(prompt, text.strip(), words)
        return find_prompt(await asyncio.to_thread(self._files.found), text)

    async def _filled(self, prompt: McpPrompt, typed: str, words: str) -> FilledPrompt:
        said = await self._room.get_prompt(prompt, typed_arguments(prompt, words))
        pieces = (
            Piece(f'{typed}\n\n<prompt from="MCP server {prompt.server_key}">\n'),
            Piece(_MARK.sub("‹", said.text), is_foreign=True),
            Piece("\n</prompt>"),
        )
        return FilledPrompt(_as_file(prompt), pieces, said.images)


def _as_file(prompt: McpPrompt) -> PromptFile:
    source = f"MCP server {prompt.server_key}"
    return PromptFile(prompt.name, "", source, prompt.description, argument_hint(prompt), is_own=False)
