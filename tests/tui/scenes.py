"""What the pictures show: fixed moments of the app, for snapshot tests and screenshots."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from lmtui.core.permissions.rules import SOURCES, Effect, GrantScope, Rule
from lmtui.core.sessions import SessionSummary
from lmtui.core.trust import TrustItem
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.tui.modals.consent import ConsentDialog
from tests.tui.driving import Driver
from tests.tui.fake_changes import FakeChanges
from tests.tui.fakes import DIFF, START, FakeHost, play_work
from tests.tui.scenes_attempts import ATTEMPT_SCENES
from tests.tui.scenes_chat import CHAT_SCENES
from tests.tui.scenes_diffs import DIFF_SCENES
from tests.tui.scenes_effects import EFFECT_SCENES
from tests.tui.scenes_files import FILE_SCENES
from tests.tui.scenes_lists import LIST_SCENES
from tests.tui.scenes_models import MODEL_SCENES
from tests.tui.scenes_pipeline import PIPELINE_SCENES
from tests.tui.scenes_plan import PLAN_SCENES
from tests.tui.scenes_prompt import PROMPT_SCENES
from tests.tui.scenes_sessions import SESSION_SCENES
from tests.tui.scenes_window import WINDOW_SCENES

COMMAND = "rm -rf build/ && python -m build --wheel"
SANDBOX = "docker, no network"
LONG_COMMAND = "\n".join(
    f"curl -sf https://mirror.example/part-{number:02}.tar.gz | tee part-{number:02}.tar.gz | sha256sum" for number in range(60)
)
COMMAND_FIELDS: dict[str, Any] = {
    "sandbox": SANDBOX,
    "cwd": "/workspace",
    "limits": "up to 120 s, 512 MB",
    "commands": 2,
    "uncovered": ("rm -rf",),
    "why": "normal mode asks before changes",
    "suggested_rule": f"Shell({COMMAND})",
    "offered_rules": (f"Shell({COMMAND})", "Shell(rm -rf build/*)", "Shell(python -m build*)"),
    "digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
}

NEW_TESTS = """\
--- /dev/null
+++ b/parser/tests/test_lexer.py
@@ -0,0 +1,4 @@
+def test_nested():
+    assert lex("/* a /* b */ c */") == []
+
+
"""
README = """\
--- a/README.md
+++ b/README.md
@@ -1,3 +1,3 @@
 # parser

