"""The user's words on their way into the conversation: features may hold them back, and then they wait in the inbox."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lmtui.core.errors import SandboxError, SessionFileError, ToolError, two_sentences
from lmtui.core.events import MessageAdded
from lmtui.core.messages import MAX_IMAGE_BYTES, MAX_IMAGES, Image, ImageRef, Role, ToolCall, ToolSet, sniff
from lmtui.core.permissions.decide import decide_all
from lmtui.core.permissions.rules import Access, Mode, Verdict
from lmtui.core.ports import Notes
from lmtui.core.prompt_text import Mention, find_mentions
from lmtui.core.sanitize import pluralize, sanitize, sanitize_line
from lmtui.core.task_state import files_in, without_files
from lmtui.core.tool_scopes import SkillUsed
from lmtui.core.tool_servers import READ_RESOURCE
from lmtui.engine.agent import Agent, PromptHeld
from lmtui.engine.call_permissions import context_of, decide, is_answered_by_typing
from lmtui.engine.context_fit import compact_now, settle_tools
from lmtui.engine.inbox import UserInput
from lmtui.engine.model_roles import override_model
from lmtui.engine.stop_policy import is_question
from lmtui.engine.tool_runner import run_call

MAX_LINES = 200
MAX_FILE_CHARS = 16_384
MAX_ALL_CHARS = 65_536
MAX_MENTIONS = 20
_MAX_ENTRIES = 200
_MOST_NAMED, _NAMED_CHARS, _MOST_WORDS, _MOST_PLACES = 3, 3_000, 4, 40
_WORD = re.compile(r"[A-Za-z_]\w{3,}")
_COMMON = re.compile(
    r"(?:that|this|with|from|into|have|each|them|then|there|they|what|wh(?:ich|ere|en)|only|many|does|should|keep|find|fix|show"
    r"|(?:file|line|word|name|number|mention|contain|answer|value|return|function|column)s?|named|text|write|creat\w*|make"
    r"|change|replace|rename|append|print|list|heading|without)\Z",
    re.IGNORECASE,
)
_END = re.compile(r"<(?=/?resource\b)", re.IGNORECASE)


@dataclass(slots=True)
class _Attached:
    """What goes with a message: parts of text for the model, pictures, and what the user is told about them.

    With `is_from_file` a command's file says the text, so that it is not the user who typed what it names.
    """

    parts: list[str] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_from_file: bool = False

    @property
    def size_chars(self) -> int:
        """Return how much text there is."""
        return sum(map(len, self.parts))


async def add_message(agent: Agent, said: UserInput) -> None:
    """Put the user's words into the conversation with the files they mention, and behind them the notes that they call to mind.

    The words join it whatever happens; what was sent before stays as it is.
    """
    if said.is_reminder:
        agent.remind(said.text)
        return
    attached = _Attached(images=list(said.images), is_from_file=said.is_from_file)
    refs: tuple[ImageRef, ...] = ()
    try:
        for mention in find_mentions(said.typed or said.text)[:MAX_MENTIONS]:
            await _attach(agent, mention, attached)
        if await _is_small(agent):
            await _attach_named(agent, said.typed or said.text, attached)
        refs = await _keep(agent, attached)
        await _check_eyes(agent, refs, attached)
    finally:
        text = "\n\n".join(attached.parts)
        added = MessageAdded(
            agent=agent.id, role=Role.USER, text=said.text, turn_id=agent.turn.id, attached=text, images=refs,
            is_from_file=said.is_from_file, typed="" if said.is_from_file else said.typed or said.text,
        )  # fmt: skip
        agent.emit(added)
    for note in attached.notes:
        agent.notify(note)
    if not agent.state.depth and (notes := agent.services.features.get(Notes)) is not None:
        given, has_index = agent.conversation.recalled
        found = await notes.recall(said.typed or said.text, given, has_index, agent.state.model.window_tokens)
        if found is not None:
            agent.emit(replace(found, agent=agent.id, turn_id=agent.turn.id))


async def _is_small(agent: Agent) -> bool:
    """Tell whether the model does more with few tools and does not look before it acts."""
    if agent.state.depth:
        return False
    await agent.model.known.ready()
    settle_tools(agent)
    return agent.state.model.tool_set is ToolSet.LEAN


async def _attach_named(agent: Agent, task: str, attached: _Attached) -> None:
    """Give a small model what it would not look for: the short files that its task names, and where the task's words are.

    Nothing is said of what a rule keeps from the model.
    """
    names = [name for name in files_in(task)[:_MOST_NAMED] if not agent.conversation.has_met(name)]
    given: list[str] = []
    for name in names:
        with contextlib.suppress(SandboxError):
            found = await agent.services.sandbox.read_file(name, _NAMED_CHARS)
            is_short = 0 < found.size_bytes <= min(_NAMED_CHARS, _all_limit(agent) - attached.size_chars)
            if is_short and b"\0" not in found.data and not await _refusal(agent, name):
                await _attach_file(agent, name, Mention(name), attached)
                given.append(name)
    if not is_question(task):
        return
    if given and given[0].endswith(".csv"):
        attached.parts.append("[Compute numbers with the tool shell (awk -F,, wc, sort); never in your head.]")
    if given or not names:
        with contextlib.suppress(SandboxError):
            attached.parts += await _places_of_words(agent, task, given)


async def _places_of_words(agent: Agent, task: str, names: Sequence[str]) -> list[str]:
    """Return where the rarer words of a task are: in these files, or in any; where they are nowhere, what the folder has."""
    words = [word for word in dict.fromkeys(_WORD.findall(without_files(task))) if not _COMMON.match(word)][:_MOST_WORDS]
    lines: list[str] = []
    for word in words:
        places: dict[str, list[int]] = {}
        for each in await agent.services.sandbox.grep(word, is_literal=True, max_matches=_MOST_PLACES):
            places.setdefault(each.path, []).append(each.line)
        places |= {name: places.get(name, []) for name in names}
        for path, found in places.items() if len(places) <= _MOST_NAMED else ():
            if (not names or path in names) and not await _refusal(agent, path):
                where = f" ({', '.join(map(str, found))})" if found else ""
                lines.append(f"{word}: {sanitize_line(path)}, {pluralize(len(found), 'line')}{where}")
    if lines:
        return ["<search>\n" + "\n".join(lines) + "\n</search>"]
    return [] if names or not words else [await _listing(agent, ".")]


async def _attach(agent: Agent, mention: Mention, attached: _Attached) -> None:
    path = mention.path.removeprefix("./").rstrip("/") or "."
    name = sanitize_line(mention.path)
    if mention.resource is not None:
        await _attach_resource(agent, name, mention.resource, attached)
        return
    try:
        refusal = await _refusal(agent, path)
        if refusal:
            attached.notes.append(f"@{name} was not sent: {refusal}")
            return
        if mention.path.endswith("/") or path == ".":
            attached.parts.append(await _listing(agent, path))
        else:
            await _attach_file(agent, path, mention, attached)
    except SandboxError as error:
        if "/" in mention.path or mention.first:  # else it may be a person or a decorator
            attached.notes.append(f"@{name} was not sent: {error}")


async def _attach_resource(agent: Agent, name: str, resource: tuple[str, str], attached: _Attached) -> None:
    """Read a resource of an MCP server: a call that the user typed, so that only a rule or nobody's being there refuses it."""
    server, uri = resource
    arguments = json.dumps({"server": server, "uri": uri})
    try:
        call = agent.services.toolbox.prepare(READ_RESOURCE, arguments)
        decision = decide(agent, call)
        is_typed = agent.services.approvals.is_attended and not attached.is_from_file and is_answered_by_typing(agent, call)
        if decision.verdict is not Verdict.ALLOW and not (decision.verdict is Verdict.ASK and is_typed):
            asks = "the agent can ask to read it" if agent.services.approvals.is_attended else f"the rule {call.tool} allows it"
            way = f"; {asks}" if decision.verdict is Verdict.ASK else ""
            attached.notes.append(f"@{name} was not sent: {decision.why}{way}")
            return
        found = await call.run(context_of(agent, ToolCall("mention", call.tool, arguments)))
    except (ToolError, SandboxError) as error:
        attached.notes.append(f"@{name} was not sent: {error}")
        return
    room = max(0, min(_file_limit(agent), _all_limit(agent) - attached.size_chars))
    is_cut = len(found.text) > room
    if is_cut:
        attached.notes.append(f"@{name} was cut: {room:,} of {len(found.text):,} characters were sent")
    text = _END.sub("‹", found.text[:room]) + ("\n[cut here]" if is_cut else "")
    attached.parts.append(f'<resource server="{server}" uri="{name.partition(":")[2]}">\n{text}\n</resource>')
    attached.images += found.images


