"""Several attempts at one task, each in its own overlay: the checks choose, and only what was chosen can become real."""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lmtui.app.host import Runtime
from lmtui.app.sandboxes import SessionVariant
from lmtui.config import Config
from lmtui.core.errors import SandboxError, UsageError
from lmtui.core.events import TurnEnded, Verified
from lmtui.core.permissions.rules import Mode
from lmtui.core.ports import Checkpoints
from lmtui.core.project_checks import CheckOutcome, CheckRan
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.sessions import Session
from lmtui.core.workspace import CommandEffect
from lmtui.paths import workspace_dir
from lmtui.sandbox.host_paths import make_for_owner
from lmtui.sandbox.overlays import WorkspaceOverlay
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox

_TEMPERATURE = 0.7
_MORE = re.compile(r"^\((\d+) more fail\)$", re.MULTILINE)
_MOST_SEED = 2**63 - 1

Start = Callable[[Session], None]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt that is over.  `effect` is None where it could not be seen, which `problem` says; `failing` counts checks."""

    number: int
    session: Session
    overlay: WorkspaceOverlay[WorkspaceSandbox]
    end: TurnEnded
    failing: int
    effect: CommandEffect | None
    problem: str = ""

    @property
    def is_green(self) -> bool:
        """Tell whether it is done and its checks say that it is right."""
        return self.end.exit_code == 0 and self.end.verified == Verified.GREEN and self.effect is not None

    @property
    def is_good(self) -> bool:
        """Tell whether it is done and no check speaks against it: it is green, or there are no checks."""
        return self.end.exit_code == 0 and not self.end.doubt and self.effect is not None

    @property
    def lines(self) -> tuple[int, int]:
        """Return how many lines it added and removed."""
        changes = self.effect.changes if self.effect is not None else ()
        return sum(each.added_lines for each in changes), sum(each.removed_lines for each in changes)

    def as_object(self, *, is_chosen: bool, is_kept: bool) -> dict[str, object]:
        """Return it as `--output json` has it."""
        added, removed = self.lines
        return {
            "session": self.session.id,
            "status": self.end.status,
            "verified": self.end.verified,
            "failing": self.failing,
            "added": added,
            "removed": removed,
            "files": list(self.effect.paths) if self.effect is not None else [],
            "chosen": is_chosen,
            "kept": is_kept,
        }

    def __str__(self) -> str:
        """Return it in a line for people."""
        if self.effect is None:
            what = f"unusable: {sanitize_line(self.problem)}"
        else:
            added, removed = self.lines
            what = f"+{added} −{removed} in {pluralize(len(self.effect.paths), 'file')}"
        state = "green" if self.is_green else f"{self.failing} failing" if self.failing else self.end.doubt or self.end.status
        return f"attempt {self.number}: {state}, {what}, session {self.session.id}"


def choose(attempts: Sequence[Attempt]) -> Attempt:
    """Return the best: green, else not checked, else with the fewest failing tests; of those, the smallest change.

    One that changed nothing comes behind those that did.
    """

    def rank(attempt: Attempt) -> tuple[int, int, bool, int, int]:
        tier = 0 if attempt.is_green else 1 if attempt.is_good else 2 if attempt.effect is not None else 3
        is_empty = attempt.effect is None or attempt.effect.is_empty
        return tier, attempt.failing, is_empty, sum(attempt.lines), attempt.number

    return min(attempts, key=rank)


def config_of(config: Config, number: int) -> Config:
    """Return the settings of an attempt: the first as configured, the others hotter, each with its own seed.

    Nothing that they do is real, so the mode is `auto`; sub-agents take slots that other attempts can use.
    """
    config = replace(config, mode="auto", sub_agents="off")
    if number == 1:
        return config
    seed = number if config.seed < 0 else (config.seed + number - 1) % _MOST_SEED
    return replace(config, temperature=max(config.temperature, _TEMPERATURE), seed=seed)


class Attempts:
    """The attempts at one task.

    Args:
        runtime: the workspace.
        count: how many, at most.
        task: what sessions are named after.
        start: gives a session its task.
        tell: is called with each attempt when it is over.
    """

    def __init__(self, runtime: Runtime, count: int, task: str, start: Start, tell: Callable[[Attempt], None]) -> None:
        self._runtime, self._count, self._task, self._start, self._tell = runtime, count, task, start, tell
        self._overlays: list[WorkspaceOverlay[WorkspaceSandbox]] = []
        self.ended: list[Attempt] = []

    async def run(self) -> Attempt:
        """Run them, as many at once as the server has slots, until one is green, and return the chosen one.

        Raises:
            UsageError: they cannot run here.
        """
        sandbox = await self._runtime.sandbox()
        if not (await sandbox.status()).has_overlays:
            raise UsageError("attempts need overlays, and none can be made here", "Use bubblewrap or Docker, without network.")
        if self._runtime.config.mode == Mode.PLAN:
            raise UsageError("attempts change files, and the plan mode changes none", "Choose another --mode.")
        if any(each.endswith(":rw") for each in self._runtime.config.add_dirs):
            raise UsageError("attempts would change the added folders for real", "Add them without :rw.")
        free = asyncio.Semaphore(await self._runtime.slot_count())
        running = [asyncio.create_task(self._run_one(sandbox, free, number)) for number in range(1, self._count + 1)]
        try:
            await asyncio.gather(*running)
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        return choose(self.ended)

    async def _run_one(self, sandbox: WorkspaceSandbox, free: asyncio.Semaphore, number: int) -> None:
        async with free:
            if any(each.is_green for each in self.ended):
                return
            overlay = sandbox.overlay(stays=True)
            self._overlays.append(overlay)
            variant = SessionVariant(overlay.sandbox, config_of(self._runtime.config, number))
            session = await self._runtime.new_session(variant=variant)
            try:
                session.rename(f"attempt {number} of {self._count}: {sanitize_line(self._task)}")
                self._start(session)
                await session.wait_idle()
            finally:
                await session.close()
            effect, problem = None, ""
            try:
                effect = await overlay.effect()
            except SandboxError as error:
                problem = error.full_text()
            past = [each.event for each in session.history()]
            end = next((each for each in reversed(past) if isinstance(each, TurnEnded)), None)
            if end is None:
                raise SandboxError("an attempt ended before its turn")
            attempt = Attempt(
                number, session, overlay, end, _failing([each for each in past if isinstance(each, CheckRan)]), effect, problem
            )
            self.ended.append(attempt)
            self._tell(attempt)

    async def keep(self, attempt: Attempt) -> Sequence[str]:
        """Make what an attempt did real, with a checkpoint before; return notes on what was set aside or cannot be kept.

        Raises:
            SandboxError: files were changed meanwhile; nothing was kept.
        """
        assert attempt.effect is not None
        await (await self._runtime.sandbox()).checkpoints.snapshot()
        notes = await attempt.overlay.keep(attempt.effect)
        return [*notes, *(f"cannot be kept: {path}" for path in attempt.effect.special)]

    async def save_draft(self, attempt: Attempt) -> tuple[Path, Sequence[str]]:
        """Write what an attempt did as a patch; return its file, and the paths that a patch cannot hold."""
        assert attempt.effect is not None
        left_out: list[str] = list(attempt.effect.special)
        checkpoints, parts = (await self._runtime.sandbox()).checkpoints, []
        for path in attempt.effect.paths:
            before, after = await _read(checkpoints, attempt.effect, path)
            part = patch_of(path, before, after)
            parts += [part] if part else []
            left_out += [] if part else [path]
        workspace = self._runtime.workspace
        folder = await asyncio.to_thread(make_for_owner, workspace_dir(workspace) / "attempts", workspace)
        file = folder / f"{attempt.session.id}.patch"
        await asyncio.to_thread(file.write_bytes, b"".join(parts))
        return file, left_out

    async def close(self) -> None:
        """Drop what was not kept."""
        for overlay in self._overlays:
            await overlay.close()


def _failing(ran: Sequence[CheckRan]) -> int:
    """Return how many tests fail by the last check that decided, or where that passed 0."""
    last = {each.command: each for each in ran}
    red = [each for each in last.values() if each.outcome is CheckOutcome.FAILED]
    deciding = [each for each in red if each.decides] or red
    return max((1 + int(more[1]) if (more := _MORE.search(each.text)) else 1 for each in deciding), default=0)


async def _read(checkpoints: Checkpoints, effect: CommandEffect, path: str) -> tuple[bytes | None, bytes | None]:
    return await checkpoints.read(effect.before, path), await checkpoints.read(effect.after, path)


def patch_of(path: str, before: bytes | None, after: bytes | None) -> bytes:
    """Return the change of a file as `git apply` takes it (git-diff's documentation); empty where it is not text."""
    if before == after or b"\0" in (before or b"") + (after or b"") or set('"\\\n\t') & set(path):
        return b""
    mode = "new file mode 100644\n" if before is None else "deleted file mode 100644\n" if after is None else ""
    names = ("/dev/null" if before is None else f"a/{path}", "/dev/null" if after is None else f"b/{path}")
    lines = difflib.unified_diff(_lines(before), _lines(after), *names)
    text = f"diff --git a/{path} b/{path}\n{mode}" + "".join(_ended(lines))
    return text.encode("utf-8", "surrogateescape")


def _lines(data: bytes | None) -> list[str]:
    text = (data or b"").decode("utf-8", "surrogateescape")
    return [f"{line}\n" for line in text.split("\n")[:-1]] + (
        [text.rpartition("\n")[2]] if not text.endswith("\n") and text else []
    )


def _ended(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
