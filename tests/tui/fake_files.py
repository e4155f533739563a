"""The files of a workspace in memory, as the port says; a test changes `contents` and tells so with `tell`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from lmtui.core.errors import SandboxError
from lmtui.core.workspace import MAX_SHOWN_BYTES, DirEntry, FileChange, FileContent, FolderListener, FoldersChanged, GitState

CONTENTS = {
    "parser/lexer.py": b"class Lexer:\n    def skip_comment(self):\n        depth = 1\n",
    "parser/tokens.py": b"COMMENT = 1\n",
    "parser/tests/test_lexer.py": b"def test_nested():\n    assert True\n",
    "README.md": b"# parser\n",
    "pyproject.toml": b"[project]\nname = 'parser'\n",
}


class FakeFiles:
    """Files by path.  `git` is what git tells; `asked` what was asked for, in order."""

    def __init__(self, root: Path | None = None) -> None:
        self.contents: dict[str, bytes] = dict(CONTENTS)
        self.git: dict[str, GitState] = {}
        self.asked: list[str] = []
        self.watched: set[str] = set()
        self.differences: list[FileChange] = []
        self.problem = ""
        self.paths_note = ""
        self._root = root or Path("/home/ada/src/parser")
        self._listeners: list[FolderListener] = []

    async def paths(self) -> Sequence[str]:
        self.asked.append("paths")
        left_out = [path for path, state in self.git.items() if state is GitState.IGNORED]
        return [path for path in self.contents if not any(path == each or path.startswith(f"{each}/") for each in left_out)]

    async def git_status(self) -> Mapping[str, GitState]:
        self.asked.append("git")
        return dict(self.git)

    async def git_changes(self) -> Sequence[FileChange]:
        self.asked.append("git changes")
        if self.problem:
            raise SandboxError(self.problem)
        return self.differences

    async def list(self, path: str) -> Sequence[DirEntry]:
        self.asked.append(f"list {path}")
        if self.problem:
            raise SandboxError(self.problem)
        prefix = f"{path}/" if path else ""
        names = {name[len(prefix) :].split("/")[0] for name in self.contents if name.startswith(prefix)}
        entries = [DirEntry(f"{prefix}{name}", "file" if f"{prefix}{name}" in self.contents else "dir") for name in names]
        return sorted(entries, key=lambda entry: (entry.kind != "dir", entry.path))

    async def read(self, path: str, max_bytes: int = MAX_SHOWN_BYTES) -> FileContent:
        self.asked.append(f"read {path}")
        if path not in self.contents:
            raise SandboxError(f"{path} does not exist")
        data = self.contents[path]
        return FileContent(data[:max_bytes], len(data), 0o644, "")

    async def real_path(self, path: str) -> Path:
        return self._root / path

    def changed(self, listener: FolderListener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def watch(self, folders: Iterable[str]) -> None:
        self.watched = set(folders)

    def tell(self, *folders: str, has_git_changed: bool = False, problem: str = "") -> None:
        for listener in tuple(self._listeners):
            listener(FoldersChanged(frozenset(folders), has_git_changed, problem))
