from __future__ import annotations

from tests.e2e.conftest import Program


async def test_notes_are_added_shown_and_forgotten_without_a_model(program: Program) -> None:
    assert (await program.run("memory", "add", "Run the tests with make check.")).out == "remembered\n"
    assert (await program.run("memory", "add", "run the tests with MAKE check")).out == "already remembered\n"
    assert (await program.run("memory", "add", "--scope", "user", "Be brief.")).code == 0
    shown = (await program.run("memory", "show", "--json")).json
    assert [(each["text"], each["scope"], each["source"]) for each in shown] == [
        ("Run the tests with make check.", "project", "you"),
        ("Be brief.", "user", "you"),
    ]
    gone = await program.run("memory", "forget", "brief")
    assert (gone.code, gone.out.splitlines()[0]) == (0, "1 note forgotten")
    assert (await program.run("memory", "forget", "brief")).code == 1
    for action in ("show", "review"):
        assert "takes no words" in (await program.run("memory", action, "Be brief.")).err
    assert len((await program.run("memory", "show", "--json")).json) == 1
    assert "'user'" in (wrong := await program.run("memory", "--scope", "both")).err
    assert "MemoryScope" not in wrong.err
