"""The structure, held by a machine: import contracts, what start-up may load, ceilings of size, banned names."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.sets import for_each
from tests.structure import HELD, statements

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "lmtui").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


@dataclass(frozen=True)
class Source:
    """What the tests ask of a module; its tree is not kept."""

    docstring: str | None
    imports: frozenset[str]  # modules, and what is taken out of them: it may be a module itself
    classes: frozenset[str]


@cache
def source(path: Path) -> Source:
    tree = ast.parse(path.read_text())
    imports, classes = set[str](), set[str]()
    for node in statements(tree):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imports |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.ClassDef):
            classes.add(node.name)
    return Source(ast.get_docstring(tree), frozenset(imports), frozenset(classes))


def loaded_after(statement: str) -> set[str]:
    """Return the top-level names of all modules that a statement loads, in a fresh interpreter."""
    code = f"import sys; {statement}; print(' '.join({{name.partition('.')[0] for name in sys.modules}}))"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(found.stdout.split())


def test_import_contracts_hold() -> None:
    run = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    found = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


@for_each(("statement", "forbidden"), [
    ("import lmtui.engine.session, lmtui.cli", {"textual", "rich", "openai", "docker", "pydantic", "httpx2", "mcp"}),
    ("import lmtui.app.host", {"textual", "rich", "openai", "docker", "tiktoken", "toktok", "tree_sitter", "mcp", "yaml"}),
    ("import lmtui.app.extensions, lmtui.features.mcp.server_pool", {"mcp", "mcp_types", "jsonschema", "httpx2", "anyio"}),
    ("import lmtui.tui.app", {"openai", "docker", "pydantic", "httpx2", "tiktoken", "toktok", "watchfiles"}),
    (
        "import lmtui.core.ports, lmtui.core.permissions.decide, lmtui.core.permissions.suggested_rules",
        {"tree_sitter", "tree_sitter_bash", "pydantic", "textual", "asyncio", "sqlite3"},
    ),
])  # fmt: skip
def test_start_up_loads_only_what_it_needs(statement: str, forbidden: set[str]) -> None:
    assert not loaded_after(statement) & forbidden


def test_core_stands_on_the_standard_library_alone_but_for_the_shell_grammar() -> None:
    for path in (ROOT / "lmtui" / "core").rglob("*.py"):
        is_adapter = path.relative_to(ROOT / "lmtui" / "core") == Path("permissions/shell_grammar.py")
        allowed = {"lmtui"} | ({"tree_sitter", "tree_sitter_bash"} if is_adapter else set())
        outside = {name.partition(".")[0] for name in source(path).imports} - sys.stdlib_module_names - allowed
        assert not outside, f"{path.name} imports {outside}"


def test_imports_go_round_in_no_circle_not_even_for_types() -> None:
    paths = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in SOURCES}
    used = {name: source(path).imports & paths.keys() - {name} for name, path in paths.items()}
    TopologicalSorter(used).prepare()


def held_at(commit: str) -> dict[str, float]:
    run = ["git", "show", f"{commit}:tests/{HELD.name}"]
    found = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    return json.loads(found.stdout) if found.returncode == 0 else {}


@pytest.mark.git
def test_every_figure_of_the_structure_is_held_and_only_falls() -> None:
    held = json.loads(HELD.read_text())
    run = [sys.executable, "-m", "tests.structure", "--json"]  # the trees of all modules take 200 MB
    now = json.loads(subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    assert now == held, "python -m tests.structure --write"
    for before in (held_at("HEAD"), held_at("HEAD~1")):
        grown = {name: (before[name], value) for name, value in held.items() if value > before.get(name, value)}
        if held["code"] < before.get("code", 0):  # a folder may take over what another gives, if all of it gets smaller
            grown = {name: values for name, values in grown.items() if not name.startswith("code in ")}
        assert not grown, "(before, now): remove as much as you add"


def test_the_turn_loop_can_be_read_aloud() -> None:
    text = (ROOT / "lmtui/engine/turn.py").read_text()
    assert text.count("\n") <= 200
    assert len(re.findall(r"^from lmtui", text, re.M)) <= 12


SUBJECTS_SINCE = "b9e54fa"  # commits before this one had other rules


@pytest.mark.git
def test_commit_subjects_are_imperative_and_short() -> None:
    run = ["git", "log", "--no-merges", "--format=%s", f"{SUBJECTS_SINCE}..HEAD"]
    found = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        pytest.skip("the history of this checkout does not go back far enough")
    wrong = [
        each
        for each in found.stdout.splitlines()
        if not re.fullmatch(r"[a-z][a-z0-9_/., -]*: [A-Z].*[^.]", each) or len(each) >= 70
    ]
    assert not wrong, "write: area: Imperative subject, under 70 characters"


def test_nothing_has_a_name_that_says_nothing() -> None:
    banned = re.compile(r"(?:^|_)(?:utils?|helpers?|misc|common|managers?)(?:$|_)", re.IGNORECASE)
    for path in SOURCES:
        for name in (path.stem, *source(path).classes):
            words = "_".join(re.findall(r"[A-Z][a-z]*", name)) if name[:1].isupper() else name
            assert not banned.search(words), f"{name} in {path}"


def test_every_module_says_what_it_is_for() -> None:
    assert [path for path in SOURCES if not source(path).docstring] == []


def test_what_a_class_says_it_implements_is_there() -> None:
    for path in SOURCES:
        for module, name in re.findall(r"implements `((?:\w+\.)+)(\w+)[`.]", path.read_text()):
            assert hasattr(importlib.import_module(f"lmtui.{module.rstrip('.')}"), name), f"{module}{name} in {path}"


SILENCED = 55


def test_silenced_checks_carry_a_code_and_a_reason_and_only_fall() -> None:
    count = 0
    for path in (*SOURCES, *TESTS):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            mark = re.search(r"#\s*(noqa|type:\s*ignore)", line)
            if mark is None or path == Path(__file__):
                continue
            count += 1
            assert re.search(r"noqa: [A-Z]+\d+|type: ignore\[[a-z-]+", line), f"{path}:{number} names no code"
    assert count <= SILENCED, f"{count} checks are silenced, at most {SILENCED}"


def test_broad_catches_stand_at_the_marked_borders_only() -> None:
    borders = [
        f"{path.relative_to(ROOT)}"
        for path in SOURCES
        for line in path.read_text().splitlines()
        if re.search(r"except (?:Base)?Exception\b|except:", line) and "inside" not in path.parts
    ]
    allowed = {"lmtui/engine/tool_runner.py", "lmtui/engine/agent.py"}
    assert {border for border in borders if not border.startswith("lmtui/sandbox/")} <= allowed, borders


def test_below_lmtuis_folder_in_a_workspace_files_are_opened_in_one_way() -> None:
    at_user_level = {"app/archive": 2, "store/state_files": 3, "features/mcp/mcp_config": 1}
    at_user_level |= {"sandbox/mount_layout": 6, "store/session_logs": 4, "store/summaries": 2, "features/usage/service": 1}
    calls = r"\bos\.(open|mkdir|listdir|remove|unlink|rename|replace|chown)\(|(?<![\w.])open\(|rmtree\("
    methods = r"\.(read_text|read_bytes|write_text|write_bytes|iterdir|r?glob|touch|mkdir|unlink|rename|symlink_to|rmdir)\("
    found: Counter[str] = Counter()
    for path in (ROOT / "lmtui").rglob("*.py"):
        text, module = path.read_text(), str(path.relative_to(ROOT / "lmtui").with_suffix(""))
        if re.search(r"\b(workspace_dir|sessions_dir|inbox_dir|open_own|own_folder)\b", text):
            lines = [line for line in text.splitlines() if not re.search(r"opener=open_own|dir_fd=|def ", line)]
            found[module] += sum(bool(re.search(f'{calls}|{methods}|\\.open\\("', line)) for line in lines)
    for name in ("paths", "plain_files"):
        del found[name]
    assert +found == at_user_level


def test_nothing_that_came_over_a_network_is_unpickled() -> None:
    texts = {path.stem: path.read_text() for path in (ROOT / "lmtui").rglob("*.py")}
    used = r"^\s*(?:import|from) (pickle|cloudpickle|marshal|shelve|dill|joblib|dask|distributed)\b"
    assert [name for name, text in texts.items() if re.search(used, text, re.MULTILINE)] == []
    assert {name for name, text in texts.items() if '"distributed"' in text} == {"cluster", "cluster_worker"}


def test_no_foreign_text_reaches_a_markup_parser() -> None:
    for path in (ROOT / "lmtui" / "tui").rglob("*.py"):
        assert not re.search(r"markup=True|Content\.from_markup|Text\.from_markup", path.read_text()), path


_MADE_SAFE = ("sanitize", "json", "encode_event", "escape_invisible")
_NOTHING_FOREIGN = ("script(arguments.shell", '"sandbox$ "', "print()")
_OUTPUT_OF_A_COMMAND = ("result.output", 'print(text, end="", flush=True)')


def test_subcommands_print_nothing_that_can_steer_the_terminal() -> None:
    found = []
    for path in SOURCES:
        if path.name in ("cli.py", "commands.py", "subcommands.py") or path.parent.name == "headless":
            text = path.read_text()
            calls = (each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call))
            found += [ast.get_source_segment(text, each) or "" for each in calls if ast.unparse(each.func) == "print"]
    allowed = (*_MADE_SAFE, *_NOTHING_FOREIGN, *_OUTPUT_OF_A_COMMAND)
    assert not [each for each in found if not any(word in each for word in allowed)], "use say()"
