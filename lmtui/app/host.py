"""What front ends open: the sessions, the sandbox, the model server and the settings of one workspace."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from lmtui import __version__
from lmtui.app.archive import SessionArchive, archive_of, encode_event
from lmtui.app.attempts import Attempts
from lmtui.app.extensions import IdleWorkspace, WorkspaceFeatures
from lmtui.app.folder_rules import keep_grants, kept_problems, known_rules, rules_in_force
from lmtui.app.key_protection import key_redactor
from lmtui.app.model_servers import Servers
from lmtui.app.process import protect_process
from lmtui.app.sandboxes import CurrentSandbox, command_limits, interpreter_of, tools_of
from lmtui.app.session_models import PromptCaches, SessionModels, SessionPromptCache, SessionProvider, last_model
from lmtui.app.settings_trust import with_settings
from lmtui.app.workspace_files import WorkspaceFiles
from lmtui.config import MODEL_SETTINGS, SETTINGS, Config, Loaded, convert, read_settings, shown
from lmtui.core import events
from lmtui.core.budgets import NO_BUDGET, BudgetSet, SessionBudget, whole_budget
from lmtui.core.errors import ConfigError, SandboxError, SandboxUnavailable, SessionFileError, UsageError
from lmtui.core.messages import ToolCallFormat, ToolSet, ToolSpec
from lmtui.core.permissions.rules import Mode, Rule
from lmtui.core.ports import Limits, Policy, SessionLog, Toolbox
from lmtui.core.programs import Interpreter
from lmtui.core.roles import ModelRole, Roles, parse_roles, with_role
from lmtui.core.sanitize import Redactor, sanitize_line
from lmtui.core.sessions import NO_TRIAL, Archive, Extensions, SettingRow, SettingsControls
from lmtui.core.subagents import AgentDefinitions, ChildKind
from lmtui.engine.agent import ModelAccess
from lmtui.engine.context import ModelSettings
from lmtui.engine.context_budget import Budget, ContextBudget
from lmtui.engine.session import EngineSession, SessionParts
from lmtui.engine.subagent_runs import TeamParts
from lmtui.engine.tool_call_policy import KnownModel
from lmtui.features.attempt_values import WorkspaceAttempts
from lmtui.features.service import CommandCall, Import, SessionVariant
from lmtui.models.demo_scripts import AGENTS_DEMO_TASK, DEMO_MODEL, DEMO_RULES, DEMO_TASK, PLAN_DEMO_TASK, demo_scenarios
from lmtui.models.scripted_server import ScriptedServer
from lmtui.models.tokens import TokenCounts
from lmtui.paths import config_dir, state_dir, theme_files
from lmtui.registry import features
from lmtui.sandbox.host_paths import check_workspace
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.store.session_logs import AgentPapers, SessionStore, load, new_session_id
from lmtui.store.state_files import write_whole
from lmtui.tools.registry import child_tools

_MAX_BYTES = 1_000_000


def log_file() -> Path:
    """Return the log file."""
    return state_dir() / "lmtui.log"


class _File(RotatingFileHandler):
    """The log file, traces included, without the values of keys; reports once, in one line, if it cannot be written."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__(log_file(), maxBytes=_MAX_BYTES, backupCount=1, encoding="utf-8", delay=True)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        self._redactor, self._is_told = redactor, False

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return self._redactor.text(super().format(record))

    def handleError(self, record: logging.LogRecord) -> None:
        """Say why a line is missing."""
        del record
        error = sys.exc_info()[1]
        if not self._is_told:
            self._is_told = True
            why = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
            print(f"lmtui: cannot write {self.baseFilename}: {why}. The log is incomplete.", file=sys.stderr)


def write_log_file(redactor: Redactor) -> None:
    """Send the program's log to its file, once."""
    loggers = [logging.getLogger(name) for name in ("lmtui", "mcp", "client")]  # the MCP SDK's too
    if loggers[0].handlers:
        return
    with suppress(OSError):  # the first line says so
        log_file().parent.mkdir(parents=True, exist_ok=True)
    handler = _File(redactor)
    for logger in loggers:
        logger.propagate = False
        logger.addHandler(handler)


