"""Does what was written parse?  Changed Python, JSON and TOML files are read through the sandbox and parsed, never run."""

from __future__ import annotations

import ast
import asyncio
import json
import posixpath
import re
import sys
import threading
import tomllib
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from lmtui.core.errors import SandboxError
from lmtui.core.ports import Sandbox, ToolResult
from lmtui.core.project_checks import CheckOutcome, CheckRan, Rung, bounded
from lmtui.core.sanitize import sanitize_line

MOST_FILES = 20  # a command that changes more has unpacked or generated them
_MAX_BYTES = 1_000_000
_LONGEST_LINE = 2000
_WARNINGS = threading.Lock()  # which warnings are shown is the whole process's
_PYTHON = f"Python {sys.version_info.major}.{sys.version_info.minor}"
_NEWER_PYTHON = re.compile(
    r"^\s*type\s+\w+|^\s*(?:async\s+def|def|class)\s+\w+\s*\[|\bt[rR]?[\"']|^\s*except\s+[\w.]+\s*,", re.MULTILINE
)
_WITH_COMMENTS = re.compile(r"(?:^|/)(?:[tj]sconfig[^/]*|devcontainer|\.eslintrc|\.babelrc|\.swcrc)\.json\Z|(?:^|/)\.vscode/")


async def unparsed(sandbox: Sandbox, paths: Iterable[str]) -> dict[str, str]:
    """Return those of the files that do not parse, each with its line and why; a file that cannot be read is none of them."""
    found: dict[str, str] = {}
    for path in paths:
        parse = _PARSERS.get(posixpath.splitext(path)[1].lower())
        if parse is None or _WITH_COMMENTS.search(path):
            continue
        try:
            content = await sandbox.read_file(path, _MAX_BYTES)
        except SandboxError:
            continue
        if content.size_bytes <= len(content.data) and (why := await asyncio.to_thread(parse, content.data)):
            found[path] = why
    return found


def parse_check(found: Mapping[str, str]) -> CheckRan:
    """Return the check of files of which those that were `found` do not parse."""
    lines = [f"{path} does not parse: {why}" for path, why in found.items()]
    return CheckRan(rung=Rung.PARSE, outcome=CheckOutcome.FAILED if lines else CheckOutcome.PASSED, text=bounded(lines))


def with_syntax_errors(result: ToolResult, found: Mapping[str, str]) -> ToolResult:
    """Return the result of a call that says which of the files that it changed do not parse."""
    lines = [f"[{sanitize_line(path)} does not parse: {why}. Fix it.]" for path, why in found.items()]
    return replace(result, text="\n".join((result.text, *lines))) if lines else result


def _python(data: bytes) -> str:
    try:
        with _WARNINGS, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(data)
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
    if max(map(len, data.split(b"\n"))) > _LONGEST_LINE:  # the time for a dotted key grows with the square of its parts
        return ""
    try:
        tomllib.loads(data.decode("utf-8"))
    except tomllib.TOMLDecodeError as error:
        return sanitize_line(str(error))
    except (ValueError, RecursionError):
        return ""
    return ""


_PARSERS: dict[str, Callable[[bytes], str]] = {".py": _python, ".pyi": _python, ".json": _json, ".toml": _toml}
