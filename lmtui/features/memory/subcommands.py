"""`lmtui memory`: the notes without a screen and without a model."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from lmtui.command_line import Parser, make_parser, print_json, print_report, say, with_report
from lmtui.core.errors import UsageError
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.features.memory.commands import hit_lines
from lmtui.features.memory.memory_files import MemoryFiles
from lmtui.features.memory.notes import NO_NOTES, SCOPE_NAMES, MemoryScope, Note, note_lines, parse_notes, with_words
from lmtui.features.memory.values import NO_PROPOSALS, MemoryProposal, WorkspaceMemory, proposal_lines
from lmtui.features.memory.workspace_search import open_search
from lmtui.features.service import CommandCall, FeatureHost, Import, text_to_import

_INDEX_S = 600.0  # the first time a large workspace is indexed
_ACTIONS = ("show", "search", "add", "forget", "review")
_WITHOUT_WORDS = {"show", "review"}


def memory_parser() -> Parser:
    """Return the parser of `lmtui memory`."""
    doc = "Show, search and change the notes for this folder and for all folders. review goes \
through the proposals of finished sessions."
    parser = make_parser("memory", doc, 'lmtui memory add "Run the tests with make check"')
    parser.add_argument("action", nargs="?", choices=_ACTIONS, default="show")
    parser.add_argument("words", nargs="*", metavar="WORDS", help="the note to add, or words to search or forget")
    parser.add_argument(
        "--scope", choices=[each.value for each in MemoryScope], help="project: this folder (default), user: all folders"
    )
    parser.add_argument("--limit", type=int, default=10, metavar="N", help="search: maximum number of results (default: 10)")
    return with_report(parser)


async def memory(call: CommandCall) -> int:
    """Run the action."""
    arguments, words = call.arguments, " ".join(call.arguments.words)
    scope = MemoryScope(arguments.scope) if arguments.scope else None
    if arguments.action not in _WITHOUT_WORDS and not words.strip():
        raise UsageError(f"`lmtui memory {arguments.action}` needs words", "`lmtui memory --help` has an example.")
    if arguments.action in _WITHOUT_WORDS and words.strip():
        raise UsageError(f"`lmtui memory {arguments.action}` takes no words", "To add a note, run `lmtui memory add TEXT`.")
    files = MemoryFiles(call.workspace.workspace)
    match arguments.action:
        case "search":
            return await _search(call, files, words)
        case "add":
            note = Note(words, scope or MemoryScope.PROJECT, "you")
            say("remembered" if await asyncio.to_thread(files.add, note) else "already remembered")
        case "forget":
            gone = with_words(files.notes(), words, scope)
            await asyncio.to_thread(files.remove, gone)
            say("\n".join([f"{pluralize(len(gone), 'note')} forgotten", *note_lines(gone)]))
            if not gone:
                _print_problems(files)
            return 0 if gone else 1
        case "review":
            async with call.open_host() as host:
                await review(host.extensions[WorkspaceMemory], is_json=arguments.json)
        case _:
            await asyncio.to_thread(_show, files, scope, is_json=arguments.json)
    return 0


def _show(files: MemoryFiles, scope: MemoryScope | None, *, is_json: bool) -> None:
    notes = [each for each in files.notes() if scope in (None, each.scope)]
    _print_problems(files)
    print_report([*map(asdict, notes)], note_lines(notes) or [NO_NOTES], is_json=is_json)


def _print_problems(files: MemoryFiles) -> None:
    """Say on stderr why notes are missing.  Blocks."""
    for problem in files.problems():
        print(sanitize_line(problem), file=sys.stderr)


async def review(memory: WorkspaceMemory, *, is_json: bool = False, ask: Callable[[str], str] = input) -> None:
    """Go through the proposals line by line with the user; without a terminal list them."""
    found = await memory.proposals()
    if is_json:
        print_json([*map(asdict, found)])
        return
    for number, each in enumerate(found, 1):
        say("\n".join([*([""] if number > 1 else []), f"{number} of {len(found)}", *proposal_lines(each)]))
        if sys.stdin.isatty() and not await _decide(memory, each, ask):
            return
    if not found:
        say(NO_PROPOSALS)


async def _decide(memory: WorkspaceMemory, proposal: MemoryProposal, ask: Callable[[str], str]) -> bool:
    """Ask what becomes of a proposal; False where the user wants to stop."""
    scope, text = proposal.scope, ""
    while True:
        question = f"Keep for {SCOPE_NAMES[scope]}?  y keep  e edit  s change scope  n discard  Enter later  q quit: "
        try:
            answer = (await asyncio.to_thread(ask, question)).strip().lower()[:1]
            if answer == "e":
                text = (await asyncio.to_thread(ask, "Text: ")).strip()
        except EOFError:
            return False
        match answer:
            case "y" | "e" if answer == "y" or text:
                try:
                    print(f"kept: {sanitize_line(await memory.keep(proposal.id, text, scope))}")
                except UsageError as error:
                    say(error.full_text(), file=sys.stderr)
                return True
            case "s":
                scope = MemoryScope.USER if scope is MemoryScope.PROJECT else MemoryScope.PROJECT
            case "n":
                await memory.discard(proposal.id)
                say("discarded")
                return True
            case "" | "q":
                return answer == ""


async def _search(call: CommandCall, files: MemoryFiles, words: str) -> int:
    async with call.open_host() as host:
        search = open_search(host, files.notes, host.servers.embed)
        if search.embedder is not None:
            _ = await host.choose_server()
        try:
            hits = await search.search(words, max(1, min(call.arguments.limit, 100)), within_s=_INDEX_S)
        finally:
            await search.close()
    print_report([*map(asdict, hits)], hit_lines(hits) or ["nothing found"], is_json=call.arguments.json)
    return 0 if hits else 1


def imports(host: FeatureHost) -> list[Import]:
    """Return the notes of `LAO_MEMORY.md` in the folder, and of `.lao/MEMORY.md` in the user's home."""
    files = MemoryFiles(host.workspace)

    async def add(note: Note) -> str:
        is_new = await asyncio.to_thread(files.add, note)
        return f"a note for {SCOPE_NAMES[note.scope]}" if is_new else "it already exists"

    places = ((host.workspace, "LAO_MEMORY.md", MemoryScope.PROJECT), (Path.home(), ".lao/MEMORY.md", MemoryScope.USER))
    return [
        Import(f"note from {name}: {note.text}", partial(add, replace(note, source="import")))
        for root, name, scope in places
        for note in parse_notes(text_to_import(root, name), scope)
    ]
