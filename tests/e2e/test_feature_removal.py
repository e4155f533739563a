"""Each feature's folder and its line in the registry are removed from a copy of the program, which must not notice."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from lmtui.core.events import Envelope, Event
from lmtui.features.hooks.values import HookRan
from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from lmtui.registry import FEATURES
from lmtui.store.session_logs import decode, encode
from tests.e2e.conftest import ROOT, Program, Serve

WRITE = ScriptedTurn("Writing.", calls=(ScriptedCall("write", {"path": "a.txt", "content": "one\n"}),))
DONE = ScriptedTurn("All is done.")
HELP = {
    "instructions": ("--append-system-prompt",),
    "skills": ("lmtui skills",),
    "hooks": ("--no-hooks",),
    "mcp": ("lmtui mcp", "--no-mcp"),
    "jobs": ("lmtui submit", "jobs", "scheduler"),
    "checks": ("lmtui check", "--verify", "--goal"),
    "projects": ("lmtui projects",),
    "usage": ("lmtui usage",),
    "memory": ("lmtui memory",),
    "batch": ("lmtui batch",),
}
SETTINGS = {
    "instructions": ("append_system_prompt",),
    "hooks": ("hooks",),
    "mcp": ("mcp",),
    "jobs": ("inbox",),
    "otel": ("otel_endpoint",),
    "web_tools": ("web_search", "web_search_key"),
    "memory": ("memory",),
    "checks": ("verify", "check_profiles", "goal", "gate"),
}
SLASH = {
    "instructions": ("instructions", "soul", "init"),
    "skills": ("skill", "skills", "promote"),
    "slash_commands": ("commands",),
    "mcp": ("mcp",),
    "jobs": ("jobs", "submit"),
    "checks": ("goal", "check", "checks", "gates"),
    "usage": ("usage",),
    "memory": ("memory", "remember", "forget", "find"),
    "batch": ("batch",),
}
SCREENS = {"skills": ("SkillList",), "mcp": ("McpList",), "jobs": ("JobList",)}
PROMPT = {"instructions": ("Wear a hat.",), "skills": ("find-bug",)}
TOOLS = {
    "skills": ("skill",),
    "web_tools": ("fetch",),
    "jobs": ("wait", "get_time"),
    "memory": ("memory_search", "memory_append"),
}
EVENTS: dict[str, Event] = {
    "hooks": HookRan(event="Stop", command="true"),
}
SCRIPT = """
import asyncio, contextlib, io, json, os, sys
from pathlib import Path

from lmtui import cli

