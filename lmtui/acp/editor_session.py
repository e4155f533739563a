"""One session as an editor has it open: its events become updates, its questions become requests, its prompts are turns.

Its mode and model are selectors.  The slash commands that an editor offers are those of lmtui, of files and of MCP servers,
and skills.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from acp import schema
from acp.exceptions import RequestError
from acp.helpers import update_tool_call
from pydantic import BaseModel, ValidationError

from lmtui.acp.acp_server import Editor, dumped
from lmtui.acp.projection import Projection, PromptText, ToolContent, diff_parts, hunks_of, kind_of, text_content
from lmtui.app.session_models import last_model
from lmtui.commands import command
from lmtui.commands.session_commands import MODE_NOTES, set_mode
from lmtui.commands.table import command_table, run_typed
from lmtui.core import events
from lmtui.core.agent_events import PlanProposed
from lmtui.core.errors import ToolError, UsageError
from lmtui.core.event_text import changes_text
from lmtui.core.events import ApprovalRequested
from lmtui.core.plan_mode import proposal_lines
from lmtui.core.prompt_text import PromptFiles, TextPart, slash_call
from lmtui.core.sanitize import escape_invisible_line, sanitize_line, sanitize_path
from lmtui.core.servers import ServerFound, short_details
from lmtui.core.sessions import Answer, Session, SessionHost
from lmtui.core.tool_servers import Form, ToolServers, fields_of, is_web_address
from lmtui.core.trust import kinds_text
from lmtui.core.workspace import EffectKind, EffectPart, units_of

Started = Callable[[Session], None] | None
_OFFERED = (
    "status", "changes", "undo", "redo", "merge", "compact", "budget", "todo", "background", "check", "checks", "goal", "init",
    "instructions", "mcp", "jobs", "submit", "commands", "skill", "attempts", "rename",
)  # fmt: skip
_SCREEN_ONLY = frozenset({"exit", "quit", "new", "clear", "resume", "sessions", "help"})
_STOP_REASONS: dict[events.TurnReason, schema.StopReason] = {
    events.TurnReason.LIMIT: "max_turn_requests",
    events.TurnReason.INTERRUPTED: "cancelled",
}
_LOOK_S = 1.5
_Value = tuple[str, str, str | None]
_MODES: list[_Value] = [(str(mode), str(mode).capitalize(), note) for mode, note in MODE_NOTES.items()]
ConfigOption = schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean


@dataclass(slots=True)
class _Prompt:
    """A prompt that is being answered: whether the editor cancelled it, and how its last turn ended."""

    is_cancelled: bool = False
    ended: events.TurnEnded | None = None


class EditorSession:
    """An open session.

    Args:
        editor: who has it open.
        host: the host of its folder.
        session: the session.
        notes: what is said once, before the first answer.
    """

    def __init__(self, editor: Editor, host: SessionHost, session: Session, notes: list[str]) -> None:
        self._editor, self.host, self.session = editor, host, session
        self._notes = notes
        self._projection = Projection(host.workspace, session.id)
        self._found: Sequence[ServerFound] = ()
        self._told_commands: list[schema.AvailableCommand] | None = None
        self._short: dict[str, str] = {}  # the commands that stand for a longer one
        self._prompts: list[_Prompt] = []
        self._turn = asyncio.Lock()
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._queued: tuple[str, ...] = ()
        self._leave: list[Callable[[], None]] = []

    def open(self, *, replays: bool) -> None:
        """Follow the session from now on; with `replays` the editor is told all that was said before."""
        for envelope in self.session.history():
            for update in self._projection.updates(envelope):
                if replays:
                    self._update(update)
        self._leave = [self.session.subscribe(self._take)]
        if ToolServers in self.host.extensions:
            self._leave.append(self.host.extensions[ToolServers].listen(self.tell_after_answer))

    @property
    def is_answering(self) -> bool:
        """Tell whether a prompt is being answered."""
        return bool(self._prompts)

    @property
    def calls_server(self) -> bool:
        """Tell whether a tool of an MCP server is being called."""
        return bool(self._projection.server_call())

    async def close(self) -> None:
        """Cancel what runs, and follow the session no longer."""
        self.cancel()
        for leave in self._leave:
            leave()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _update(self, update: BaseModel) -> None:
        self._editor.update(self.session.id, update)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- events ---------------------------------------------------------------------------------------------------------

    def _take(self, envelope: events.Envelope) -> None:
        for update in self._projection.updates(envelope):
            self._update(update)
        match envelope.event:
            case events.ModeChanged() | events.ModelChanged(role="", agent=events.ROOT):
                update = schema.ConfigOptionUpdate(session_update="config_option_update", config_options=self.options())
                self._update(update)
            case ApprovalRequested(approval_id=approval_id) as event:
                self._asked[approval_id] = self._start(self._ask(event))
            case events.ApprovalResolved(approval_id=approval_id):
                if (task := self._asked.pop(approval_id, None)) is not None:
                    task.cancel()
            case events.TurnEnded(agent=events.ROOT) as event:
                for prompt in self._prompts[:1]:
                    prompt.ended = event
            case events.InboxChanged(queued=queued):
                self._queued = queued

    async def _ask(self, event: ApprovalRequested) -> None:
        answer = await self._approval(event, self._projection.call_id(event.agent, event.call_id))
        if self._asked.pop(event.approval_id, None) is None:
            return
        if answer is None:
            self.cancel()
            return
        if answer.outcome is not events.Outcome.NO:
            for update in self._projection.begun(event.agent, event.call_id):
                self._update(update)
        self.session.answer(event.approval_id, answer)

    async def elicit(self, form: Form) -> Mapping[str, object] | None:
        """Return how the user filled in a form of an MCP server, None where they did not or the editor has no forms."""
        call_id = self._projection.server_call()
        text = f"{sanitize_line(form.server)}: {sanitize_line(form.text)}"
        params: dict[str, Any] = {"sessionId": self.session.id, "message": text}
        params |= {"toolCallId": call_id} if call_id else {}
        offered = self._editor.capabilities.elicitation or schema.ElicitationCapabilities()
        if (offered.url if form.url else offered.form) is None or (form.url and not is_web_address(form.url)):
            return None
        if form.url:
            params |= {"mode": "url", "url": form.url, "elicitationId": f"{self.session.id}-{id(form)}"}
        else:
            properties: Any = form.schema.get("properties")
            known = {each.name: properties[each.name] for each in fields_of(form)}
            needed = [each.name for each in fields_of(form) if each.is_required]
            params |= {"mode": "form", "requestedSchema": {"type": "object", "properties": known, "required": needed}}
        try:
            answer = await self._editor.request("elicitation/create", params)
        except (RequestError, ConnectionError):
            return None
        if not isinstance(answer, dict) or answer.get("action") != "accept":
            return None
        content = answer.get("content")
        return content if isinstance(content, dict) else {}

    # -- what the editor shows around the conversation ------------------------------------------------------------------

    def tell_after_answer(self) -> None:
        """Send the slash commands soon: once the editor knows the session, and when those of a server change."""
        _ = self._start(self.tell_commands())

    async def tell_commands(self) -> None:
        """Send the slash commands, if they are others than the editor was told."""
        offered = await self._offered()
        if offered != self._told_commands:
            self._told_commands = offered
            update = schema.AvailableCommandsUpdate(session_update="available_commands_update", available_commands=offered)
            self._update(update)

    async def look(self) -> None:
        """Look which models there are, for a short time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S):
                self._found = await self.host.servers.find()

    def options(self) -> list[ConfigOption]:
        """Return the selectors of mode and model with their values."""
        used = last_model(self.session.history())
        name = used.model or used.default_model if used is not None else ""
        current = f"{_root(used.url) if used is not None else ''} {name or '(default)'}"
        models: dict[str, _Value] = {current: (current, name or "The server's own", None)}
        for server in self._found:
            for model in server.chat_models:
                note = f"{sanitize_line(server.kind)}: {sanitize_line(short_details(model))}"
                value = f"{_root(server.url)} {model.name}"
                models[value] = (value, sanitize_line(model.name), note)
        return [
            _select("mode", "When lmtui asks before a tool runs", str(self.session.mode), _MODES),
            _select("model", "Which model answers from the next request on", current, models.values()),
        ]

    async def choose(self, option_id: str, value: str | bool) -> None:
        """Set a selector.

        Raises:
            UsageError: the selector or value is unknown, or not possible now.
            ProviderError: the server of the model does not answer.
        """
        option = next((each for each in self.options() if each.id == option_id), None)
        if not isinstance(option, schema.SessionConfigOptionSelect):
            raise UsageError(f"unknown option {sanitize_line(option_id)!r}; use mode or model")
        if value not in {each.value for each in option.options if isinstance(each, schema.SessionConfigSelectOption)}:
            raise UsageError(f"unknown value {sanitize_line(str(value))!r} for option {option_id}")
        if value != option.current_value and option_id == "mode":
            await set_mode(self.session, str(value))
        elif value != option.current_value:
            url, _, model = str(value).partition(" ")
            await self.host.switch_model(self.session.id, url, model)

    # -- prompts --------------------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Stop what runs, and the prompts that wait behind it."""
        for prompt in self._prompts:
            prompt.is_cancelled = True
        if self.session.is_running:
            self.session.interrupt()

    async def prompt(self, text: PromptText) -> schema.PromptResponse:
        """Answer a prompt; one that comes while another is answered waits for its turn.

        Raises:
            RequestError: the turn failed.
            LmtuiError: a slash command cannot be done.
        """
        prompt = _Prompt()
        self._prompts.append(prompt)
        try:
            async with self._turn:
                if not prompt.is_cancelled:
                    await self._answer(prompt, text)
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            self._prompts.remove(prompt)
        ended = prompt.ended
        if prompt.is_cancelled:
            return schema.PromptResponse(stop_reason="cancelled")
        if ended is not None and ended.reason is events.TurnReason.ERROR:
            raise RequestError(-32603, sanitize_line(ended.error) or "The turn failed.", {"fault": ended.fault})
        return schema.PromptResponse(stop_reason=_STOP_REASONS.get(ended.reason, "end_turn") if ended else "end_turn")

    async def _answer(self, prompt: _Prompt, text: PromptText) -> None:
        await self.tell_commands()
        for note in self._notes:
            self._update(self._projection.note(f"{note}\n", note))
        self._notes.clear()
        start = await self._begin(text)
        if start is None or prompt.is_cancelled:
            return
        self._projection.expected = 1
        start(self.session)
        await self._settle(prompt)
        while await self._approve_plan(prompt):
            await self._settle(prompt)
        self._projection.expected = 0

    async def _begin(self, text: PromptText) -> Started:
        """Return what starts the work of a prompt, None where nothing is left to do."""
        if slash_call(text.typed) is not None:
            return await self._run(text)
        plan = self.session.plans.open
        if plan is not None:
            return lambda session: session.plans.revise(plan.proposal_id, text.named)
        return lambda session: session.submit(text.text, typed=text.typed or "[attached]", images=text.images)

    async def _approve_plan(self, prompt: _Prompt) -> bool:
        """Ask about the plan that is open; tell whether it is carried out now."""
        plans = self.session.plans
        if prompt.is_cancelled or plans.open is None:
            return False
        proposal_id = plans.open.proposal_id
        grants = plans.grants(plans.open.proposal).rules
        answer = await self._plan_answer(plans.open, grants=grants)
        if not answer:
            return False
        try:
            plans.approve(proposal_id, rules=grants if answer == APPROVE_WITH_GRANTS else ())
        except ToolError as error:
            self._say(f"{error.full_text()}\n")
            return False
        return True

    async def _settle(self, prompt: _Prompt) -> None:
        """Wait until nothing is left to do."""
        await self.session.wait_idle()
        for _ in self._queued if prompt.is_cancelled else ():
            self.session.waiting.drop(0)

    def _say(self, text: str) -> None:
        self._update(self._projection.say(text, f"said {id(text)} {text[:40]}"))

    # -- slash commands ---------------------------------------------------------------------------------------------------

    async def _offered(self) -> list[schema.AvailableCommand]:
        """Return the commands as they are now."""
        table, offers = command_table(), self.host.extensions
        found: dict[str, schema.AvailableCommand] = {}
        for file in await asyncio.to_thread(offers[PromptFiles].found) if PromptFiles in offers else ():
            if not file.problem:
                found[file.name] = _command(file.name, file.description or f"from {file.source}", file.argument_hint)
        self._short, context = {}, command.CommandContext(self.host, self.session, table)
        for own in table.commands:
            for name, about in (await own.names(context)).items() if own.names is not None else ():
                if name not in found and name not in table.names:
                    found[name] = _command(name, about, "what to do")
                    self._short[name] = f"/{own.slash[0]} {name}"
        for name in _OFFERED:
            call = table.parse(f"/{name}")
            if call is not None and call.command is not None and name not in found:
                found[name] = _command(name, call.command.help, call.command.argument)
        return list(found.values())

    async def _run(self, prompt: PromptText) -> Started:
        """Run a command; return what starts work in the session, if that is what it does.

        It is what was typed: names of links and documents, and these themselves, go with a command that the model reads.

        Raises:
            LmtuiError: the command is unknown, or not possible now.
        """
        text, beside = prompt.typed, [part for part in (prompt.named.removeprefix(prompt.typed), *prompt.documents) if part]
        name, argument = slash_call(text) or ("", "")
        file = await self.host.extensions[PromptFiles].read(text) if PromptFiles in self.host.extensions else None
        if file is not None:
            more = tuple(TextPart(f"\n\n{each}", is_foreign=True) for each in beside)
            file = replace(file, pieces=(*file.pieces, *more), images=(*file.images, *prompt.images))
            return lambda session: session.waiting.begin(file, text.strip())
        if name in self._short:
            text = "\n\n".join([f"{self._short[name]} {argument}".strip(), *beside])
        elif name.lower() in _SCREEN_ONLY:
            self._say(f"/{sanitize_line(name)} is not available here: use the editor's list of sessions, or start a new one.\n")
            return None
        context = command.CommandContext(self.host, self.session, command_table())
        return await self._finish(await run_typed(context, text), sanitize_line(name))

    async def _finish(self, result: command.Result, name: str) -> Started:
        match result:
            case command.Begin(start=start):
                return start
            case command.Output(lines=lines):
                self._say(_block(lines))
            case command.OpenView(text=text, instead=instead):
                way = f" or use {instead}" if instead else ""
                needs = (f"/{name} needs the full screen: run lmtui in this folder{way}.",)
                self._say(_block(tuple(await text()) if text is not None else needs))
            case command.AskYes(question=question, text=text, then=then):
                return await self._finish(await then(), name) if await self._is_yes(question, text) else None
            case command.Choose():
                return await self._choose(result, name)
            case command.ConfirmRestore():
                await self._restore(result)
            case command.ReviewEffect(review=review, title=title):
                text = "\n".join(sanitize_path(part.path) for part in await review.parts())
                if await self._is_yes(title, text):
                    self._say(_block(("merged", *await review.keep(None))))
            case command.Ask(question=question):
                self._say(f"{sanitize_line(question)}: write it after the command, as in /{name} WORDS.\n")
            case _:
                self._say(f"/{name} is not available in an editor.\n")
        return None

    async def _is_yes(self, question: str, text: str) -> bool:
        options = [option("yes", "Yes", "allow_once"), option("no", "No", "reject_once")]
        is_yes = await self._pick(question, text, options) == "yes"
        if not is_yes:
            self._say("No changes made.\n")
        return is_yes

    async def _choose(self, asked: command.Choose, name: str) -> Started:
        options = [option(key, f"{key}: {note}" if note else key, "allow_once") for key, note in asked.choices.items()]
        chosen = await self._pick(asked.title, "", [*options, option("", "None of them", "reject_once")])
        return await self._finish(await asked.then(chosen), name) if chosen else None

    async def _restore(self, asked: command.ConfirmRestore) -> None:
        plan, changes = await asked.plan(), self.session.changes
        if plan.conflicts:
            self._say(f"These files have changed since: {', '.join(map(sanitize_path, plan.conflicts))}\n")
        elif changes is not None and await self._is_yes(f"{plan.action}?", changes_text(plan.changes) or "nothing"):
            await changes.apply(plan)
            self._say(f"{plan.action} done: {changes_text(plan.changes)}\n")

    # -- questions ----------------------------------------------------------------------------------------------------------

    async def _approval(self, event: ApprovalRequested, call_id: str) -> Answer | None:
        """Return the answer to an approval, None where the user dismissed it: that stops the turn."""
        units = self._units(event)
        places = [place for unit in units for place in unit.places]
        if not places and event.path:
            places = diff_parts(self.host.workspace, event.path, event.diff)[1]
        call = _call(call_id, _asked(event), kind_of(event.tool), self._content(event, units), places)
        chosen = await self._permission(call, list(_options(event, is_divisible=len(units) > 1)))
        if chosen == "parts":
            return await self._by_parts(event, call_id, units)
        return _answer(chosen)

    async def _plan_answer(self, event: PlanProposed, *, grants: Sequence[str]) -> str:
        """Return which answer the user gave to a plan: `APPROVE`, `APPROVE_WITH_GRANTS`, or an empty string."""
        options = [option(APPROVE, "Approve the plan", "allow_once")]
        if grants:
            text = f"Approve the plan and what it names ({len(grants)} rules for this session)"
            options.append(option(APPROVE_WITH_GRANTS, text, "allow_always"))
        options.append(option("no", "Keep planning", "reject_once"))
        lines = [*proposal_lines(event.proposal), *(f"allow {escape_invisible_line(rule)}" for rule in grants)]
        content = text_content("\n".join(lines))
        call = _call(f"{event.proposal_id}-answer", "Approve this plan?", "switch_mode", [content])
        chosen = await self._permission(call, options)
        return chosen if chosen in (APPROVE, APPROVE_WITH_GRANTS) else ""

    async def _pick(self, title: str, text: str, options: Sequence[schema.PermissionOption]) -> str:
        """Return the id of the option that the user picked, empty where they picked none."""
        content = [text_content(text)] if text else []
        return (
            await self._permission(_call(f"question-{abs(hash((title, text)))}", title, "other", content), list(options)) or ""
        )

    async def _permission(self, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]) -> str | None:
        """Return the id of what was chosen, empty where it was dismissed, None where the editor cannot ask."""
        asked = schema.RequestPermissionRequest(session_id=self.session.id, tool_call=call, options=options)
        try:
            answer = await self._editor.request("session/request_permission", dumped(asked))
            found = schema.RequestPermissionResponse.model_validate(answer).outcome
        except (RequestError, ConnectionError, ValidationError):
            return None
        chosen = found.option_id if isinstance(found, schema.AllowedOutcome) else ""
        return chosen if chosen in {each.option_id for each in options} else ""

    async def _by_parts(self, event: ApprovalRequested, call_id: str, units: Sequence[_Unit]) -> Answer | None:
        kept: list[int] = []
        for number, unit in enumerate(units):
            where = escape_invisible_line(unit.path)
            title = f"{where}: change {number + 1} of {len(units)}"
            call = _call(call_id, title, kind_of(event.tool), unit.content, unit.places)
            options = [option("yes", "Accept this change", "allow_once"), option("no", "Reject this change", "reject_once")]
            if number + 1 < len(units):
                options.insert(1, option("rest", "Accept this and all others", "allow_once"))
                options.append(option("end", "Reject this and all others", "reject_once"))
            chosen = await self._permission(call, options)
            if not chosen:
                return _answer(chosen)
            kept += [number] if chosen == "yes" else range(number, len(units)) if chosen == "rest" else []
            if chosen in ("rest", "end"):
                break
        if not kept:
            return Answer(events.Outcome.NO)
        return Answer(events.Outcome.ONCE, hunks=None if len(kept) == len(units) else tuple(kept))

    def _units(self, event: ApprovalRequested) -> list[_Unit]:
        """Return what can be answered one by one, by its number."""
        if event.parts:
            return [unit for part, own in zip(event.parts, units_of(event.parts), strict=True) for unit in self._of(part, own)]
        contents, places = diff_parts(self.host.workspace, event.path, event.diff)
        if len(contents) != event.hunks or event.hunks < 2:
            return []
        return [_Unit(event.path, [content], [place]) for content, place in zip(contents, places, strict=True)]

    def _of(self, part: EffectPart, own: range) -> Iterator[_Unit]:
        contents, places = diff_parts(self.host.workspace, part.path, part.diff, is_new=part.kind is EffectKind.CREATED)
        if len(own) == len(contents) > 1:
            yield from (_Unit(part.path, [each], [place]) for each, place in zip(contents, places, strict=True))
            return
        words = text_content(f"{part.kind}: {escape_invisible_line(part.path)}")
        yield from (_Unit(part.path, [*contents] or [words], places[:1]) for _ in own)

    def _content(self, event: ApprovalRequested, units: Sequence[_Unit]) -> list[ToolContent]:
        lines = [event.text] if event.text.strip() and not event.diff else []
        lines += [f"Why: {sanitize_line(event.why)}"] if event.why else []
        lines += [f"Not covered by your rules: {'; '.join(event.uncovered)}"] if event.uncovered else []
        told = ", ".join(part for part in (event.limits, event.sandbox) if part)
        lines += [sanitize_line(told)] if told else []
        diffs: list[ToolContent] = [each for unit in units for each in unit.content]
        if not diffs and event.diff:
            is_new = not any(hunk.old for hunk in hunks_of(event.diff))
            diffs = [*diff_parts(self.host.workspace, event.path, event.diff, is_new=is_new)[0]] or [text_content(event.diff)]
        return [*([text_content("\n".join(lines))] if lines else []), *diffs]


