"""What comes before a plan: a specification with acceptance criteria, and the survey of a workspace for the planner.  No I/O.

A criterion of SPEC.md is a line, list item or heading that begins with `AC-1`; its check is a line `check: COMMAND`, or inline
code that follows the word check.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from lmtui.core.lenient_json import fit_text
from lmtui.core.sanitize import pluralize, sanitize, sanitize_path
from lmtui.features.pipeline.task_list import FENCE, commands_in, plain, without_marks

_CRITERION = re.compile(r"[*_`]*AC[-_]?(\d{1,4})\b[*_`]*\s*[:.)|–—-]*[*_]*\s*(.*)", re.IGNORECASE)
_CHECK_LINE = re.compile(r"[*_]*checks?[*_]*\s*:[*_]*\s*(.*)", re.IGNORECASE)
_CHECK_CODE = re.compile(r"\bcheck(?:ed|s)?\b[^`\n]{0,60}`([^`]+)`", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Criterion:
    """An acceptance criterion; `check` is a command that exits with 0 when it is met, empty where there is none."""

    number: int
    text: str
    check: str = ""


def criteria(text: str) -> tuple[Criterion, ...]:
    """Return the acceptance criteria of a specification, each number once, in their order."""
    found: dict[int, Criterion] = {}
    number, fence, is_command = 0, "", False
    for raw in text.split("\n"):
        line = raw.strip()
        if opened := FENCE.match(line):
            fence = "" if fence and line.startswith(fence) else fence or opened[1]
            continue
        words = without_marks(line)
        begun = None if fence else _CRITERION.fullmatch(words)
        if begun:
            number, words = int(begun[1]), begun[2]
            found.setdefault(number, Criterion(number, ""))
        elif not fence and line.startswith("#"):
            number = 0
        if not number or not words:
            continue
        old, check = found[number], _check(words, is_command=is_command and bool(fence))
        is_command = bool(_CHECK_LINE.fullmatch(words)) and not check
        is_text = not old.text and not fence and not _CHECK_LINE.fullmatch(words)
        said = plain(_CHECK_CODE.sub("", words)).strip(" ()|") if is_text else old.text
        found[number] = Criterion(number, said, old.check or check)
    return tuple(found.values())


def _check(words: str, *, is_command: bool) -> str:
    """Return the command of a line, empty where it has none; all of it where the line above asked for one."""
    line, code = _CHECK_LINE.fullmatch(words), _CHECK_CODE.search(words)
    given = words if is_command else line[1] if line else f"`{code[1]}`" if code else ""
    return next(iter(commands_in(given)), "")


IDEATE_TASK = """\
Help the user to specify this: {topic}

1. Look at the folder first, if it has files.
2. {questions}
3. Then write SPEC.md: the goal in two sentences, what is in and out of scope, and numbered acceptance criteria. Write each \
criterion as a list item `- AC-1: what must be true`, and below it `  check: COMMAND` with a shell command that exits with 0 \
when it is met, where one is possible.
4. Write what is still open as `BLOCKING: question`, one per line.
Write nothing but SPEC.md, and implement nothing."""
_ASKS = (
    "Ask one question at a time, the most important first, each with the answer that you suggest. Stop after each question and "
    "wait for the answer. Ask at most ten."
)
_ASKS_NOBODY = "Nobody can answer questions now. Decide what is safe to decide; what is not goes into point 4."


def ideate_task(topic: str, *, is_attended: bool = True) -> str:
    """Return the task that turns a topic into SPEC.md, by questions to the user where one is there."""
    return IDEATE_TASK.format(topic=topic.strip(), questions=_ASKS if is_attended else _ASKS_NOBODY)


MANIFESTS = (
    "README.md", "pyproject.toml", "setup.py", "requirements.txt", "package.json", "go.mod", "Cargo.toml", "pom.xml",
    "build.gradle", "build.gradle.kts", "Package.swift", "Gemfile", "composer.json", "mix.exs", "CMakeLists.txt", "Makefile",
)  # fmt: skip
_DEPTH, _MOST_FILES = 5, 20_000
_NAME = re.compile(r"[\w.+-]{1,100}(?:/[\w.+-]{1,100})*")


def files_to_read(files: Sequence[str], plan_text: str, most: int = 12) -> list[str]:
    """Return the files of which a survey shows the beginning: manifests, the topmost first, then files that the plan names."""
    named = {each.rstrip(".") for each in _NAME.findall(plan_text)}
    manifests = [path for path in files if PurePosixPath(path).name in MANIFESTS]
    manifests.sort(key=lambda path: (path.count("/"), MANIFESTS.index(PurePosixPath(path).name), path))
    wanted = [path for path in files if path in named or PurePosixPath(path).name in named]
    return [*dict.fromkeys((*manifests[: most // 2], *wanted))][:most]


def survey_text(files: Sequence[str], excerpts: Mapping[str, str], most_chars: int) -> str:
    """Return what a workspace looks like: its files, down to 5 levels where there is room, then excerpts cut to fit.

    Args:
        files: paths relative to the workspace.
        excerpts: beginnings of files by path, the most important first.
        most_chars: the most characters of the result.
    """
    if not files:
        return ""
    head = "Files of the workspace:\n"
    room = max(0, most_chars // (2 if excerpts else 1) - len(head))
    paths = [each.split("/") for each in sorted(files[:_MOST_FILES])]
    listings = [_listing(paths, depth) for depth in range(_DEPTH, 0, -1)]
    parts = [head + _cut(next((each for each in listings if len(each) <= room), listings[-1]), room)]
    left = most_chars - len(parts[0])
    for place, (path, text) in enumerate(excerpts.items()):
        title = f"\n\n{sanitize_path(path)} begins:\n"
        share = left // (len(excerpts) - place) - len(title)
        if share > 0 and text.strip():
            parts.append(title + _cut(sanitize(fit_text(text)).rstrip(), share))
            left -= len(parts[-1])
    return "".join(parts)[: max(0, most_chars)]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: max(0, most - 2)]}\n…"


def _listing(paths: Sequence[Sequence[str]], depth: int) -> str:
    """Return paths, a line each; of a folder below the depth only how many files it has."""
    counts = Counter("/".join((*parts[:depth], "") if len(parts) > depth else parts) for parts in paths)
    return "\n".join(
        f"{sanitize_path(name)} ({pluralize(count, 'file')})" if name.endswith("/") else sanitize_path(name)
        for name, count in counts.items()
    )
