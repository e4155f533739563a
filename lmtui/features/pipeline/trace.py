"""What a plan leaves in git: a commit for each task with its files alone, and the task list, log and report next to the plan.

A repository that is there is respected: what the user has not committed stays uncommitted, and without one nothing is made.
"""

from __future__ import annotations

from collections.abc import Sequence

from lmtui.core.errors import SandboxError
from lmtui.core.sanitize import sanitize_line
from lmtui.features.pipeline.values import PipelinePlan, PipelineTask
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox

MAX_SUBJECT_CHARS = 72
_AT_ONCE = 200  # paths for one call of git


class CommitTrace:
    """Commits the work on one plan; where git is off or missing, it does nothing.

    Args:
        sandbox: the workspace's.
        is_on: the user wants commits.
        has_trailers: commits name the plan and the task in trailers.
    """

    def __init__(self, sandbox: WorkspaceSandbox, *, is_on: bool, has_trailers: bool) -> None:
        self._sandbox = sandbox
        self._is_on = is_on
        self._has_trailers = has_trailers

    async def uncommitted(self, paths: Sequence[str]) -> frozenset[str]:
        """Return those of the files that differ from the last commit or are unknown to git.

        Raises:
            SandboxError: git did not tell.
        """
        words = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--"]
        found: list[str] = []
        top = (await self._sandbox.run_git(["rev-parse", "--show-prefix"])).output.strip() if self._is_on and paths else ""
        for start in range(0, len(paths), _AT_ONCE) if self._is_on else ():
            result = await self._sandbox.run_git([*words, *paths[start : start + _AT_ONCE]])
            if result.exit_code != 0 and await self.is_repository():
                raise SandboxError(f"git status failed: {sanitize_line(result.output.strip()[-200:])}")
            found += result.entries()
        return frozenset(entry[3:].removeprefix(top) for entry in found)

    async def commit_task(self, plan: PipelinePlan, task: PipelineTask, paths: Sequence[str]) -> str:
        """Commit the changes of a task in some files and return the commit; one that is there already is not made again."""
        return await self._commit(plan, f"{plan.name}: {task.spec.title}", paths, task.id)

    async def commit_files(self, plan: PipelinePlan, what: str, paths: Sequence[str]) -> str:
        """Commit files of the plan itself."""
        return await self._commit(plan, f"{plan.name}: {what}", paths)

    async def _commit(self, plan: PipelinePlan, subject: str, paths: Sequence[str], task_id: int = 0) -> str:
        if not (self._is_on and paths and await self.is_repository()):
            return ""
        subject = _subject(subject)
        _ = await self._git("add", paths=paths, writes=True)
        staged = await self._git("diff", "--cached", "--name-only", "-z", "--no-renames", paths=paths)
        if staged:
            trailers = [f"Plan: {plan.id}", *([f"Task: {task_id}"] if task_id else [])] if self._has_trailers else []
            message = "\n\n".join([subject, *(["\n".join(trailers)] if trailers else [])])
            result = await self._sandbox.run_git(["commit", "-q", "-m", message, "--", *staged], writes=True)
            if result.exit_code != 0:
                raise SandboxError(f"not committed: {sanitize_line(result.output.strip()[-200:])}")
        last = await self._sandbox.run_git(["log", "-1", "--format=%H %s", "--", *paths[:_AT_ONCE]])
        commit, _, found = last.output.strip().partition(" ")
        return commit if last.exit_code == 0 and found == subject else ""

    async def is_repository(self) -> bool:
        """Tell whether the workspace is one."""
        if not self._is_on:
            return False
        try:
            return (await self._sandbox.run_git(["rev-parse", "--is-inside-work-tree"])).output.strip() == "true"
        except SandboxError:
            return False

    async def _git(self, *arguments: str, paths: Sequence[str], writes: bool = False) -> list[str]:
        """Run git on files, some at a time, and return what it lists; one that fails lists nothing."""
        found: list[str] = []
        for start in range(0, len(paths), _AT_ONCE) if self._is_on else ():
            try:
                result = await self._sandbox.run_git([*arguments, "--", *paths[start : start + _AT_ONCE]], writes=writes)
                found += result.entries()
            except SandboxError:
                return []
        return found


def _subject(text: str) -> str:
    line = sanitize_line(text)
    return line if len(line) <= MAX_SUBJECT_CHARS else f"{line[: MAX_SUBJECT_CHARS - 1].rstrip()}…"
