# ruff: noqa: INP001 - a script, not a package
"""Makes the pictures that README and docs show, from the app at fixed moments, as small PNG files.  It needs rsvg-convert."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

from lmtui.app.host import DEMO_TASK, Runtime  # noqa: E402 - the checkout is not installed
from lmtui.config import Config  # noqa: E402 - the checkout is not installed
from lmtui.tui.app import LmtuiApp  # noqa: E402 - the checkout is not installed
from lmtui.tui.options import StartOptions  # noqa: E402 - the checkout is not installed
from lmtui.tui.themes import DEFAULT  # noqa: E402 - the checkout is not installed
from tests.tui.driving import WIDE, running  # noqa: E402 - the checkout is not installed
from tests.tui.scenes import SCENES, Scene  # noqa: E402 - the checkout is not installed

WANTED = (
    "agents", "approval_command", "approval_edit", "approval_effect", "attempts", "batch_tasks", "changes", "first_run", "jobs",
    "mcp", "memory_inbox", "pipeline", "plan_question", "rules", "settings", "switcher", "trust", "undo", "workbench",
)  # fmt: skip
FONT, PNG_FONT = "Fira Code", "DejaVu Sans Mono"
COLORS = 128


async def picture(scene: Scene) -> str:
    """Return the SVG of a scene."""
    os.environ["LMTUI_HOME"] = tempfile.mkdtemp(dir=os.environ["LMTUI_PICTURES"])
    host = scene.host()
    options = StartOptions(workspace=str(host.workspace), theme=DEFAULT)
    async with running(host, size=WIDE, options=options, is_ready=not scene.setup_note) as driver:
        await scene.steps(driver)
        await driver.settle()
        return driver.app.export_screenshot(title="lmtui")


async def demo_picture() -> str:
    """Return the SVG of a finished demo: the real runtime on the scripted model server, real tools in a real sandbox."""
    with tempfile.TemporaryDirectory() as folder:
        runtime = Runtime(Path(folder), Config(mode="auto"))
        options = StartOptions(task=DEMO_TASK, is_demo=True, workspace=folder, mode="auto", theme=DEFAULT)
        app = LmtuiApp(lambda: runtime, options)
        async with app.run_test(size=WIDE) as pilot, asyncio.timeout(120):
            while not _is_over(app):
                await pilot.pause(0.2)
            await pilot.pause(0.5)
            return app.export_screenshot(title="lmtui demo")


def _is_over(app: LmtuiApp) -> bool:
    active = app.workbench.active
    return active is not None and any(each.event.kind == "turn_ended" for each in active.session.history())


def write(name: str, svg: str, converter: str) -> None:
    """Write a picture as PNG of few colours."""
    source = svg.replace(FONT, PNG_FONT).replace("<text ", '<text xml:space="preserve" ').encode()
    drawn = subprocess.run([converter], input=source, capture_output=True, check=True).stdout
    path = FOLDER / f"{name}-{WIDE[0]}x{WIDE[1]}.png"
    Image.open(io.BytesIO(drawn)).convert("RGB").quantize(COLORS).save(path, optimize=True)
    sys.stdout.write(f"{path.name}\n")


def main() -> None:
    """Make all pictures."""
    converter = shutil.which("rsvg-convert") or sys.exit("rsvg-convert is not installed (Debian: librsvg2-bin)")
    with tempfile.TemporaryDirectory() as home:
        os.environ["LMTUI_PICTURES"] = os.environ["LMTUI_HOME"] = home
        os.environ |= {"TZ": "UTC", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        for scene in SCENES:
            if scene.name in WANTED:
                write(scene.name, asyncio.run(picture(scene)), converter)
        write("demo", asyncio.run(demo_picture()), converter)


if __name__ == "__main__":
    main()
