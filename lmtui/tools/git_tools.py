"""Git with argument lists that are built here: the model chooses paths, names and messages, never options."""

from __future__ import annotations

import re

from lmtui.core.errors import ToolError
from lmtui.core.permissions.decide import Access, Verdict
from lmtui.core.permissions.path_patterns import is_secret_path
from lmtui.core.ports import Preview, ToolContext, ToolResult
from lmtui.core.sanitize import pluralize
from lmtui.core.workspace import ExecResult
from lmtui.tools.tool import Arguments, Tool, WorkspacePath, always, argument

_BRANCH = re.compile(r"(?![-./])(?!.*(?:\.\.|//|@\{|\.lock\Z))[A-Za-z0-9_.\-/]{1,200}(?<![./])\Z")
_MOST_NAMES_BYTES = 50_000


class GitStatusArguments(Arguments):
    """No arguments."""


class GitDiffArguments(Arguments):
    """Of what."""

    path: WorkspacePath = argument("", also=("file", "file_path"))
    staged: bool = argument(default=False, also=("cached",))


class GitAddArguments(Arguments):
    """Which files."""

    paths: list[WorkspacePath] = argument(also=("files", "path"), min_length=1)


class GitCommitArguments(Arguments):
    """With which words."""

    message: str = argument(also=("msg", "commit_message"))
    allow_empty: bool = argument(default=False, is_told=False)


class GitBranchArguments(Arguments):
    """Which branch; none lists them."""

    name: str = argument("", also=("branch",))
    create: bool = argument(default=False, doc="make it and switch to it")
    switch: bool = argument(default=False)


async def _status(_: GitStatusArguments, context: ToolContext) -> ToolResult:
    result = await _git(context, "status", "--short", "--branch", "--untracked-files=normal")
    lines = result.output.rstrip("\n").splitlines()
    files = len([line for line in lines if not line.startswith("##")])
    return ToolResult("\n".join(lines) if files else f"{''.join(lines)}\nclean", f"{files} changed" if files else "clean")


async def _diff(arguments: GitDiffArguments, context: ToolContext) -> ToolResult:
    staged = ["--cached"] if arguments.staged else []
    names = await _changed_names(context, staged, arguments.path)
    shown = [name for name in names if not _is_kept_back(name, arguments.path, context)]
    left_out = len(names) - len(shown)
    note = f"\n({pluralize(left_out, 'file')} left out: secrets, or forbidden; git_diff of one asks)" if left_out else ""
    if not shown:
        return ToolResult(f"no differences{note}", "none")
    whole = [arguments.path] if arguments.path else []
    paths = ["--", *(shown if left_out else whole)]
    result = await _git(context, "diff", "--no-ext-diff", "--no-textconv", *staged, *paths)
    return ToolResult((result.output.rstrip("\n") or "no differences") + note)


async def _changed_names(context: ToolContext, staged: list[str], path: str) -> list[str]:
    """Return the files of a difference; of a renamed one both names."""
    result = await _git(context, "diff", "--name-only", "--no-renames", *staged, "--", *([path] if path else []))
    if result.total_bytes > _MOST_NAMES_BYTES:
        raise ToolError("too many files changed", "Name a folder or a file.")
    return [_unquoted(line) for line in result.output.split("\n") if line]


def _unquoted(name: str) -> str:
    """Return a file's name as it is; git quotes odd ones as C does (git-config(1), core.quotePath)."""
    if not name.startswith('"'):
        return name
    return name[1:-1].encode().decode("unicode_escape").encode("latin-1").decode("utf-8", "surrogateescape")


def _is_kept_back(name: str, asked_for: str, context: ToolContext) -> bool:
    """Tell whether a file's changes are not shown: it may hold secrets and was not named, or a rule forbids to read it."""
    return (is_secret_path(name) and not is_secret_path(asked_for)) or context.on_reading(name) is Verdict.DENY


