"""What the conversation says of files that were put back and of files that checkpoints do not hold.  Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lmtui.core.clean import clean_line, clean_path
from lmtui.core.file_events import CheckpointCreated, FilesRestored

_MOST_NAMES = 5
_WORDS = {"undo": "undone", "redo": "done again", "restore": "put back", "rewind": "put back by rewinding"}


def restored_text(event: FilesRestored, titles: Sequence[str]) -> str:
    """Return one line such as `undone: edit parser/lexer.py  (1 file)`; `titles` name the calls that are known."""
    word = _WORDS.get(event.action, clean_line(event.action))
    names = names_text(event.files if event.action == "restore" or not titles else titles)
    count = len(event.files)
    files = "no file changed" if not count else "1 file" if count == 1 else f"{count} files"
    return f"{word}: {names}  ({files})" if names else f"{word}: {files}"


def left_out_text(event: CheckpointCreated, known: set[str]) -> str:
    """Return which files cannot be undone, empty where all of them were named before."""
    fresh = [path for path in event.left_out if path not in known]
    if not fresh:
        return ""
    more = max(0, event.left_out_total - len(event.left_out))
    return f"undo does not cover: {names_text(fresh, more)}"


def names_text(names: Sequence[str], more: int = 0) -> str:
    """Return the first of some names, clean, and how many there are beside them."""
    shown = [clean_path(name) for name in names[:_MOST_NAMES]]
    rest = len(names) - len(shown) + more
    return ", ".join(shown) + (f" and {rest} more" if rest else "")
