"""Which commands check a project, and the ladder of them: lint, related tests, everything.

A red check is run again, and compared with the state before the change.
"""

from __future__ import annotations

import asyncio
import base64
import json
import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmtui.core.verification import LATE, MOST_LINES, CheckOutcome, CheckRan, Gate, ProjectCheck, Rung, bounded
from lmtui.features.checks.values import CheckRunner, CommandEnded, wants_to_write
from lmtui.parser_process import read_toml

_PYTHON = "python3"
_TARGETS = ("check", "test")
_TARGET = r"^{name}[ \t]*:(?!=)"
_NO_TEST = "no test specified"
_MOST_FILES = 30
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_JUSTFILES = ("justfile", "Justfile", ".justfile")
_BUILDS = {
    "go.mod": "go build ./... && go vet ./... && go test ./...",
    "Cargo.toml": "cargo test --quiet",
    "Package.swift": "swift build && swift test",
}
_RUFF = ("ruff.toml", ".ruff.toml")
_VENV, _ESLINT_PROGRAM = ".venv/pyvenv.cfg", "node_modules/.bin/eslint"
_FILES = (
    "pyproject.toml", "package.json", "pytest.ini", "tox.ini", "setup.cfg", "conftest.py", _VENV, _ESLINT_PROGRAM,
    *_BUILDS, *_MAKEFILES, *_JUSTFILES, *_RUFF,
)  # fmt: skip
_ESLINT = (
    "eslint.config.js", "eslint.config.mjs", "eslint.config.cjs", "eslint.config.ts", ".eslintrc.json", ".eslintrc.js",
    ".eslintrc.cjs", ".eslintrc.yml", ".eslintrc",
)  # fmt: skip
_SCRIPT = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")
_TESTS_OF = {
    ".py": ("**/test_*.py", "**/*_test.py", "**/tests.py", "**/test.py"),
    **dict.fromkeys(_SCRIPT, ("**/*.{test,spec}.{js,jsx,mjs,cjs,ts,tsx,mts,cts}",)),
}
_CODE = (".py", ".go", ".rs", *_SCRIPT)


