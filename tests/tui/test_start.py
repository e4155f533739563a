from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = ("lmtui.core", "lmtui.commands", "lmtui.tui", "lmtui.paths")
HEAVY = (
    "openai",
    "docker",
    "pydantic",
    "httpx2",
    "httpx",
    "tiktoken",
    "markdown_it",
    "pygments.lexers",
    "tree_sitter_bash",
    "mcp",
)
MOST_MODULES = 65  # beyond a bare app: what loads costs, and a count does not hang on what else the machine does

BARE = """
import json, sys
import textual.app
from textual.widgets import Input
print(json.dumps(sorted(sys.modules)))
"""
MODULES = """
import json, sys
import lmtui.tui.app
print(json.dumps(sorted(sys.modules)))
"""


def loaded(code: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    modules: list[str] = json.loads(done.stdout)
    return modules


def test_the_first_frame_needs_only_textual_and_our_own_screens() -> None:
    modules = loaded(MODULES)
    assert [name for name in modules if name.split(".")[0] == "lmtui" and name != "lmtui" and not name.startswith(OURS)] == []
    assert [name for name in modules for heavy in HEAVY if name == heavy or name.startswith(f"{heavy}.")] == []
    assert len(set(modules) - set(loaded(BARE))) <= MOST_MODULES


def test_the_command_line_loads_nothing_of_a_session() -> None:
    found = loaded("import json, sys\nimport lmtui.cli\nprint(json.dumps(sorted(sys.modules)))")
    assert not {"lmtui.core.sessions", "lmtui.core.events", "lmtui.engine"} & set(found)
