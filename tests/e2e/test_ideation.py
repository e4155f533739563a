from __future__ import annotations

from lmtui.features.pipeline.spec import Criterion, criteria
from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.e2e.conftest import Program, Serve

SPEC = "# Calculator\n- AC-1: it adds\n  check: `python calc.py 1+1`\n\nBLOCKING: which numbers?\n"
WRITE = ScriptedTurn("I write it.", calls=(ScriptedCall("write", {"path": "SPEC.md", "content": SPEC}),))


async def test_a_topic_becomes_a_specification(program: Program, serve: Serve) -> None:
    server = await serve(WRITE, ScriptedTurn("SPEC.md is written."))
    result = await program.run("ideate", "a calculator", "--url", server.url, "--sandbox", "process")
    assert result.code == 0, result.err
    assert criteria((program.workspace / "SPEC.md").read_text()) == (Criterion(1, "it adds", "python calc.py 1+1"),)
    told = server.requests[-1].body["messages"]
    assert any("specify this: a calculator" in str(each["content"]) for each in told)
    empty = await program.run("ideate", " ")
    assert (empty.code, empty.err) == (
        64,
        "lmtui: the task is empty. Write what to do, or pipe it in and give - as the task.\n",
    )
