"""Results that are too long for the model: what stays of them, and how it gets the rest."""

from __future__ import annotations

import re

_NUMBERED = re.compile(r"^ *(\d{1,9})  ")
_REST = {
    "grep": "narrow the pattern, or give path or glob",
    "glob": "narrow the pattern",
    "ls": "list a folder below, with depth 1",
    "shell": "send the output through head, tail or grep to see the part you need",
    "git_diff": "ask for one path",
}


def cut(tool: str, text: str, limit_chars: int) -> str:
    """Return a result, or as much of it as `limit_chars` hold with a line that says how to get the rest.

    Of a file and a listing the beginning stays, in whole lines; of all else the beginning and the end, where errors are.
    """
    if len(text) <= limit_chars:
        return text
    if tool == "read":
        return _cut_file(text, limit_chars)
    rest = _REST.get(tool, "ask for a smaller part")
    if tool in ("grep", "glob", "ls"):
        head = _whole_lines(text[:limit_chars])
        return f"{head}\n[… {text.count(chr(10), len(head)):,} more lines left out; {rest}]"
    head, tail = text[: limit_chars // 3], text[-(limit_chars * 2 // 3) :]
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n[… {left_out:,} characters left out; {rest} …]\n{tail}"


def _cut_file(text: str, limit_chars: int) -> str:
    """Return the first lines of a file as the read tool shows them, with the line to go on from."""
    head = _whole_lines(text[:limit_chars])
    last = _NUMBERED.match(head.rpartition("\n")[2])
    total = text.rpartition("\n")[2] if text.endswith(")") else ""
    where = f" {total}" if total.startswith("(lines ") else ""
    how = f"go on with offset={int(last[1]) + 1}, or use grep" if last else "use grep, or shell with head or cut"
    return f"{head}\n[… cut here: {len(text) - len(head):,} more characters{where}; {how}]"


def _whole_lines(text: str) -> str:
    head = text.rpartition("\n")[0]
    return head or text
