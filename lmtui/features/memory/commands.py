"""Commands of memory: the notes, one more, one less, and a search of everything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lmtui.commands.command import AskYes, Command, CommandContext, OpenView, Output, Result, Scope
from lmtui.core.errors import UsageError
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.features.memory.notes import NO_NOTES, MemoryScope, Note, note_key, note_lines, with_words
from lmtui.features.memory.values import SearchHit, WorkspaceMemory, proposal_lines

_EVERYWHERE = ("--all", "--user", "--global")


async def show_memory(context: CommandContext, _: str) -> OpenView:
    """Show the notes."""
    memory = context.host.extensions[WorkspaceMemory]

    async def lines() -> Iterable[str]:
        problems, proposed = list(await memory.warnings()), await memory.proposals()
        notes = note_lines(await memory.notes()) or ([] if problems else [NO_NOTES])
        waits = [f"Proposed ({len(proposed)}; decide with `lmtui memory review`):"] if proposed else []
        return [*map(sanitize_line, problems), *notes, *waits, *(line for each in proposed for line in proposal_lines(each))]

    return OpenView("memory.show", text=lines, instead="`lmtui memory show`")


async def remember(context: CommandContext, argument: str) -> Output:
    """Keep a note of the user's."""
    words = argument.split()
    is_everywhere = words[:1] and words[0] in _EVERYWHERE
    scope = MemoryScope.USER if is_everywhere else MemoryScope.PROJECT
    note = Note(" ".join(words[1:] if is_everywhere else words), scope, "you")
    is_new = await context.host.extensions[WorkspaceMemory].add(note)
    where = "for all folders" if is_everywhere else "for this folder (/memory add --all: for all folders)"
    return Output((f"remembered {where}" if is_new else "already remembered",))


async def forget(context: CommandContext, argument: str) -> Result:
    """Take out notes, after a look at them."""
    memory = context.host.extensions[WorkspaceMemory]
    found = with_words(await memory.notes(), argument)
    if not found:
        raise UsageError(f"no note contains {argument.strip()[:60]!r}", "/memory lists the notes.")

    async def take_out() -> Output:
        await memory.remove(found)
        return Output((f"{pluralize(len(found), 'note')} forgotten",))

    return AskYes(f"Forget {pluralize(len(found), 'note')}?", "\n".join(note_lines(found)), take_out)


async def find(context: CommandContext, argument: str) -> OpenView:
    """Search notes, earlier sessions, documents and code."""
    if not note_key(argument):
        raise UsageError("the search needs words", "Type what to look for: /find WORDS.")

    async def lines() -> Iterable[str]:
        hits = await context.host.extensions[WorkspaceMemory].search(argument, 12)
        return hit_lines(hits) or [f"nothing found for {sanitize_line(argument.strip())[:60]!r}"]

    return OpenView("memory.find", argument.strip(), text=lines, instead="`lmtui memory search`")


def hit_lines(hits: Sequence[SearchHit]) -> list[str]:
    """Return hits for people: where each is, and below it what it says."""
    lines: list[str] = []
    for hit in hits:
        title = f"  {sanitize_line(hit.title)}" if hit.title else ""
        said = [line for line in hit.text.splitlines() if line.strip()][:3]
        lines += [f"{hit.source}  {sanitize_line(hit.place)}{title}", *(f"    {sanitize_line(line)[:160]}" for line in said)]
    return lines


_VERBS = {"add": remember, "forget": forget, "find": find}


async def control_memory(context: CommandContext, words: str) -> Result:
    """Show the notes, add or forget some, or search everything."""
    verb, _, rest = words.partition(" ")
    return await (_VERBS[verb](context, rest.strip()) if verb in _VERBS else show_memory(context, words))


COMMANDS: tuple[Command, ...] = (
    Command("memory.show", Scope.WORKBENCH, "Memory",
        "Show notes and proposals; add a note for later sessions, forget some, or search sessions, documents and code.",
        slash=("memory",), argument="[add TEXT, forget or find WORDS]", handler=control_memory,
        aliases={"remember": "add", "forget": "forget", "find": "find"}, instead="`lmtui memory show`"),
)  # fmt: skip