-Comments do not nest.
+Comments nest.
"""
LEXER_CHANGE = FileChange("parser/lexer.py", FileChangeKind.MODIFIED, 4, 2, DIFF)
README_CHANGE = FileChange("README.md", FileChangeKind.MODIFIED, 1, 1, README)
TESTS_CHANGE = FileChange("parser/tests/test_lexer.py", FileChangeKind.ADDED, 4, 0, NEW_TESTS)
STEPS = (
    ("s1", "edit", "parser/lexer.py", (LEXER_CHANGE,)),
    ("s2", "shell", "python tools/scaffold.py --tests --docs", (TESTS_CHANGE, README_CHANGE)),
    ("s3", "shell", "python -m build", (FileChange("dist/parser-0.2.0.tar.gz", FileChangeKind.ADDED),)),
)
RULES = (
    Rule(Effect.ALLOW, "shell", "pytest*", "settings"),
    Rule(Effect.ALLOW, "shell", "git status*", SOURCES[GrantScope.USER]),
    Rule(Effect.ALLOW, "edit", "parser/**", SOURCES[GrantScope.SESSION]),
    Rule(Effect.ALLOW, "shell", COMMAND, SOURCES[GrantScope.WORKSPACE]),
    Rule(Effect.ASK, "read", ".env*", "settings"),
    Rule(Effect.DENY, "write", "secrets/**", "settings"),
)
TRUST_ITEMS = (
    TrustItem("setting", ".lmagent/config.toml", "sandbox = process"),
    TrustItem("setting", ".lmagent/config.toml", "url = http://10.0.0.7:8080/v1"),
    TrustItem("permission rule", ".lmagent/config.toml", "allow = Shell(*)"),
    TrustItem("setting", ".lmagent/config.toml", "network = on"),
    TrustItem("setting", ".env", "model = qwen2.5-coder:7b"),
)

BROUGHT = [
    TrustItem("MCP server", ".mcp.json", "paper: python3 paper_server.py, with TOKEN, may reach api.example.com"),
    TrustItem("hook", ".lmagent/hooks.json", "PreToolUse Bash: ./guard.sh"),
    TrustItem("hook", ".lmagent/hooks.json", "Stop: notify-send done"),
    TrustItem("skill", ".lmagent/skills/release", "release: Write the notes of a release"),
]


@dataclass(frozen=True)
class Scene:
    """A moment: the host it begins with, and the steps that lead to it."""

    name: str
    steps: Callable[[Driver], Awaitable[None]]
    setup_note: str = ""

    def host(self) -> FakeHost:
        """Return a fresh host."""
        host = FakeHost(setup_note=self.setup_note)
        host.summaries = SUMMARIES
        return host


async def at_work(driver: Driver) -> None:
    """Half-way through a turn."""
    play_work(driver.host.session)
    await driver.until_shown("Two cases end")
    await driver.settle()


async def command_approval(driver: Driver) -> None:
    """A command waits for its answer."""
    await at_work(driver)
    driver.host.session.ask("a1", COMMAND, **COMMAND_FIELDS)
    await live_approval(driver)


async def edit_approval(driver: Driver) -> None:
    """A change waits for its answer."""
    await at_work(driver)
    driver.host.session.ask("a1", "edit", tool="edit", diff=DIFF, path="parser/lexer.py", sandbox=SANDBOX, cwd="/workspace")
    await live_approval(driver)


async def long_approval(driver: Driver) -> None:
    """A command longer than the screen waits, its end not seen."""
    await at_work(driver)
    driver.host.session.ask("a1", LONG_COMMAND, **{**COMMAND_FIELDS, "commands": 60, "uncovered": ("curl", "tee")})
    await driver.until_screen("Approval")
    await driver.wake()


async def approval_edited(driver: Driver) -> None:
    """The command is changed before it runs."""
    await command_approval(driver)
    await driver.press("e")
    await driver.press(*["backspace"] * 7, *"--sdist")


async def approval_always(driver: Driver) -> None:
    """Which rule is kept, and for where."""
    await command_approval(driver)
    await driver.press("a")
    await driver.press("down")


async def approval_why(driver: Driver) -> None:
    """Why it asks."""
    await command_approval(driver)
    await driver.press("question_mark")


async def approval_batch(driver: Driver) -> None:
    """Several agents wait."""
    await at_work(driver)
    session = driver.host.session
    session.ask("a1", COMMAND, **COMMAND_FIELDS)
    session.ask("a2", "edit", tool="edit", diff=DIFF, path="parser/lexer.py", sandbox=SANDBOX, agent="reviewer")
    session.ask("a3", "pypi.org:443", tool="network", why="pypi.org is not on the list of hosts", agent="tester")
    await live_approval(driver)
    await driver.press("r", to="Batch")
    driver.host.clock.forward(1)
    await driver.press("end")
    await driver.until(lambda: getattr(driver.app.screen, "shows_live", False))


async def live_approval(driver: Driver) -> None:
    """Wait until an answer counts."""
    await driver.until_screen("Approval")
    driver.host.clock.forward(1)
    approval = driver.app.screen
    assert isinstance(approval, ConsentDialog)
    await driver.until(lambda: approval.shows_live)


async def switcher(driver: Driver) -> None:
    """All sessions."""
    await at_work(driver)
    await driver.press("f2", to="Switcher")
    await driver.until_shown("rename pass")


async def first_run(driver: Driver) -> None:
    """No model yet."""
    await driver.until_screen("FirstRun")
    await driver.until_shown("llama3.2")


async def help_screen(driver: Driver) -> None:
    """Every key."""
    await driver.press("f1", to="Help")
    await driver.until_shown("Type to filter")


async def with_steps(driver: Driver) -> FakeChanges:
    """Some steps that changed files, the newest taken back."""
    session = driver.host.session
    changes = FakeChanges(session)
    session.begin_turn("Make the tokenizer accept nested comments and add tests.")
    for call_id, tool, title, changed in STEPS:
        session.start_call(call_id, tool, title)
        session.finish_call(call_id, tool, summary="+4 -2", decision="once")
        changes.add(call_id, tool, title, *changed)
        driver.host.clock.forward(70)
    session.say("All of it is in.")
    session.end_turn()
    await driver.settle()
    return changes


async def changes_by_step(driver: Driver) -> None:
    """What a session changed, step by step."""
    await with_steps(driver)
    await driver.type("/undo", "RestoreQuestion")
    driver.host.clock.forward(1)
    await driver.press("y")
    await driver.press("f10", to="ChangesScreen")
    await driver.press("down", "down", "down")


async def undo(driver: Driver) -> None:
    """The question before steps are taken back."""
    changes = await with_steps(driver)
    changes.left_out = ("data/corpus.bin",)
    await driver.type("/undo 2", "RestoreQuestion")
    await driver.wake()


async def undone(driver: Driver) -> None:
    """The conversation after an undo and a rewind."""
    await with_steps(driver)
    await driver.type("/undo 2", "RestoreQuestion")
    driver.host.clock.forward(1)
    await driver.press("y")
    await driver.type("/rewind", "Picker")
    await driver.press("enter", to="RestoreQuestion")
    driver.host.clock.forward(1)
    await driver.press("c", to="Workbench")


async def rules(driver: Driver) -> None:
    """Every rule."""
    await at_work(driver)
    driver.host.session.fake_rules = list(RULES)
    await driver.type("/rules", "Rules")


async def trust(driver: Driver) -> None:
    """A folder brings something of its own."""
    driver.host.trust.items = list(TRUST_ITEMS)
    await driver.type("/trust", "TrustQuestion")
    await driver.wake()


async def trusted(driver: Driver) -> None:
    """What is trusted by now, and the way to take it back."""
    driver.host.trust.trusted_items = list(BROUGHT)
    await driver.type("/trust", "TrustedQuestion")


async def settings(driver: Driver) -> None:
    """Every setting with its source."""
    await at_work(driver)
    await driver.press("f11", to="SettingsScreen")
    await driver.press("down", "down")


async def empty(driver: Driver) -> None:
    """Nothing said yet, a slash command begun."""
    await driver.press("/", "s")


def _summary(number: int, title: str, state: str, last_line: str, changes: int, age_s: float) -> SessionSummary:
    then = START - timedelta(seconds=age_s)
    return SessionSummary(
        f"20260314_1{number}0000_abcde{number}", title, state, "qwen2.5-coder:7b", then, then, changes, last_line
    )


SUMMARIES = [
    _summary(1, "docs", "waits", 'shell "npm run build"', 12, 120),
    _summary(2, "parser", "writing", "I'll look at how strings are entered.", 7, 1),
    _summary(3, "rename pass", "done", "212 of 212 files", 212, 3600),
    _summary(4, "try the new tokenizer on the old corpus", "interrupted", "", 0, 90000),
    _summary(5, "release notes", "error", "the server closed the connection", 1, 900000),
]

SCENES = [
    Scene(name, steps, "No model server is chosen yet." if steps is first_run else "")
    for name, steps in {
        "workbench": at_work, "approval_command": command_approval, "approval_edit": edit_approval, "switcher": switcher,
        "first_run": first_run, "help": help_screen, "approval_long": long_approval, "approval_edited": approval_edited,
        "approval_always": approval_always, "approval_why": approval_why, "approval_batch": approval_batch,
        "changes": changes_by_step, "undo": undo,
        "undone": undone, "rules": rules, "trust": trust, "trusted": trusted, "completion": empty, "settings": settings,
        **ATTEMPT_SCENES, **CHAT_SCENES, **DIFF_SCENES, **EFFECT_SCENES, **FILE_SCENES, **LIST_SCENES,
        **MODEL_SCENES, **PIPELINE_SCENES, **PLAN_SCENES, **PROMPT_SCENES, **SESSION_SCENES, **WINDOW_SCENES,
    }.items()
]  # fmt: skip
