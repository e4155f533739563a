"""The ten tasks: what the folder holds, what is asked, and how it is known to be done.  One or two calls each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Check = Callable[[Path, str], bool]


@dataclass(frozen=True, slots=True)
class Task:
    """A task; `is_done` looks at the folder and at the last answer."""

    name: str
    ask: str
    is_done: Check
    files: Mapping[str, str] = field(default_factory=dict)


def _text(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _adds(folder: Path) -> bool:
    """Tell whether the function adds now, without running what a model wrote."""
    code = _text(folder, "calc.py").replace(" ", "")
    return "returna+b" in code and "returna-b" not in code


def _renamed(folder: Path, _: str) -> bool:
    return _text(folder, "final.txt") == "a draft\n" and not (folder / "draft.txt").exists()


TASKS = (
    Task(
        "create",
        "Create a file named hello.txt with exactly this content: Hello, world!",
        lambda folder, _: _text(folder, "hello.txt").strip() == "Hello, world!",
    ),
    Task(
        "look up",
        "Read notes.txt and tell me the door code.",
        lambda _, answer: "5183" in answer,
        {"notes.txt": "Meeting notes\nThe door code is 5183.\nBring tea.\n"},
    ),
    Task(
        "list",
        "Which files are in this folder? Name them all.",
        lambda _, answer: all(name in answer for name in ("alpha.txt", "beta.md", "gamma.py")),
        {"alpha.txt": "a\n", "beta.md": "b\n", "gamma.py": "c = 1\n"},
    ),
    Task(
        "fix",
        "The function add in calc.py subtracts. Fix it so that it adds.",
        lambda folder, _: _adds(folder),
        {"calc.py": "def add(a, b):\n    return a - b\n"},
    ),
    Task("rename", "Rename the file draft.txt to final.txt.", _renamed, {"draft.txt": "a draft\n"}),
    Task(
        "run",
        "Run the script greet.sh with bash and tell me what it prints.",
        lambda _, answer: "violet" in answer,
        {"greet.sh": 'printf "%s%s\\n" vio let\n'},
    ),
    Task(
        "search",
        "Which file in this folder mentions the word pineapple?",
        lambda _, answer: "second.txt" in answer and "first.txt" not in answer and "third.txt" not in answer,
        {"first.txt": "apples and pears\n", "second.txt": "a pineapple cake\n", "third.txt": "plums\n"},
    ),
    Task(
        "count",
        "How many lines does data.csv have?",
        lambda _, answer: "17" in answer or "seventeen" in answer.lower(),
        {"data.csv": "".join(f"row{number},{number * 3}\n" for number in range(17))},
    ),
    Task(
        "append",
        "Add the line done at the end of log.txt and keep what is there.",
        lambda folder, _: _text(folder, "log.txt").split() == ["started", "working", "done"],
        {"log.txt": "started\nworking\n"},
    ),
    Task(
        "copy",
        "Copy the text of source.txt into a new file named copy.txt.",
        lambda folder, _: _text(folder, "copy.txt").strip() == "blue is the colour of the day",
        {"source.txt": "blue is the colour of the day\n"},
    ),
)
