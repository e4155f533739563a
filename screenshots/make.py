# ruff: noqa: INP001 - a script, not a package
"""Makes the pictures of this folder from the app at fixed moments: each screen wide in a dark and a light theme, and small.

SVG all of them; of the wide dark ones, which the docs show, PNG beside them where rsvg-convert is installed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

from lmtui.app.host import DEMO_TASK, open_runtime  # noqa: E402 - the checkout is not installed
from lmtui.config import Config  # noqa: E402 - the checkout is not installed
from lmtui.tui.app import LmtuiApp  # noqa: E402 - the checkout is not installed
from lmtui.tui.options import StartOptions  # noqa: E402 - the checkout is not installed
from lmtui.tui.themes import DEFAULT  # noqa: E402 - the checkout is not installed
from tests.tui.driving import SMALL, WIDE, running  # noqa: E402 - the checkout is not installed
from tests.tui.scenes import SCENES, Scene  # noqa: E402 - the checkout is not installed

WANTED = (
    "workbench", "approval_command", "approval_edit", "approval_effect", "attempts", "pipeline",
    "approval_always", "approval_batch",
    "changes", "undo", "rules", "trust", "switcher", "first_run", "approval_hunks", "changes_by_turn", "plan", "files",
    "viewer", "chat_search", "settings", "window_use", "prompt_paths", "models", "cache", "plan_question", "jobs",
    "mcp", "mcp_tools", "skills", "hooks", "file_commands", "help", "agents", "usage", "memory_inbox", "batch_tasks",
)  # fmt: skip
LIGHT = "paper"
FONT = "Fira Code"
PNG_FONT = "DejaVu Sans Mono"


async def picture(scene: Scene, size: tuple[int, int], theme: str = "") -> str:
    """Return the SVG of a scene."""
    os.environ["LMTUI_HOME"] = tempfile.mkdtemp(dir=os.environ["LMTUI_PICTURES"])
    host = scene.host()
    options = StartOptions(workspace=str(host.workspace), theme=theme or DEFAULT)
    async with running(host, size=size, options=options, is_ready=not scene.setup_note) as driver:
        await scene.steps(driver)
        await driver.settle()
        return driver.app.export_screenshot(title="lmtui")


async def demo_picture(size: tuple[int, int], theme: str = "") -> str:
    """Return the SVG of a finished demo: the real runtime on the scripted model server, real tools in a real sandbox."""
    with tempfile.TemporaryDirectory() as folder:
        runtime = open_runtime(Path(folder), Config(mode="auto"))
        app = LmtuiApp(
            lambda: runtime, StartOptions(task=DEMO_TASK, is_demo=True, workspace=folder, mode="auto", theme=theme or DEFAULT)
        )
        async with app.run_test(size=size) as pilot, asyncio.timeout(120):
            while not _is_over(app):
                await pilot.pause(0.2)
            await pilot.pause(0.5)
            return app.export_screenshot(title="lmtui demo")


def _is_over(app: LmtuiApp) -> bool:
    active = app.workbench.active
    return active is not None and any(each.event.kind == "turn_ended" for each in active.session.history())


def write(name: str, svg: str, *, is_shown: bool) -> None:
    """Write a picture as SVG and, if the docs show it and it can be, as PNG."""
    (FOLDER / f"{name}.svg").write_text(svg, "utf-8")
    converter = shutil.which("rsvg-convert")
    if is_shown and converter is not None:
        source = svg.replace(FONT, PNG_FONT).replace("<text ", '<text xml:space="preserve" ').encode()
        subprocess.run([converter, "--output", str(FOLDER / f"{name}.png")], input=source, check=True)
    sys.stdout.write(f"{name}{' (no PNG: rsvg-convert is not installed)' if is_shown and converter is None else ''}\n")


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["LMTUI_PICTURES"] = os.environ["LMTUI_HOME"] = home
        os.environ |= {"TZ": "UTC", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        made: list[tuple[str, Callable[[tuple[int, int], str], Coroutine[Any, Any, str]]]] = [
            (scene.name, partial(picture, scene)) for scene in SCENES if scene.name in WANTED
        ]
        for name, make in (*made, ("demo", demo_picture)):
            for size, theme in ((WIDE, ""), (WIDE, LIGHT), (SMALL, "")):
                suffix = f"-{size[0]}x{size[1]}{'-light' if theme else ''}"
                write(name + suffix, asyncio.run(make(size, theme)), is_shown=size == WIDE and not theme)


if __name__ == "__main__":
    main()