__all__ = [
    "AGENTS_DEMO_TASK", "DEMO_TASK", "PLAN_DEMO_TASK", "Runtime", "attended_runtime", "encode_event", "open_runtime",
    "run_feature_command",
]  # fmt: skip

_DEMO_WORDS_PER_S = 30.0


async def run_feature_command(
    run: Callable[[CommandCall], Awaitable[int]], workspace: Path, config: Config, arguments: argparse.Namespace
) -> int:
    """Run the subcommand of a feature and return the exit code."""
    async with aclosing(IdleWorkspace(workspace, config)) as idle:
        open_host = partial(open_runtime, workspace, config, is_attended=False, writes_log=True)
        return await run(CommandCall(idle, arguments, open_host))


@asynccontextmanager
async def open_runtime(workspace: Path, config: Config, **options: bool) -> AsyncIterator[Runtime]:
    """Hold the host of a workspace, with the options of `Runtime`, and close it at the end."""
    runtime = Runtime(workspace, config, **options)
    try:
        yield runtime
    finally:
        await runtime.close()


def runtime_options(loaded: Loaded, model_file: Path | None) -> dict[str, bool]:
    """Return the options of `Runtime`: what the command line names holds for resumed sessions."""
    is_model_forced = model_file is not None or loaded.has_flag(*MODEL_SETTINGS)
    is_mode_forced = loaded.has_flag("mode")
    return {"writes_log": True, "is_mode_forced": is_mode_forced, "is_model_forced": is_model_forced}


def attended_runtime(workspace: Path, loaded: Loaded, reload: Callable[[], Loaded], model_file: Path | None = None) -> Runtime:
    """Return the host of a workspace for a user who is there; `reload` reads the settings again.

    Blocks until the model file runs, if there is one.
    """
    runtime = Runtime(workspace, loaded.config, **runtime_options(loaded, model_file))
    runtime.ask_trust(loaded, reload)
    if model_file is not None:
        runtime.servers.run_file(model_file)
    return runtime