@dataclass(frozen=True, slots=True)
class Project:
    """What the files at the top of a workspace say about its checks.

    `texts` are these files, as far as they are there.  `tests` is the program of the Python tests (pytest or unittest), empty
    where there are none, and `source` the file that tells of it.  `npm_test` is the test script of `package.json`, `script`
    what single tests of JavaScript are run with, `ruff` the file that sets ruff up.
    """

    texts: Mapping[str, str]
    tests: str
    source: str
    npm_test: str
    script: str
    ruff: str

    @property
    def python(self) -> str:
        """Return the interpreter."""
        return ".venv/bin/python" if _VENV in self.texts else _PYTHON

    def suites(self) -> list[ProjectCheck]:
        """Return the commands that check everything, the first that can run decides."""
        commands = [(f"make {target}", "Makefile") for target in self._targets(_MAKEFILES)]
        commands += [(f"just {target}", "justfile") for target in self._targets(_JUSTFILES)]
        commands += [(self.python_tests(), self.source)] if self.tests else []
        commands += [("npm test --silent", "package.json")] if self.npm_test and _NO_TEST not in self.npm_test else []
        commands += [(command, name) for name, command in _BUILDS.items() if self.texts.get(name)]
        return [ProjectCheck(Rung.SUITE, command, source) for command, source in commands]

    def _targets(self, names: Sequence[str]) -> list[str]:
        """Return the targets of a Makefile or a justfile that check."""
        content = next((self.texts[name] for name in names if self.texts.get(name)), "")
        return [target for target in _TARGETS if re.search(_TARGET.format(name=target), content, re.MULTILINE)]

    def python_tests(self, files: Sequence[str] = ()) -> str:
        """Return the command that runs Python tests: of some files, or all."""
        if self.tests == "unittest":
            return f"{self.python} -m unittest {f'-q {_words(files)}' if files else 'discover -q'}"
        return f"{self.python} -m pytest -q -p no:cacheprovider {_words(files)}".rstrip()

    def linters(self, changed: Sequence[str]) -> list[ProjectCheck]:
        """Return the linters that the project is set up for, on the files that were changed."""
        python = [path for path in changed if path.endswith((".py", ".pyi"))][:_MOST_FILES]
        script = [path for path in changed if path.endswith(_SCRIPT)][:_MOST_FILES]
        found: list[ProjectCheck] = []
        if self.ruff and python:
            ruff = posixpath.join(posixpath.dirname(self.python), "ruff") if "/" in self.python else "ruff"
            command = f"{ruff} check --no-cache --output-format=concise {_words(python)}"
            found.append(ProjectCheck(Rung.LINT, command, self.ruff))
        eslint = next((name for name in _ESLINT if name in self.texts), "")
        if eslint and script:
            found.append(ProjectCheck(Rung.LINT, f"{_ESLINT_PROGRAM} --format=unix {_words(script)}", eslint))
        return found

    def tests_of(self, files: Sequence[str], changed: Sequence[str]) -> ProjectCheck | None:
        """Return the command that runs single test files, or the packages of what was changed."""
        python = sorted(path for path in files if path.endswith(".py"))[:_MOST_FILES]
        if python and self.tests:
            return ProjectCheck(Rung.TESTS, self.python_tests(python), self.source)
        script = sorted(path for path in files if path.endswith(_SCRIPT))[:_MOST_FILES]
        if script and self.script:
            return ProjectCheck(Rung.TESTS, f"{self.script} {_words(script)}", "package.json")
        folders = sorted({posixpath.dirname(path) or "." for path in changed if path.endswith(".go")})
        if self.texts.get("go.mod") and folders:
            names = _words([f"./{folder}" if folder != "." else "." for folder in folders][:_MOST_FILES])
            return ProjectCheck(Rung.TESTS, f"go test {names}", "go.mod")
        return None


def _words(paths: Sequence[str]) -> str:
    return " ".join(shlex.quote(path) for path in paths)


async def read_project(runner: CheckRunner) -> Project:
    """Read what says how a workspace is checked."""
    texts = await _read(runner, _FILES)
    if _ESLINT_PROGRAM in texts:
        texts |= await _read(runner, _ESLINT)
    pyproject = await asyncio.to_thread(read_toml, texts.get("pyproject.toml", ""))
    package = _json(texts.get("package.json", ""))
    npm_test = str(_table(package, "scripts").get("test", ""))
    tests, source = await _python_tests(runner, texts, pyproject)
    has_ruff = "ruff" in _table(pyproject, "tool")
    ruff = "pyproject.toml" if has_ruff else next((name for name in _RUFF if name in texts), "")
    return Project(texts, tests, source, npm_test, _script_runner(npm_test, package), ruff)


async def _read(runner: CheckRunner, names: Sequence[str]) -> dict[str, str]:
    found = {name: await runner.read(name) for name in names}
    return {name: data.decode("utf-8", "replace") for name, data in found.items() if data is not None}


async def _python_tests(runner: CheckRunner, texts: Mapping[str, str], pyproject: dict[str, Any]) -> tuple[str, str]:
    """Return the program of the Python tests, and the file that tells of it."""
    if "pytest" in _table(pyproject, "tool"):
        return "pytest", "pyproject.toml"
    for name, section in (("pytest.ini", ""), ("tox.ini", "[pytest]"), ("setup.cfg", "[tool:pytest]")):
        if name in texts and section in texts[name]:
            return "pytest", name
    files = [path for pattern in _TESTS_OF[".py"] for path in await runner.glob(pattern)]
    if not files:
        return "", ""
    named = _table(pyproject, "project")
    if "pytest" in json.dumps(named, default=str) or "conftest.py" in texts:
        return "pytest", "pyproject.toml" if named else "conftest.py"
    first = min(files)
    text = (await _read(runner, [first])).get(first, "")
    return ("unittest" if "import unittest" in text or "from unittest" in text else "pytest"), first


