"""Several attempts at one task, each in its own overlay: the checks choose, and only what was chosen can become real.

What they or a patch change can be reviewed, and is kept as a step of a session.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from lmtui.app.model_servers import which_model
from lmtui.config import Config
from lmtui.core import events
from lmtui.core.budgets import NO_BUDGET, SessionBudget
from lmtui.core.errors import LmtuiError, SandboxError, UsageError
from lmtui.core.permissions.rules import Mode, Rule
from lmtui.core.ports import KeptChanges, Policy
from lmtui.core.roles import ModelRole, parse_roles
from lmtui.core.sanitize import sanitize_line
from lmtui.core.sessions import Session
from lmtui.core.subagents import SessionAgentRunner
from lmtui.core.verification import CheckOutcome, CheckRan
from lmtui.core.workspace import CommandEffect, EffectPart, EffectReview
from lmtui.engine.session import EngineSession
from lmtui.engine.tasks import to_the_end, together
from lmtui.engine.trial import kept_in_part, with_tracked
from lmtui.features.attempt_values import MOST_ATTEMPTS, Attempt, AttemptState, ranked, reason
from lmtui.features.service import Ended, FeatureHost, SessionVariant
from lmtui.plain_files import NotPlain, read_plain
from lmtui.sandbox.guest.protocol import MAX_UPLOAD_BYTES
from lmtui.sandbox.overlays import WorkspaceOverlay
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.store.attempt_history import AttemptResult, add_results

_PATCH = ".lmtui-review.patch"
_APPLY = f"git apply --whitespace=nowarn {_PATCH}; code=$?; rm -f {_PATCH}; exit $code"
_TEMPERATURE = 0.7
_MORE = re.compile(r"^\((\d+) more fail\)$", re.MULTILINE)
_MOST_SEED = 2**63 - 1

Start = Callable[[Session], None]
Tell = Callable[[Attempt], None]


@dataclass(eq=False, slots=True)
class _Work:
    """What one attempt works with, and its row in the list.

    Without a `model` and `url` it asks those in use.  Only one that `runs_always` begins though another is green already.
    """

    number: int
    config: Config
    model: str = ""
    url: str = ""
    runs_always: bool = False
    row: Attempt = field(init=False)
    overlay: WorkspaceOverlay[WorkspaceSandbox] | None = None
    session: EngineSession | None = None
    is_stopped: bool = False
    ran: dict[str, CheckRan] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.row = Attempt(self.number, self.model, self.config.temperature)


def config_of(config: Config, number: int, variation: int = 0) -> Config:
    """Return the settings of an attempt: the first as configured, the others hotter, each with its own seed.

    Nothing that they do is real, so the mode is `auto`; sub-agents take slots that other attempts can use.  `variation` counts
    from 1 within a model, 0 is that of the number.
    """
    config, variation = replace(config, mode="auto", sub_agents="off"), variation or number
    if variation == 1:
        return config
    seed = number if config.seed < 0 else (config.seed + number - 1) % _MOST_SEED
    coder = parse_roles(config.roles).get(ModelRole.CODER)
    temperature = max(config.temperature if coder is None or coder.temperature is None else coder.temperature, _TEMPERATURE)
    roles = (*config.roles, f"{ModelRole.CODER}: temperature={temperature} seed={seed}") if coder is not None else config.roles
    return replace(config, temperature=temperature, seed=seed, roles=roles)


def works_of(config: Config, count: int, earlier: int = 0) -> list[_Work]:
    """Return attempts that differ by temperature and seed, from `earlier` ones at the same task too."""
    return [_Work(number, config_of(config, earlier + number)) for number in range(1, count + 1)]


class Attempts:
    """The attempts at one task; implements `features.service.TaskAttempts`.

    Args:
        host: the workspace's.
        budget: what each may spend, in addition to what the settings allow.
    """

    def __init__(self, host: FeatureHost, budget: SessionBudget = NO_BUDGET) -> None:
        self._host, self._budget = host, budget
        self.task = self._title = ""
        self._start: Start = lambda _: None
        self._works: dict[int, _Work] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._listeners: list[Callable[[], None]] = []
        self._session_id = ""
        self._runner: SessionAgentRunner | None = None

    @property
    def _rows(self) -> list[Attempt]:
        return [each.row for each in self._works.values()]

    @property
    def is_running(self) -> bool:
        return any(not each.is_over for each in self._rows)

    @property
    def ended(self) -> list[Attempt]:
        """Return those that are over, by number."""
        return [each for each in self._rows if each.end is not None]

    @property
    def best(self) -> Attempt:
        """Return the best of those that are over."""
        return ranked(self.ended)[0]

    def why(self, chosen: Attempt) -> str:
        """Return why one is the best."""
        return reason(self.ended, chosen)

    def session_of(self, attempt: Attempt) -> Session:
        """Return the session of an attempt that has begun; it is closed once the attempt is over."""
        session = self._works[attempt.number].session
        assert session is not None
        return session

    def listed(self) -> Sequence[Attempt]:
        return self._rows if self.is_running else ranked(self._rows)

    def follow_changes(self, listener: Callable[[], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def run_agents_in(self, runner: SessionAgentRunner) -> None:
        self._runner = runner

    async def begin(self, task: str, count: int, session_id: str) -> None:
        if not 1 < count <= MOST_ATTEMPTS:
            raise UsageError(f"{count} attempts are not possible", f"Choose a number from 2 to {MOST_ATTEMPTS}.")
        if self.is_running:
            raise UsageError("other attempts are still running", "Wait for them, or discard them: /attempts discard")
        await self._require()
        await self.close()
        self._session_id = session_id
        works = self._prepare(task, works_of(self._host.config, count), lambda session: session.submit(task))
        self._spawn(self._in_background(works))

    async def run(self, task: str, count: int, models: Sequence[str], start: Start, tell: Tell = lambda _: None) -> Attempt:
        """Run attempts to their end and return the chosen one; with `models`, `count` by each.

        As many run at once as the server has slots, and of one model until one is green.

        Raises:
            UsageError: they cannot run here, or no server has such a model.
        """
        await self._require()
        works = await self._arena(models, count) if models else works_of(self._host.config, count)
        await self._run(self._prepare(task, works, start), tell)
        return self.best

    async def try_task(self, task: str, title: str, checks: Sequence[str], earlier: int) -> Attempt:
        await self._require()

        def start(session: Session) -> None:
            if checks:
                session.goals.set(" && ".join(f"({each})" if len(checks) > 1 else each for each in checks))
            session.submit(task)

        self._title = title
        config = self._host.config
        limits = [each for each in (config.timeout_s, self._budget.seconds) if each]
        roles = tuple(each for each in config.roles if ModelRole.REVIEWER not in parse_roles((each,)))
        config = replace(config, roles=roles, timeout_s=min(limits, default=0.0))  # the plan has its own review
        await self._run(self._prepare(task, works_of(config, 1, earlier), start))
        return self.best

    def sandbox_of(self, attempt: Attempt) -> WorkspaceSandbox:
        """Return the workspace as an attempt that has begun sees it."""
        overlay = self._works[attempt.number].overlay
        assert overlay is not None
        return overlay.sandbox

    def spent_of(self, attempt: Attempt) -> SessionBudget:
        session = self._works[attempt.number].session
        return session.budget()[1] if session is not None else NO_BUDGET

    def failures_of(self, attempt: Attempt) -> Sequence[CheckRan]:
        return [each for each in self._works[attempt.number].ran.values() if each.outcome is CheckOutcome.FAILED]

    async def _require(self) -> None:
        """Raise `UsageError` where attempts cannot run."""
        config = self._host.config
        if config.mode == Mode.PLAN:
            raise UsageError("attempts change files, and plan mode does not allow that", "Choose another --mode.")
        if any(each.endswith(":rw") for each in config.add_dirs):
            raise UsageError(
                "attempts would change the added folders, which an overlay does not cover", "Add them without :rw."
            )
        if not (await (await self._host.sandbox()).status()).has_overlays:
            raise UsageError(
                "attempts need overlays, which are not available here", "Use bubblewrap or Docker, without network."
            )

    async def _arena(self, names: Sequence[str], count: int) -> list[_Work]:
        """Return attempts for models by their names, on the first server that has each, the one in use before others."""
        servers = [each for each in await self._host.servers.find() if each.url.startswith("http")]
        places = [which_model(servers, name) for name in dict.fromkeys(names)]
        config, numbers = self._host.config, iter(range(1, MOST_ATTEMPTS + 1))
        return [
            _Work(number, config_of(config, number, variation), model, server.url, runs_always=True)
            for server, model in places
            for variation, number in zip(range(1, count + 1), numbers, strict=False)
        ]

    def _prepare(self, task: str, works: list[_Work], start: Start) -> list[_Work]:
        self.task, self._start, self._works = task, start, {work.number: work for work in works}
        self._changed()
        return works

    async def _run(self, works: Sequence[_Work], tell: Tell = lambda _: None) -> None:
        """Run attempts to their end: at once on different servers, model after model on the same one."""
        urls = dict.fromkeys(work.url for work in works)
        await together(self._run_on(url, [work for work in works if work.url == url], tell) for url in urls)
        await asyncio.to_thread(add_results, self._results([work.row for work in works]))

    async def _run_on(self, url: str, works: Sequence[_Work], tell: Tell) -> None:
        for model in dict.fromkeys(work.model for work in works):
            its = [work for work in works if work.model == model]
            free = asyncio.Semaphore(await self._host.slot_count(url) if len(its) > 1 else 1)
            await together(self._run_one(free, work, tell) for work in its)

    async def _run_one(self, free: asyncio.Semaphore, work: _Work, tell: Tell) -> None:
        async with free:
            is_needed = work.runs_always or not any(each.is_green for each in self._rows)
            if work.is_stopped or not is_needed:
                self._change(work, state=AttemptState.STOPPED)
                return
            overlay = work.overlay = (await self._host.sandbox()).overlay(stays=True)
            variant = SessionVariant(overlay.sandbox, work.config, work.model, work.url)
            session = work.session = await self._host.new_session(Policy(is_attended=False), variant=variant)
            if self._budget:
                session.set_budget(self._budget.tighter(session.budget()[0]))
            if self._runner is not None:
                session.run_agents_in(partial(self._runner, session.id))
            unfollow = session.subscribe(lambda envelope: self._take(work, envelope.event))
            model = next((e.event.model for e in session.history() if isinstance(e.event, events.ModelChanged)), work.model)
            self._change(work, session=session.id, model=model, state=AttemptState.RUNNING, started=datetime.now(UTC))
            try:
                name = sanitize_line(self._title or self.task)
                session.rename(f"attempt {work.number} of {len(self._works)}: {name}" if len(self._works) > 1 else name)
                if not work.is_stopped:
                    self._start(session)
                await session.wait_idle()
            finally:
                unfollow()
                await session.close()
            await self._end(work, overlay, session)
            tell(work.row)

    def _take(self, work: _Work, event: events.Event) -> None:
        """Update a running attempt from an event."""
        row = work.row
        match event:
            case events.ModelChanged(role="", agent=events.ROOT):
                self._change(work, model=event.model or event.default_model or row.model)
            case events.UsageUpdated(usage=usage):
                self._change(work, tokens=row.tokens + usage.fresh_tokens)
            case CheckRan():
                work.ran[event.command] = event
                checks = {**row.checks, event.rung: event.outcome}
                self._change(work, checks=checks, failing=_failing(list(work.ran.values())))
            case events.TurnEnded():
                self._change(work, end=event, elapsed_s=event.elapsed_s)

    async def _end(self, work: _Work, overlay: WorkspaceOverlay[WorkspaceSandbox], session: EngineSession) -> None:
        """Read the effect of an attempt, and save it as a patch; note that its budget ended it."""
        row, effect, problem, digest, patch = work.row, None, "", "", ""
        if row.end is None and not work.is_stopped:
            raise SandboxError("an attempt ended before its turn")
        try:
            effect = await overlay.effect()
            if effect.changes:
                file = await overlay.save_patch(effect, row.session)
                digest, patch = hashlib.sha256(await asyncio.to_thread(file.read_bytes)).hexdigest(), str(file)
        except SandboxError as error:
            problem = error.full_text()
        end, (budget, spent) = row.end, session.budget()
        if end is not None and end.reason is events.TurnReason.LIMIT and budget.used(spent) >= 1:
            problem = problem or f"budget exhausted: {budget}"
        state = AttemptState.STOPPED if work.is_stopped else AttemptState.OVER
        self._change(work, state=state, effect=effect, problem=problem, digest=digest, patch=patch)

    async def _in_background(self, works: Sequence[_Work]) -> None:
        """Run attempts, and notify the session that began them when they are done."""
        level, text = events.Level.INFO, ""
        try:
            await self._run(works)
        except LmtuiError as error:
            level, text = events.Level.ERROR, f"The attempts failed: {error.full_text()}"
        for work in self._works.values():
            if not work.row.is_over and (level is events.Level.ERROR or work in works):
                self._change(work, state=AttemptState.STOPPED)
        if self.is_running:
            return
        if not text and self.ended:
            best = self.best
            text = f"All attempts are done: attempt {best.number} of {len(self._works)} is best, {self.why(best)}."
        notice = events.Notice(level=level, text=f"{text or 'No attempt was run.'} /attempts shows them.")
        for session in self._host.sessions:
            if session.id == self._session_id and not session.is_closed:
                session.emit(notice)

    async def again(self, number: int) -> None:
        next_number = max(self._works, default=0) + 1
        if next_number > MOST_ATTEMPTS:
            raise UsageError(f"there are {MOST_ATTEMPTS} attempts already")
        like, config = self._known(number), config_of(self._host.config, next_number)
        work = self._works[next_number] = _Work(next_number, config, like.model, like.url, runs_always=True)
        self._changed()
        self._spawn(self._in_background([work]))

    async def stop(self, number: int) -> None:
        work = self._known(number)
        if work.row.is_over:
            return
        work.is_stopped = True
        if work.session is not None:
            work.session.interrupt()
        else:
            self._change(work, state=AttemptState.STOPPED)

    async def use(self, number: int, session_id: str) -> Sequence[str]:
        """Keep the changes of an attempt as a step that can be undone of the session that began them."""
        return await self.review(number, session_id).keep(None)

    def review(self, number: int, session_id: str) -> EffectReview:
        attempt = self._known(number).row
        own = {each.session for each in self._rows}
        sessions = {each.id: each for each in self._host.sessions if each.id not in own}
        session = sessions.get(self._session_id) or sessions.get(session_id)
        if session is None:
            raise UsageError("no open session for the changes", "Open the session that began the attempts.")
        if not attempt.is_over:
            raise UsageError(f"attempt {number} is still running", "Wait for it to end, or stop it.")
        effect = attempt.effect
        if effect is None or not effect.can_keep:
            raise UsageError(f"attempt {number} has no changes to use")

        def keep(units: Collection[int] | None) -> Awaitable[KeptChanges]:
            return self.keep(attempt, units, session.rules)

        async def ended(decision: str) -> None:
            if decision == "rejected":
                await self.drop(number)

        told = f"The user kept these changes of attempt {number} at this task: {self.task}"
        seen = [each.diff for each in effect.ordered]
        known = contextlib.nullcontext((effect, keep))
        return OverlayReview(session, self._host, lambda: known, "attempts", f"/attempts use {number}", told, ended, seen)

    def review_patch(self, patch: Path, title: str, session_id: str, ended: Ended) -> EffectReview:
        session = next((each for each in self._host.sessions if each.id == session_id), None)
        if session is None:
            raise UsageError("no open session for the changes", "Open a session first.")
        told = f"The user kept these changes: {title}"
        applied = partial(applied_patch, patch, session, self._host)
        return OverlayReview(session, self._host, applied, "batch", title, told, ended)

    async def drop(self, number: int) -> None:
        """Delete the changes of an attempt and its patch."""
        work = self._works.pop(number, None)
        if work is None:
            return
        if work.overlay is not None:
            await work.overlay.close()
        if work.row.patch:
            await asyncio.to_thread(Path(work.row.patch).unlink, missing_ok=True)
        self._changed()

    async def keep(self, attempt: Attempt, units: Collection[int] | None, rules: Sequence[Rule]) -> KeptChanges:
        """Keep the changes of an attempt, or some units of them; the notes say what was quarantined or cannot be kept.

        The rules of the folder hold, and `rules` next to them.

        Raises:
            SandboxError: files have changed since, or a rule denies a change; nothing was kept.
        """
        work = self._works.get(attempt.number)
        if work is None or work.row.session != attempt.session:
            raise SandboxError(f"attempt {attempt.number} was dropped")
        assert attempt.effect is not None
        assert work.overlay is not None
        kept = await work.overlay.keep(attempt.effect, units, (*self._host.rules(), *rules))
        self._change(work, state=AttemptState.USED)
        return replace(kept, notes=(*kept.notes, *(f"cannot be kept: {path}" for path in attempt.effect.special)))

    async def discard(self) -> None:
        patches = [each.patch for each in self._rows if each.patch]
        await self.close()
        for patch in patches:
            await asyncio.to_thread(Path(patch).unlink, missing_ok=True)

    async def close(self) -> None:
        """Stop running attempts and drop what was not kept; the patches stay."""
        tasks = list(self._tasks)
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        works, self._works, self.task = self._works, {}, ""
        for work in works.values():
            if work.overlay is not None:
                await work.overlay.close()
        self._changed()

    def _known(self, number: int) -> _Work:
        if number not in self._works:
            raise UsageError(f"no attempt {number}", "/attempts lists them.")
        return self._works[number]

    def _results(self, rows: Sequence[Attempt]) -> list[AttemptResult]:
        """Return the results of attempts for the user's table; a stopped one says nothing about its model."""
        ended = [each for each in rows if each.state is AttemptState.OVER]
        if not ended:
            return []
        best, now = ranked(ended)[0], datetime.now(UTC).isoformat(timespec="seconds")
        task = hashlib.sha256(self.task.encode("utf-8", "replace")).hexdigest()[:12]
        paths = [path for each in ended for path in (each.effect.paths if each.effect is not None else ())]
        kinds = Counter(PurePosixPath(path).suffix.removeprefix(".") for path in paths)
        kind = kinds.most_common(1)[0][0] if kinds else ""
        same = now, ended[0].session, task, kind
        return [
            AttemptResult(*same, it.model, it.is_green, sum(it.lines), round(it.elapsed_s, 1), it is best and it.is_good)
            for it in ended
        ]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _change(self, work: _Work, **changes: Any) -> None:  # Any: fields of an attempt
        work.row = replace(work.row, **changes)
        self._changed()

    def _changed(self) -> None:
        for listener in list(self._listeners):
            listener()


