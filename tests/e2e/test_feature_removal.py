"""Each feature's folder and its line in the registry are removed from a copy of the program, which must not notice."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from lmtui.core.events import Envelope, Event
from lmtui.core.hooks import HookRan
from lmtui.core.skills import SkillUsed
from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from lmtui.registry import FEATURES
from lmtui.store.codec import decode, encode
from tests.e2e.conftest import ROOT, Program, Serve

WRITE = ScriptedTurn("Writing.", calls=(ScriptedCall("write", {"path": "a.txt", "content": "one\n"}),))
DONE = ScriptedTurn("All is done.")
HELP = {
    "instructions": ("--append-system-prompt",),
    "skills": ("lmtui skills",),
    "hooks": ("--no-hooks",),
    "mcp": ("lmtui mcp", "--no-mcp"),
    "jobs": ("lmtui submit", "jobs", "scheduler"),
}
SETTINGS = {
    "instructions": ("append_system_prompt",),
    "hooks": ("hooks",),
    "mcp": ("mcp",),
    "jobs": ("scheduler_interval_s", "inbox"),
}
TOOLS = {"skills": ("skill",), "web_tools": ("fetch",), "jobs": ("wait", "get_time")}
EVENTS: dict[str, Event] = {
    "hooks": HookRan(event="Stop", command="true"),
    "skills": SkillUsed(skill="find-bug", source="shipped"),
}
SCREEN = """
import asyncio, os, sys
from pathlib import Path
from lmtui.app.host import open_runtime
from lmtui.config import load_config
from lmtui.tui.app import LmtuiApp
from lmtui.tui.options import StartOptions

def open_host():
    loaded = load_config(Path.cwd(), os.environ, {"url": sys.argv[1], "sandbox": "process", "mode": "auto"})
    host = open_runtime(Path.cwd(), loaded.config)
    host.ask_trust(loaded, lambda: loaded)
    return host

async def main():
    app = LmtuiApp(open_host, StartOptions(workspace=str(Path.cwd()), task="write a file"))
    async with app.run_test(size=(120, 40)) as pilot:
        async with asyncio.timeout(60):
            while True:
                await pilot.pause(0.05)
                lines = app.screen._compositor.render_strips(app.size)
                text = "\\n".join("".join(segment.text for segment in strip) for strip in lines)
                if "All is done." in text:
                    break
        print(text)

asyncio.run(main())
"""


def reduced(name: str, to: Path) -> Path:
    """Return the folder of a copy of the program without a feature; with an empty name nothing is missing."""
    shutil.copytree(ROOT / "lmtui", to / "lmtui")  # with the compiled modules, which the times of the copies still fit
    for part in ("themes", "docs"):
        (to / part).symlink_to(ROOT / part)
    if name:
        registry = to / "lmtui" / "registry.py"
        lines = registry.read_text().splitlines(keepends=True)
        registry.write_text("".join(line for line in lines if line != f'    "{name}",\n'))
        shutil.rmtree(to / "lmtui" / "features" / name)
    return to


@pytest.fixture(params=["", *FEATURES])
def removed(request: pytest.FixtureRequest, program: Program, tmp_path: Path) -> str:
    """The name of the feature that the program is without; the empty one removes nothing, so that each list is seen to fail."""
    name: str = request.param
    program.environ["PYTHONPATH"] = str(reduced(name, tmp_path / "program"))
    return name


def missing(removed: str, expected: Mapping[str, tuple[str, ...]], found: set[str]) -> None:
    """Assert that what belongs to a feature is in a list as long as the feature is there, and only then."""
    for feature, words in expected.items():
        for word in words:
            assert (word in found) is (feature != removed), f"{word} of {feature}"


def told_tools(server: ScriptedServer) -> set[str]:
    return {tool["function"]["name"] for tool in server.requests[-1].body["tools"]}


async def test_a_turn_runs_and_the_model_is_told_of_no_tool(removed: str, program: Program, serve: Serve) -> None:
    server = await serve(WRITE, DONE)
    flags = ("--url", server.url, "--mode", "auto", "--sandbox", "process", "-c", "tools=all")
    result = await program.run("run", *flags, "write a file")
    assert (result.code, result.out) == (0, "All is done.\n"), result.err
    assert (program.workspace / "a.txt").read_text() == "one\n"
    missing(removed, TOOLS, told_tools(server))


async def test_the_screen_opens_and_shows_an_answer(removed: str, program: Program, serve: Serve) -> None:
    server = await serve(WRITE, DONE)
    script = program.workspace.parent / "screen.py"
    script.write_text(SCREEN)
    process = await program.start_python(str(script), server.url)
    out, err = await process.communicate()
    assert "All is done." in out.decode(), err.decode()[-3000:]


async def test_the_command_line_lists_no_trace(removed: str, program: Program) -> None:
    told = (await program.run("--help")).out
    missing(removed, HELP, {word for words in HELP.values() for word in words if re.search(rf"{word}(?![\w-])", told)})
    told = (await program.run("config", "show", "--json")).out
    missing(removed, SETTINGS, set(json.loads(told)))
    told = (await program.run("doctor", "--offline", "--json")).out
    rows = {"instructions": ("instructions",), "skills": ("skills",)}
    missing(removed, rows, {row["name"] for row in json.loads(told)})


@pytest.mark.parametrize("removed", EVENTS, indirect=True)
async def test_a_log_with_its_events_goes_on_without_them(removed: str, program: Program, serve: Serve) -> None:
    server = await serve(WRITE, DONE, DONE)
    flags = ("--url", server.url, "--mode", "auto", "--sandbox", "process")
    assert (await program.run("run", *flags, "write a file")).code == 0
    (log,) = (program.workspace / ".lmagent" / "sessions").glob("*.jsonl")
    last = decode(log.read_text().splitlines()[-1])
    with log.open("a") as file:
        file.write(encode(Envelope(last.seq + 1, last.time, last.session, EVENTS[removed])) + "\n")
    result = await program.run("run", *flags, "--continue", "go on")
    assert (result.code, result.out) == (0, "All is done.\n"), result.err
    assert f"1 events of {log.name} are left out: a newer lmtui wrote them, or a feature that is gone" in result.err
