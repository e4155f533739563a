"""What a workspace and its user bring to the model in words, read anew for each turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lmtui.config import Config
from lmtui.core.guidance import Guidance, Guide
from lmtui.core.guidance_words import WHOLE_CHARS
from lmtui.extensions.agents import AgentFiles
from lmtui.extensions.instructions import InstructionFiles, unread_files
from lmtui.extensions.skills import SkillShelf
from lmtui.extensions.skills_guide import SkillsGuide
from lmtui.paths import config_dir
from lmtui.providers.tokens import count_tokens

__all__ = ["guide_of", "own_instructions", "read_guidance", "unread_files"]


def guide_of(
    workspace: Path,
    count_tokens: Callable[[str], int],
    skills: SkillShelf | None = None,
    own: str = "",
    agents: AgentFiles | None = None,
) -> Guide:
    """Return who reads the instructions, the persona and the user's profile, and the lists of skills and of sub-agents.

    `own` are instructions that the user gave beside the files.
    """
    files = InstructionFiles(workspace, config_dir(), count_tokens, own)
    return SkillsGuide(files, skills.told, agents) if skills is not None else files


def own_instructions(config: Config) -> str:
    """Return the user's own instructions, and which folders there are beside the workspace."""
    folders = [
        f"- {Path(each.removesuffix(':rw')).expanduser().resolve()} ({'writable' if each.endswith(':rw') else 'read-only'})"
        for each in config.add_dirs
    ]
    about = (
        "You may also use these folders, by their whole paths in tools and commands:\n" + "\n".join(folders) if folders else ""
    )
    return "\n\n".join(each for each in (config.append_system_prompt, about) if each)


async def read_guidance(workspace: Path) -> Guidance:
    """Return what is there now, with its price in tokens."""
    return await guide_of(workspace, count_tokens).read(WHOLE_CHARS)
