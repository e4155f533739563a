"""Does what was written parse?  Changed files are read through the sandbox and parsed, never run.

Python, JSON, TOML, YAML and XML are parsed in the process of `parser_process`, shell scripts by the shell of the sandbox, other
languages by the tree-sitter grammars that are installed (`tree_sitter_go` and so on).
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import importlib.util
import io
import json
import logging
import posixpath
import re
import shlex
import sys
import threading
import time
import tomllib
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from lmtui.core.errors import SandboxError
from lmtui.core.ports import Sandbox, ToolResult
from lmtui.core.project_checks import CheckOutcome, CheckRan, Rung, bounded
from lmtui.core.sanitize import sanitize_line
from lmtui.parser_process import TooComplex, parsed

_log = logging.getLogger(__name__)
MOST_FILES = 20  # a command that changes more has unpacked or generated them
_MAX_BYTES = 1_000_000
_QUICK_S = 0.3
_WARNINGS = threading.Lock()  # which warnings are shown is the whole process's
_PYTHON = f"Python {sys.version_info.major}.{sys.version_info.minor}"
_NEWER_PYTHON = re.compile(
    r"^\s*type\s+\w+|^\s*(?:async\s+def|def|class)\s+\w+\s*\[|\bt[rR]?[\"']|^\s*except\s+[\w.]+\s*,", re.MULTILINE
)
_SHELL = (".sh", ".bash")
_SHELL_LIMIT_S = 10
_SHELL_ERROR = re.compile(r": line (\d+): (.+)$", re.MULTILINE)
_GRAMMARS = {
    ".js": "tree_sitter_javascript", ".mjs": "tree_sitter_javascript", ".cjs": "tree_sitter_javascript",
    ".go": "tree_sitter_go", ".rs": "tree_sitter_rust", ".c": "tree_sitter_c", ".java": "tree_sitter_java",
    ".rb": "tree_sitter_ruby", ".css": "tree_sitter_css",
}  # fmt: skip
_TEMPLATE = (b"{{", b"{%", b"<%")
_WITH_COMMENTS = re.compile(r"(?:^|/)(?:[tj]sconfig[^/]*|devcontainer|\.eslintrc|\.babelrc|\.swcrc)\.json\Z|(?:^|/)\.vscode/")


async def unparsed(sandbox: Sandbox, paths: Iterable[str]) -> dict[str, str]:
    """Return those of the files that do not parse, each with its line and why; a file that cannot be read is none of them."""
    found: dict[str, str] = {}
    for path in paths:
        if posixpath.splitext(path)[1].lower() in _SHELL and (why := await _shell(sandbox, path)):
            found[path] = why
        if not _kind(path):
            continue
        try:
            content = await sandbox.read_file(path, _MAX_BYTES)
        except SandboxError:
            continue
        if content.size_bytes <= len(content.data) and (why := await asyncio.to_thread(syntax_error, path, content.data)):
            found[path] = why
    return found


def syntax_error(path: str, data: bytes) -> str:
    """Return line and reason why a file with this content does not parse, empty where it does or nobody can tell.  Blocks."""
    kind = _kind(path)
    try:
        return str(parsed("lmtui.engine.syntax:parse_error", kind, data.decode("utf-8", "surrogateescape"))) if kind else ""
    except TooComplex:
        _log.warning("%s was not checked: too complex", sanitize_line(path))
        return ""


def parse_error(kind: str, text: str) -> str:
    """Return why a text is not of a kind, as `syntax_error` does.  For the process of parsers."""
    data = text.encode("utf-8", "surrogateescape")
    return _PARSERS[kind](data) if kind in _PARSERS else _by_grammar(kind, data)


def _kind(path: str) -> str:
    """Return which parser takes a file: an ending, or the module of a grammar that is installed; empty where there is none."""
    ending = posixpath.splitext(path)[1].lower()
    grammar = _GRAMMARS.get(ending, "")
    if _WITH_COMMENTS.search(path):
        return ""
    return ending if ending in _PARSERS else grammar if grammar and importlib.util.find_spec(grammar) is not None else ""


def python_tree(text: str) -> ast.Module | None:
    """Return a Python module as a tree, None where this Python cannot parse it, or not quickly.  Blocks."""
    try:
        return parse_python(text) if parsed("lmtui.engine.syntax:is_quick", text) else None
    except TooComplex:
        return None


def is_quick(text: str) -> bool:
    """Tell whether a Python module is parsed in a moment.  For the process of parsers."""
    began = time.process_time()
    return parse_python(text) is not None and time.process_time() - began < _QUICK_S


def parse_python(text: str) -> ast.Module | None:
    """Return a Python module as a tree, None where this Python cannot parse it.  For the process of parsers."""
    try:
        with _WARNINGS, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # as in `_python`
        return None


def parse_check(found: Mapping[str, str]) -> CheckRan:
    """Return the check of files of which those that were `found` do not parse."""
    lines = [f"{path} does not parse: {why}" for path, why in found.items()]
    return CheckRan(rung=Rung.PARSE, outcome=CheckOutcome.FAILED if lines else CheckOutcome.PASSED, text=bounded(lines))


def with_syntax_errors(result: ToolResult, found: Mapping[str, str]) -> ToolResult:
    """Return the result of a call that says which of the files that it changed do not parse."""
    lines = [f"[{sanitize_line(path)} does not parse: {why}. Fix it.]" for path, why in found.items()]
    return replace(result, text="\n".join((result.text, *lines))) if lines else result


async def _shell(sandbox: Sandbox, path: str) -> str:
    """Return what the shell says of a script that it only reads; nothing where there is none to ask."""
    try:
        ended = await sandbox.read_only().run_command(f"bash -n -- {shlex.quote(f'./{path}')}", timeout_s=_SHELL_LIMIT_S)
    except SandboxError:
        return ""
    said = _SHELL_ERROR.search(ended.output) if ended.exit_code not in (0, 126, 127) else None
    return f"line {said[1]}: {sanitize_line(said[2])}" if said else ""


def _by_grammar(name: str, data: bytes) -> str:
    tree_sitter = importlib.import_module("tree_sitter")
    parser = tree_sitter.Parser(tree_sitter.Language(importlib.import_module(name).language()))
    node = parser.parse(data).root_node
    if not node.has_error:
        return ""
    while child := next((each for each in node.children if each.has_error or each.is_error or each.is_missing), None):
        node = child
    return f"line {node.start_point[0] + 1}: " + (f"{node.type} is missing" if node.is_missing else "invalid syntax")


def _yaml(data: bytes) -> str:
    if any(sign in data for sign in _TEMPLATE):
        return ""
    yaml = importlib.import_module("yaml")  # few files are YAML, and every start is timed
    try:
        for _ in yaml.parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        return f"{where}{sanitize_line(error.problem or 'invalid YAML')}"
    except (yaml.YAMLError, ValueError, RecursionError):
        return ""
    return ""


def _xml(data: bytes) -> str:
    if not data.strip() or any(sign in data for sign in _TEMPLATE):
        return ""
    expat = importlib.import_module("xml.parsers.expat")
    try:
        expat.ParserCreate().ParseFile(io.BytesIO(data))
    except expat.ExpatError as error:
        return f"line {error.lineno}: {expat.ErrorString(error.code)}"
    except (ValueError, RecursionError):
        return ""
    return ""


def _python(data: bytes) -> str:
    try:
        with _WARNINGS, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # a third cheaper than `ast.parse`, which makes an object of each node; what is compiled is dropped
            compile(data, "file", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        text = data.decode("utf-8", "replace")
        is_newer = _NEWER_PYTHON.search(text) or "f-string" in (error.msg or "")
        where = f"line {error.lineno}: " if error.lineno else ""
        return "" if is_newer else f"{where}{sanitize_line(error.msg or 'invalid syntax')} ({_PYTHON})"
    except (ValueError, RecursionError, MemoryError):  # null bytes; nested too deep for this parser, not for every one
        return "it contains null bytes" if b"\0" in data else ""
    return ""


def _json(data: bytes) -> str:
    if not data.strip() or b"//" in data or b"/*" in data:  # empty, or with comments, which some programs take
        return ""
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError):
        return ""
    return ""


def _toml(data: bytes) -> str:
    try:
        tomllib.loads(data.decode("utf-8"))
    except tomllib.TOMLDecodeError as error:
        return sanitize_line(str(error))
    except (ValueError, RecursionError):
        return ""
    return ""


_PARSERS: dict[str, Callable[[bytes], str]] = {
    ".py": _python,
    ".pyi": _python,
    ".json": _json,
    ".toml": _toml,
    ".yaml": _yaml,
    ".yml": _yaml,
    ".xml": _xml,
    ".svg": _xml,
}
