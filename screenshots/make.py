# ruff: noqa: INP001 - a script, not a package
"""Makes the pictures of this folder: SVG from the app at fixed moments, PNG beside them where rsvg-convert is installed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

from tests.tui.driving import SMALL, WIDE, running  # noqa: E402 - the checkout is not installed
from tests.tui.scenes import SCENES, Scene  # noqa: E402 - the checkout is not installed

WANTED = ("workbench", "approval_command", "approval_edit", "switcher", "first_run")
FONT = "Fira Code"
PNG_FONT = "DejaVu Sans Mono"


async def picture(scene: Scene, size: tuple[int, int]) -> str:
    """Return the SVG of a scene."""
    async with running(scene.host(), size=size, is_ready=not scene.setup_note) as driver:
        await scene.steps(driver)
        await driver.settle()
        return driver.app.export_screenshot(title="lmtui")


def write(name: str, svg: str) -> None:
    """Write a picture as SVG and, if it can be, as PNG."""
    (FOLDER / f"{name}.svg").write_text(svg, "utf-8")
    converter = shutil.which("rsvg-convert")
    if converter is None:
        sys.stdout.write(f"{name}.svg (no PNG: rsvg-convert is not installed)\n")
        return
    source = svg.replace(FONT, PNG_FONT).replace("<text ", '<text xml:space="preserve" ').encode()
    subprocess.run([converter, "--output", str(FOLDER / f"{name}.png")], input=source, check=True)
    sys.stdout.write(f"{name}.svg {name}.png\n")


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["LMTUI_HOME"] = home
        os.environ["TZ"] = "UTC"
        for scene in SCENES:
            if scene.name in WANTED:
                for size in (WIDE, SMALL):
                    write(f"{scene.name}-{size[0]}x{size[1]}", asyncio.run(picture(scene, size)))


if __name__ == "__main__":
    main()
