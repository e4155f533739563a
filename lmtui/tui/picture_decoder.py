"""Decodes one picture in its own process, with little memory and time: pictures come from anywhere.

Run as a script: cells wide and high as arguments, the picture on standard input; on standard output a line `columns rows`, then
three bytes of red, green and blue for each pixel, two pixels above each other for each cell.  Exit code 1 with a reason on
standard error.
"""

from __future__ import annotations

import sys

MAX_PIXELS = 40_000_000
MEMORY_BYTES = 1 << 30
CPU_S = 10
FORMATS = ("PNG", "JPEG", "GIF", "WEBP")


def main() -> int:
    """Decode, shrink, write."""
    limit()
    try:
        from PIL import Image  # noqa: PLC0415  (after the limits)
    except ImportError:
        return fail("pictures need Pillow: install lmtui with the extra images")
    columns, rows = int(sys.argv[1]), int(sys.argv[2])
    try:
        picture = Image.open(sys.stdin.buffer, formats=FORMATS)
        if picture.width * picture.height > MAX_PIXELS:
            return fail(f"{picture.width} × {picture.height} pixels are too many")
        picture.draft("RGB", (columns, rows * 2))
        shown = picture.convert("RGBA")
        scale = min(columns / shown.width, rows * 2 / shown.height, 1.0)
        size = (max(1, round(shown.width * scale)), max(2, round(shown.height * scale / 2) * 2))
        shown = shown.resize(size)
        ground = Image.new("RGBA", size, (32, 32, 32, 255))
        ground.alpha_composite(shown)
        pixels = ground.convert("RGB").tobytes()
    except (OSError, ValueError, SyntaxError, MemoryError, Image.DecompressionBombError) as error:
        return fail(f"it cannot be decoded: {type(error).__name__}")
    sys.stdout.buffer.write(f"{size[0]} {size[1] // 2}\n".encode() + pixels)
    return 0


def limit() -> None:
    """Take memory and time away before anything foreign is read."""
    try:
        import resource  # noqa: PLC0415  (not on every system)
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def fail(reason: str) -> int:
    """Say why not."""
    sys.stderr.write(reason)
    return 1


if __name__ == "__main__":
    sys.exit(main())