class Runtime:
    """Everything that works on one workspace; implements `core.sessions.SessionHost`.

    From here on other processes cannot read this one's memory.

    Args:
        workspace: the folder.
        config: the settings in force.
        is_attended: somebody is there to answer; else what needs approval is refused.
        is_mode_forced: resumed sessions take the configured mode instead of the one they had.
        is_model_forced: they take the server and model in use instead of those that they used last.
        writes_log: what goes wrong inside goes to the log file.

    Raises:
        UsageError: the workspace cannot be worked in, or a permission rule or an address cannot be read.
    """

    def __init__(
        self,
        workspace: Path,
        config: Config,
        *,
        is_attended: bool = True,
        is_mode_forced: bool = False,
        is_model_forced: bool = False,
        writes_log: bool = False,
    ) -> None:
        check_workspace(workspace)
        protect_process()
        if writes_log:
            write_log_file(key_redactor(config))
        self.config = config
        self.is_attended = is_attended
        self._is_mode_forced = is_mode_forced
        rules_in_force(config, workspace)  # a rule that cannot be read is told at once
        _ = whole_budget(config.budget) if config.budget else None
        self.count_tokens = TokenCounts()
        self.servers = Servers(config)
        self._models = SessionModels(self.servers, PromptCaches(self.servers.place_of), is_forced=is_model_forced)
        self.servers.before_unload = lambda url: self._models.sleep(url=url)
        self.servers.key_changed = self._renew_models
        self._sandbox = CurrentSandbox(lambda: (self.workspace, self.config))
        self._sessions: dict[str, EngineSession] = {}
        self.when_opened: list[Callable[[EngineSession], object]] = []  # called with each session that is opened
        self._demo: ScriptedServer | None = None  # the server of the demo
        self.demo_folder: Path | None = None  # where the demo is to work; None: in a folder of its own
        defaults = Loaded(config, dict.fromkeys(SETTINGS, "default"))
        self.settings: SettingsControls = UserSettings(defaults, lambda: defaults, self._use_config)
        self.files = WorkspaceFiles(lambda: self.workspace, self.sandbox)
        self._settle_in(workspace)
        self.plans_first = False  # the next new session begins in plan mode, and goes back to the configured one

    def ask_trust(self, loaded: Loaded, reload: Callable[[], Loaded]) -> None:
        """Let front ends ask whether the folder's own settings hold, and change the user's; `reload` reads them again."""
        self.settings = own = UserSettings(loaded, reload, self._use_config)
        self.trust = with_settings(self._features.trust, self.workspace, lambda: own.loaded.waiting, own.look_again)

    def _use_config(self, config: Config) -> None:
        """Take other settings, but not in the demo, which has its own server."""
        rules_in_force(config, self.workspace)
        if self._demo is not None:
            return
        self.config = config
        self.servers.use_config(config)
        self._renew_models()
        self._sandbox.retire()

    def _renew_models(self) -> None:
        """Let open sessions ask with the keys and settings of now."""
        self._models.renew()
        for session in self.sessions:
            used = last_model(session.history())
            if used is not None and used.url and not used.window_tokens:
                is_in_use = self.servers.is_in_use(used.url)
                session.set_model(used.model or (self.servers.model if is_in_use else ""))

    @property
    def setup_note(self) -> str:
        return "" if self.servers.is_chosen else "No model server is chosen yet."

    @property
    def sessions(self) -> Sequence[EngineSession]:
        """Return the sessions that are open."""
        return list(self._sessions.values())

    async def sandbox(self) -> WorkspaceSandbox:
        """Return the workspace's sandbox, of the folder and the settings as they are; it starts when it is first used."""
        return await self._sandbox.get()

    def imports(self) -> Sequence[Import]:
        """Return what earlier programs left in this folder.  Blocks."""
        found = [feature.load(feature.imports)(self) for feature in features() if feature.imports]
        return [*archive_of(self.workspace).imports(self.workspace), *chain(*found)]

    def tools(self) -> Sequence[ToolSpec]:
        """Return the tools of lmtui's own that the model of a new session may call."""
        return tools_of(self.config, self.workspace).specs(ToolSet.ALL, sees=True)

    def rules(self) -> tuple[Rule, ...]:
        """Return the permission rules of the settings and the stored ones."""
        return rules_in_force(self.config, self.workspace)

    def works(self) -> Sequence[str]:
        """Return in words what is done next to sessions, for which this process has to stay."""
        found = ["attempts" if self.attempts.is_running else "", *(each.own_work() for each in self._features)]
        return [*filter(None, found)]

    async def serve(self) -> None:
        await asyncio.gather(*(each.serve() for each in self._features))

    async def require_sandbox(self) -> None:
        """Start the sandbox that the settings name, so that nothing begins without it; `auto` waits for the first use.

        Raises:
            SandboxError: it does not work here.
        """
        if self.config.sandbox != "auto":
            _ = await (await self.sandbox()).status()

    async def slot_count(self, url: str = "") -> int:
        """Ask a server, or the one in use, how many requests it works on at once."""
        provider = self.servers.provider(url)
        await provider.served("" if url else self.servers.model)
        return provider.slot_count

    async def new_session(
        self, policy: Policy | None = None, *, variant: SessionVariant | None = None, has_model: bool = True
    ) -> EngineSession:
        """Open a fresh session; with a policy its rules join those of the settings.  It says whether a user is there.

        One without a model runs only the calls of others; opened again it has one.
        """
        session_id = new_session_id(datetime.now(UTC))
        await self._prepare()
        own = variant or SessionVariant(await self.sandbox(), self.config)
        asked = self._models.at(own.url, own.model) if has_model else SessionProvider(None, {})
        if own.config.mode == Mode.TRY and not (await own.sandbox.status()).has_overlays:
            raise UsageError(NO_TRIAL)
        session = EngineSession(self._parts(session_id, asked, own, self._store.create, policy, is_apart=variant is not None))
        is_unattended = policy is not None and not policy.is_attended
        session.emit(events.SessionOpened(workspace=str(self.workspace), version=__version__, is_unattended=is_unattended))
        for event in self._first_events(asked, has_mode=variant is None):
            session.emit(event)
        if self.plans_first:
            self.plans_first = False
            session.emit(events.ModeChanged(mode=str(Mode.PLAN)))
        return self._keep(session, asked)

    def new_attempts(self, budget: SessionBudget = NO_BUDGET) -> Attempts:
        """Return attempts next to the user's own, each of which may spend so much; who asks for them closes them."""
        return Attempts(self, budget)

    async def _prepare(self) -> None:
        for each in self._features:
            await each.prepare()

    def _first_events(self, asked: SessionProvider | None = None, *, has_mode: bool = True) -> tuple[events.Event, ...]:
        """Return what a log begins with; one without a mode has that of its variant, and when it is resumed the configured."""
        asked = asked or self._models.at()
        model = events.ModelChanged(model=asked.model, url=asked.url)
        budget = (BudgetSet(budget=whole_budget(self.config.budget)),) if self.config.budget else ()
        models = (model,) if model.url else ()
        return (*models, *([events.ModeChanged(mode=self.config.mode)] if has_mode else []), *budget)

    def is_open(self, session_id: str) -> bool:
        return session_id in self._sessions and not self._sessions[session_id].is_closed

    async def open_session(self, session_id: str, policy: Policy | None = None) -> EngineSession:
        """Open an earlier session; what a crash left open in it is ended, what cannot be read is told.

        One that a job works in is the user's from then on, who is asked again.
        """
        path = self._store.path(session_id)
        sandbox = await self.sandbox()
        await self._prepare()
        if self.is_open(path.stem):
            return self._given(path.stem, policy)
        loaded = await asyncio.to_thread(load, path)
        is_ours = self._store.is_ours(path.stem)
        past = loaded.events if is_ours else ()
        asked = await self._models.last(past) if self._demo is None else self._models.at()  # the demo has its own server
        if self.is_open(path.stem):  # whoever else asked for it may have been quicker
            return self._given(path.stem, policy)
        if not loaded.events:
            raise SessionFileError(f"session {path.stem} is empty", "Start a new one.")
        parts = self._parts(path.stem, asked, SessionVariant(sandbox, self.config), self._store.open, policy)
        session = EngineSession(parts, loaded.events, is_ours=is_ours)
        foreign = "" if is_ours else "This session was created elsewhere; its mode and approvals are ignored."
        for problem in filter(None, (*loaded.problems, asked.note, foreign)):
            session.emit(events.Notice(level=events.Level.WARNING, text=problem))
        if self._is_mode_forced or not is_ours:
            session.emit(events.ModeChanged(mode=self.config.mode))
        if session.mode is Mode.TRY and (problem := await session.trial.problem()):
            session.emit(events.Notice(level=events.Level.WARNING, text=problem))
            session.emit(events.ModeChanged(mode=str(Mode.NORMAL)))
        session.emit(events.ModelChanged(model=asked.model, url=asked.url))
        known = {each.event.kind for each in loaded.events}
        if is_ours and self.config.budget and not known & {events.TurnStarted.kind, BudgetSet.kind}:
            session.emit(BudgetSet(budget=whole_budget(self.config.budget)))  # it was new when a crash ended it
        return self._keep(session, asked)

    async def switch_model(self, session_id: str, url: str, model: str, *, is_kept: bool = True) -> None:
        await self._models.sleep(session_id)
        if is_kept or not model:
            await self.servers.use(url, model, is_kept=is_kept)
            url, model = "", self.servers.model
        self._models.switch(session_id, url)
        self._sessions[session_id].set_model(model)

    def take_server_of(self, session_id: str) -> None:
        """Use the server that a session of ours used last, where the settings name none."""
        path = self._store.path(session_id)
        if self.servers.is_chosen or not self._store.is_ours(path.stem):
            return
        if (last := last_model(load(path).events)) is not None:
            self.servers.set_in_use(last.url, last.model)

    async def choose_server(self, among: Sequence[str] = ()) -> str:
        """Take the first server that is found, where none was chosen; return a line that says so, or an empty string.

        Where no model is named, it is the first of `among` that the server has.
        """
        return await self.servers.choose(among, is_model_named=self._models.is_forced)

    async def start_demo(self) -> None:
        await self.use_demo(fresh_folder(self.demo_folder), _DEMO_WORDS_PER_S)

    async def use_demo(self, folder: Path, rate: float) -> str:
        """Start the demo in a folder; `rate` is words a second, 0 unlimited.  Return what this machine lacks for it.

        The script is ours, so where no sandbox works it may run its commands without one, and says so.
        """
        await self._close_sessions()
        folder = check_workspace(folder)
        self._demo = await ScriptedServer(*demo_scenarios(rate)).__aenter__()
        await self._use_workspace(folder)
        self.servers.set_in_use(self._demo.url, DEMO_MODEL)
        sandbox, lacks = await self.sandbox(), ""
        try:
            status = await sandbox.status()
            if status.asks_each_command and not self.is_attended:
                self.config = replace(self.config, allow=(*self.config.allow, *DEMO_RULES))
        except SandboxUnavailable as error:
            if self.config.sandbox != "auto":
                raise
            lacks = f"{error}; the demo's own commands run without one"
            self.config = replace(self.config, sandbox="process")
            await self._use_workspace(folder)
            sandbox = await self.sandbox()
        with suppress(SandboxError):  # its commit then fails, and says why
            await sandbox.run_git(("init", "--quiet", "--initial-branch=main"), writes=True)
        return lacks

    def _given(self, session_id: str, policy: Policy | None) -> EngineSession:
        session = self._sessions[session_id]
        if any(each.let_go(session_id) for each in self._features) and policy is None and self.is_attended:
            session.sleep.attend()
        return session

    async def close(self) -> None:
        self.files.close()
        await self.attempts.close()
        for each in self._features:
            await each.stop()
        await self._close_sessions()
        for each in self._features:
            await each.close()
        await self._sandbox.close()
        await self.servers.close()
        if self._demo is not None:
            await self._demo.__aexit__(None, None, None)
            self._demo = None

    def _parts(
        self,
        session_id: str,
        asked: SessionProvider,
        own: SessionVariant,
        open_log: Callable[[str], SessionLog],
        policy: Policy | None,
        *,
        is_apart: bool = False,
    ) -> SessionParts:
        """Return what a session works with; one that `is_apart` gets nothing that acts outside its sandbox."""
        config, sandbox = own.config, own.sandbox
        policy = policy or Policy(is_attended=self.is_attended)
        own_tools = tools_of(config, self.workspace, {} if is_apart else self._features.told())
        given = self._features.equip(session_id, config, sandbox, is_apart=is_apart)
        rules = rules_in_force(config, self.workspace)
        given.features.add(Interpreter, interpreter_of(config, rules, sandbox))
        if not is_apart:
            asked.cache = SessionPromptCache(self._models.caches, session_id)
        return SessionParts(
            id=session_id,
            provider=asked,
            toolbox=own_tools if is_apart else self._features.toolbox(session_id, own_tools),
            team=self._team(config, session_id),
            sandbox=sandbox.for_session(),
            checkpoints=sandbox.checkpoints,
            images=self._store.images(session_id),
            features=given.features,
            points=given.points,
            redactor=self.servers.redactor.also(value for each in self._features for value in each.secrets()),
            policy=replace(policy, mode=Mode(config.mode), rules=(*rules, *known_rules(policy.rules))),
            main=_model_settings(config, asked.model),
            model=self._model_access(config),
            limits=Limits(max_iterations=config.max_iterations, timeout_s=config.timeout_s),
            now=lambda: datetime.now(UTC),
            monotonic=time.monotonic,
            log=open_log(session_id),  # last: what fails before it leaves no file and no lock
        )

    def _team(self, config: Config, session_id: str) -> TeamParts:
        """Return what the sub-agents of a session are made of."""

        def toolbox(kind: ChildKind, *, can_send: bool) -> Toolbox:
            own = child_tools(str(self.workspace), kind, can_send=can_send, limits=command_limits(config))
            return self._features.child_toolbox(own, kind)

        papers = AgentPapers(self.workspace, session_id, is_kept=config.keep_agents == "on")
        return TeamParts(
            toolbox=toolbox,
            parallel=lambda: self.servers.provider().slot_count,
            max_depth=config.agent_max_depth if config.has_sub_agents else 0,
            definitions=self._features.extensions.get(AgentDefinitions),
            keep_brief=papers.put_brief,
            keep_result=papers.put_result,
        )

    def _model_access(self, config: Config) -> ModelAccess:
        call_form = None if config.call_form == "auto" else ToolCallFormat(config.call_form)
        budget = Budget(self.count_tokens, call_form or ToolCallFormat.NATIVE)
        return ModelAccess(
            KnownModel(self.servers.profiles, call_form),
            ContextBudget(budget, config.tools, config.compact_at, asks_for_summaries=config.summaries == "on"),
            parse_roles(config.roles),
            lambda: self.is_attended and self.servers.provider().slot_count > 1,
            vision=None if config.vision == "auto" else config.vision == "true",
            loader=self.servers.ensure_loaded,
        )

    def _keep(self, session: EngineSession, asked: SessionProvider) -> EngineSession:
        self._sessions[session.id] = session
        self._models.keep(session, asked)
        session.subscribe(self.servers.keep_used, events.UsageUpdated)
        session.when_closed.append(partial(self._sessions.pop, session.id, None))
        keep = partial(keep_grants, self.workspace, session, lambda: self.sessions)
        session.subscribe(keep, events.ApprovalResolved, events.RuleRevoked)
        self._features.follow(session, is_ours=self._store.is_ours(session.id))
        for problem in filter(None, (*kept_problems(self.workspace), self.servers.unasked_roles())):
            session.emit(events.Notice(level=events.Level.WARNING, text=problem))
        session.prepare(is_eager=self.is_attended)
        for told in self.when_opened:
            _ = told(session)
        return session

    def _settle_in(self, folder: Path) -> None:
        """Make what belongs to a folder alone."""
        self.workspace, self._store = folder, SessionStore(folder)
        self.archive: Archive = SessionArchive(self._store, self._sessions, self._first_events, Path.cwd())
        self.attempts = Attempts(self)
        self._features = WorkspaceFeatures(self)
        self.extensions: Extensions = self._features.extensions
        self._features.extensions.add(WorkspaceAttempts, self.attempts)
        self.trust = self._features.trust

    async def _use_workspace(self, folder: Path) -> None:
        self._sandbox.retire()
        await self.attempts.close()
        for each in self._features:
            await each.close()
        self._settle_in(folder)

    async def _close_sessions(self) -> None:
        sessions = list(self._sessions.values())
        self._sessions.clear()
        for session in sessions:
            await session.close()


