from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = ("lmtui.core", "lmtui.tui", "lmtui.paths")
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
MOST_ROUNDS = 10
MOST_TIMES_BARE = 1.5

BARE = """
import time
from textual.app import App
from textual.widgets import Input
class Measured(App):
    def compose(self):
        yield Input()
    def on_mount(self):
        self.call_after_refresh(self.tell)
    def tell(self):
        print(time.process_time())
        self.exit()
Measured().run(headless=True, size=(160, 40))
"""
APP = """
import time
from lmtui.tui.app import LmtuiApp
class Measured(LmtuiApp):
    def _start(self):
        print(time.process_time())
        self.exit()
Measured(lambda: None).run(headless=True, size=(160, 40))
"""
MODULES = """
import json, sys
import lmtui.tui.app
print(json.dumps(sorted(sys.modules)))
"""


def run(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout


def test_the_first_frame_needs_only_textual_and_our_own_screens() -> None:
    modules: list[str] = json.loads(run(MODULES))
    assert [name for name in modules if name.split(".")[0] == "lmtui" and name != "lmtui" and not name.startswith(OURS)] == []
    assert [name for name in modules for heavy in HEAVY if name == heavy or name.startswith(f"{heavy}.")] == []


def test_the_first_frame_costs_little_more_than_a_bare_app() -> None:
    bare, ours = [float(run(BARE))], [float(run(APP))]
    while min(ours) > MOST_TIMES_BARE * min(bare) and len(ours) < MOST_ROUNDS:
        bare.append(float(run(BARE)))
        ours.append(float(run(APP)))
    assert min(ours) <= MOST_TIMES_BARE * min(bare), (bare, ours)
