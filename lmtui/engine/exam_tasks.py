"""The tasks of the exam: what is asked, what calls give in a folder of paper, and whether they were right.  Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

FILES: Mapping[str, str] = {
    "port.txt": "8123\n",
    "total.py": "def total(a, b):\n    return a - b\n",
}
_MENDED = re.compile(r"return\s+a\s*\+\s*b")
_LOOKS = re.compile(r"\b(?:ls|find|tree|dir)\b")
_WRITES = re.compile(r">\s*\"?'?(?:\./)?hello\.txt")


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """A call whose arguments were checked: the tool's own name and its arguments."""

    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """Return an argument as text, empty where there is none."""
        value = self.arguments.get(name)
        return "" if value is None else str(value)

    @property
    def path(self) -> str:
        """Return the path that it is about, as the folder of paper names it."""
        return self.text("path").removeprefix("./").strip("/")


@dataclass(frozen=True, slots=True)
class ExamTask:
    """One task.  `is_right` is asked after each answer, with all calls so far and the answer's words."""

    name: str
    ask: str
    is_right: Callable[[Sequence[CheckedCall], str], bool]


def result_of(call: CheckedCall) -> str:
    """Return what a call gives, in the words of the real tools."""
    match call.tool:
        case "ls" | "glob":
            return "\n".join(FILES)
        case "read":
            return _numbered(call.path)
        case "grep":
            return _found(call.text("pattern"))
        case "edit":
            return "ok" if call.text("search") in FILES.get(call.path, "") else "Error: the text is not in the file"
        case "shell":
            return _printed(call.text("command"))
        case _:
            return "ok"


def edits_exactly(call: CheckedCall) -> bool:
    """Tell whether an edit names text that stands in the file just once."""
    return call.tool == "edit" and FILES.get(call.path, "").count(call.text("search") or "\0") == 1


def _numbered(path: str) -> str:
    if path not in FILES:
        return f"Error: there is no file {path!r}"
    return "\n".join(f"{number:5}  {line}" for number, line in enumerate(FILES[path].splitlines(), 1))


def _found(pattern: str) -> str:
    lines = (f"{name}:1: {line}" for name, text in FILES.items() for line in text.splitlines() if pattern in line)
    return "\n".join(lines) or "no match"


def _printed(command: str) -> str:
    named = next((name for name in FILES if name in command), "")
    if named and re.search(r"\b(?:cat|head|tail|less|more|grep)\b", command):
        return FILES[named].rstrip()
    return "\n".join(FILES) if _LOOKS.search(command) else "(no output)"


def _has_listed(calls: Sequence[CheckedCall], _: str) -> bool:
    return any(call.tool in ("ls", "glob") or (call.tool == "shell" and _LOOKS.search(call.text("command"))) for call in calls)


def _has_read(calls: Sequence[CheckedCall], answer: str) -> bool:
    return "8123" in answer and any("8123" in result_of(call) for call in calls)


def _has_written(calls: Sequence[CheckedCall], _: str) -> bool:
    return any(
        (call.tool == "write" and call.path == "hello.txt" and "hello" in call.text("content"))
        or (call.tool == "shell" and _WRITES.search(call.text("command")))
        for call in calls
    )


def _has_mended(calls: Sequence[CheckedCall], _: str) -> bool:
    return any(_MENDED.search(_after(call)) for call in calls)


def _after(call: CheckedCall) -> str:
    """Return total.py as a call leaves it, empty where the call does not change it."""
    if call.path != "total.py":
        return ""
    if call.tool == "write":
        return call.text("content")
    return FILES["total.py"].replace(call.text("search"), call.text("replace")) if edits_exactly(call) else ""


LIST = ExamTask("list the files", "Which files are in this folder? Look.", _has_listed)
READ = ExamTask("read a number", "Which number is in the file port.txt?", _has_read)
WRITE = ExamTask("write a file", "Make a file hello.txt that holds the word hello.", _has_written)
EDIT = ExamTask(
    "edit a file",
    f"total.py should add, but it subtracts. It is:\n\n```python\n{FILES['total.py']}```\n\nCorrect it with the tool edit.",
    _has_mended,
)
TASKS = (LIST, READ, WRITE, EDIT)
QUICK_TASKS = (LIST, WRITE, EDIT)
