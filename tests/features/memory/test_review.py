from __future__ import annotations

import json
import sys

import pytest

from lmtui.commands.command import CommandContext
from lmtui.commands.table import command_table
from lmtui.core.memory_values import NO_PROPOSALS, MemoryScope
from lmtui.features.memory.commands import show_memory
from lmtui.features.memory.subcommands import review
from tests.tui.fake_memory import AGENTS, FakeMemory, some_notes, some_proposals
from tests.tui.fakes import FakeClock, FakeHost


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> FakeMemory:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    found = FakeMemory()
    found.proposed = some_proposals()
    return found


async def reviewed(memory: FakeMemory, *answers: str) -> list[tuple[object, ...]]:
    left = list(answers)

    def ask(_: str) -> str:
        if not left:
            raise EOFError
        return left.pop(0)

    await review(memory, ask=ask)
    assert not left
    return memory.done


async def test_each_proposal_is_decided_in_its_turn(memory: FakeMemory) -> None:
    assert await reviewed(memory, "y", "n", "", "?", "y") == [
        ("keep", "p1", "", MemoryScope.PROJECT), ("discard", "p2"),
        ("keep", "p4", AGENTS, MemoryScope.PROJECT),
    ]  # fmt: skip


async def test_the_text_and_the_scope_can_be_others(memory: FakeMemory) -> None:
    assert await reviewed(memory, "s", "e", "Prefer pytest", "q") == [("keep", "p1", "Prefer pytest", MemoryScope.USER)]


@pytest.mark.parametrize("answers", [("q",), (), ("e", "", "q"), ("e",)])
async def test_leaving_decides_nothing(memory: FakeMemory, answers: tuple[str, ...]) -> None:
    assert await reviewed(memory, *answers) == []


async def test_what_cannot_be_kept_is_told_and_the_next_is_asked(
    memory: FakeMemory, capsys: pytest.CaptureFixture[str]
) -> None:
    memory.problem = "the disk is full"
    assert await reviewed(memory, "y", "n") == [("discard", "p2")]
    assert "the disk is full" in capsys.readouterr().err


async def test_without_a_terminal_they_are_listed(
    memory: FakeMemory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    assert await reviewed(memory) == []
    out = capsys.readouterr().out
    for words in ('turn 4, a web page: "implementations allow', "kept already: Tests need", "| 2. Push the tag", "4 of 4"):
        assert words in out
    assert "\x1b" not in out
    await review(memory, is_json=True)
    assert [each["id"] for each in json.loads(capsys.readouterr().out)] == ["p1", "p2", "p3", "p4"]
    await review(FakeMemory())
    assert capsys.readouterr().out == f"{NO_PROPOSALS}\n"


async def test_without_a_screen_the_command_lists_notes_and_proposals() -> None:
    host = FakeHost(clock=FakeClock())
    host.extensions.memory.kept, host.extensions.memory.proposed = some_notes(), some_proposals()
    view = await show_memory(CommandContext(host, None, command_table()), "")
    assert view.text is not None
    lines = [*await view.text()]
    assert lines[0].startswith("Tests need Python 3.12 or newer  (this folder")
    assert lines[len(some_notes())].startswith("Proposed (4; decide with `lmtui memory review`")
    assert '  turn 3, you: "again: pytest -q tests please"' in lines
