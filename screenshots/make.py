# ruff: noqa: INP001 - a script, not a package
"""Makes the pictures that README and docs show, from the app at fixed moments, as small PNG files.

Each cell is drawn by itself, so bars and rules have no seams, and every letter is in its column.  The font is DejaVu Sans Mono.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from rich.cells import cell_len
from rich.color import Color
from rich.style import Style
from textual.strip import Strip

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

from lmtui.tui.options import StartOptions  # noqa: E402 - the checkout is not installed
from lmtui.tui.themes import DEFAULT  # noqa: E402 - the checkout is not installed
from tests.tui.driving import WIDE, running  # noqa: E402 - the checkout is not installed
from tests.tui.scenes import SCENES, Scene  # noqa: E402 - the checkout is not installed

WANTED = (
    "approval_command", "approval_edit", "approval_effect", "approval_hunks", "attempts", "batch_tasks", "changes", "first_run",
    "jobs", "mcp", "memory_inbox", "pipeline", "plan_question", "rules", "settings", "switcher", "trust", "undo", "workbench",
)  # fmt: skip
CELL, FONT_SIZE, FONT = (12, 24), 20, "DejaVuSansMono"
COLORS = 128
BLOCKS = {  # the part of a cell that a sign fills, in eighths: left, top, right, bottom
    "█": (0, 0, 8, 8), "▀": (0, 0, 8, 4), "▄": (0, 4, 8, 8), "▔": (0, 0, 8, 1), "▌": (0, 0, 4, 8), "▐": (4, 0, 8, 8),
    "▁": (0, 7, 8, 8), "▂": (0, 6, 8, 8), "▃": (0, 5, 8, 8), "▅": (0, 3, 8, 8), "▆": (0, 2, 8, 8), "▇": (0, 1, 8, 8),
    "▏": (0, 0, 1, 8), "▎": (0, 0, 2, 8), "▊": (0, 0, 6, 8), "│": (3.7, 0, 4.4, 8), "─": (0, 3.8, 8, 4.2), "━": (0, 3.5, 8, 4.5)
}  # fmt: skip
DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))  # by bit, from U+2800 (The Unicode Standard, 21.1)


async def picture(scene: Scene) -> Image.Image:
    """Return the picture of a scene."""
    os.environ["LMTUI_HOME"] = tempfile.mkdtemp(dir=os.environ["LMTUI_PICTURES"])
    host = scene.host()
    options = StartOptions(workspace=str(host.workspace), theme=DEFAULT)
    async with running(host, size=WIDE, options=options, is_ready=not scene.setup_note) as driver:
        await scene.steps(driver)
        await driver.settle()
        return drawn(driver.strips())


def drawn(strips: Sequence[Strip]) -> Image.Image:
    """Return what is on screen, a rectangle for each cell."""
    wide, high = CELL
    image = Image.new("RGB", (strips[0].cell_length * wide, len(strips) * high))
    draw = ImageDraw.Draw(image)
    faces = {style: ImageFont.truetype(f"{FONT}{style}.ttf", FONT_SIZE) for style in ("", "-Bold", "-Oblique", "-BoldOblique")}
    for row, strip in enumerate(strips):
        column = 0
        for segment in strip:
            style = segment.style or Style()
            color, ground = shades(style)
            face = faces["-" * bool(style.bold or style.italic) + "Bold" * bool(style.bold) + "Oblique" * bool(style.italic)]
            for char in segment.text:
                x, y, cells = column * wide, row * high, cell_len(char)
                draw.rectangle((x, y, x + cells * wide - 1, y + high - 1), fill=ground)
                if block := BLOCKS.get(char):
                    left, top, right, bottom = (round(part * size / 8) for part, size in zip(block, CELL * 2, strict=True))
                    draw.rectangle((x + left, y + top, x + max(left + 1, right) - 1, y + max(top + 1, bottom) - 1), fill=color)
                elif "⠀" <= char <= "⣿":  # dots of Braille, which the font lacks
                    for bit, (across, down) in enumerate(DOTS):
                        if ord(char) >> bit & 1:
                            left, top = x + 2 + 5 * across, y + 4 + 5 * down
                            draw.ellipse((left, top, left + 3, top + 3), fill=color)
                elif char != " ":
                    draw.text((x, y + high - 6), char, fill=color, font=face, anchor="ls")
                for is_drawn, at in ((style.underline, high - 3), (style.strike, high // 2)):
                    if is_drawn:
                        draw.line((x, y + at, x + cells * wide - 1, y + at), fill=color)
                column += cells
    return image


def shades(style: Style) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the colours of a cell's letter and ground."""
    found = [Color.parse(name) if own is None else own for own, name in ((style.color, "#d6dae0"), (style.bgcolor, "#14181d"))]
    color, ground = (tuple(each.get_truecolor()) for each in found)
    color = tuple((2 * one + other) // 3 for one, other in zip(color, ground, strict=True)) if style.dim else color
    return (ground, color) if style.reverse else (color, ground)


def write(name: str, image: Image.Image) -> None:
    """Write a picture as PNG of few colours."""
    path = FOLDER / f"{name}-{WIDE[0]}x{WIDE[1]}.png"
    image.quantize(COLORS).save(path, optimize=True)
    sys.stdout.write(f"{path.name}\n")


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["LMTUI_PICTURES"] = os.environ["LMTUI_HOME"] = home
        os.environ |= {"TZ": "UTC", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        for scene in SCENES:
            if scene.name in WANTED:
                write(scene.name, asyncio.run(picture(scene)))


if __name__ == "__main__":
    main()
