"""Drafts: before an agent begins on a small task, its one file is asked for whole, and the task's checks judge what comes.

A small model that writes a whole file in one answer is right more often than one that has to find its way with tools.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Awaitable, Callable, Sequence

from lmtui.core.errors import SandboxError
from lmtui.core.pipeline import TaskSpec
from lmtui.core.sanitize import sanitize_path
from lmtui.engine.syntax import can_parse, python_tree, syntax_error
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox

MOST_DRAFTS = 5
_MOST_FILE_BYTES, _MOST_SHOWN_FILES = 8_000, 3
_FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*\.\w{1,8}")
DRAFT_SYSTEM = (
    "You write code. Answer with the complete new content of the file in one fenced block, and with nothing else. "
    "Keep everything in the file that the task does not change."
)

Ask = Callable[[tuple[str, str], int], Awaitable[str | None]]
Tell = Callable[[str], None]
Failing = Callable[[Sequence[str], WorkspaceSandbox], Awaitable[list[str]]]


def can_draft(spec: TaskSpec) -> bool:
    """Tell whether a task is about one file of a language that can be parsed, and has checks."""
    return len(spec.files) == 1 and bool(spec.checks) and can_parse(spec.files[0])


async def draft(spec: TaskSpec, sandbox: WorkspaceSandbox, ask: Ask, failing: Failing, tell: Tell) -> bool:
    """Write the file of a task as the model drafts it; tell whether a draft passes the checks.

    Else the file is as it was before.  Why a draft was dropped is told.  Only every second one sees the one before: a small
    model that reads its own wrong answer fixes what is nearly right, and repeats everything else.
    """
    (path,) = spec.files
    before = await read_small(sandbox, path)
    if before is not None and len(before) > _MOST_FILE_BYTES:
        return False
    prompt = problem = await _prompt(spec, sandbox, before)
    for number in range(MOST_DRAFTS):
        answer = await ask((DRAFT_SYSTEM, problem), number)
        if answer is None:
            break
        text = fenced_text(answer)
        why = _lost(path, before or b"", text)
        if not why:
            await sandbox.write_file(path, text.encode("utf-8", "replace"))
            found = await failing(spec.checks, sandbox)
            if not found:
                return True
            why = found[0]
        tell(f"Draft {number + 1} of {path} was dropped: {why}")
        seen = "" if number % 2 else f"```\n{text[:_MOST_FILE_BYTES]}```\n"
        problem = f"{prompt}\n\nAn earlier version was wrong:\n{seen}{why}\nRead the task again, and do not repeat that."
    await _restore(sandbox, path, before)
    return False


async def _prompt(spec: TaskSpec, sandbox: WorkspaceSandbox, before: bytes | None) -> str:
    (path,) = spec.files
    parts = [f"{spec.title}.", spec.text]
    named = [each for each in dict.fromkeys(_PATH.findall(spec.text)) if each != path][:_MOST_SHOWN_FILES]
    contents = [(each, await read_small(sandbox, each)) for each in named]
    parts += [shown_file(each, data) for each, data in contents if data is not None and len(data) <= _MOST_FILE_BYTES]
    parts.append(f"{path} does not exist yet." if before is None else shown_file(path, before))
    parts.append("Afterwards this has to exit with 0:\n" + "\n".join(spec.checks))
    parts.append(f"Write the complete file {path}.")
    return "\n\n".join(each for each in parts if each)


def shown_file(path: str, content: bytes) -> str:
    """Return a file as a model is shown it."""
    return f"{path} is now:\n```\n{content.decode('utf-8', 'replace')}```"


def fenced_text(answer: str) -> str:
    """Return the longest fenced block of an answer, all of it where there is none."""
    text = answer.rpartition("</think>")[2]
    return max(_FENCE.findall(text), key=len, default=text.strip() + "\n")


def _lost(path: str, before: bytes, text: str) -> str:
    """Return what is wrong with a draft before any command runs: it does not parse, or lacks a definition of before."""
    if why := syntax_error(path, text.encode("utf-8", "replace")):
        return f"{sanitize_path(path)} does not parse: {why}"
    lost = sorted(_names(path, before) - _names(path, text.encode("utf-8", "replace")))
    return f"{', '.join(lost)} is missing, which the file had." if lost else ""


def _names(path: str, data: bytes) -> frozenset[str]:
    """Return the functions and classes at the top of a Python file; none of others."""
    if not path.endswith(".py"):
        return frozenset()
    tree = python_tree(data.decode("utf-8", "replace"))
    body = tree.body if tree is not None else ()
    return frozenset(each.name for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef))


async def read_small(sandbox: WorkspaceSandbox, path: str, most_bytes: int = _MOST_FILE_BYTES + 1) -> bytes | None:
    """Return the beginning of a file, None where it cannot be read."""
    try:
        return (await sandbox.read_file(path, most_bytes)).data
    except SandboxError:
        return None


async def _restore(sandbox: WorkspaceSandbox, path: str, before: bytes | None) -> None:
    if before is not None:
        await sandbox.write_file(path, before)
    elif await read_small(sandbox, path) is not None:
        _ = await sandbox.run_command(f"rm -f -- {shlex.quote(path)}")
