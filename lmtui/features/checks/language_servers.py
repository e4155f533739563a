"""Language servers: the errors that a change brings, the places where a name is used, and renames.

A server is started for one question, in the read-only sandbox; which ones are installed is only known there.  A rename is
written like any edit.
"""

from __future__ import annotations

import base64
import hashlib
import json
import posixpath
import shlex
import zlib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from lmtui.core.errors import SandboxError, ToolError
from lmtui.core.permissions.decide import Access, Verdict
from lmtui.core.ports import Preview, ToolContext, ToolResult
from lmtui.core.project_checks import CheckOutcome, CheckRan, CheckRunner, Rung, bounded
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.workspace import FileChange
from lmtui.tools.text import decode, describe_change
from lmtui.tools.tool import Arguments, Told, Tool, WorkspacePath, always, argument, path_argument

_LIMIT_S = 30
_MOST_FILES, _MOST_BYTES = 30, 60_000
_MAX_FILE_BYTES = 2_000_000
_WHOLE = ""  # the key of the whole rename among the files that an approval showed: a server may answer differently each time
_PYTHON = (
    ("basedpyright-langserver", "--stdio"),
    ("pyright-langserver", "--stdio"),
    ("ty", "server"),
)
_SCRIPT = (("typescript-language-server", "--stdio"),)
_SERVERS: dict[str, tuple[tuple[str, ...], ...]] = {
    ".py": _PYTHON,
    ".pyi": _PYTHON,
    ".go": (("gopls",),),
    ".rs": (("rust-analyzer",),),
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts"), _SCRIPT),
}


def question(ending: str, limit_s: int, asked: Mapping[str, object]) -> str:
    """Return the command that asks the language server for a file ending; only its last line is shown to the user."""
    source = resources.files("lmtui.features.checks").joinpath("language_client.py").read_text(encoding="utf-8")
    words = {"servers": _SERVERS[ending], "limit_s": limit_s, **asked}
    code, given = (base64.b64encode(zlib.compress(each.encode())).decode() for each in (source, json.dumps(words)))
    start = "import base64,sys,zlib;exec(zlib.decompress(base64.b64decode(sys.argv.pop(1))))"
    lines = f"language_server() {{ python3 -I -X utf8 -c {shlex.quote(start)} {code} {given}; }}"
    return f"{lines}\nlanguage_server"


