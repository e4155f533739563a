"""Findings in the text that a turn added, without a model: placeholders, imports of removed names, broken JSON schemas.

Only what is new counts. A line that one of the changed files had before, in whatever place, is not new.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import io
import json
import logging
import posixpath
import re
import symtable
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict
from typing import Any

from lmtui.core.verification import Finding, Severity
from lmtui.engine.syntax import parse_python
from lmtui.features.call_arguments import schema_problems
from lmtui.features.checks.ladder import is_test
from lmtui.features.checks.values import CheckRunner
from lmtui.parser_process import TooComplex, parsed
from lmtui.tools.text import elided_line

_log = logging.getLogger(__name__)
_MOST_FILES, _MOST_FINDINGS, _MOST_VALUES = 50, 20, 200_000
# Words such as TODO matter where they are dense, both in the files and in what was added.  These are constants: whoever wants
# them allowed names them in the task, or sets `gate`.
_MOST_PER_1000_LINES, _MOST_RATIO = 3.0, 0.02
_SOURCE = re.compile(
    r".*\.(?:py|[cm]?[jt]sx?|go|rs|java|kt|swift|c|h|cc|cpp|hpp|cs|rb|php|sh|bash|lua|scala|dart|sql)", re.IGNORECASE
)
_NO_PRODUCT = re.compile(
    r"(?:^|/)(?:tests?|__tests__|specs?|docs?|examples?|samples?|templates?|fixtures|test_?data|mocks?|stubs?|vendor"
    r"|third_party|node_modules|generated)/"
)
_ALLOWED = re.compile(
    r"\b(?:to-?dos?|fixmes?|stub\w*|skeletons?|scaffold\w*|placeholders?|boilerplate|mock\w*|for now|abstract|interfaces?"
    r"|not ?implemented\w*|dummy)\b",
    re.IGNORECASE,
)
_WORDS = (
    (re.compile(r"^\W*(?:TODO|FIXME|XXX)\b|\b(?:TODO|FIXME) ?[:(]"), 0.7),
    (
        re.compile(
            r"\b(?:your|actual|real) (?:code|logic|implementation)(?: goes)? here\b|\bimplementation goes here\b"
            r"|\bimplement (?:this|me|it)? ?(?:later|here)\b|\b(?:dummy|stub|fake) (?:implementation|data|values?|response)\b"
            r"|\bnot (?:yet )?implemented yet\b|\bnot yet implemented\b|\bin a real (?:app\w*|implementation|system|project)\b"
            r"|\bthis is (?:just |only )?a (?:placeholder|stub)\b|\bplaceholder (?:implementation|logic|code)\b",
            re.IGNORECASE,
        ),
        0.6,
    ),
    (re.compile(r"\bfor now\b|\bplaceholders?\b|\bsimplified (?:version|implementation)\b", re.IGNORECASE), 0.4),
)
_EMPTY = ("pass", "...", "return", "return None")
_EMPTY_WORDS = re.compile(r"\b(?:implement|todo|placeholder|stub|your|logic)\b", re.IGNORECASE)
_ELIDED = re.compile(
    r"\b(?:code|files?|functions?|methods?|class(?:es)?|implementation|imports?|logic|contents?|unchanged|as before)\b",
    re.IGNORECASE,
)
_BASE_NAME = re.compile(r"^_*(?:Abstract|Base)|(?:Base|Interface|Protocol|Mixin|ABC)$")
_UNWRITTEN = r"(?:not (?:yet )?implemented|todo|implement me|unimplemented)"
_STUB = re.compile(
    rf"\b(?:todo|unimplemented)!\(|\bnew NotImplementedException\(\)|\b(?:throw new \w*(?:Error|Exception)|panic|fatalError)"
    rf"\(\s*[\"'`]{_UNWRITTEN}",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"(?P<code>(?:.*?\s)??)(?://+|#+|/\*+|\*|--|<!--)\s+(?P<words>.*)")
_YAML_SCHEMA = re.compile(r"^# yaml-language-server: \$schema=(\S+)", re.MULTILINE)
_Texts = Mapping[str, str | None]


async def validate(runner: CheckRunner, changed: Sequence[str], task: str = "") -> tuple[Finding, ...]:
    """Return the problems in added text, the worst first; nothing if the earlier state is unknown.

    Args:
        runner: reads the files as they are and as they were.
        changed: the files that were changed, added or deleted.
        task: what was asked for; words such as "stub" in it allow placeholders.
    """
    paths = changed[:_MOST_FILES]
    before = await runner.before(paths)
    if before is None:
        return ()
    old = {path: _text(data) for path, data in before.items()}
    new = {path: _text(await runner.read(path)) for path in paths}
    given = await _parsed(text_findings, old, new, bool(_ALLOWED.search(task))) or ()
    found = [Finding(**each | {"severity": Severity(each["severity"])}) for each in given]
    found += [*await _lost_imports(runner, old, new), *await _schema_errors(runner, old, new)]
    order = list(Severity)
    return tuple(sorted(found, key=lambda each: (order.index(each.severity), each.file, each.line))[:_MOST_FINDINGS])


async def _parsed(function: Callable[..., object], *arguments: object) -> Any:  # Any: JSON
    """Return what a function of this module makes of texts in the process of parsers, None where they are too complex."""
    try:
        return await asyncio.to_thread(parsed, function, *arguments)
    except TooComplex:
        _log.warning("some changed files were not checked by %s: too complex", function.__name__)
        return None


def text_findings(old: _Texts, new: _Texts, allows_placeholders: bool) -> list[dict[str, object]]:
    """Return the comments that replace code, and the placeholders.  For the process of parsers."""
    return [asdict(each) for each in (*_elided(old, new), *(() if allows_placeholders else _placeholders(old, new)))]


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _lines(texts: _Texts) -> frozenset[str]:
    return frozenset(line.strip() for text in texts.values() for line in (text or "").splitlines())


def _sources(texts: _Texts) -> dict[str, str]:
    """Return the source files without tests, examples and documentation."""
    kept = {path: text for path, text in texts.items() if text and _SOURCE.fullmatch(path)}
    return {path: text for path, text in kept.items() if not is_test(path) and not _NO_PRODUCT.search(path)}


def _comments(path: str, text: str) -> Iterator[tuple[int, str, str]]:
    """Yield each comment of one line: its line from 1, the code before it, its words."""
    if path.endswith(".py"):
        with contextlib.suppress(tokenize.TokenError, SyntaxError):
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type == tokenize.COMMENT:
                    yield token.start[0], token.line[: token.start[1]].strip(), token.string.lstrip("#").strip()
        return
    for number, line in enumerate(text.splitlines(), 1):
        found = _COMMENT.fullmatch(line)
        if found and not any(found["code"].count(quote) % 2 for quote in "\"'`"):
            yield number, found["code"].strip(), found["words"].strip()


def _elided(old: _Texts, new: _Texts) -> Iterator[Finding]:
    """Yield comments that replace code, such as “... rest of the code unchanged”."""
    known = _lines(old)
    for path, text in _sources(new).items():
        lines = text.splitlines()
        comments = list(_comments(path, text))
        commented = {number for number, code, _ in comments if not code}  # prose of more than one line replaces nothing
        for number, code, words in comments:
            is_alone = not code and number - 1 not in commented and number + 1 not in commented
            is_elided = is_alone and _ELIDED.search(words) and elided_line(f"# {words}", "")
            if is_elided and lines[number - 1].strip() not in known:
                message = f"this comment replaces code: {words[:80]}"
                yield Finding(Severity.CRITICAL, path, number, message, 0.9, "elided code")


def _placeholders(old: _Texts, new: _Texts) -> Iterator[Finding]:
    """Yield stubs, and words such as TODO: major where they are dense, else minor."""
    known, sources = _lines(old), _sources(new)
    bases = {name for path, text in sources.items() if path.endswith(".py") for name in _bases(text)}
    words: list[tuple[str, int, str, float]] = []
    for path, text in sources.items():
        lines = text.splitlines()
        for number, code, said in _comments(path, text):
            if lines[number - 1].strip() in known:
                continue
            if code in _EMPTY and _EMPTY_WORDS.search(said):
                yield _stub(path, number, lines[number - 1], 0.8)
            elif confidence := next((sure for pattern, sure in _WORDS if pattern.search(said)), 0.0):
                words.append((path, number, said, confidence))
        stubs = ((number, 0.8) for number, line in enumerate(lines, 1) if _STUB.search(line))
        for number, confidence in _unwritten(text, bases) if path.endswith(".py") else stubs:
            if lines[number - 1].strip() not in known:
                yield _stub(path, number, lines[number - 1], confidence)
    added = sum(line.strip() not in known for text in sources.values() for line in text.splitlines())
    total = sum(text.count("\n") + 1 for text in sources.values())
    is_dense = len(words) * 1000 > _MOST_PER_1000_LINES * total and len(words) > _MOST_RATIO * added
    severity = Severity.MAJOR if is_dense else Severity.MINOR
    for path, number, said, confidence in words:
        yield Finding(severity, path, number, f"unfinished work: {said[:80]}", confidence, "placeholder")


def _stub(path: str, number: int, line: str, confidence: float) -> Finding:
    return Finding(Severity.MAJOR, path, number, f"not implemented: {line.strip()[:80]}", confidence, "stub")


def _bases(text: str) -> Iterator[str]:
    """Yield the names of the classes that others derive from."""
    for node in ast.walk(parse_python(text) or ast.Module([], [])):
        if isinstance(node, ast.ClassDef):
            yield from (ast.unparse(base).rpartition(".")[2].partition("[")[0] for base in node.bases)


def _unwritten(text: str, bases: Set[str]) -> Iterator[tuple[int, float]]:
    """Yield the lines of functions that only raise NotImplementedError; a class that others derive from may do so."""
    tree = parse_python(text)
    for owner in ast.walk(tree) if tree else ():
        for node in getattr(owner, "body", ()) if isinstance(owner, ast.Module | ast.ClassDef) else ():
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not isinstance(node.body[-1], ast.Raise):
                continue
            is_alone = len(node.body) - (ast.get_docstring(node) is not None) == 1
            raised = ast.unparse(node.body[-1])
            is_plain = re.fullmatch(rf"raise NotImplementedError(?:\((?:['\"].*{_UNWRITTEN}.*)?\))?", raised, re.IGNORECASE)
            is_base = isinstance(owner, ast.ClassDef) and (
                owner.name in bases
                or bool(_BASE_NAME.search(owner.name))
                or bool(owner.decorator_list or owner.bases or node.decorator_list)
            )
            if is_alone and is_plain and not is_base:
                yield node.body[-1].lineno, 0.8 if isinstance(owner, ast.Module) else 0.7


def names(text: str) -> list[str] | None:
    """Return the names that a Python module has, None where they cannot be known.  For the process of parsers."""
    tree = parse_python(text)
    if tree is None or "globals()" in text or any(isinstance(each, ast.alias) and each.name == "*" for each in ast.walk(tree)):
        return None
    with contextlib.suppress(SyntaxError, RecursionError):  # not all that parses compiles
        symbols = symtable.symtable(text, "module", "exec").get_symbols()
        found = {each.get_name() for each in symbols if each.is_assigned() or each.is_imported() or each.is_declared_global()}
        return None if "__getattr__" in found else sorted(found)
    return None


async def _lost_imports(runner: CheckRunner, old: _Texts, new: _Texts) -> list[Finding]:
    """Return the imports of names that a changed Python module had and no longer has, outside of `try`."""
    found: list[Finding] = []
    for path, text in old.items():
        is_gone = new[path] is None
        if not path.endswith(".py") or text is None or (is_gone and path in await runner.glob(path)):
            continue
        before, after = [await _parsed(names, each) for each in (text, new[path] or "")]
        lost = {*before} - {*after} if before is not None and after is not None else set()
        stem = path.removesuffix(".py").removesuffix("/__init__")
        name = re.escape(posixpath.basename(stem))
        pattern = rf"\b(?:from|import)\b.*\b{name}\b" + (r"|\bfrom +\.+ +import\b" if path.endswith("__init__.py") else "")
        for importer in await runner.search(pattern, "**/*.py") if lost or is_gone else ():
            lines = await _parsed(imports_from, _text(await runner.read(importer)) or "", importer, stem, is_gone) or []
            near = {posixpath.join(posixpath.dirname(importer), each) for each in (stem, stem.removeprefix("src/"))} - {stem}
            if lines and any([await _is_module(runner, each) for each in near]):
                continue  # Python may mean that one: the folder of a script comes first
            for line, imported in lines:
                is_module = await _is_module(runner, f"{stem}/{imported}") if imported in lost else True
                if (imported in lost and not is_module) or (is_gone and not imported):
                    what = f"{imported} is imported from {path}, which no longer has it" if imported else f"{path} was removed"
                    found.append(Finding(Severity.CRITICAL, importer, line, what, 0.9, "import"))
    return list(dict.fromkeys(found))


async def _is_module(runner: CheckRunner, stem: str) -> bool:
    return await runner.read(f"{stem}.py") is not None or await runner.read(f"{stem}/__init__.py") is not None


def imports_from(text: str, importer: str, stem: str, is_gone: bool) -> list[tuple[int, str]]:
    """Return line and name of what a file imports from a module (empty: the module itself).  For the process of parsers."""
    tree = parse_python(text) or ast.Module([], [])
    guarded = {id(node) for block in ast.walk(tree) if isinstance(block, ast.Try) for node in ast.walk(block)}
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if id(node) in guarded:
            continue
        if isinstance(node, ast.ImportFrom):
            stems = _stems(importer, node.module or "", node.level)
            for alias in node.names:
                if stem in stems:
                    found.append((alias.lineno, alias.name))
                elif is_gone and stem in {posixpath.join(each, alias.name) for each in stems}:
                    found.append((alias.lineno, ""))
        elif isinstance(node, ast.Import) and is_gone:
            found += [(node.lineno, "") for alias in node.names if stem in _stems(importer, alias.name, 0)]
    return found


def _stems(importer: str, module: str, level: int) -> set[str]:
    """Return where a module may be, as paths without an ending."""
    path, folder = module.replace(".", "/"), posixpath.dirname(importer)
    if not level:
        return {path, f"src/{path}", posixpath.join(folder, path)}
    for _ in range(level - 1):
        folder = posixpath.dirname(folder)
    return {posixpath.normpath(posixpath.join(folder, path)).removeprefix("./")}


async def _schema_errors(runner: CheckRunner, old: _Texts, new: _Texts) -> list[Finding]:
    """Return where a JSON or YAML file no longer fits the schema in this workspace that it names."""
    found: list[Finding] = []
    for path, text in new.items():
        if not text or "$schema" not in text or not path.endswith((".json", ".yaml", ".yml")):
            continue
        said = _YAML_SCHEMA.search(text)
        name = str(await _parsed(schema_of, path, text) or (said[1] if said else "")).partition("#")[0]
        where = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        if not name or "://" in name or where.startswith(("/", "..")):
            continue
        schema = _text(await runner.read(where)) or ""
        for problem in await _parsed(new_problems, where, schema, path, old.get(path) or "", text) or ():
            key = problem.partition(":")[0].rpartition(".")[2]
            line = next((at for at, each in enumerate(text.splitlines(), 1) if re.search(rf"\b{re.escape(key)}\b", each)), 0)
            found.append(Finding(Severity.MAJOR, path, line, f"does not match the schema {where}: {problem}", 0.9, "schema"))
    return found


def schema_of(path: str, text: str) -> str:
    """Return the schema that a file names in itself.  For the process of parsers."""
    return str(_value(path, text).get("$schema") or "")


def new_problems(where: str, schema: str, path: str, before: str, after: str) -> list[str]:
    """Return what of a file does not match a schema, but did before.  For the process of parsers."""
    wanted = _value(where, schema)
    was = _problems(wanted, _value(path, before))
    return [each for each in _problems(wanted, _value(path, after)) if each not in was]


def _value(path: str, text: str) -> dict[str, object]:
    """Return the object in a JSON or YAML file; an empty one if it is anything else, or too large with its aliases expanded."""
    yaml = importlib.import_module("yaml")  # as in `engine.syntax`: every start is timed
    try:
        value = json.loads(text) if path.endswith(".json") else yaml.safe_load(text)
    except (ValueError, RecursionError, yaml.YAMLError):
        return {}
    rest, count = [value], 0
    while rest and count <= _MOST_VALUES:
        match rest.pop():
            case dict() as each:
                rest += each.values()
            case list() as each:
                rest += each
        count += 1
    return value if isinstance(value, dict) and not rest else {}


def _problems(schema: Mapping[str, object], value: Mapping[str, object]) -> tuple[str, ...]:
    if not schema or not value:
        return ()
    return schema_problems(schema, {name: each for name, each in value.items() if name != "$schema"})
