"""Real projects with environments of their own: their test command on this machine, and the same in each sandbox.

`make projects` unpacks sources from PyPI, sets each project up as its README says, and compares what the tests say outside and
inside, without a setting of lmtui's.  It needs a network, and the programs that a row names; a row without them is left out and
said.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lmtui.core.errors import LmtuiError
from lmtui.sandbox.select import select_sandbox

BACKENDS = ("bubblewrap", "docker")
_INDEX = "https://pypi.org/simple"
_JSON = "application/vnd.pypi.simple.v1+json"  # PEP 691
_SETUP_S, _TEST_S = 900, 600
_COUNT = re.compile(r"(\d+) (passed|failed|skipped|xfailed|xpassed|errors?|passing|pending)|(?:Tests run: |(?:pass|fail) )\d+")
_PIP = ".venv/bin/pip install -q"
_PYENV = "~/.pyenv/versions/{version}*/bin/python"


@dataclass(frozen=True, slots=True)
class Project:
    """A project: where its files come from, how it is set up on this machine, and how its tests are run.

    `source` is `NAME==VERSION` of PyPI, else `files` are written.  `needs` are programs, or patterns of paths, without which
    it is left out.
    """

    name: str
    setup: str
    test: str
    source: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


def _python(name: str, version: str, more: str, test: str, *, by: str = "/usr/bin/python3") -> Project:
    made = f"{by} -m venv .venv && {_PIP} -e . 'pytest<9' {more}"
    return Project(
        f"{name} ({Path(by).parts[-3].strip('*') if '.pyenv' in by else 'venv'})", made, test, f"{name}=={version}", needs=(by,)
    )


_NODE_TEST = "const {add} = require('./add');\n"
_ADD = {"add.js": "exports.add = (a, b) => a + b;\n"}
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>a</groupId>
<artifactId>a</artifactId><version>1</version><properties><maven.compiler.release>11</maven.compiler.release>
<project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties><dependencies><dependency>
<groupId>junit</groupId><artifactId>junit</artifactId><version>4.x</version><scope>test</scope></dependency></dependencies></project>
"""
_JUNIT = """import org.junit.Test;
import static org.junit.Assert.assertEquals;
public class ATest { @Test public void one() { assertEquals(1, new A().one()); } }
"""
_DEBIAN_SUREFIRE = "/usr/share/maven-repo/org/apache/maven/plugins/maven-surefire-plugin/2.22.3"  # apt: maven-debian-helper
_UV = f"uv venv -q --python {_PYENV.format(version='3.12')} .venv && uv pip install -q -e . pytest"
_POETRY = "poetry config virtualenvs.in-project false --local && poetry lock -q && poetry install -q"
_POETRY_PROJECT = """[project]
name = "a"
version = "1.0.0"
requires-python = ">=3.11"
dependencies = ["tomlkit>=0.13", "pytest>=8,<9"]
[tool.poetry]
package-mode = false
[[tool.poetry.source]]
name = "simple"
url = "https://pypi.org/simple/"
[build-system]
requires = ["poetry-core>=2"]
build-backend = "poetry.core.masonry.api"
"""
_POETRY_TEST = """import tomlkit
def test_dumps():
    assert tomlkit.dumps({'a': 1}).strip() == 'a = 1'
"""
_GO_TEST = 'package a\n\nimport "testing"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal()\n\t}\n}\n'

