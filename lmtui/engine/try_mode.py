"""Where the calls of a session work: in the workspace or, in try mode, in an overlay over it."""

from __future__ import annotations

from collections.abc import Callable, Collection

from lmtui.core.errors import SandboxError
from lmtui.core.events import OverlayChanged
from lmtui.core.ports import Checkpoints, CommandOverlay, Sandbox
from lmtui.core.workspace import CommandEffect


class SessionWorkspace:
    """The workspace that the calls of a session work on: the real one or, in try mode, an overlay that stays.

    Args:
        real: the workspace.
        states: its checkpoints.
        is_tried: tells whether try mode is on.
        name: of the patch to which unmerged changes are saved at the end.
    """

    def __init__(self, real: Sandbox, states: Checkpoints | None, is_tried: Callable[[], bool], name: str) -> None:
        self.real, self.states, self.name = real, states, name
        self._is_tried = is_tried
        self.overlay: CommandOverlay | None = None
        self.waiting = 0  # files in the overlay that are not merged
        self.kept_as = ""  # their patch after a kill
        self.patch = ""  # where what waits in the overlay is saved after a kill

    @property
    def is_tried(self) -> bool:
        """Tell whether calls work in the overlay."""
        return self._is_tried()

    @property
    def sandbox(self) -> Sandbox:
        """Return the workspace for calls."""
        return self._opened().sandbox if self.is_tried else self.real

    @property
    def checkpoints(self) -> Checkpoints | None:
        """Return the states of what calls see, None where none can be kept."""
        return self._opened().checkpoints if self.is_tried and self.states is not None else self.states

    def _opened(self) -> CommandOverlay:
        if self.overlay is None:
            self.overlay = self.real.overlay(stays=True)
            self.patch = str(self.overlay.outlive_kill(self.name))
        return self.overlay

    async def look(self) -> None:
        """Note what a call in try mode sees of the workspace."""
        if self.is_tried and self.states is not None:
            await self._opened().begin_call()

    async def changed(self, paths: Collection[str]) -> OverlayChanged:
        """Take note that a call changed files in the overlay, and return what waits there now."""
        self._opened().note_touched(paths)
        return OverlayChanged(files=len((await self.effect()).parts), kept_as=self.patch)

    async def effect(self) -> CommandEffect:
        """Return what would be merged; without what the user changed meanwhile.

        Raises:
            SandboxError: nothing waits, or it cannot be seen.
        """
        if self.overlay is None:
            raise SandboxError("nothing to merge: try mode has changed no files")
        return await self.overlay.effect()

    async def drop(self) -> None:
        """Drop the overlay; the next call in try mode gets a new one."""
        overlay, self.overlay = self.overlay, None
        if overlay is not None:
            await overlay.close()