def _model_settings(config: Config, model: str) -> ModelSettings:
    """Return what goes with every request where no role says otherwise."""
    return ModelSettings(
        model,
        config.temperature,
        config.seed if config.seed >= 0 else None,
        config.max_tokens if config.max_tokens > 0 else None,
        top_p=config.top_p or None,
        repeat_penalty=config.repeat_penalty or None,
    )


_GROUPS = {
    "Model": "url model api_key profiles profile temperature seed top_p repeat_penalty call_form tools roles vision "
    "context_tokens slots max_tokens stall_timeout_s max_retries retry_delay_s append_system_prompt",
    "Limits": "budget timeout_s max_iterations compact_at summaries",
    "Permissions": "mode allow ask deny",
    "Sandbox": "sandbox network web web_search web_search_key add_dirs pass_env command_timeout_s command_memory_mb image",
    "Sub-agents": "sub_agents agent_max_depth keep_agents",
    "Screen": "theme notify",
}


class UserSettings:
    """Implements `core.sessions.SettingsControls`.

    Args:
        loaded: the settings as they were read.
        reload: reads them again.
        use: takes settings that differ in more than what the screen looks like.
    """

    def __init__(self, loaded: Loaded, reload: Callable[[], Loaded], use: Callable[[Config], None]) -> None:
        self.loaded = loaded
        self._reload = reload
        self._use = use

    def rows(self) -> Sequence[SettingRow]:
        return [_row(name, self.loaded) for name in SETTINGS]

    def change(self, name: str, text: str | None) -> SettingRow:
        is_list = isinstance(SETTINGS[name].default, tuple)
        parts = [part.strip() for part in (text or "").split(",") if part.strip()]
        value = None if text is None else convert(name, parts if is_list else text.strip(), "the settings")
        if name == "theme" and value and value not in (known := theme_files()):
            raise ConfigError(f"theme cannot be {value!r} (the settings)", f"It is one of {', '.join(sorted(known))}.")
        return self._write(name, value)

    def roles(self) -> Roles:
        return parse_roles(self.loaded.config.roles)

    def set_role(self, role: ModelRole, model: str) -> None:
        own = read_settings(config_dir() / "config.toml", {}).get("roles", ())
        self._write("roles", convert("roles", with_role(own, role, model), "the settings") or None)

    def _write(self, name: str, value: Any) -> SettingRow:
        file = config_dir() / "config.toml"
        before = file.read_bytes() if file.exists() else None
        write_setting(file, name, value)
        try:
            self.look_again()
        except ConfigError:
            if before is None:
                file.unlink(missing_ok=True)
            else:
                file.write_bytes(before)
            raise
        return _row(name, self.loaded)

    def look_again(self) -> None:
        """Read the settings again, which the user may have changed or trusted meanwhile.

        Raises:
            ConfigError: they cannot be read.
        """
        own, self.loaded = self.loaded.config, self._reload()
        if replace(self.loaded.config, theme=own.theme, notify=own.notify) != own:
            self._use(self.loaded.config)


