"""Fix until green: find the definitions behind a failing Python test without a model, ask for one at a time, let tests judge.

Each draft is tried in a copy of the workspace, so that nothing has to be undone.  Small models do not find the place by
themselves, and repair a definition that they are shown more often than not on one of several draws.
"""

from __future__ import annotations

import ast
import itertools
import posixpath
import re
import textwrap
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lmtui.core.verification import Finding, Gate
from lmtui.engine.syntax import python_tree
from lmtui.features.checks.ladder import Ladder, failures, first_failure, is_test, trial_command
from lmtui.features.checks.validators import validate
from lmtui.features.checks.values import Ask, CheckRunner

MOST_DRAWS = 16
_MOST_FILES = 150
_MOST_CANDIDATES = 8
_MOST_LINES = 80
_LEVELS = 2
_FRAME = re.compile(r'File "(?P<a>[^"]+\.py)", line (?P<b>\d+)|^(?P<c>[\w./-]+\.py):(?P<d>\d+):', re.MULTILINE)
_FENCE = re.compile(r"```[\w-]*\n(.*?)(?:```|\Z)", re.DOTALL)
_ASK = """A test fails.

{failure}

The test:
```python
{test}
```

This definition in {path} may be wrong:
```python
{source}
```

Answer with the whole corrected definition in one Python code block, and nothing else. Keep its name and its arguments."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Candidate:
    """A definition that may be the broken one; `first` and `last` are its lines from 1, decorators among them."""

    path: str
    name: str
    first: int
    last: int
    source: str
    node: Definition


Edit = tuple[Candidate, str]
"""A definition, and what is put in its place; both as written in the file."""


@dataclass(slots=True)
class Code:
    """The Python files of a workspace, as text and parsed; what does not parse has no definitions."""

    texts: dict[str, str] = field(default_factory=dict)
    trees: dict[str, ast.Module] = field(default_factory=dict)

    def put(self, path: str, text: str) -> None:
        """Take a file, or its next version."""
        self.texts[path], self.trees[path] = text, _tree(text)

    def definitions(self, *, of_tests: bool = False) -> Iterator[Candidate]:
        """Yield the functions and methods of the files that are, or are not, tests."""
        for path in [each for each in self.trees if is_test(each) is of_tests]:
            lines = self.texts[path].splitlines(keepends=True)
            for node in ast.walk(self.trees[path]):
                if isinstance(node, Definition):
                    first, last = _first_line(node), node.end_lineno or node.lineno
                    yield Candidate(path, node.name, first, last, "".join(lines[first - 1 : last]), node)


def _tree(text: str) -> ast.Module:
    return python_tree(text) or ast.Module([], [])


async def read_code(runner: CheckRunner) -> Code:
    """Read the Python files of a workspace, at most 150."""
    code = Code()
    for path in (await runner.glob("**/*.py"))[:_MOST_FILES]:
        data = await runner.read(path)
        if data is not None:
            code.put(path, data.decode("utf-8", "replace"))
    return code


def locate(code: Code, output: str) -> tuple[str, list[Candidate]]:
    """Return the failing test's source, and the definitions that may be broken, the likeliest first.

    These are the functions of the traceback from the inside out, then what the test names, then two levels of what those call.
    """
    frames = [frame for match in _FRAME.finditer(output) if (frame := _frame(code, match)) is not None]
    tests = list(code.definitions(of_tests=True))
    at_frame = (each for path, line in frames for each in tests if each.path == path and each.first <= line <= each.last)
    test = next(at_frame, None)
    if test is None:
        named = {name for text in failures(output) for name in re.findall(r"\w+", text)}
        test = next((each for each in tests if each.name in named), None)
    known = list(code.definitions())
    by_name: dict[str, list[Candidate]] = {}
    for each in known:
        by_name.setdefault(each.name, []).append(each)
    found: list[Candidate] = []
    for path, line in reversed(frames):
        inner = [each for each in known if each.path == path and each.first <= line <= each.last]
        found += sorted(inner, key=lambda each: each.last - each.first)[:1]
    level = _named_by([test.node] if test is not None else [], by_name)
    for _ in range(_LEVELS + 1):
        found += level
        level = _named_by([each.node for each in level], by_name)
    fit = [each for each in dict.fromkeys(found) if each.last - each.first < _MOST_LINES]
    return (textwrap.dedent(test.source) if test is not None else ""), fit[:_MOST_CANDIDATES]


def _first_line(node: Definition) -> int:
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def _frame(code: Code, match: re.Match[str]) -> tuple[str, int] | None:
    """Return the file of the workspace that a line of a traceback is about, and the line."""
    path, line = (match["a"], match["b"]) if match["a"] else (match["c"], match["d"])
    parts = posixpath.normpath(path).lstrip("/").split("/")
    known = ("/".join(parts[at:]) for at in range(len(parts)))
    return next(((name, int(line)) for name in known if name in code.texts), None)


def _named_by(nodes: Iterable[ast.AST], by_name: Mapping[str, list[Candidate]]) -> list[Candidate]:
    """Return the definitions that code names, in the order in which it does."""
    inner = (each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute))
    names = dict.fromkeys(each.id if isinstance(each, ast.Name) else each.attr for each in inner)
    return [candidate for name in names for candidate in by_name.get(name, ())]


def draft_of(answer: str, candidate: Candidate) -> str:
    """Return the definition that an answer gives, indented as the old one; empty where there is none, or it is the same."""
    blocks = [match[1] for match in _FENCE.finditer(answer)] or [answer]
    for block in blocks:
        text = textwrap.dedent(block.expandtabs(4))
        for node in ast.walk(_tree(text)):
            if isinstance(node, Definition) and node.name == candidate.name:
                if ast.dump(node) == ast.dump(candidate.node):
                    return ""
                source = "\n".join(text.splitlines()[_first_line(node) - 1 : node.end_lineno])
                blanks = candidate.source[: -len(candidate.source.lstrip())]
                return textwrap.indent(textwrap.dedent(source), blanks) + "\n"
    return ""


class FixingLadder(Ladder):
    """The ladder, with what needs no command, and the way up."""

    async def findings(self, runner: CheckRunner, changed: Sequence[str], task: str) -> Sequence[Finding]:
        """Return what the validators find in what was added."""
        return await validate(runner, changed, task) if self.is_on and self.gate is not Gate.OFF else ()

    async def fixes(self, runner: CheckRunner, goal: str, ask: Ask) -> AsyncGenerator[Edit, None]:
        """Yield the edits that make more of a command's tests pass, each on top of those before it, until all do.

        Args:
            runner: runs the command; only where nothing can be changed.
            goal: the tests.
            ask: has the model answer a question; each answer is another draw.
        """
        command, ended = self.last
        if command != goal:
            ended = await runner.run(goal, limit_s=self.limit_s, may_write=False)
        if not self.is_on or ended.why_not or ended.exit_code == 0:
            return
        code, left, tried = await read_code(runner), MOST_DRAWS, set[str]()
        changed: dict[str, bytes] = {}
        failing = failures(ended.output)
        while failing:
            test, candidates = locate(code, ended.output)
            for candidate in itertools.islice(itertools.cycle(candidates if test else ()), left):
                left -= 1
                source = textwrap.dedent(candidate.source)
                question = _ASK.format(failure=first_failure(ended.output), test=test, path=candidate.path, source=source)
                draft = draft_of(await ask(question), candidate)
                if not draft or draft in tried:
                    continue
                tried.add(draft)
                lines = code.texts[candidate.path].splitlines(keepends=True)
                text = "".join([*lines[: candidate.first - 1], draft, *lines[candidate.last :]])
                files = {**changed, candidate.path: text.encode()}
                trial = await runner.run(trial_command(goal, files), limit_s=self.limit_s, may_write=False)
                if trial.why_not:
                    return
                now = failures(trial.output) if trial.exit_code else []
                if trial.exit_code == 0 or (len(now) < len(failing) and set(now) <= set(failing)):
                    code.put(candidate.path, text)
                    changed, ended, failing = files, trial, now
                    yield candidate, draft
                    break
            else:
                return
