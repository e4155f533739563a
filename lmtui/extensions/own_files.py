"""Small files at user level that only the user reads: replaced as a whole, whoever else writes them at the same time."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(file: Path, text: str) -> None:
    """Put a text in the place of a file's; its folder is made where it is missing.  Blocks.

    Raises:
        OSError: it cannot be written; the file is as it was.
    """
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, draft = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)  # for its owner alone
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as opened:
            opened.write(text)
        Path(draft).replace(file)
    finally:
        Path(draft).unlink(missing_ok=True)  # where it did not become the file