def write_setting(file: Path, name: str, value: Any) -> None:
    """Put one value into a TOML file, or with None take it out; comments and order stay.

    Raises:
        ConfigError: the file cannot be read or written.
    """
    import tomlkit  # noqa: PLC0415  (start-up: only who changes a setting needs it)

    try:
        file = file.resolve()  # a link to a file kept elsewhere stays one
        document = tomlkit.parse(file.read_text("utf-8")) if file.exists() else tomlkit.document()
        if value is None:
            document.pop(name, None)
        else:
            document[name] = list(value) if isinstance(value, tuple) else value
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o600  # a key may be in it
        write_whole(file, tomlkit.dumps(document), errors="strict")
        file.chmod(mode)
    except (OSError, UnicodeError, tomlkit.exceptions.TOMLKitError) as error:
        raise ConfigError(f"{file} cannot be changed: {error}", "Fix it, or edit the file yourself.") from error


def _row(name: str, loaded: Loaded) -> SettingRow:
    metadata, value = SETTINGS[name].metadata, getattr(loaded.config, name)
    is_list, is_secret = isinstance(value, tuple), metadata["is_secret"]
    text = "" if is_secret else ", ".join(value) if is_list else str(value)
    choices = tuple(theme_files()) if name == "theme" else metadata["choices"]
    label = metadata["label"] or name.replace("_", " ").capitalize()
    group = next((group for group, names in _GROUPS.items() if name in names.split()), "General")
    source = loaded.sources[name]
    found = SettingRow(name, shown(name, value), source, metadata["doc"], text, choices, metadata["env"], is_list)
    return replace(found, label=label, group=group, is_secret=is_secret)


_BROUGHT = frozenset({  # what people bring for an agent; the demo writes nothing of it
    ".lmagent", ".lmagent.md", ".soul.md", ".mcp.json", ".claude", ".agents", ".env", "AGENTS.md", "CLAUDE.md", "GEMINI.md",
})  # fmt: skip


def fresh_folder(folder: Path | None) -> Path:
    """Return a folder that the demo may write in: the one named, or a new one in the temporary folder.

    Raises:
        UsageError: it cannot be made, or holds more than what an agent uses (servers, skills, hooks, instructions).
    """
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="lmtui-demo-"))
    place = folder.expanduser().absolute()
    try:
        place.mkdir(parents=True, exist_ok=True)
        others = sorted(path.name for path in place.iterdir() if path.name not in _BROUGHT)
    except OSError as error:
        raise UsageError(f"cannot use {place} for the demo: {error.strerror}", "Name a folder that can be made.") from error
    if others:
        raise UsageError(
            f"{place} holds {sanitize_line(others[0])}; the demo writes and commits, so it works in a separate folder",
            "Name a new folder, or one with nothing but .lmagent, AGENTS.md and the like.",
        )
    return place