async def _refusal(agent: Agent, path: str) -> str:
    """Return why a path may not be read unasked, else an empty string.

    The user named it, so what manual mode would ask about is answered; what a rule asks or may hold secrets is not, as the
    text may come from elsewhere.
    """
    paths = tuple(dict.fromkeys((path, *await agent.services.sandbox.real_paths([path]))))
    mode = Mode.NORMAL if agent.state.mode is Mode.MANUAL else agent.state.mode
    decision = decide_all("read", Access.READ, paths, mode, agent.all_rules())
    if decision.verdict is Verdict.ALLOW:
        return ""
    return decision.why if decision.verdict is Verdict.DENY else f"{decision.why}; the agent can ask to read it"


async def _attach_file(agent: Agent, path: str, mention: Mention, attached: _Attached) -> None:
    try:
        found = await agent.services.sandbox.read_file(path, MAX_IMAGE_BYTES + 1)
    except SandboxError as error:
        try:
            attached.parts.append(await _listing(agent, path))
        except SandboxError:
            raise error from None
        return
    media_type = sniff(found.data)
    if media_type and found.size_bytes <= MAX_IMAGE_BYTES:
        attached.images.append(Image(path.rpartition("/")[2], media_type, found.data))
        return
    if b"\0" in found.data[:8192]:
        attached.notes.append(f"@{sanitize_line(path)} was not sent: it is not text")
        return
    lines = sanitize(found.data.decode("utf-8", "replace")).splitlines()
    room = min(_file_limit(agent), _all_limit(agent) - attached.size_chars)
    attached.parts.append(_file_part(path, lines, mention, room, attached.notes))