def _script_runner(npm_test: str, package: dict[str, Any]) -> str:
    if re.match(r"node\b.*--test\b", npm_test):
        return "node --test"
    for program, run in (("vitest", "npx vitest run"), ("jest", "npx jest")):
        if program in npm_test or program in json.dumps(package.get("devDependencies", {}), default=str):
            return run
    return ""


def _table(parent: dict[str, Any], key: str) -> dict[str, Any]:
    found = parent.get(key)
    return found if isinstance(found, dict) else {}


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


async def related_tests(runner: CheckRunner, changed: Sequence[str]) -> list[str]:
    """Return the test files that a change is about: those among it, and those that name one of its files or modules."""
    found: dict[str, None] = {}
    for path in changed[:_MOST_FILES]:
        stem, ending = posixpath.splitext(posixpath.basename(path))
        patterns = _TESTS_OF.get(ending, ())
        if not patterns:
            continue
        if is_test(path):
            found[path] = None
            continue
        name = posixpath.basename(posixpath.dirname(path)) if stem in ("__init__", "index", "main", "__main__") else stem
        if len(name) > 1:
            for pattern in patterns:
                named = await runner.search(rf"(?:import|from|require|load|open|path)\b.*\b{re.escape(name)}\b", pattern)
                found |= dict.fromkeys(each for each in named if is_test(each))
    return sorted(found)


def is_test(path: str) -> bool:
    """Tell whether a file holds tests."""
    name = posixpath.basename(path)
    return bool(re.fullmatch(r"test_.*\.py|tests?\.py|.*_test\.(?:py|go)|.*\.(?:test|spec)\.[cm]?[jt]sx?", name))


def is_code(path: str) -> bool:
    """Tell whether a file is a part of a program, so that its tests are worth a run after a step."""
    return path.endswith(_CODE)