PROJECTS = (
    _python("attrs", "25.3.0", "hypothesis cloudpickle", ".venv/bin/pytest -q tests"),
    _python("click", "8.2.1", "", ". .venv/bin/activate && pytest -q tests -k 'not pager'"),
    _python("flask", "3.1.1", "", "pytest -q tests"),
    _python("itsdangerous", "2.2.0", "freezegun", ".venv/bin/python -m pytest -q tests"),
    _python("markupsafe", "3.0.2", "", ".venv/bin/pytest -q tests"),
    _python("packaging", "25.0", "pretend", ".venv/bin/pytest -q tests"),
    _python("jinja2", "3.1.6", "trio", ".venv/bin/pytest -q tests"),
    _python("pluggy", "1.6.0", "", "pytest -q testing"),
    _python("werkzeug", "3.1.3", "ephemeral-port-reserve pytest-timeout pytest-xprocess cryptography watchdog",
            ".venv/bin/pytest -q tests -k 'not dev_server'", by=_PYENV.format(version="3.12")),
    _python("idna", "3.10", "", ". .venv/bin/activate && python -m pytest -q tests", by=_PYENV.format(version="3.13")),
    _python("more-itertools", "10.7.0", "", ".venv/bin/pytest -q tests", by=_PYENV.format(version="3.13")),
    Project("pathspec (uv)", _UV, "uv run --no-sync pytest -q tests", "pathspec==0.12.1", needs=("uv",)),
    Project("tomlkit (poetry)", _POETRY, "poetry run pytest -q", files={
        "pyproject.toml": _POETRY_PROJECT, "test_a.py": _POETRY_TEST}, needs=("poetry",)),
    Project("mocha (npm)", "npm install --silent mocha@11", "npm test", files={
        "package.json": '{"name": "a", "version": "1.0.0", "scripts": {"test": "mocha"}}\n', **_ADD,
        "test/a.js": "const {add} = require('../add');\nit('adds', () => require('assert').equal(add(1, 2), 3));\n"},
        needs=("npm",)),
    Project("jest (npm)", "npm install --silent jest@30", "npx jest", files={
        "package.json": '{"name": "a", "version": "1.0.0"}\n', **_ADD,
        "a.test.js": f"{_NODE_TEST}test('adds', () => expect(add(1, 2)).toBe(3));\n"}, needs=("npm",)),
    Project("vitest (npm)", "npm install --silent vitest@3", "npx vitest run", files={
        "package.json": '{"name": "a", "version": "1.0.0", "type": "module"}\n',
        "a.test.js": "import {test, expect} from 'vitest';\ntest('adds', () => expect(1 + 2).toBe(3));\n"}, needs=("npm",)),
    Project("node:test (pnpm)", "pnpm install --silent is-odd@3", "pnpm test", files={
        "package.json": '{"name": "a", "version": "1.0.0", "scripts": {"test": "node --test"}}\n',
        "a.test.js": "const test = require('node:test');\ntest('odd', () => { if (!require('is-odd')(3)) throw 1; });\n"},
        needs=("pnpm",)),
    Project("library (cargo)", "true", "cargo test", files={
        "Cargo.toml": '[package]\nname = "a"\nversion = "0.1.0"\nedition = "2021"\n',
        "src/lib.rs": "pub fn add(a: i32, b: i32) -> i32 { a + b }\n#[test]\nfn adds() { assert_eq!(add(1, 2), 3); }\n"},
        needs=("cargo",)),
    Project("module (go)", "true", "go test ./...", files={
        "go.mod": "module a\n\ngo 1.19\n", "a.go": "package a\n\nfunc Add(a, b int) int { return a + b }\n",
        "a_test.go": _GO_TEST},
        needs=("go",)),
    Project("junit (maven)", "[ -d ~/.m2/repository ] || { mkdir -p ~/.m2 && cp -rL /usr/share/maven-repo ~/.m2/repository; }",
        "mvn -o test", files={
        "pom.xml": _POM, "src/main/java/A.java": "public class A { int one() { return 1; } }\n",
        "src/test/java/ATest.java": _JUNIT}, needs=("mvn", _DEBIAN_SUREFIRE)),
    Project("make and gcc", "true", "make test", files={
        "Makefile": "test: a\n\t./a\na: a.c\n\tcc -o a a.c\n",
        "a.c": '#include <stdio.h>\nint main(void) { puts("1 passed"); return 0; }\n'}, needs=("make", "cc")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ran:
    """How a test command ended: its exit code, and what its last lines count."""

    code: int
    counts: tuple[str, ...]
    output: str = ""

    def is_like(self, other: Ran) -> bool:
        """Tell whether two runs say the same."""
        return (self.code, self.counts) == (other.code, other.counts)


def ran(code: int, output: str) -> Ran:
    """Return what a run says."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    return Ran(code, tuple(sorted(found.group() for found in _COUNT.finditer(plain[-1500:]))), plain)


def missing(project: Project) -> str:
    """Return what this machine has not that a project needs."""
    for each in project.needs:
        if "/" in each and not list(Path("/").glob(str(Path(each).expanduser())[1:])):
            return each
        if "/" not in each and shutil.which(each) is None:
            return each
    return ""


def unpack(project: Project, folder: Path) -> None:
    """Write a project's files."""
    folder.mkdir(parents=True)
    for name, text in project.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if not project.source:
        return
    name, _, version = project.source.partition("==")
    request = urllib.request.Request(f"{_INDEX}/{name}/", headers={"Accept": _JSON})
    with urllib.request.urlopen(request, timeout=60) as answer:
        files = json.load(answer)["files"]
    stem = name.replace("-", "_")
    wanted = {f"{each}-{version}.tar.gz" for each in (name, stem, name.lower(), stem.lower())}
    url = next(each["url"] for each in files if each["filename"].lower() in wanted)
    with urllib.request.urlopen(url, timeout=120) as answer:
        archive = io.BytesIO(answer.read())
    with tarfile.open(fileobj=archive) as opened:
        opened.extractall(folder.parent / f"{folder.name}.tar", filter="data")
    folder.rmdir()
    next((folder.parent / f"{folder.name}.tar").iterdir()).rename(folder)


def on_host(command: str, folder: Path, limit_s: int) -> Ran:
    """Run a command on this machine, with the project's programs first on PATH as a developer has them."""
    own = f"{folder}/.venv/bin:{folder}/node_modules/.bin"
    environ = {**os.environ, "PATH": f"{own}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environ, capture_output=True, text=True, timeout=limit_s, check=False
    )
    return ran(done.returncode, done.stdout + done.stderr)


async def inside(backend: str, command: str, folder: Path) -> Ran:
    """Run a command in a sandbox."""
    sandbox = await select_sandbox(folder, backend=backend)
    try:
        result = await sandbox.run_command(command, timeout_s=_TEST_S)
    except LmtuiError as error:
        return Ran(-1, (), error.full_text())
    finally:
        await sandbox.close()
    return ran(result.exit_code, result.output)


def play(project: Project, base: Path, backends: Sequence[str], *, is_loud: bool) -> list[bool]:
    """Set a project up and compare; returns whether each backend says what this machine says, nothing where it is left out."""
    folder = base / re.sub(r"\W+", "-", project.name).strip("-")
    unpack(project, folder)
    made = on_host(project.setup, folder, _SETUP_S)
    if made.code != 0:
        print(
            f"{project.name:<22} left out: it cannot be set up here: {made.output.strip().splitlines()[-1:]}"[:200], flush=True
        )
        return []
    outside = on_host(project.test, folder, _TEST_S)
    found = [asyncio.run(inside(backend, project.test, folder)) for backend in backends]
    same = [each.is_like(outside) for each in found]
    words = ", ".join(outside.counts) or f"exit {outside.code}"
    print(f"{project.name:<22} {' '.join('same ' if each else 'OTHER' for each in same)}  {words}", flush=True)
    if is_loud and not all(same):
        print(f"--- on this machine: exit {outside.code} {outside.counts}\n{outside.output[-1500:]}")
        for backend, each in zip(backends, found, strict=True):
            print(f"--- {backend}: exit {each.code} {each.counts}\n{each.output[-1500:]}")
    return same


def main() -> int:
    """Play them all; 0 where bubblewrap is like this machine in every project."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only projects whose names contain one of these")
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument("--loud", action="store_true", help="print what differs")
    arguments = parser.parse_args()
    backends = arguments.backend or list(BACKENDS)
    chosen = [each for each in PROJECTS if not arguments.names or any(name in each.name for name in arguments.names)]
    print(f"{'':<22} {' '.join(each[:5] for each in backends)}  on this machine")
    totals: list[list[bool]] = []
    with tempfile.TemporaryDirectory(prefix="projects-", dir="/var/tmp") as base:
        for project in chosen:
            if lacking := missing(project):
                print(f"{project.name:<22} left out: this machine has no {lacking}")
            elif same := play(project, Path(base), backends, is_loud=arguments.loud):
                totals.append(same)
    for number, backend in enumerate(backends):
        print(f"{backend}: {sum(same[number] for same in totals)} of {len(totals)}")
    return 0 if totals and all(same[0] for same in totals) else 1


if __name__ == "__main__":
    sys.exit(main())
