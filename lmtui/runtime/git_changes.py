"""What differs from the last commit, untracked files among it: read through the sandbox, with git that writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from lmtui.core.errors import SandboxError
from lmtui.core.ports import Sandbox
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.core.workspace_files import GitState
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.tools.text import decode, describe_change

MOST_FILES = 500
_MOST_TOGETHER = 40
_MOST_BYTES = 262_144
_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
_NO_COMMIT = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # the empty tree, which git knows everywhere (gitglossary)
_KINDS = {GitState.ADDED: FileChangeKind.ADDED, GitState.DELETED: FileChangeKind.DELETED}


async def git_changes(sandbox: WorkspaceSandbox) -> tuple[FileChange, ...]:
    """Return the files that differ from the last commit, by path, at most `MOST_FILES`; nothing without a repository.

    Raises:
        SandboxError: git cannot tell.
    """
    states = await sandbox.listing.git_status()
    tracked = sorted(path for path, state in states.items() if state not in (GitState.IGNORED, GitState.UNTRACKED))
    folders = [path for path, state in states.items() if state is GitState.UNTRACKED]
    untracked: list[str] = []
    if folders:
        paths, _ = await sandbox.listing.paths(200_000)
        new = set(folders)
        prefixes = tuple(f"{path}/" for path in folders)
        untracked = [path for path in paths if path in new or path.startswith(prefixes)]
    tracked = tracked[:MOST_FILES]
    base = await _base(sandbox) if tracked else ""
    found: list[FileChange] = []
    for at in range(0, len(tracked), _MOST_TOGETHER):
        together = tracked[at : at + _MOST_TOGETHER]
        diffs = await _diffs(sandbox, base, together)
        found += [_change(path, states[path], diff) for path, diff in zip(together, diffs, strict=True)]
    for path in untracked[: MOST_FILES - len(found)]:
        found.append(await _untracked(sandbox, path))
    return tuple(sorted(found, key=lambda change: change.path))


async def _base(sandbox: Sandbox) -> str:
    result = await sandbox.run_git(("rev-parse", "--verify", "--quiet", "HEAD"))
    return "HEAD" if result.exit_code == 0 else _NO_COMMIT


async def _diffs(sandbox: Sandbox, base: str, paths: Sequence[str]) -> list[str]:
    """Return the differences of some files, asked for at once; one by one where the answer does not tell them apart."""
    result = await sandbox.run_git((*_DIFF, base, "--", *paths))
    if result.exit_code != 0:
        raise SandboxError(result.output.strip() or "git could not compare the files with the last commit")
    parts = [f"diff --git {part}" for part in f"\n{result.output}".split("\ndiff --git ")[1:]]
    if len(parts) == len(paths) and not result.saved_path:
        return parts
    if len(paths) == 1:
        return ["\n".join(parts)]
    return [(await _diffs(sandbox, base, [path]))[0] for path in paths]


def _change(path: str, state: GitState, diff: str) -> FileChange:
    body = diff[at:] if (at := diff.find("\n@@ ")) >= 0 else ""
    lines = body.split("\n")
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    is_new, is_gone = "\nnew file mode " in diff[:at], "\ndeleted file mode " in diff[:at]
    kind = FileChangeKind.ADDED if is_new else FileChangeKind.DELETED if is_gone else FileChangeKind.MODIFIED
    return FileChange(path, _KINDS.get(state, kind), added, removed, body.lstrip("\n"))


async def _untracked(sandbox: Sandbox, path: str) -> FileChange:
    try:
        content = await sandbox.unmasked().read_file(path, _MOST_BYTES)
    except SandboxError:
        return FileChange(path, FileChangeKind.ADDED)
    file = decode(content.data) if len(content.data) == content.size_bytes else None
    if file is None:
        return FileChange(path, FileChangeKind.ADDED)
    return await asyncio.to_thread(describe_change, path, None, file.text)