def trust_note(host: SessionHost) -> str:
    """Return what of the folder does not hold as nobody trusted it yet, with the way out; empty for nothing."""
    waiting = host.trust.waiting()
    if not waiting:
        return ""
    return (
        f"This folder brings {kinds_text(waiting)} that you have not trusted: not in effect. "
        f"To review them, run `lmtui trust` in {host.workspace}."
    )


def _command(name: str, description: str, hint: str) -> schema.AvailableCommand:
    typed = schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint=sanitize_line(hint))) if hint else None
    return schema.AvailableCommand(name=name, description=sanitize_line(description) or name, input=typed)


def _block(lines: Sequence[str]) -> str:
    """Return lines that keep their columns in Markdown."""
    shown = "\n".join(lines)
    return f"```text\n{shown}\n```\n" if len(lines) > 1 else f"{shown}\n"


def mode_state(session: Session) -> schema.SessionModeState:
    """Return the modes and the one in force."""
    modes = [schema.SessionMode(id=mode, name=name, description=note) for mode, name, note in _MODES]
    return schema.SessionModeState(current_mode_id=str(session.mode), available_modes=modes)


def _root(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1")


def _select(name: Literal["mode", "model"], about: str, current: str, values: Iterable[_Value]) -> ConfigOption:
    options = [schema.SessionConfigSelectOption(value=value, name=name, description=note) for value, name, note in values]
    return schema.SessionConfigOptionSelect(
        id=name, name=name.capitalize(), description=about, category=name, type="select", current_value=current, options=options
    )


_TITLE_CHARS = 200
APPROVE, APPROVE_WITH_GRANTS = "approve", "approve_with_grants"


def option(option_id: str, name: str, kind: schema.PermissionOptionKind) -> schema.PermissionOption:
    """Return one answer that the user may choose."""
    return schema.PermissionOption(option_id=option_id, name=name, kind=kind)


@dataclass(frozen=True, slots=True)
class _Unit:
    """One hunk, or a file that is all or nothing, of what is asked about."""

    path: str
    content: list[ToolContent]
    places: list[schema.ToolCallLocation]


def _answer(chosen: str | None) -> Answer | None:
    """Return the answer that was chosen; None where the question was dismissed."""
    if chosen is None:
        return Answer(events.Outcome.NO, feedback="the editor cannot ask the user")
    return Answer(events.Outcome(chosen)) if chosen else None


def _call(
    call_id: str,
    title: str,
    kind: schema.ToolKind,
    content: Sequence[ToolContent],
    places: Sequence[schema.ToolCallLocation] = (),
) -> schema.ToolCallUpdate:
    return update_tool_call(
        call_id, title=title, kind=kind, status="pending", content=[*content] or None, locations=[*places] or None
    )


def _asked(event: ApprovalRequested) -> str:
    what = escape_invisible_line(event.path or event.text.partition("\n")[0])
    who = "" if event.agent == events.ROOT else f"{sanitize_line(event.agent)}: "
    verb = "keep what the command changed" if event.parts else sanitize_line(event.tool)
    return f"{who}{verb}: {what}"[:_TITLE_CHARS] if what and not event.parts else f"{who}{verb}"


def _options(event: ApprovalRequested, *, is_divisible: bool) -> Iterator[schema.PermissionOption]:
    deleted = any(part.kind is EffectKind.DELETED for part in event.parts)
    yield option("once", ("Keep all, deletions too" if deleted else "Keep all") if event.parts else "Allow once", "allow_once")
    if is_divisible:
        yield option("parts", "Choose change by change", "allow_once")
    if event.suggested_rule:
        rule = escape_invisible_line(event.suggested_rule)
        yield option("session", f"Allow in this session: {rule}", "allow_always")
        yield option("always", f"Always allow in this folder: {rule}", "allow_always")
    if event.can_try:
        yield option("try", "Run in an overlay, then ask about its effect", "allow_once")
    yield option("no", "Drop all" if event.parts else "Reject", "reject_once")
