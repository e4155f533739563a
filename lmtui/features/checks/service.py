"""The checks of a workspace: given to its sessions, run for the user's own edits, and `lmtui check`."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial

from lmtui.command_line import Parser, add_common, make_parser, say
from lmtui.config import Config, load_config
from lmtui.core.errors import SandboxError, UsageError
from lmtui.core.events import Level, Notice, TurnStarted
from lmtui.core.offers import Offers
from lmtui.core.permissions.decide import decide
from lmtui.core.permissions.rules import SETTINGS, Access, Decision, Mode, Rule, Verdict, exact_rule
from lmtui.core.roles import ModelRole, RoleModel, parse_roles
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.verification import (
    CheckEvent,
    CheckOutcome,
    CheckRan,
    CheckStarted,
    Gate,
    ProjectCheck,
    Rung,
    WorkspaceChecks,
    bounded,
    parse_profiles,
)
from lmtui.engine.session import EngineSession
from lmtui.engine.syntax import parse_check, unparsed
from lmtui.features.checks.fixing import FixingLadder
from lmtui.features.checks.turn_checks import TurnChecks
from lmtui.features.checks.validators import validate
from lmtui.features.checks.values import (
    CheckRunner,
    CommandEnded,
    check_lines,
    command_lines,
    ended_of,
    lacks_suite,
    started_line,
)
from lmtui.features.service import CommandCall, FeatureHost, SessionServices, WorkspaceFeature
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox

_FINDINGS, _NOTHING = 1, 2
_GATES = {
    "off": "no finding blocks a turn",
    "standard": "critical and major findings block a turn",
    "strict": "every finding blocks a turn",
}
_ADD = 'Add it to the settings, for example check_profiles = ["quick: make lint"].'
_NO_OVERLAY = (
    "it may write files, and this sandbox has no overlays to drop them. "
    "Use --sandbox bubblewrap or docker, or let it write with --allow {rule}"
)


class WorkspaceCheckRunner(CheckRunner):
    """Runs checks without an agent: nothing that a command writes is kept.

    Args:
        sandbox: of the workspace.
        rules: the permission rules; a deny rule holds, and an allow rule lets a command write where overlays are missing.
        on_event: called before a command runs, and with what came of each check.
    """

    def __init__(
        self, sandbox: WorkspaceSandbox, rules: tuple[Rule, ...] = (), on_event: Callable[[CheckEvent], None] | None = None
    ) -> None:
        super().__init__(sandbox)
        self.sandbox, self._rules = sandbox, rules
        self._on_event = on_event or (lambda _: None)
        self.told: list[CheckRan] = []

    async def _begin(self, command: str, limit_s: int) -> tuple[Decision, bool]:
        del limit_s
        decision = decide("shell", Access.EXECUTE, command, Mode.NORMAL, self._rules)
        if decision.verdict is Verdict.DENY:
            return decision, False
        self._on_event(CheckStarted(command=command.rpartition("\n")[2]))
        return decision, (await self.sandbox.status()).has_read_only

    async def _run_writing(self, command: str, limit_s: int, decision: Decision) -> CommandEnded:
        """Run a command in an overlay and drop what it wrote; without overlays, only where a rule allows it."""
        if not (await self.sandbox.status()).has_overlays:
            if decision.verdict is Verdict.ALLOW and decision.rule:
                return ended_of(await self.sandbox.fresh().run_command(command, timeout_s=limit_s))
            return CommandEnded(why_not=_NO_OVERLAY.format(rule=shlex.quote(str(exact_rule("shell", command, SETTINGS)))))
        overlay = self.sandbox.overlay()
        try:
            ended = await overlay.sandbox.fresh().run_command(command, timeout_s=limit_s)
            return ended_of(ended, "it ran in an overlay; what it wrote was dropped")
        finally:
            await overlay.close()

    async def before(self, paths: Sequence[str]) -> Mapping[str, bytes | None] | None:
        """Return files as the last commit has them; None without one, and where nothing differs from it."""
        if not paths:
            return None
        try:
            if (await self.sandbox.run_git(["rev-parse", "--verify", "-q", "HEAD"])).exit_code != 0:
                return None
            shown = {path: await self.sandbox.run_git(["show", f"HEAD:./{path}"]) for path in paths}
        except SandboxError:
            return None
        if any(each.total_bytes > len(each.data) for each in shown.values()):
            return None  # too long to be shown whole
        return {path: each.data if each.exit_code == 0 else None for path, each in shown.items()}

    async def changed(self) -> list[str]:
        """Return the files that differ from the last commit, the new ones among them; without git, nothing."""
        words = ["status", "--porcelain", "-z", "--no-renames"]
        for untracked in ("all", "no"):  # without the new ones where they are too many
            with suppress(SandboxError):
                listed = await self.sandbox.run_git([*words, f"--untracked-files={untracked}"])
                return [entry[3:] for entry in listed.entries()]  # two letters and a blank
        return []

    def tell(self, check: CheckRan) -> None:
        self.told.append(check)
        self._on_event(check)


def _joined(commands: Mapping[str, str]) -> str:
    """Return the build and the test of a profile as one command, which fails if one does."""
    build, test = commands.get("build", ""), commands.get("test", "")
    if build and test:
        return f"{build} && ({test})" if "||" in test or ";" in test else f"{build} && {test}"
    return build or test


class ChecksService(WorkspaceFeature):
    """Implements `core.verification.WorkspaceChecks`, and gives each session the ladder as the settings have it."""

    works_apart = True

    def __init__(self, host: FeatureHost, extensions: Offers) -> None:
        super().__init__(host, extensions)
        extensions.add(WorkspaceChecks, self)
        self._seconds: dict[str, float] = {}
        self._chosen = ""
        self._running: asyncio.Task[None] | None = None

    def equip(self, session: SessionServices, sandbox: WorkspaceSandbox) -> None:
        """Give a session its checks."""
        del sandbox
        TurnChecks(partial(self.ladder, session.config)).register(session.points)

    def follow(self, session: EngineSession, *, is_ours: bool) -> None:
        """Set the goal of a new session."""
        goal = self.host.config.goal.strip()
        is_new = not any(isinstance(each.event, TurnStarted) for each in session.history())
        if goal and is_ours and is_new and not session.goals.listed():
            session.goals.set(goal)
        name, commands = self._profile()
        if name and not commands:
            text = f"{self._missing(name)}. The project's own commands are used instead."
            session.emit(Notice(level=Level.WARNING, text=text))

    def ladder(self, config: Config | None = None) -> FixingLadder:
        """Return the checks as settings have them, by default those of now; how long commands took is known to all sessions."""
        config = config or self.host.config
        name, commands = self._profile()
        command = "" if name or config.verify in ("auto", "off") else config.verify
        return FixingLadder(
            is_on=bool(self._chosen) or config.verify != "off",
            command=_joined(commands) or command,
            lint=commands.get("lint", ""),
            source=f"profile {name}" if commands else "settings",
            limit_s=config.check_limit_s,
            gate=Gate(config.gate),
            seconds=self._seconds,
        )

    def _profile(self) -> tuple[str, Mapping[str, str]]:
        """Return the name of the profile in use and its commands; none where it is not there."""
        verify, profiles = self._chosen or self.host.config.verify, parse_profiles(self.host.config.check_profiles)
        name = verify.removeprefix("profile:").strip()
        return (name, profiles.get(name, {})) if name in profiles or name != verify else ("", {})

    def _missing(self, name: str) -> str:
        known = ", ".join(parse_profiles(self.host.config.check_profiles)) or "none"
        return f"Unknown check profile {sanitize_line(name)!r} (known: {known})"

    def choose(self, profile: str) -> None:
        if profile != "auto" and profile not in parse_profiles(self.host.config.check_profiles):
            raise UsageError(self._missing(profile), _ADD)
        self._chosen = "" if profile == "auto" else profile

    def rules(self) -> Sequence[tuple[str, str]]:
        config, (name, commands) = self.host.config, self._profile()
        others = [each for each in parse_profiles(config.check_profiles) if each != name]
        reviewer = sanitize_line(parse_roles(config.roles).get(ModelRole.REVIEWER, RoleModel()).model)
        rows = [
            ("gate", f"{config.gate} ({_GATES[config.gate]})"),
            ("reviewer", reviewer or "none (name one with the setting roles)"),
        ]
        if name or others:
            used = (name if commands else self._missing(name)) if name else "none"
            rows.insert(0, ("profile", used + (f"  (switch with /checks NAME: {', '.join(others)})" if others else "")))
        return rows

    def require_profile(self) -> None:
        """Make sure that the profile that the settings name can be used.

        Raises:
            UsageError: there is none of this name, or only in the settings of a folder that is not trusted.
        """
        name, commands = self._profile()
        wanted, folder = self.host.config.verify.removeprefix("profile:").strip(), self.host.workspace
        own = load_config(folder, {}, {}, trusted=load_config(folder, {}, {}).digest).config
        if not commands and wanted in parse_profiles(own.check_profiles):
            why = f"The check profile {sanitize_line(wanted)!r} comes from this folder's settings, which are not trusted"
            raise UsageError(why, "Look at them and trust them with `lmtui trust`.")
        if name and not commands:
            raise UsageError(self._missing(name), _ADD)

    def why_nothing(self) -> str:
        if not self.ladder().is_on:
            return "Checks are off: verify is off. Turn them on with /settings verify, or --verify COMMAND."
        return "Nothing to check: no test command was found. Set one with /settings verify, or --verify COMMAND."

    async def listed(self) -> Sequence[ProjectCheck]:
        ladder = self.ladder()
        return await ladder.commands(WorkspaceCheckRunner(await self.host.sandbox())) if ladder.is_on else ()

    async def run(self, on_event: Callable[[CheckEvent], None] | None = None) -> Sequence[CheckRan]:
        ladder = self.ladder()
        if not ladder.is_on:
            return ()
        runner = WorkspaceCheckRunner(await self.host.sandbox(), self.host.rules(), on_event)
        self._running = asyncio.create_task(_check_changes(ladder, runner))
        try:
            _ = await asyncio.wait({self._running})
            if not self._running.cancelled():
                self._running.result()
        finally:
            _ = self._running.cancel()
            self._running = None
        return runner.told

    def cancel(self) -> bool:
        return self._running is not None and self._running.cancel()


async def _check_changes(ladder: FixingLadder, runner: WorkspaceCheckRunner) -> None:
    changed = await runner.changed()
    if unparsable := await unparsed(runner.sandbox, changed):
        runner.tell(parse_check(unparsable))
    await ladder.after_step(runner, changed)
    _ = await ladder.at_end(runner, changed, frozenset(check.command for check in runner.told if check.outcome.is_green))
    if found := await validate(runner, changed):
        outcome = CheckOutcome.FAILED if any(map(ladder.gate.blocks, found)) else CheckOutcome.PASSED
        lines = bounded([pluralize(len(found), "finding"), *map(str, found)])
        runner.tell(CheckRan(rung=Rung.LINT, outcome=outcome, command="validators", source="lmtui", text=lines))


def check_parser() -> Parser:
    """Return the parser of `lmtui check`."""
    doc = "Check changes in a folder: syntax, linter, related tests, then all tests.\n"
    doc += "Exit code: 0 all passed, or failed before too, 1 something failed, 2 nothing to check, or a check could not run.\n"
    doc += "Files that checks write are discarded."
    parser = make_parser("check", doc, "lmtui check --verify 'make test'")
    parser.add_argument("--list", action="store_true", help="list the commands, and run none")
    parser.add_argument("--json", action="store_true", help="one JSON value instead of text")
    add_common(parser, without=("--goal",))
    return parser


async def check(call: CommandCall) -> int:
    """Run the checks and print what came of each as soon as it is known."""
    has_json, shown = call.arguments.json, set[str]()

    def tell(event: CheckEvent) -> None:
        lines = check_lines([event]) if isinstance(event, CheckRan) else [started_line(event, shown)]
        if any(lines) and not has_json:
            say("\n".join(lines), flush=True)

    async with call.open_host() as host:
        checks = ChecksService(host, Offers())
        checks.require_profile()
        if call.arguments.list:
            return _list(await checks.listed(), checks, has_json=has_json)
        ran = await checks.run(tell)
    if has_json:
        names = ("rung", "outcome", "command", "source", "exit_code", "text", "elapsed_s")
        print(json.dumps([{name: getattr(each, name) for name in names} for each in ran], ensure_ascii=False))
    elif lacks_suite(ran):
        say(checks.why_nothing())
    if any(each.outcome is CheckOutcome.FAILED for each in ran):
        return _FINDINGS
    decides = [each for each in ran if each.decides]
    return 0 if decides and decides[-1].outcome.is_green else _NOTHING


def _list(listed: Sequence[ProjectCheck], checks: ChecksService, *, has_json: bool) -> int:
    """Print the commands that would run and the rules behind them."""
    if has_json:
        rules = [{"rung": name, "command": "", "source": "settings", "text": text} for name, text in checks.rules()]
        print(json.dumps([*map(asdict, listed), *rules], ensure_ascii=False))
    else:
        nothing = [checks.why_nothing()] if lacks_suite(listed) else []
        say("\n".join([*nothing, *command_lines(listed, checks.rules())]))
    return 0 if listed else _NOTHING