_MOST_BASE_BYTES = 200_000
_MOST_FOLDER_MB = 500
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_NO_TESTS = re.compile(r"^Ran 0 tests|no tests ran|^# tests 0$|no test files", re.MULTILINE)
_NO_TESTS_EXIT = 5  # pytest's, and unittest's from Python 3.12 on
_TIMED_OUT_EXIT = 124
_FAILURES = (
    re.compile(r"^(?:FAILED|ERROR) ([^\s(]\S*)"),  # pytest
    re.compile(r"^(?:FAIL|ERROR): (\S+ \(\S+\))"),  # unittest
    re.compile(r"^\s*--- FAIL: (\S+)"),  # go
    re.compile(r"^test (\S+) \.\.\. FAILED"),  # cargo
    re.compile(r"^\s*not ok \d+ (?:- )?(.+?)\s*$"),  # TAP
    re.compile(r"^\s*[✖✕×] (.+?)(?: \([\d.]+ ?m?s\))?\s*$"),  # node:test, jest, vitest
)
_FINDING = re.compile(r"^(?:\./)?([^\s:][^:]*):(\d+)(?::\d+)?:? (.+)$")
_PLACE = re.compile(r"[\w./-]+\.\w+:\d+|^\s*File \"[^\"]+\", line \d+")
_REASON = re.compile(r"^E  +|\b\w*(?:Error|Exception|Failure)\b|^\s*(?:error|panic|expected|actual|received)\b", re.IGNORECASE)
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning)\b")
_NOT_STARTED = re.compile(r"not found|no such file|permission denied|cannot execute|is a directory|exec format", re.IGNORECASE)
_NO_PROGRAM = re.compile(
    r"(?:: |^)(?:command )?not found$|^\S*python\S*: No module named \S+$|\*\*\* .*\bError 12[67]$"
    r"|\*\*\* No rule to make target '[^']*'\.|does not contain recipe|missing script:",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(slots=True)
class Ladder:
    """The checks of one workspace; `fixing.FixingLadder` adds what needs no command.

    Args:
        is_on: False: nothing is run.
        command: the check of everything that the user set, in place of the inferred one.
        lint: the same for the linter; `{files}` in it is replaced by the changed files.
        source: where those come from.
        limit_s: the time of one check.
        gate: which findings block a turn.

    `seconds` is how long each command took at last, or more than its limit: what is known to take longer is not begun.
    `last` is how the goal ended that was run last.
    """

    is_on: bool = True
    command: str = ""
    lint: str = ""
    source: str = "settings"
    limit_s: int = 180
    gate: Gate = Gate.OFF
    seconds: dict[str, float] = field(default_factory=dict)
    last: tuple[str, CommandEnded] = ("", CommandEnded())

    async def after_step(self, runner: CheckRunner, changed: Sequence[str]) -> None:
        """Lint what a step changed, and run the tests that name it."""
        if not self.is_on or not any(map(is_code, changed)):
            return
        project = await read_project(runner)
        if not await self._lint(runner, project, changed):
            return
        check = project.tests_of(await related_tests(runner, changed), changed)
        if check is not None:
            _ = await self._run(runner, check, changed)

    async def at_end(self, runner: CheckRunner, changed: Sequence[str], passed: frozenset[str]) -> ProjectCheck | None:
        """Run the check of everything; where that takes too long, the related tests decide."""
        if not self.is_on:
            return None
        project = await read_project(runner)
        suite = self.suite(project)
        if suite is None:
            return None
        if suite.command in passed:
            runner.tell(_check_of(suite, CommandEnded(), CheckOutcome.PASSED, "", decides=True))
            return suite
        if self.seconds.get(suite.command, 0) > self.limit_s:
            text = f"it takes longer than {self.limit_s} s; only the tests that name the changed files were run"
            earlier = CommandEnded(_TIMED_OUT_EXIT, elapsed_s=self.limit_s, is_timed_out=True)
            runner.tell(_check_of(suite, earlier, CheckOutcome.NOT_RUN, text))
            related = project.tests_of(await related_tests(runner, changed), changed)
            suite = related or suite
            if related is None or related.command in passed:
                return suite
        outcome = await self._run(runner, suite, changed, decides=True)
        if outcome is CheckOutcome.NOT_RUN and not self.command and 0 <= self.seconds.get(suite.command, -1) <= self.limit_s:
            self.seconds[suite.command] = -1.0  # its program or target is missing, which was said
            return await self.at_end(runner, changed, passed) or suite
        return suite

    async def commands(self, runner: CheckRunner) -> Sequence[ProjectCheck]:
        """Return the commands that would run, with where each comes from."""
        project = await read_project(runner)
        suite = self.suite(project)
        python = ProjectCheck(Rung.TESTS, project.python_tests(("FILES",)), project.source) if project.tests else None
        script = ProjectCheck(Rung.TESTS, f"{project.script} FILES", "package.json") if project.script else None
        lint = self._linters(project, ("FILES.py", "FILES.js"))
        return [*lint, *(check for check in (python, script, suite) if check is not None)]

    async def meets(self, runner: CheckRunner, goal: str, *, may_write: bool = True) -> CheckRan:
        """Run the command of a goal; a pass counts, whatever it was before."""
        ended = await runner.run(goal, limit_s=self.limit_s, may_write=may_write)
        self.last = (goal, ended)
        if not may_write and ended.exit_code != 0 and wants_to_write(ended.output):
            ended = CommandEnded(why_not="it writes files, and nobody set it as a goal")
        check = ProjectCheck(Rung.GOAL, goal, "goal")
        outcome, text = _outcome(ended, self.limit_s)
        return _check_of(check, ended, outcome, text, decides=outcome is not CheckOutcome.NOT_RUN)

    async def holds_with(self, runner: CheckRunner, command: str, files: Mapping[str, bytes | None]) -> CheckRan:
        """Run a command in a copy of the workspace in which some files are others."""
        ended = await runner.run(trial_command(command, files), limit_s=self.limit_s, may_write=False)
        outcome, text = _outcome(ended, self.limit_s)
        return _check_of(ProjectCheck(Rung.GOAL, command), ended, outcome, text, decides=True)

    def suite(self, project: Project) -> ProjectCheck | None:
        """Return the command that decides: the first that did not turn out to lack its program or target."""
        known = [ProjectCheck(Rung.SUITE, self.command, self.source)] if self.command else project.suites()
        return next((check for check in known if self.command or self.seconds.get(check.command, 0) >= 0), None)

    def _linters(self, project: Project, changed: Sequence[str]) -> list[ProjectCheck]:
        if self.lint:
            return [ProjectCheck(Rung.LINT, self.lint.replace("{files}", _words(changed)), self.source)]
        return project.linters(changed)

    async def _lint(self, runner: CheckRunner, project: Project, changed: Sequence[str]) -> bool:
        """Lint the files; False where the change brought a finding."""
        is_clean = True
        for check in self._linters(project, changed):
            if self.seconds.get(check.command.partition(" ")[0], 0) < 0:
                continue  # it is not installed, which was said
            outcome = await self._run(runner, check, changed)
            if outcome is CheckOutcome.NOT_RUN:
                self.seconds[check.command.partition(" ")[0]] = -1.0
            is_clean = is_clean and outcome is not CheckOutcome.FAILED
        return is_clean

    async def _run(
        self, runner: CheckRunner, check: ProjectCheck, changed: Sequence[str], *, decides: bool = False
    ) -> CheckOutcome:
        """Run a check and tell what came of it; a red one is run again, then compared with the state before."""
        ended = await runner.run(check.command, limit_s=self.limit_s, may_write=check.rung is not Rung.LINT)
        outcome, text = _outcome(ended, self.limit_s)
        if not ended.why_not:
            self.seconds[check.command] = self.limit_s + 1 if ended.is_timed_out else ended.elapsed_s
        if outcome is CheckOutcome.FAILED and check.rung is not Rung.LINT:
            again = await runner.run(check.command, limit_s=self.limit_s)
            outcome = CheckOutcome.FLAKY if again.exit_code == 0 and not again.why_not else outcome
        if outcome is CheckOutcome.FAILED:
            new = await self._new_failures(runner, check, ended, changed)
            outcome = outcome if new is None or new else CheckOutcome.KNOWN
            text = first_failure(ended.output, new or ())
        if ended.note:
            text = "\n".join([*text.splitlines()[: MOST_LINES - 1], ended.note])
        runner.tell(_check_of(check, ended, outcome, text, decides=decides))
        return outcome

    async def _new_failures(
        self, runner: CheckRunner, check: ProjectCheck, ended: CommandEnded, changed: Sequence[str]
    ) -> list[str] | None:
        """Return what fails now and did not before the change; None where that cannot be told."""
        now = failures(ended.output)
        old = await runner.before(changed)
        if not now or old is None or sum(len(data) for data in old.values() if data) > _MOST_BASE_BYTES:
            return None
        base = await runner.run(trial_command(check.command, old), limit_s=self.limit_s, may_write=False)
        if base.why_not or base.is_timed_out:
            return None
        before = failures(base.output)
        return [name for name in now if name not in before]


def trial_command(command: str, files: Mapping[str, bytes | None]) -> str:
    """Return a command that runs another one in a copy of the workspace in which some files are others (None: not there)."""
    lines = [
        f'test "$(du -sm . 2>/dev/null | cut -f1)" -le {_MOST_FOLDER_MB} || exit 0',
        'base=$(mktemp -d) && cp -a . "$base" 2>/dev/null; cd "$base" || exit 0',
    ]
    for path, data in files.items():
        name = shlex.quote(f"./{path}")
        if data is None:
            lines.append(f"rm -rf {name}")
        else:
            encoded = base64.b64encode(data).decode("ascii")
            lines.append(f'mkdir -p "$(dirname {name})"; printf %s {encoded} | base64 -d > {name}')
    # what is installed in place from the workspace must not be found before the copy, nor code compiled from what is new
    lines.append("export PYTHONPYCACHEPREFIX=$(mktemp -d)")
    lines.append('export PYTHONPATH="$base:$base/src${PYTHONPATH:+:$PYTHONPATH}"')
    return "\n".join((*lines, command))


def _outcome(ended: CommandEnded, limit_s: int) -> tuple[CheckOutcome, str]:
    """Return what came of a command, and why it says nothing or the first failure."""
    if ended.why_not:
        return CheckOutcome.NOT_RUN, bounded([ended.why_not])
    if ended.is_timed_out:
        return CheckOutcome.NOT_RUN, f"{LATE} {limit_s} s"
    if ended.exit_code in (0, _NO_TESTS_EXIT) and _NO_TESTS.search(ended.output[-2000:]):
        return CheckOutcome.NOT_RUN, "no test ran"
    if ended.exit_code == 0:
        return CheckOutcome.PASSED, ""
    last = ended.output.strip().rpartition("\n")[2]
    is_not_started = ended.exit_code in (126, 127) and _NOT_STARTED.search(last)
    if is_not_started or _NO_PROGRAM.search(ended.output[-2000:]):
        return CheckOutcome.NOT_RUN, bounded([last])
    return CheckOutcome.FAILED, first_failure(ended.output) or f"exit code {ended.exit_code}"


def _check_of(check: ProjectCheck, ended: CommandEnded, outcome: CheckOutcome, text: str, *, decides: bool = False) -> CheckRan:
    return CheckRan(
        rung=check.rung,
        outcome=outcome,
        command=check.command,
        source=check.source,
        exit_code=-1 if outcome is CheckOutcome.NOT_RUN and not ended.is_timed_out else ended.exit_code,
        text=text,
        elapsed_s=round(ended.elapsed_s, 2),
        decides=decides,
    )


def failures(output: str) -> list[str]:
    """Return the names of what failed, as the test runners and linters that are known name it."""
    lines = [_ANSI.sub("", line) for line in output.splitlines()]
    named = [match[1] for line in lines for pattern in _FAILURES if (match := pattern.match(line))]
    if named:
        return list(dict.fromkeys(named))
    found = [f"{match[1]}: {match[3]}" for line in lines if (match := _FINDING.match(line))]  # without the line, which moves
    return list(dict.fromkeys(found))


def first_failure(output: str, names: Sequence[str] = ()) -> str:
    """Return the first failure in at most ten lines: its name, the place, what was expected."""
    lines = [_ANSI.sub("", line).rstrip() for line in output.splitlines() if line.strip()]
    known = names or failures(output)
    first = known[0].partition(": ")[2] or known[0] if known else ""
    named = [line for line in lines if first and first in line]
    reasons = [line for line in lines if (_REASON.search(line) or _PLACE.search(line)) and "<frozen " not in line]
    head = named[-1:] if named else []
    raised = _raised(lines[lines.index(named[0]) :] if named else lines)
    chosen = [line for line in dict.fromkeys([*raised, *reasons]) if line not in head]
    if not head and not chosen:
        return bounded(lines[-MOST_LINES:])
    more = f"({len(known) - 1} more fail)" if len(known) > 1 else ""
    kept = MOST_LINES - len(head) - bool(more)
    return bounded([*head, *chosen[:kept], *([more] if more else [])])


def _raised(lines: Sequence[str]) -> list[str]:
    """Return the exception that ends the first Python traceback and its place."""
    start = next((at for at, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")), len(lines))
    end = next((at for at, line in enumerate(lines) if at > start and line.startswith("====")), len(lines))
    block = lines[start:end]
    raised = [at for at, line in enumerate(block) if _EXCEPTION.match(line)]
    places = [line for line in block[: raised[-1]] if line.lstrip().startswith('File "')] if raised else []
    return [block[raised[-1]], *places[-1:]] if raised else []
