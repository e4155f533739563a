"""What a workspace and its user bring to the model in words, read anew for each turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lmtui.core.guidance import Guide
from lmtui.extensions.instructions import InstructionFiles
from lmtui.paths import config_dir


def guide_of(workspace: Path, count_tokens: Callable[[str], int]) -> Guide:
    """Return who reads the instructions, the persona and the user's profile."""
    return InstructionFiles(workspace, config_dir(), count_tokens)
