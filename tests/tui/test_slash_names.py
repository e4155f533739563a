from __future__ import annotations

from lmtui.core.prompt_text import OWN_NAMES
from lmtui.plain.commands import COMMANDS as PLAIN
from lmtui.tui.commands import COMMANDS


def test_every_name_of_a_command_is_kept_from_files() -> None:
    named = {name for command in COMMANDS for name in command.slash} | set(PLAIN)
    assert named <= OWN_NAMES