def _file_part(path: str, lines: Sequence[str], mention: Mention, room: int, notes: list[str]) -> str:
    """Return a file for the model, cut to what there is room for; what is left out is said to the model and in `notes`."""
    total = len(lines)
    first = min(mention.first or 1, max(total, 1))
    wanted = min(mention.last or total, total)
    taken: list[str] = []
    for line in lines[first - 1 : min(wanted, first - 1 + MAX_LINES)]:
        room -= len(line) + 1
        if room < 0:
            break
        taken.append(line)
    last = first - 1 + len(taken)
    is_cut = last < wanted
    where = f"lines {first}-{last} of {total}" if taken else f"none of its {total} lines"
    if is_cut:
        notes.append(
            f"@{sanitize_line(path)} was cut: {where} were sent; @{sanitize_line(path)}:{last + 1}-{wanted} sends the rest"
        )
    attribute = f' lines="{first}-{last} of {total}"' if is_cut or mention.first else ""
    rest = f"\n[cut here; read it with offset={last + 1} for the rest]" if is_cut else ""
    return f'<file path="{sanitize_line(path)}"{attribute}>\n' + "\n".join(taken) + f"{rest}\n</file>"


async def _listing(agent: Agent, path: str) -> str:
    entries = await agent.services.sandbox.list_directory("" if path == "." else path, 1, _MAX_ENTRIES)
    names = (sanitize_line(entry.path) + ("/" if entry.kind == "dir" else "") for entry in entries)
    more = f"\n[the first {_MAX_ENTRIES}]" if len(entries) >= _MAX_ENTRIES else ""
    return f'<folder path="{sanitize_line(path)}">\n' + "\n".join(names) + f"{more}\n</folder>"


async def _keep(agent: Agent, attached: _Attached) -> tuple[ImageRef, ...]:
    """Keep the pictures next to the log and return what to write down of them."""
    images, beyond = attached.images[:MAX_IMAGES], attached.images[MAX_IMAGES:]
    if beyond:
        attached.notes.append(f"only {MAX_IMAGES} pictures go with one message; the others were not sent")
    if not images:
        return ()
    if agent.services.images is None:
        attached.notes.append("pictures cannot be kept here and were not sent")
        return ()
    refs: list[ImageRef] = []
    for image in images:
        try:
            refs.append(await asyncio.to_thread(agent.services.images.put, image))
        except SessionFileError as error:
            attached.notes.append(error.full_text())
    return tuple(refs)


async def _check_eyes(agent: Agent, refs: Sequence[ImageRef], attached: _Attached) -> None:
    """Tell the user where the model sees no pictures, once its server was asked."""
    if refs:
        await agent.model.known.ready()
        if not agent.may_send_images:
            name = agent.state.model.settings.model or "the model"
            attached.notes.append(
                f"{name} sees no pictures: it is told only their names; choose another model, or name one for the role vision"
            )


