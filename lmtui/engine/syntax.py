"""Does what was written parse?  Changed files are read through the sandbox and parsed, never run.

Python, JSON, TOML, YAML and XML are parsed in the process of `parser_process`, shell scripts by the shell of the sandbox.
"""

from __future__ import annotations

import ast
import asyncio
import collections
import importlib
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
from lmtui.core.sanitize import sanitize_line
from lmtui.core.verification import CheckOutcome, CheckRan, Rung, bounded
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
        return str(parsed(parse_error, kind, data.decode("utf-8", "surrogateescape"))) if kind else ""
    except TooComplex:
        _log.warning("%s was not checked: too complex", sanitize_line(path))
        return ""


def parse_error(kind: str, text: str) -> str:
    """Return why a text is not of a kind, as `syntax_error` does.  For the process of parsers."""
    data = text.encode("utf-8", "surrogateescape")
    is_template = kind in (".yaml", ".yml", ".xml", ".svg") and any(sign in data for sign in _TEMPLATE)
    try:
        return _PARSERS[kind](data) if data.strip() and not is_template else ""
    except (ValueError, RecursionError, MemoryError):  # nested too deep for this parser, not for every one
        return ""


def _kind(path: str) -> str:
    """Return the ending by which a parser takes a file, empty where there is none."""
    ending = posixpath.splitext(path)[1].lower()
    return ending if ending in _PARSERS and not _WITH_COMMENTS.search(path) else ""


def python_tree(text: str) -> ast.Module | None:
    """Return a Python module as a tree, None where this Python cannot parse it, or not quickly.  Blocks."""
    try:
        return parse_python(text) if parsed(is_quick, text) else None
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
    """Return what the shell says of a script that it only reads."""
    try:
        ended = await sandbox.read_only().run_command(f"bash -n -- {shlex.quote(f'./{path}')}", timeout_s=_SHELL_LIMIT_S)
    except SandboxError:
        return ""
    said = _SHELL_ERROR.search(ended.output) if ended.exit_code not in (0, 126, 127) else None
    return f"line {said[1]}: {sanitize_line(said[2])}" if said else ""


def _yaml(data: bytes) -> str:
    yaml = importlib.import_module("yaml")  # few files are YAML, and every start is timed
    try:
        collections.deque(yaml.parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), maxlen=0)
    except yaml.YAMLError as error:
        mark, problem = (getattr(error, name, None) for name in ("problem_mark", "problem"))
        return f"line {mark.line + 1}: {sanitize_line(problem or 'invalid YAML')}" if mark else ""
    return ""


def _xml(data: bytes) -> str:
    expat = importlib.import_module("xml.parsers.expat")
    try:
        expat.ParserCreate().ParseFile(io.BytesIO(data))
    except expat.ExpatError as error:
        return f"line {error.lineno}: {expat.ErrorString(error.code)}"
    return ""


def _python(data: bytes) -> str:
    if b"\0" in data:
        return "it contains null bytes"
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
    return ""


def _json(data: bytes) -> str:
    if b"//" in data or b"/*" in data:  # comments, which some programs take
        return ""
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return f"line {error.lineno}: {error.msg}"
    return ""


def _toml(data: bytes) -> str:
    try:
        tomllib.loads(data.decode("utf-8"))
    except tomllib.TOMLDecodeError as error:
        return sanitize_line(str(error))
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
