"""Findings in what was added: what counts, and what must not hold anything up."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from lmtui.core.permissions.rules import Decision
from lmtui.core.verification import CheckRan, Finding, Gate, Severity
from lmtui.features.checks.validators import validate
from lmtui.features.checks.values import CheckRunner, CommandEnded
from tests.sets import for_each

GATE = Gate.STANDARD


class Files(CheckRunner):
    """A workspace of two states of files."""

    def __init__(self, old: Mapping[str, str], new: Mapping[str, str], *, knows_before: bool = True) -> None:
        self.old, self.new, self.knows_before = old, new, knows_before

    async def _begin(self, command: str, limit_s: int) -> tuple[Decision, bool]:
        raise AssertionError(command)

    async def _run_writing(self, command: str, limit_s: int, decision: Decision) -> CommandEnded:
        raise AssertionError(command)

    async def read(self, path: str) -> bytes | None:
        return self.new[path].encode() if path in self.new else None

    async def search(self, pattern: str, glob: str) -> Sequence[str]:
        return [path for path in self.new if path.endswith(".py")]

    async def glob(self, pattern: str) -> Sequence[str]:
        return [path for path in self.new if path == pattern]

    async def before(self, paths: Sequence[str]) -> Mapping[str, bytes | None] | None:
        if not self.knows_before:
            return None
        return {path: self.old[path].encode() if path in self.old else None for path in paths}

    def tell(self, check: CheckRan) -> None:
        raise AssertionError(check)


async def found_in(old: Mapping[str, str], new: Mapping[str, str], task: str = "") -> tuple[Finding, ...]:
    changed = [path for path in {**old, **new} if old.get(path) != new.get(path)]
    return await validate(Files(old, new), changed, task)


def code(lines: int) -> str:
    return "".join(f"value_{number} = {number}\n" for number in range(lines))


STUB_CLASS = 'class Stack:\n    def pop(self):\n        """Take one."""\n        raise NotImplementedError\n'


@for_each(("path", "text", "line", "kind"), [
    ("a.py", "def f():\n    pass  # implement\n", 2, "stub"),
    ("a.py", "def f():\n    raise NotImplementedError\n", 2, "stub"),
    ("a.py", STUB_CLASS, 4, "stub"),
    ("a.py", "x = 1\n# ... rest of the code unchanged ...\n", 2, "elided code"),
    ("a.py", "def f():\n    return 1  # TODO: the real sum\n", 2, "placeholder"),
    ("a.py", "def f():\n    # your code here\n    return 1\n", 2, "placeholder"),
    ("a.ts", 'function f() {\n  throw new Error("Not implemented");\n}\n', 2, "stub"),
    ("a.rs", "fn f() -> u8 {\n    todo!()\n}\n", 2, "stub"),
])  # fmt: skip
async def test_text_that_stands_for_work_is_a_finding_that_holds_a_turn_up(path: str, text: str, line: int, kind: str) -> None:
    (found,) = await found_in({}, {path: text}, "write f")
    assert (found.file, found.line, found.issue_class) == (path, line, kind)
    assert GATE.blocks(found)


@for_each(("path", "text"), [
    ("docs/plan.md", "TODO: write this\n"), ("README.md", "for now, a placeholder\n"),
    ("tests/test_a.py", "def test_f():\n    pass  # TODO\n"), ("tests/data/a.py", "# TODO: x\n"),
    ("a.py", "text = '# TODO: x'\nnote = 'placeholder'\n"),
    ("a.py", "class Todo:\n    todo = 1  # the todo of a user\n"),
    ("a.js", "const url = 'http://x // TODO: no comment';\n"),
    ("a.tsx", '<input placeholder="Your name" />\n'),
    ("a.py", "class Shape:\n    def area(self):\n        raise NotImplementedError\nclass Square(Shape):\n    side = 1\n"),
    ("a.py", "def f(x):\n    if x:\n        return 1\n    raise NotImplementedError\n"),
    ("a.py", "try:\n    f()\nexcept OSError:\n    pass  # implemented elsewhere, and it may be gone\n"),
    ("a.py", "# Implement the parser as a table.\nTABLE = 1\n"),
    ("a.py", "def f(*args):\n    # The rest of the arguments go to the parent.\n    return args\n"),
    ("a.py", "# This can happen while\n# the same code runs elsewhere here\nf()\n"),
])  # fmt: skip
async def test_what_only_looks_like_it_is_no_finding(path: str, text: str) -> None:
    assert await found_in({}, {path: text}, "write f") == ()


TODO = "    # TODO: handle the empty list\n"


@for_each(
    ("old", "new"),
    [
        ({"a.py": f"def f():\n{TODO}    return 1\n"}, {"a.py": f"def f():\n{TODO}    return 2\n"}),
        ({"a.py": f"def f():\n{TODO}"}, {"a.py": "", "b.py": f"if X:\n    {TODO}"}),  # moved, and moved in
        ({"a.py": "def f():\n    raise NotImplementedError\n"}, {"b.py": "def f():\n    raise NotImplementedError\n"}),
        ({"a.py": "# ... rest of the code unchanged\n"}, {"a.py": "# ... rest of the code unchanged\nx = 1\n"}),
    ],
)
async def test_what_was_there_before_is_not_held_against_a_turn(old: dict[str, str], new: dict[str, str]) -> None:
    assert await found_in(old, new) == ()


async def test_what_cannot_be_compared_or_parsed_says_nothing() -> None:
    assert await validate(Files({}, {"a.py": TODO}, knows_before=False), ["a.py"]) == ()
    assert await found_in({"a.py": "x = 1\n"}, {"a.py": "-" * 100_000 + "1\n"}) == ()
    schema = '{"properties": {"i": {"type": "string"}, "b": {"type": "string"}}}'
    text = f"# yaml-language-server: $schema=s.json\n{BOMB}"
    assert await found_in({"s.json": schema}, {"s.json": schema, "a.yaml": text}) == ()


BEFORE = "def kept():\n    pass\ndef gone():\n    pass\n"
AFTER = "def kept():\n    pass  # never import *\n"


@for_each(("path", "importer", "text", "line"), [
    ("pkg/a.py", "main.py", "import os\nfrom pkg.a import gone\n", 2),
    ("pkg/a.py", "pkg/b.py", "from .a import kept, gone as other\n", 1),
    ("pkg/a.py", "pkg/sub/b.py", "from ..a import (\n    kept,\n    gone,\n)\n", 3),
    ("src/pkg/a.py", "tests/test_a.py", "from pkg.a import gone\n", 1),
    ("pkg/__init__.py", "pkg/b.py", "from . import gone\n", 1),
    ("a.py", "b.py", "def f():\n    from a import gone\n", 2),
])  # fmt: skip
async def test_an_import_of_a_name_that_is_gone_is_critical(path: str, importer: str, text: str, line: int) -> None:
    (found,) = await found_in({path: BEFORE, importer: text}, {path: AFTER, importer: text})
    assert (found.severity, found.file, found.line) == (Severity.CRITICAL, importer, line)
    assert "gone" in found.message


@for_each(("after", "text"), [
    (AFTER, "from pkg.a import kept\n"), (AFTER, "from other.a import gone\n"),
    (AFTER, "try:\n    from pkg.a import gone\nexcept ImportError:\n    gone = None\n"),
    (AFTER, "from pkg.a import never_there\n"),
    (AFTER + "def __getattr__(name):\n    return 1\n", "from pkg.a import gone\n"),
    (AFTER + "from pkg.c import \\\n *\n", "from pkg.a import gone\n"),
    (AFTER + "if True:\n    from pkg.c import gone\n", "from pkg.a import gone\n"),
    ("def kept(:\n", "from pkg.a import gone\n"),
])  # fmt: skip
async def test_an_import_that_is_right_or_cannot_be_judged_is_no_finding(after: str, text: str) -> None:
    assert await found_in({"pkg/a.py": BEFORE, "main.py": text}, {"pkg/a.py": after, "main.py": text}) == ()


async def test_a_name_that_became_a_module_or_may_mean_a_nearer_one_says_nothing() -> None:
    old = {"pkg/__init__.py": BEFORE, "main.py": "from pkg import gone\n"}
    assert await found_in(old, {**old, "pkg/__init__.py": AFTER, "pkg/gone.py": ""}) == ()
    old = {
        "utils.py": "def a(): ...\ndef b(): ...\n", "tools/utils.py": "def b(): ...\n",
        "tools/main.py": "from utils import b\n",
    }  # fmt: skip
    new = {**old, "utils.py": "def a(): ...\n"}
    assert await found_in(old, new) == ()
    del old["tools/utils.py"], new["tools/utils.py"]
    assert len(await found_in(old, new)) == 1


SCHEMA = '{"type": "object", "properties": {"port": {"type": "integer"}}, "additionalProperties": false}'


@for_each(("path", "text", "count"), [
    ("conf/a.json", '{\n"$schema": "./s.json",\n"port": "x"}', 1),
    ("conf/a.json", '{"$schema": "s.json", "port": 1}', 0),
    ("conf/a.yaml", '$schema: s.json\nport: "x"\n', 1),
    ("conf/a.yaml", '# yaml-language-server: $schema=s.json\nport: "x"\n', 1),
    ("conf/a.json", '{"$schema": "https://example.com/s.json", "port": "x"}', 0),
    ("conf/a.json", '{"$schema": "../../s.json", "port": "x"}', 0),
    ("conf/a.json", '{"$schema": "s.json", "port": ', 0), ("conf/a.json", "[1]", 0),
])  # fmt: skip
async def test_a_file_that_names_a_schema_of_the_workspace_has_to_fit_it(path: str, text: str, count: int) -> None:
    old = {"conf/s.json": SCHEMA, "../s.json": SCHEMA}  # the second one is not in the workspace
    found = await found_in(old, {**old, path: text})
    assert len(found) == count
    assert all(GATE.blocks(each) and each.issue_class == "schema" for each in found)
    assert await found_in({**old, path: text}, {**old, path: text + "\n"}) == ()  # it did not fit before


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in itertools.pairwise("abcdefghi")
)
