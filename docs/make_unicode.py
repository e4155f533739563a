"""Write `lmtui/core/unicode_tables.py` from files of the Unicode Character Database.

`python -m docs.make_unicode FOLDER`, with DerivedCoreProperties.txt and DerivedGeneralCategory.txt in it
(https://www.unicode.org/Public/UCD/latest/ucd/).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

TARGET = Path(__file__).parents[1] / "lmtui" / "core" / "unicode_tables.py"
SEPARATORS = ("Zs", "Zl", "Zp")
# Drawn as nothing though no property says so: BRAILLE PATTERN BLANK, MUSICAL SYMBOL NULL NOTEHEAD, interlinear annotation.
BLANK = (0x2800, 0x1D159, 0xFFF9, 0xFFFA, 0xFFFB)
PER_LINE = 12


def properties(text: str) -> Iterator[tuple[int, str]]:
    """Yield each code point with its property from a file of the UCD."""
    for match in re.finditer(r"^([0-9A-F]+)(?:\.\.([0-9A-F]+))?\s*;\s*(\w+)", text, re.MULTILINE):
        first, last = int(match[1], 16), int(match[2] or match[1], 16)
        yield from ((code, match[3]) for code in range(first, last + 1))


def ranges(codes: set[int]) -> str:
    """Return the inside of a class of a regular expression."""
    found: list[list[int]] = []
    for code in sorted(codes):
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return "".join(_escape(first) + (f"-{_escape(last)}" if last > first else "") for first, last in found)


def version(text: str) -> str:
    """Return the version in a file's header."""
    found = re.search(r"(?:Version: |-)(\d+\.\d+\.\d+)", text[:400])
    return found[1] if found else "unknown"


def module(core: str, categories: str) -> str:
    """Return the generated module."""
    ignorable = {code for code, name in properties(core) if name == "Default_Ignorable_Code_Point"}
    separators = {code for code, name in properties(categories) if name in SEPARATORS and code != 0x20}
    lines = [
        '"""Tables of Unicode: what is drawn as nothing or as a blank.',
        "",
        f"Made by `python -m docs.make_unicode` from Unicode {version(core)}; do not edit.",
        '"""',
        "",
        "# fmt: off",
        "",
        "# The insides of classes of regular expressions.",
        *_text("DEFAULT_IGNORABLE", ranges(ignorable)),
        *_text("SEPARATORS", ranges(separators)),
        *_text("BLANK", ranges(set(BLANK))),
    ]
    return "\n".join(lines) + "\n"


def _escape(code: int) -> str:
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _text(name: str, escaped: str) -> list[str]:
    parts = re.findall(rf"(?:\\u.{{4}}|\\U.{{8}}|\\.|.){{1,{PER_LINE}}}", escaped)
    return [f"{name} = (", *(f'    "{part}"' for part in parts), ")"]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    names = ("DerivedCoreProperties.txt", "DerivedGeneralCategory.txt")
    TARGET.write_text(module(*(folder.joinpath(name).read_text("utf-8-sig") for name in names)), "utf-8")
