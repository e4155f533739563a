"""The slash commands that an editor offers, and how one runs: those of lmtui, of files, of MCP servers, and skills."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from acp.schema import AvailableCommand, AvailableCommandInput, UnstructuredCommandInput

from lmtui.acp.prompt_blocks import PromptText
from lmtui.acp.questions import PermissionRequests, option
from lmtui.commands.command import (
    Ask,
    AskYes,
    Begin,
    Choose,
    CommandContext,
    ConfirmRestore,
    OpenView,
    Output,
    Result,
    ReviewEffect,
)
from lmtui.commands.table import command_table, run_typed
from lmtui.core.event_text import changes_text
from lmtui.core.prompt_text import PromptFiles, TextPart, slash_call
from lmtui.core.sanitize import sanitize_line, sanitize_path
from lmtui.core.sessions import Session, SessionHost

Say = Callable[[str], None]
Started = Callable[[Session], None] | None
_OFFERED = (
    "status", "changes", "undo", "redo", "merge", "compact", "budget", "todo", "background", "check", "checks", "goal", "init",
    "instructions", "mcp", "jobs", "submit", "commands", "skill", "attempts", "rename",
)  # fmt: skip
_SCREEN_ONLY = frozenset({"exit", "quit", "new", "clear", "resume", "sessions", "help"})


class SlashCommands:
    """The commands of one session.

    Args:
        host: the host of the session.
        session: what they work on.
        questions: asks what a command asks.
    """

    def __init__(self, host: SessionHost, session: Session, questions: PermissionRequests) -> None:
        self._host, self._questions = host, questions
        self._session = session
        self._context = CommandContext(host, session, command_table())
        self._short: dict[str, str] = {}

    async def offered(self) -> list[AvailableCommand]:
        """Return the commands as they are now."""
        table = self._context.commands
        found: dict[str, AvailableCommand] = {}
        offers = self._host.extensions
        for file in await asyncio.to_thread(offers[PromptFiles].found) if PromptFiles in offers else ():
            if not file.problem:
                found[file.name] = _command(file.name, file.description or f"from {file.source}", file.argument_hint)
        self._short = {}
        for command in table.commands:
            for name, about in (await command.names(self._context)).items() if command.names is not None else ():
                if name not in found and name not in table.names:
                    found[name] = _command(name, about, "what to do")
                    self._short[name] = f"/{command.slash[0]} {name}"
        for name in _OFFERED:
            if name in table.names and name not in found:
                each = next(each for each in table.commands if name in each.slash)
                found[name] = _command(name, each.help, each.argument)
        return list(found.values())

    def is_command(self, text: str) -> bool:
        """Tell whether a text is a command, and does not go to the model."""
        return slash_call(text) is not None

    async def run(self, prompt: PromptText, say: Say) -> Started:
        """Run a command; return what starts work in the session, if that is what it does.

        It is what was typed: names of links and documents, and these themselves, go with a command that the model reads.

        Raises:
            LmtuiError: the command is unknown, or not possible now.
        """
        text, beside = prompt.typed, [part for part in (prompt.named.removeprefix(prompt.typed), *prompt.documents) if part]
        name, argument = slash_call(text) or ("", "")
        file = await self._host.extensions[PromptFiles].read(text) if PromptFiles in self._host.extensions else None
        if file is not None:
            more = tuple(TextPart(f"\n\n{each}", is_foreign=True) for each in beside)
            file = replace(file, pieces=(*file.pieces, *more), images=(*file.images, *prompt.images))
            return lambda session: session.prompts.begin(file, text.strip())
        if name in self._short:
            text = "\n\n".join([f"{self._short[name]} {argument}".strip(), *beside])
        elif name.lower() in _SCREEN_ONLY:
            say(f"/{sanitize_line(name)} is the editor's own business here: use its list of sessions, or start a new one.\n")
            return None
        return await self._take(await run_typed(self._context, text), sanitize_line(name), say)

    async def _take(self, result: Result, name: str, say: Say) -> Started:
        match result:
            case Begin(start=start):
                return start
            case Output(lines=lines):
                say(_block(lines))
            case OpenView(text=text, instead=instead):
                way = f" or use {instead}" if instead else ""
                needs = (f"/{name} needs the full screen: run lmtui in this folder{way}.",)
                say(_block(tuple(await text()) if text is not None else needs))
            case AskYes(question=question, text=text, then=then):
                return await self._take(await then(), name, say) if await self._is_yes(question, text, say) else None
            case Choose(title=title, choices=choices, then=take):
                return await self._choose(title, list(choices.items()), take, name, say)
            case ConfirmRestore():
                await self._restore(result, say)
            case ReviewEffect(review=review, title=title):
                text = "\n".join(sanitize_path(part.path) for part in await review.parts())
                if await self._is_yes(title, text, say):
                    say(_block(("merged", *await review.keep(None))))
            case Ask(question=question):
                say(f"{sanitize_line(question)}: write it behind the command, as in /{name} WORDS.\n")
            case _:
                say(f"/{name} is not available in an editor.\n")
        return None

    async def _is_yes(self, question: str, text: str, say: Say) -> bool:
        options = [option("yes", "Yes", "allow_once"), option("no", "No", "reject_once")]
        is_yes = await self._questions.pick(question, text, options) == "yes"
        if not is_yes:
            say("No changes made.\n")
        return is_yes

    async def _choose(
        self, title: str, choices: Sequence[tuple[str, str]], take: Callable[[str], Awaitable[Result]], name: str, say: Say
    ) -> Started:
        options = [option(key, f"{key}: {note}" if note else key, "allow_once") for key, note in choices]
        chosen = await self._questions.pick(title, "", [*options, option("", "None of them", "reject_once")])
        return await self._take(await take(chosen), name, say) if chosen else None

    async def _restore(self, asked: ConfirmRestore, say: Say) -> None:
        plan, changes = await asked.plan(), self._session.changes
        if plan.conflicts:
            say(f"These files have changed since: {', '.join(map(sanitize_path, plan.conflicts))}\n")
        elif changes is not None and await self._is_yes(f"{plan.action}?", changes_text(plan.changes) or "nothing", say):
            await changes.apply(plan)
            say(f"{plan.action} done: {changes_text(plan.changes)}\n")


def _command(name: str, description: str, hint: str) -> AvailableCommand:
    typed = AvailableCommandInput(UnstructuredCommandInput(hint=sanitize_line(hint))) if hint else None
    return AvailableCommand(name=name, description=sanitize_line(description) or name, input=typed)


def _block(lines: Sequence[str]) -> str:
    """Return lines that keep their columns in Markdown."""
    shown = "\n".join(lines)
    return f"```text\n{shown}\n```\n" if len(lines) > 1 else f"{shown}\n"
