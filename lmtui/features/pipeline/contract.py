"""Contracts: before a task without checks is coded, a model writes its acceptance test, which fails now and has to pass then.

Only for tasks whose files are all Python.  No test, or one that fails for another reason than the missing work, stops nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from pathlib import PurePosixPath

from lmtui.core.pipeline import Contract, PipelinePlan, PipelineTask, TaskSpec
from lmtui.core.ports import TokenCounter
from lmtui.core.project_checks import bounded
from lmtui.core.workspace import ExecResult
from lmtui.engine.syntax import python_tree, syntax_error
from lmtui.features.pipeline.drafts import Ask, fenced_text, read_small, shown_file
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox

MOST_TRIES, MOST_TOKENS = 3, 6_000
_FOLDER, _MOST_BYTES, _MOST_SHOWN_BYTES = "tests/acceptance", 24_000, 12_000
_ABOUT_TESTS = re.compile(r"\btests?\b", re.IGNORECASE)
_TEST_FILE = re.compile(r"(?:^|/)(?:tests?/|test_[^/]*$|[^/]*_test\.py$|conftest\.py$)")
_SYSTEM = (
    "You write the acceptance test of a task before somebody does the task. Answer with one complete Python test file in one "
    "fenced block, and with nothing else. The test fails now, as the work is missing, and passes once the work is done as "
    "described. Test only what the task says, with values that you are sure of. Import only the standard library{pytest} and "
    "the files of the task."
)
_NOTE = "The acceptance test of this task is {path}. It fails now and has to pass. Do not change or delete it."
_FIND_PYTHON = (
    'for p in .venv/bin/python python3 python; do "$p" -c "" 2>/dev/null && break; p=; done; echo "$p"; '
    '[ -n "$p" ] && "$p" -m pytest --version >/dev/null 2>&1 && echo pytest; true'
)
_PLACE = re.compile(r'  File "([^"]+)", line \d+|(\S+\.py):\d+: ')
_ERROR = re.compile(r"assert\b|[A-Za-z_][\w.]*(?:: |$)")
_CHAINED = ("During handling of", "The above exception was")
_PYTEST, _UNITTEST = re.compile(r"^=+ (?:ERRORS|FAILURES) =+$", re.MULTILINE), f"\n{'=' * 70}\n"
_NO_TESTS = re.compile(r"^(?:no tests ran|Ran 0 tests)", re.MULTILINE)
_MODULE = re.compile(r"No module named '([\w.]+)'|cannot import name '\w+' from (?:partially initialized module )?'([\w.]+)'")
_ATTRIBUTE = re.compile(r"(?:partially initialized )?module '([\w.]+)' has no attribute|.* has no attribute '(assert)")

Run = Callable[[str, WorkspaceSandbox], Awaitable[ExecResult]]


def needs_contract(task: PipelineTask) -> bool:
    """Tell whether a task changes Python code alone and has neither checks nor an answer to the wish for a contract."""
    spec = task.spec
    is_code = bool(spec.files) and all(each.endswith(".py") and not _TEST_FILE.search(each) for each in spec.files)
    return is_code and not spec.checks and task.contract is None and not _ABOUT_TESTS.search(spec.title)


def with_note(task: PipelineTask) -> TaskSpec:
    """Return what a task is about, with a note of its contract where it has one."""
    if task.contract is None or not task.contract.path:
        return task.spec
    note = _NOTE.format(path=task.contract.path)
    return replace(task.spec, text=f"{note}\n\n{task.spec.text}" if task.spec.text else note)


class ContractAuthor:
    """Has contracts written, each tried in an overlay of the workspace as it is.

    Args:
        sandbox: the workspace's.
        run: runs a command.
        count_tokens: prices the answers, of which a task gets at most `MOST_TOKENS`.
    """

    def __init__(self, sandbox: WorkspaceSandbox, run: Run, count_tokens: TokenCounter) -> None:
        self._sandbox, self._run, self._count_tokens = sandbox, run, count_tokens

    async def write(self, plan: PipelinePlan, task: PipelineTask, prompt: str, ask: Ask) -> Contract | None:
        """Return the contract of a task or why it gets none; None if the model does not answer.

        Raises:
            SandboxError: a test could not be run.
        """
        python, has_pytest = await self._python()
        if not python:
            return Contract(problem="no Python in the sandbox")
        path = await self._free_path(plan, task)
        command = f"{python} -m {'pytest -q' if has_pytest else 'unittest'} {path}"
        system = _SYSTEM.format(pytest=", pytest" if has_pytest else " with its unittest")
        prompt = wanted = await self._prompt(task.spec, prompt, path, command)
        tokens, why = 0, ""
        for number in range(MOST_TRIES):
            if tokens >= MOST_TOKENS:
                break
            if (answer := await ask((system, wanted), number)) is None:
                return None
            tokens += self._count_tokens(answer)
            text = fenced_text(answer)
            why = problem_of_text(text, task.spec, has_pytest=has_pytest) or await self._tried(path, text, command, task.spec)
            if not why:
                return Contract(path, text, command)
            seen = "" if number % 2 else f"```\n{text[:_MOST_BYTES]}```\n"
            wanted = f"{prompt}\n\nAn earlier test could not be used:\n{seen}{why}"
        return Contract(problem=why)

    async def _python(self) -> tuple[str, bool]:
        """Return the interpreter, and whether it has pytest."""
        found = (await self._run(_FIND_PYTHON, self._sandbox.read_only())).output.split()
        return (found[0] if found and found != ["pytest"] else ""), found[-1:] == ["pytest"]

    async def _free_path(self, plan: PipelinePlan, task: PipelineTask) -> str:
        """Return the path of the test: that of an earlier plan with this name stays."""
        name = re.sub(r"\W+", "_", plan.name)
        path = f"{_FOLDER}/test_{name}_{task.id}.py"
        return path if await read_small(self._sandbox, path) is None else f"{_FOLDER}/test_{name}_{plan.id}_{task.id}.py"

    async def _prompt(self, spec: TaskSpec, prompt: str, path: str, command: str) -> str:
        parts, most = [prompt], _MOST_SHOWN_BYTES // len(spec.files)
        for each in spec.files:
            data = await read_small(self._sandbox, each, most + 1)
            cut = f"\n(These are its first {most} bytes.)" if data is not None and len(data) > most else ""
            parts.append(f"{each} does not exist yet." if data is None else shown_file(each, data[:most]) + cut)
        return "\n\n".join([*parts, f"Write the complete file {path}. It is run in the top folder with: {command}"])

    async def _tried(self, path: str, text: str, command: str, spec: TaskSpec) -> str:
        """Return what is wrong with a test, as it runs now and with those of the task's files empty that do not exist."""
        if "pytest" in command:
            command = f"COLUMNS=200 {command} --tb=short -p no:cacheprovider"
        overlay = self._sandbox.overlay(stays=True)
        try:
            await overlay.sandbox.write_file(path, text.encode("utf-8", "replace"))
            why = problem_of_run(await self._run(command, overlay.sandbox), text, spec.files)
            missing = [each for each in spec.files if await read_small(overlay.sandbox, each) is None]
            for each in missing if not why else ():
                await overlay.sandbox.write_file(each, b"")
            if not why and missing:
                why = problem_of_run(await self._run(command, overlay.sandbox), text, spec.files, are_empty=True)
        finally:
            await overlay.close()
        return why