def _file_limit(agent: Agent) -> int:
    return min(MAX_FILE_CHARS, agent.result_limit_chars())


def _all_limit(agent: Agent) -> int:
    return min(MAX_ALL_CHARS, 2 * agent.result_limit_chars())


_TIMEOUT_S = 60
_MOST_CHARS = 16_000
_UNTRUSTED = "{name} is not trusted in this folder, so its commands were left out: `lmtui trust` shows them and asks."


async def fill_in(agent: Agent, said: UserInput) -> UserInput:
    """Return the user's words as the file has them; only what the file and the arguments say is looked through for files."""
    prompt = said.prompt
    assert prompt is not None
    name = f"/{prompt.file.name}"
    if prompt.file.allowed is not None:
        agent.emit(
            SkillUsed(agent=agent.id, skill=name, source=prompt.file.source, is_limited=True, allowed=prompt.file.allowed)
        )
    await override_model(agent, prompt.file.model, name)
    if prompt.file.commands and not prompt.file.may_run:
        agent.notify(_UNTRUSTED.format(name=name))
    text, typed = "", ""
    for number, piece in enumerate(prompt.pieces):
        if piece.is_foreign:
            text += _cut(piece.text, min(_MOST_CHARS, agent.result_limit_chars()), "what the server said")
        elif not piece.is_command:
            text, typed = text + piece.text, typed + piece.text
        elif prompt.file.may_run:
            text += await _output(agent, piece.text, f"{agent.turn.id}_{number}")
        else:
            text += "[a command was here; it was not run]"
    return replace(
        said, text=text, typed=typed or said.text, images=(*said.images, *prompt.images), prompt=None, is_from_file=True
    )


async def _output(agent: Agent, command: str, call_id: str) -> str:
    """Run one command and return what takes its place."""
    call = ToolCall(f"prompt_{call_id}", "shell", json.dumps({"command": command, "timeout": _TIMEOUT_S}))
    result = await run_call(agent, call, by="file")
    if result.summary in ("refused", "not run", "stopped", "not understood"):
        return f"[a command was here; it was not run: {sanitize_line(result.summary)}]"
    return _cut(result.text, _MOST_CHARS, "what the command said")


def _cut(text: str, most: int, whose: str) -> str:
    left = len(text) - most
    return text[:most].rstrip("\n") + (f"\n[cut here: {left:,} more characters of {whose}]" if left > 0 else "")


_KEPT = "Your message is kept: take it back to change it, or send an empty message to try again."


async def add_user_message(agent: Agent, said: UserInput) -> None:
    """Put the user's words into the conversation, unless a feature holds them back.

    What is held back is what the user sent: a command's file is filled in again, with its tools and its model.

    Raises:
        PromptHeld: one does; they wait in the inbox, held back.
    """
    points = agent.services.points.before_message
    try:
        with contextlib.suppress(SandboxError):  # the first call says so
            await agent.services.workspace.look()
        words = said if said.prompt is None else await fill_in(agent, said)
        told = [] if words.is_reminder else [await each(agent, words.text) for each in points]
    except (asyncio.CancelledError, PromptHeld):
        _hold(agent, said)
        raise
    await add_message(agent, words)
    for text in filter(None, told):
        agent.remind(text)


async def take_steering(agent: Agent) -> bool:
    """Add what the user sent meanwhile to the conversation, one message after the other; True if there was something.

    What an interrupt finds still waiting stays in the inbox; where a feature holds something back, the turn continues without.
    """
    is_any = False
    inbox = agent.inbox  # a session that is closed meanwhile has another one, and what waits here is to wait again
    while (said := inbox.take_steering()) is not None:
        is_any = True
        try:
            await (compact_now(agent, said, agent.turn.id) if said.is_compaction else add_user_message(agent, said))
        except PromptHeld as held:
            agent.notify(held_words(held))
        finally:
            agent.emit(inbox.as_event(agent.id))
    return is_any


def held_words(held: PromptHeld) -> str:
    """Return what the user is told."""
    return two_sentences(str(held), _KEPT)


def _hold(agent: Agent, said: UserInput) -> None:
    agent.inbox.hold(said)
    agent.emit(agent.inbox.as_event(agent.id))