def typed(arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.run(arguments)
        except SystemExit as ended:
            code = ended.code
    return [code, out.getvalue(), err.getvalue()]

command_lines = json.loads(sys.argv[2])
results = [typed(each) for each in command_lines]
settings = Path(os.environ["LMTUI_HOME"], "config", "config.toml")
settings.parent.mkdir(parents=True, exist_ok=True)
for name in json.loads(sys.argv[3]):
    settings.write_text(f'{name} = "on"\\n')
    results.append(typed(["config", "show"]))
settings.unlink(missing_ok=True)

from lmtui.app.host import Runtime
from lmtui.config import load_config
from lmtui.tui.app import LmtuiApp
from lmtui.tui.options import StartOptions

def open_host():
    loaded = load_config(Path.cwd(), os.environ, {"url": sys.argv[1], "sandbox": "process", "mode": "auto"})
    host = Runtime(Path.cwd(), loaded.config)
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
        from textual.screen import Screen
        from docs import make_keys, make_settings
        from lmtui.tui.controllers.command_controller import every_key

        def below(kind):
            return [kind.__name__, *(name for each in kind.__subclasses__() for name in below(each))]

        workbench = app.workbench
        found = {
            "answer": text,
            "names": workbench.prompt.completing.commands.names,
            "help": "\\n".join(f"{row.group}\\n{row.text} {row.note} {row.words}" for row in every_key()),
            "screens": below(Screen),
            "settings": [row.name for row in workbench.sessions.host.settings.rows()],
            "keys page": make_keys.page(),
            "settings page": make_settings.page(),
        }
    print(json.dumps(found | {"results": results}))

asyncio.run(main())
"""


def reduced(name: str, to: Path) -> Path:
    """Return the folder of a copy of the program without a feature; with an empty name nothing is missing."""
    shutil.copytree(ROOT / "lmtui", to / "lmtui")  # with the compiled modules, which the times of the copies still fit
    for part in ("themes", "docs"):
        (to / part).symlink_to(ROOT / part)
    if name:
        registry = to / "lmtui" / "registry.py"
        text = registry.read_text()
        registry.write_text(re.sub(rf'^ +"{name}",\n', "", text, count=1, flags=re.M))
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


def words_of(expected: Mapping[str, tuple[str, ...]], text: str) -> set[str]:
    """Return which words are in a text, each on its own."""
    return {word for words in expected.values() for word in words if re.search(rf"(?<![\w-]){word}(?![\w-])", text)}


async def test_a_program_without_it_works_and_lists_no_trace(removed: str, program: Program, serve: Serve) -> None:
    server = await serve(WRITE, DONE)
    (program.workspace / "AGENTS.md").write_text("Wear a hat.\n")
    slash = {feature: tuple(f"/{name}" for name in names) for feature, names in SLASH.items()}
    unknown = [names[0] for feature, names in slash.items() if feature == removed or (not removed and feature != "checks")]
    settings = [names[0] for feature, names in SETTINGS.items() if feature == removed]
    flags = ("--mode", "auto", "--sandbox", "process")
    lines = [
        ["run", "--url", server.url, *flags, "-c", "tools=all", "write a file"],
        ["--help"],
        ["config", "show", "--json"],
        ["doctor", "--offline", "--json"],
        *(["run", "--url", "http://127.0.0.1:9/v1", "--sandbox", "process", each] for each in unknown),
    ]
    script = program.workspace.parent / "script.py"
    script.write_text(SCRIPT)
    process = await program.start_python(str(script), server.url, json.dumps(lines), json.dumps(settings))
    out, err = await process.communicate(b"")
    assert out, err.decode()[-3000:]
    found = json.loads(out.decode().splitlines()[-1])

    ran, usage, config, doctor, *rest = found["results"]
    assert ran[:2] == [0, "All is done.\n"], ran[2]
    assert (program.workspace / "a.txt").read_text() == "one\n"
    told = server.requests[1].body
    missing(removed, TOOLS, {tool["function"]["name"] for tool in told["tools"]})
    missing(removed, PROMPT, {word for words in PROMPT.values() for word in words if word in json.dumps(told)})
    missing(removed, HELP, words_of(HELP, usage[1]))
    missing(removed, SETTINGS, set(json.loads(config[1])))
    rows = {"instructions": ("instructions",), "skills": ("skills",)}
    missing(removed, rows, {row["name"] for row in json.loads(doctor[1])})
    for name, (code, _, said) in zip(unknown, rest, strict=False):
        assert code == 64, said
        assert (f"no command {name}" if removed else f"{name} needs a screen") in said
    for name, (code, _, said) in zip(settings, rest[len(unknown) :], strict=True):
        assert (code, f"has no setting called '{name}'" in said) == (64, True), said

    assert "All is done." in found["answer"]
    missing(removed, SLASH, set(found["names"]))
    missing(removed, SCREENS, set(found["screens"]))
    missing(removed, SETTINGS, set(found["settings"]))
    missing(removed, SETTINGS, words_of(SETTINGS, "\n".join(re.findall(r"^\| `(\w+)`", found["settings page"], re.M))))
    for each in ("help", "keys page"):
        missing(removed, slash, words_of(slash, found[each]))


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
    assert f"1 event of {log.name} was left out: a newer lmtui, or a feature that was removed, wrote it" in result.err