Keep = Callable[[Collection[int] | None], Awaitable[KeptChanges]]
"""Makes some units of changes real, or all with None."""


@dataclass(slots=True)
class OverlayReview:
    """Changes in an overlay, kept in parts as a step of a session that can be undone; implements `core.workspace.EffectReview`.

    `open_overlay` yields the changes and what keeps them; `seen` are the diffs that the user saw.  `tool` and `title` name the
    step, `told` is what the model is told.  `ended` is called with the decision: `accepted`, `partly accepted` or `rejected`.
    """

    session: EngineSession
    host: FeatureHost
    open_overlay: Callable[[], AbstractAsyncContextManager[tuple[CommandEffect, Keep]]]
    tool: str
    title: str
    told: str
    ended: Ended
    seen: Sequence[str] | None = None

    async def parts(self) -> Sequence[EffectPart]:
        async with self.open_overlay() as (effect, _):
            self.seen = [each.diff for each in effect.ordered]
            return await with_tracked(effect.parts, await self.host.sandbox())

    async def keep(self, units: Collection[int] | None) -> Sequence[str]:
        """Keep some units, or all with None, and record that in the session; return notes.

        Raises:
            SandboxError: a turn is running, files have changed since, or a patch no longer applies; nothing was kept.
        """
        async with self.open_overlay() as (effect, keep):
            if units is not None and self.seen != [each.diff for each in effect.ordered]:
                raise SandboxError("its files have changed since you opened the review", "Open the review again.")
            notes = await to_the_end(self._keep(effect, keep, units))
        await self.ended("accepted" if units is None else "partly accepted")
        return notes

    async def drop(self) -> None:
        await self.ended("rejected")

    async def _keep(self, effect: CommandEffect, keep: Keep, units: Collection[int] | None) -> Sequence[str]:
        if self.session.is_running:
            raise SandboxError("a turn is running and may change the same files", "Stop it, or wait for it to end.")
        checkpoints, call_id = (await self.host.sandbox()).checkpoints, f"{self.tool}_{secrets.token_hex(6)}"
        done = await keep(units)
        before, after = done.before, done.after or await checkpoints.snapshot()
        assert before is not None
        changes = await checkpoints.changes(before.id, after.id, effect.paths, is_now=True)
        files, kept = tuple(each.path for each in changes), effect.lines()
        result = "\n".join([self.told, *(kept if units is None else [kept_in_part(effect, units)])])
        for event in (
            events.ToolCallStarted(call_id=call_id, tool=self.tool, arguments={}, title=self.title, by="user"),
            events.CheckpointCreated(call_id=call_id, checkpoint=before.id, left_out=before.left_out),
            events.FilesChanged(call_id=call_id, files=files, changes=changes, before=before.id, after=after.id),
            events.ToolCallFinished(call_id=call_id, tool=self.tool, ok=True, result=result, elapsed_ms=0, summary="kept"),
        ):
            self.session.emit(event)
        return done.notes