async def _add(arguments: GitAddArguments, context: ToolContext) -> ToolResult:
    await _git(context, "add", "--", *(path or "." for path in arguments.paths), writes=True)
    return ToolResult("ok", f"{len(arguments.paths)} paths")


async def _commit(arguments: GitCommitArguments, context: ToolContext) -> ToolResult:
    if not arguments.message.strip():
        raise ToolError("a commit needs a message")
    empty = ["--allow-empty"] if arguments.allow_empty else []
    await _git(
        context, "commit", "--quiet", "--no-verify", "--no-gpg-sign", f"--message={arguments.message}", *empty, writes=True
    )
    head = await _git(context, "rev-parse", "--short=8", "HEAD")
    return ToolResult(f"committed {head.output.strip()}", head.output.strip())


async def _branch(arguments: GitBranchArguments, context: ToolContext) -> ToolResult:
    if not arguments.name:
        result = await _git(context, "branch", "--list", "--no-color")
        return ToolResult(result.output.rstrip("\n") or "no branches yet", "")
    if _BRANCH.match(arguments.name) is None:
        raise ToolError(f"not a branch name: {arguments.name!r}", "Letters, digits, and - _ . / in the middle.")
    if not arguments.create and not arguments.switch:
        raise ToolError("say what to do with the branch: create or switch")
    option = ["--create"] if arguments.create else []
    await _git(context, "switch", "--no-guess", *option, arguments.name, writes=True)
    return ToolResult(f"on {arguments.name}", arguments.name)


async def _git(context: ToolContext, *arguments: str, writes: bool = False) -> ExecResult:
    result = await context.sandbox.run_git(arguments, writes=writes)
    if result.exit_code != 0:
        raise ToolError(result.output.strip() or f"git {arguments[0]} failed (exit code {result.exit_code})")
    return result


async def _preview_commit(arguments: GitCommitArguments, context: ToolContext) -> Preview:
    result = await context.sandbox.run_git(("diff", "--no-ext-diff", "--no-textconv", "--cached", "--stat"))
    return Preview(f"git commit\n\n{arguments.message}\n\n{result.output.strip()}")


def _branch_access(arguments: GitBranchArguments) -> Access:
    return Access.WRITE if arguments.name else Access.READ


def _branch_title(arguments: GitBranchArguments) -> str:
    verb = "create " if arguments.create else "switch " if arguments.switch else ""
    return f"{verb}{arguments.name}"


STATUS = Tool(
    name="git_status",
    description="Show branch and changed files.",
    arguments=GitStatusArguments,
    run=_status,
    access=always(Access.READ),
    subject=lambda _: ".",
    title=lambda _: "",
)
DIFF = Tool(
    name="git_diff",
    description="Show changes not yet staged, or staged ones.",
    arguments=GitDiffArguments,
    run=_diff,
    access=always(Access.READ),
    subject=lambda arguments: arguments.path or ".",
    title=lambda arguments: f"{'staged ' if arguments.staged else ''}{arguments.path}".strip(),
)
ADD = Tool(
    name="git_add",
    description="Stage files.",
    arguments=GitAddArguments,
    run=_add,
    access=always(Access.WRITE),
    subject=lambda arguments: tuple(arguments.paths),
    title=lambda arguments: " ".join(arguments.paths),
)
COMMIT = Tool(
    name="git_commit",
    description="Commit what is staged.",
    arguments=GitCommitArguments,
    run=_commit,
    access=always(Access.WRITE),
    subject=lambda arguments: arguments.message,
    title=lambda arguments: arguments.message.strip().partition("\n")[0],
    preview=_preview_commit,
)
BRANCH = Tool(
    name="git_branch",
    description="List branches, make one or switch.",
    arguments=GitBranchArguments,
    run=_branch,
    access=_branch_access,
    subject=lambda arguments: arguments.name,
    title=_branch_title,
)
