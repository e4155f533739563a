"""What a file tree says of a path beside its name: git's letter before it, the agent's behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lmtui.core.workspace_files import GitState
from lmtui.tui.changed_files import ChangedFiles
from lmtui.tui.lines.calls import CHANGE_SIGNS
from lmtui.tui.lines.text import Line, Span

NO_SIGN: Span = (" ", "")
GIT_SIGNS: Mapping[GitState, Span] = {
    GitState.MODIFIED: ("M", "warn"),
    GitState.ADDED: ("A", "good"),
    GitState.DELETED: ("D", "bad"),
    GitState.RENAMED: ("R", "warn"),
    GitState.CONFLICTED: ("!", "bad strong"),
    GitState.UNTRACKED: ("?", "good"),
    GitState.IGNORED: NO_SIGN,
}
_GIT_INSIDE: Span = ("·", "warn")
_CONFLICT_INSIDE: Span = ("!", "bad")
_AGENT_INSIDE: Line = (("• ", "warn"),)


class TreeMarks:
    """Git's states and the agent's changes, by path."""

    def __init__(self) -> None:
        self.agent = ChangedFiles()
        self._agent_folders: frozenset[str] = frozenset()
        self._git: Mapping[str, GitState] = {}
        self._git_folders: dict[str, Span] = {}

    def take_agent(self) -> None:
        """Take up what the agent changed by now."""
        self._agent_folders = frozenset(folder for path in self.agent.net for folder in folders_of(path))

    def take_git(self, states: Mapping[str, GitState]) -> None:
        """Take up what git tells."""
        self._git = states
        self._git_folders = {}
        for path, state in states.items():
            if state is not GitState.IGNORED:
                sign = _CONFLICT_INSIDE if state is GitState.CONFLICTED else _GIT_INSIDE
                for folder in folders_of(path):
                    if self._git_folders.get(folder) != _CONFLICT_INSIDE:
                        self._git_folders[folder] = sign

    def git_sign(self, path: str) -> Span:
        """Return git's letter for a file or a folder; one that is untracked as a whole stands for what is in it."""
        state = self._git.get(path)
        if state is not None:
            return GIT_SIGNS[state]
        if path in self._git_folders:
            return self._git_folders[path]
        above = next((self._git[folder] for folder in folders_of(path) if folder in self._git), None)
        return GIT_SIGNS[above] if above is GitState.UNTRACKED else NO_SIGN

    def agent_sign(self, path: str, *, is_closed: bool) -> Line:
        """Return the mark of what the agent did to a file, or in a closed folder."""
        change = self.agent.net.get(path)
        if change is not None:
            letter, role = CHANGE_SIGNS[change.kind]
            return ((f"{letter} ", role),)
        return _AGENT_INSIDE if is_closed and path in self._agent_folders else ()


def folders_of(path: str) -> Iterator[str]:
    """Yield the folders above a path, the nearest first, without the workspace itself."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