def read_answer(output: str) -> dict[str, Any]:
    """Return the server's answer; an empty object without a server, or without a Python to run the client."""
    for line in reversed(output.strip().splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        return found if isinstance(found, dict) and found.get("server") else {}
    return {}


class LanguageServers:
    """The new errors in a session's changes.  A server is asked once for each state; one that fails is not asked again."""

    def __init__(self) -> None:
        self._silent: set[tuple[tuple[str, ...], ...]] = set()
        self._last: dict[str, str] = {}

    async def check(self, runner: CheckRunner, changed: Sequence[str], limit_s: int) -> bool:
        """Report the errors that the files did not have before; return False if there are any."""
        is_clean = True
        wanted = {servers: ending for ending, servers in _SERVERS.items() if servers not in self._silent}
        for servers, ending in wanted.items():
            files = [path for path in changed if _SERVERS.get(posixpath.splitext(path)[1]) == servers][:_MOST_FILES]
            old = await self._before(runner, ending, files)
            if not old:
                continue
            command = question(ending, min(limit_s, _LIMIT_S), {"what": "errors", "old": old})
            ended = await runner.run(command, limit_s=min(limit_s, _LIMIT_S) + 5, may_write=False)
            said = {} if ended.why_not else read_answer(ended.output)
            errors = said.get("errors")
            if not isinstance(errors, list):
                self._silent.add(servers)
                if said:
                    runner.tell(_check(str(said["server"]), CheckOutcome.NOT_RUN, [str(said.get("problem", ""))]))
                continue
            outcome = CheckOutcome.FAILED if errors else CheckOutcome.PASSED
            runner.tell(_check(str(said["server"]), outcome, list(map(str, errors)), ended.elapsed_s))
            is_clean = is_clean and not errors
        return is_clean

    async def _before(self, runner: CheckRunner, ending: str, files: Sequence[str]) -> dict[str, str | None]:
        """Return the earlier texts of the files; nothing if they are unknown, or if this state was checked already."""
        now = {path: data for path in files if (data := await runner.read(path)) is not None}
        state = hashlib.sha256(repr(sorted(now.items())).encode()).hexdigest()
        before = await runner.before(list(now)) if now and state != self._last.get(ending) else None
        if before is None:
            return {}
        old = {path: data.decode("utf-8", "replace") if data is not None else None for path, data in before.items()}
        if len(zlib.compress(json.dumps(old).encode())) > _MOST_BYTES:
            return {}
        self._last[ending] = state
        return old


def _check(server: str, outcome: CheckOutcome, lines: Sequence[str], elapsed_s: float = 0.0) -> CheckRan:
    return CheckRan(
        rung=Rung.LINT,
        outcome=outcome,
        command=sanitize_line(server)[:80],
        source="language server",
        exit_code={CheckOutcome.PASSED: 0, CheckOutcome.FAILED: 1}.get(outcome, -1),
        text=bounded(lines),
        elapsed_s=round(elapsed_s, 2),
    )


class ReferencesArguments(Arguments):
    """A name, and a line that contains it."""

    path: WorkspacePath = path_argument()
    line: int = argument(also=("line_number", "row"), doc="from 1", ge=1)
    name: str = argument(also=("symbol", "identifier", "old_name"))


class RenameArguments(ReferencesArguments):
    """A name, a line that contains it, and the new name."""

    new_name: str = argument(also=("newName", "to", "new"))


async def _ask(context: ToolContext, path: str, **asked: object) -> dict[str, Any]:
    """Return the answer of the language server.

    Raises:
        ToolError: there is none, or it did not answer.
    """
    ending = posixpath.splitext(path)[1]
    if ending not in _SERVERS:
        raise ToolError(f"no language server is known for {path}", "Use grep and edit instead.")
    command = question(ending, _LIMIT_S, {"path": path, **asked})
    if context.agent.is_forbidden(command):
        raise ToolError("a rule denies the command that asks the language server", "Use grep and edit instead.")
    ended = await context.sandbox.read_only().run_command(command, timeout_s=_LIMIT_S + 5)
    said = read_answer(ended.output)
    if not said:
        names = ", ".join(server[0] for server in _SERVERS[ending])
        raise ToolError(f"no language server for {ending} runs in the sandbox (known: {names})", "Use grep and edit instead.")
    if problem := said.get("problem"):
        raise ToolError(f"{said['server']}: {sanitize_line(str(problem))}")
    return said


async def _references(arguments: ReferencesArguments, context: ToolContext) -> ToolResult:
    asked = arguments.model_dump(include={"line", "name"})
    said = await _ask(context, arguments.path, what="references", **asked)
    places = [(str(path), line, str(text)) for path, line, text in said["places"]]
    shown = [each for each in places if context.on_reading(each[0]) is Verdict.ALLOW]
    lines = [f"{sanitize_line(path)}:{line}: {sanitize_line(text)}" for path, line, text in shown]
    return ToolResult("\n".join(lines) or "no references found", pluralize(len(shown), "place"))


async def _renamed(arguments: RenameArguments, context: ToolContext) -> dict[str, tuple[str, str, bytes, str]]:
    """Return the files that a rename changes: old text, new text, new bytes and the hash of the old ones.

    Raises:
        ToolError: it cannot be done, or may not.
    """
    asked = arguments.model_dump(include={"line", "name", "new_name"})
    said = await _ask(context, arguments.path, what="rename", **asked)
    files: Mapping[str, Any] = said["files"]
    found: dict[str, tuple[str, str, bytes, str]] = {}
    for path, change in files.items():
        if path.startswith(("/", "../")):
            raise ToolError(f"{path} is outside the workspace; nothing was renamed")
        content = await context.sandbox.read_file(path, _MAX_FILE_BYTES)
        file = decode(content.data) if content.sha256 == change["sha256"] else None
        if file is None or file.bom or file.encoding != "utf-8":
            raise ToolError(f"{path} has changed, or is not UTF-8; nothing was renamed")
        text = file.text
        for first, last, new in sorted(change["edits"], reverse=True):
            text = f"{text[:first]}{new}{text[last:]}"
        found[path] = (file.text, text, file.encode(text), content.sha256)
    if not found:
        raise ToolError(f"{arguments.name!r} cannot be renamed there", "Give a line that uses it, or use edit.")
    return found


async def _preview(arguments: RenameArguments, context: ToolContext) -> Preview:
    found = await _renamed(arguments, context)
    context.seen.update({path: sha256 for path, (*_, sha256) in found.items()} | {_WHOLE: _digest(found)})
    changes = [describe_change(path, old, new, is_whole=True) for path, (old, new, *_) in found.items()]
    diff = "\n".join(change.diff for change in changes)
    head = f"rename {arguments.name} to {arguments.new_name} in {', '.join(found)}"
    return Preview(f"{head}\n\n{diff}", diff, arguments.path)


def _digest(found: object) -> str:
    return hashlib.sha256(repr(found).encode()).hexdigest()


async def _rename(arguments: RenameArguments, context: ToolContext) -> ToolResult:
    found = await _renamed(arguments, context)
    if context.seen.get(_WHOLE, digest := _digest(found)) != digest:
        raise ToolError(
            "the language server now proposes other changes than the approved ones; nothing was renamed", "Try again."
        )
    for path in found:
        verdict = context.agent.on_writing(path)
        if verdict is Verdict.DENY or (verdict is Verdict.ASK and path not in context.seen):
            raise ToolError(f"{path} may not be changed without an approval; nothing was renamed", "Edit it with edit.")
    changes: list[FileChange] = []
    for path, (old, new, data, sha256) in found.items():
        try:
            await context.sandbox.write_file(path, data, expect_sha256=context.seen.get(path, sha256))
        except SandboxError as error:
            done = ", ".join(change.path for change in changes) or "no file"
            raise ToolError(f"{error.full_text()}; {done} was changed") from error
        changes.append(describe_change(path, old, new))
    return ToolResult(f"renamed in {', '.join(found)}", pluralize(len(found), "file"), changes=tuple(changes))


REFERENCES = Tool(
    name="references",
    description="Find where a name is used (language server).",
    arguments=ReferencesArguments,
    run=_references,
    access=always(Access.READ),
    subject=lambda arguments: arguments.path,
    title=lambda arguments: f"{sanitize_line(arguments.name)} in {arguments.path}",
    aliases=("find_references", "find_usages"),
    told=Told.SELDOM,
)
RENAME = Tool(
    name="rename_symbol",
    description="Rename a function, class or variable everywhere (language server).",
    arguments=RenameArguments,
    run=_rename,
    access=always(Access.WRITE),
    subject=lambda arguments: arguments.path,
    title=lambda arguments: sanitize_line(f"{arguments.name} to {arguments.new_name}"),
    preview=_preview,
    told=Told.SELDOM,
)
