"""The guard: it looks after a workspace from inside a sandbox that runs no other program.

The host asks it for everything that concerns workspace files, so the host never opens a workspace path.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from . import quarantine
from .beneath import Refused
from .layout import Layout
from .protocol import Message
from .vault import Vault, is_a_setting, is_executed, is_not_an_object


class Guard:
    """Serves one workspace.

    Args:
        folder: the workspace, or a folder that was added to it as writable.
        is_added: it is such a folder.
    """

    def __init__(self, folder: str, *, is_added: bool = False) -> None:
        self._is_added = is_added
        self._root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._layout = Layout(folder, is_added=is_added)
        self._vaults = {
            "git": (Vault(self._root, ".git", is_executed),),
            "all": (Vault(self._root, ".lmagent", is_a_setting), Vault(self._root, ".git", is_not_an_object)),
        }
        self._operations: dict[str, Callable[[Message], Message]] = {
            "layout": self._look,
            "keep": self._keep,
            "put_back": self._put_back,
            "set_aside": self._set_aside,
            "take_away": self._take_away,
        }

    def answer(self, message: Message) -> Message:
        """Do what a message asks for.

        Raises:
            Refused: the request is unknown, or it failed.
        """
        operation = self._operations.get(str(message["action"]))
        if operation is None:
            raise Refused("unknown guard request")
        return operation(message)

    def _look(self, message: Message) -> Message:
        """Look at the folder.  In an added one `.lmagent` is made, for the quarantine, and masked as a whole."""
        if self._is_added:
            with suppress(OSError):
                os.mkdir(".lmagent", 0o755, dir_fd=self._root)
        found = self._layout.look(*(str(message[name]) for name in ("denied", "secret", "shown")))
        if self._is_added and found["lmagent"] == "folder":
            inode = os.stat(".lmagent", dir_fd=self._root, follow_symlinks=False).st_ino
            found["masked"] = [[b".lmagent".hex(), True, False, inode], *found["masked"]]
        return found

    def _keep(self, message: Message) -> Message:
        for vault in self._vaults[str(message["what"])]:
            vault.keep()
        return {}

    def _put_back(self, message: Message) -> Message:
        """Restore what was kept, as much as possible."""
        changed: list[str] = []
        problem = ""
        for vault in self._vaults[str(message["what"])]:
            try:
                changed += vault.put_back()
            except Refused as refusal:
                problem = problem or str(refusal)
        return {"changed": [os.fsencode(path).hex() for path in changed], "problem": problem}

    def _set_aside(self, message: Message) -> Message:
        """Move paths to the quarantine, as many as possible."""
        moved: list[list[str]] = []
        problem = ""
        for path in message["paths"]:
            try:
                if target := quarantine.set_aside(self._root, bytes.fromhex(path)):
                    moved.append([path, target])
            except Refused as refusal:
                problem = problem or f"{bytes.fromhex(path).decode('utf-8', 'replace')}: {refusal}"
        return {"moved": moved, "problem": problem}

    def _take_away(self, message: Message) -> Message:
        """Remove a probe file at the top of the workspace."""
        with suppress(FileNotFoundError):
            os.unlink(str(message["name"]), dir_fd=self._root)
            return {"was_there": True}
        return {"was_there": False}