def problem_of_text(text: str, spec: TaskSpec, *, has_pytest: bool) -> str:
    """Return why a text cannot be the acceptance test of a task, empty where it might."""
    if why := syntax_error("test.py", text.encode("utf-8", "replace")):
        return f"it does not parse: {why}"
    tree = python_tree(text)
    if tree is None or len(text) > _MOST_BYTES:
        return "it is too long or too nested"
    classes = [each for each in tree.body if isinstance(each, ast.ClassDef)]
    functions = [each for body in ([tree.body] if has_pytest else []) + [each.body for each in classes] for each in body]
    if not any(isinstance(each, ast.FunctionDef) and each.name.startswith("test") for each in functions):
        return f"it has no test {'function' if has_pytest else 'method in a unittest.TestCase'}"
    if not any(_is_assertion(each) for each in ast.walk(tree)):
        return "it asserts nothing that depends on the work"
    paths = [*map(PurePosixPath, spec.files)]
    names = {each.parent.name if each.stem.startswith("__") else each.stem for each in paths}
    return "" if any(each in text for each in names) else f"it does not use {', '.join(sorted(names))}"


def _is_assertion(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert):
        return any(isinstance(each, ast.Name) for each in ast.walk(node.test))
    name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
    return name.startswith("assert") or name == "raises"


