"""The hooks of a session, put together with the sandbox that a folder's own run in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lmtui.core.hooks import Hooks, NoHooks
from lmtui.core.prompt_files import PromptFile
from lmtui.extensions.hooks import Lane, SessionHooks, hooks_trust
from lmtui.extensions.hooks_config import HookFiles, read_hooks
from lmtui.extensions.hooks_words import Surroundings, odd_matchers
from lmtui.extensions.prompt_files import MarkdownPrompts
from lmtui.paths import sessions_dir
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.tools.registry import ToolRegistry


def hooks_of(workspace: Path, session_id: str, sandbox: WorkspaceSandbox) -> Hooks:
    """Return the hooks of a session as the files name them now.  Blocks (three small files)."""

    async def lane() -> Lane:
        status = await sandbox.status()
        return Lane(sandbox.launcher if status.has_shell else None, status.folder or str(workspace))

    log = sessions_dir(workspace) / f"{session_id}.jsonl"
    around, tools = Surroundings(session_id, str(log), str(workspace)), ToolRegistry().names()
    found = SessionHooks(workspace, around, lane, os.environ, tools=tools)
    return found if found.problems() or found.has_any else NoHooks()


def prompt_files(workspace: Path) -> Sequence[PromptFile]:
    """Return the slash commands that are Markdown files, for who only asks.  Blocks."""
    return MarkdownPrompts(workspace, ToolRegistry().canonical).found()


def hook_files(workspace: Path) -> HookFiles:
    """Return what the files name, for who only asks.  Blocks."""
    files = read_hooks(workspace)
    return replace(files, problems=(*files.problems, *odd_matchers(files.entries, ToolRegistry().names())))


def hooks_hold(workspace: Path, files: HookFiles) -> bool:
    """Tell whether the user said yes to a folder's hooks as they are.  Blocks."""
    return hooks_trust(workspace).holds(files.digest)