@contextlib.asynccontextmanager
async def applied_patch(patch: Path, session: EngineSession, host: FeatureHost) -> AsyncIterator[tuple[CommandEffect, Keep]]:
    """Yield the changes of a patch, applied in an overlay, and what keeps them; the file stays."""
    data = await asyncio.to_thread(_read, patch)
    overlay = (await host.sandbox()).overlay(stays=True)
    try:
        await overlay.sandbox.write_file(_PATCH, data)
        ended = await overlay.sandbox.run_command(_APPLY)
        if ended.exit_code != 0:
            why = sanitize_line(ended.output.strip().partition("\n")[0].removeprefix("error: "))
            raise SandboxError(f"it no longer applies: {why}", "Undo the other change first, or rerun the task.")
        effect = await overlay.effect()
        yield effect, lambda units: overlay.keep(effect, units, session.rules)
    finally:
        await overlay.close()


def _read(patch: Path) -> bytes:
    """Return the content of a patch; only of a regular file, as a cloned folder may have links."""
    try:
        data = read_plain(patch.parent, patch.name, MAX_UPLOAD_BYTES + 1)
    except NotPlain as error:
        raise SandboxError(f"{patch} cannot be read: {error}") from error
    if data is None:
        raise SandboxError(f"{patch} is missing", "Rerun the task: lmtui batch resume --retry-failed")
    return data


def _failing(ran: Sequence[CheckRan]) -> int:
    """Return how many tests fail by the last check that decided, or where that passed 0."""
    red = [each for each in ran if each.outcome is CheckOutcome.FAILED]
    deciding = [each for each in red if each.decides] or red
    return max((1 + int(more[1]) if (more := _MORE.search(each.text)) else 1 for each in deciding), default=0)