def problem_of_run(ended: ExecResult, text: str, files: Collection[str], *, are_empty: bool = False) -> str:
    """Return what is wrong with how a test ended, empty where it fails as the work on `files` is missing.

    With `are_empty` those of them that do not exist were made, empty.
    """
    if _NO_TESTS.search(ended.output):
        return "no test of it runs"
    if ended.exit_code == 0:
        return f"it passes {'if the files are empty' if are_empty else 'before the work is done'}"
    lines = [line for line in ended.output.splitlines() if line.strip()]
    errors = errors_in(ended.output)
    if ended.is_timed_out or not errors:
        return f"it ends with {ended.exit_code}, not with a failed test:\n{bounded(lines[-10:])}"
    has_star, modules = "import *" in text, modules_of(files)
    for error, places in errors:
        is_inside = any(place == each or place.endswith(f"/{each}") for place in places for each in files)
        if not _is_right(error, modules, is_inside=is_inside or has_star, are_empty=are_empty):
            where = ", though the files exist" if are_empty else ""
            return f"it fails for another reason than the missing work{where}: {error}"
    return ""


def _is_right(error: str, modules: Collection[str], *, is_inside: bool, are_empty: bool) -> bool:
    """Tell whether an error can come of missing work; one that `is_inside` was raised by what a file of the task does."""
    kind, _, message = error.partition(": ")
    match kind.rpartition(".")[2]:
        case "ImportError" | "ModuleNotFoundError":
            found = _MODULE.match(message)
            return found is not None and (found[1] or found[2]) in modules and not (found[1] and are_empty)
        case "AttributeError":
            named = _ATTRIBUTE.match(message)
            return named is None or (named[2] is None and named[1] in modules)
        case "AssertionError":
            return True
        case "Failed":
            return "async def" not in message
        case "TypeError":
            return is_inside or "argument" in message
        case "SyntaxError" | "IndentationError" | "TabError":
            return False
        case _:
            return is_inside or error.startswith("assert")


def modules_of(files: Collection[str]) -> frozenset[str]:
    """Return the names under which files may be imported: all parts of their paths."""
    found: set[str] = set()
    for path in map(PurePosixPath, files):
        parts = [*path.parent.parts, *([] if path.stem == "__init__" else [path.stem])]
        found |= {".".join(parts[start:end]) for start in range(len(parts)) for end in range(start + 1, len(parts) + 1)}
    return frozenset(found)


def errors_in(output: str) -> list[tuple[str, list[str]]]:
    """Return the errors of a run of pytest (with `--tb=short`) or unittest, each with the files that its traceback names."""
    pytest = _PYTEST.search(output)
    text = output[pytest.end() :] if pytest is not None else output.partition(_UNITTEST)[2]
    found: list[tuple[str, list[str]]] = []
    places, block, is_open = list[str](), list[str](), False
    for line in [*text.splitlines(), ""]:
        if pytest is not None and line.startswith("E  "):
            block.append(line[4:])
            continue
        if block:
            found.append((next((each for each in block if _ERROR.match(each)), block[0].strip()), places))
            places, block = [], []
        if line.startswith(_CHAINED):
            del found[-1:]
        elif place := _PLACE.match(line):
            places.append(place[1] or place[2])
        elif line.startswith("___" if pytest is not None else "Traceback "):
            places, is_open = [], pytest is None
        elif is_open and line.strip() and not line[0].isspace():
            found.append((line, places))
            places, is_open = [], False
    return found
