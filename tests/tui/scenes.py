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
from tests.tui import scenes_around, scenes_calls, scenes_chat, scenes_window
from tests.tui.driving import Driver
from tests.tui.fake_changes import FakeChanges
from tests.tui.fakes import DIFF, START, FakeHost, play_work
from tests.tui.scenes_agents import AGENT_SCENES
from tests.tui.scenes_attempts import ATTEMPT_SCENES
from tests.tui.scenes_batch import BATCH_SCENES
from tests.tui.scenes_checks import CHECK_SCENES
from tests.tui.scenes_diffs import DIFF_SCENES
from tests.tui.scenes_effects import EFFECT_SCENES, effect_approval
from tests.tui.scenes_files import FILE_SCENES
from tests.tui.scenes_hooks import HOOK_SCENES
from tests.tui.scenes_jobs import JOB_SCENES
from tests.tui.scenes_mcp import MCP_SCENES
from tests.tui.scenes_memory import MEMORY_SCENES
from tests.tui.scenes_models import MODEL_SCENES, POOL_SCENES
from tests.tui.scenes_pipeline import PIPELINE_SCENES, pipeline_plans
from tests.tui.scenes_plan import PLAN_SCENES
from tests.tui.scenes_projects import PROJECT_SCENES
from tests.tui.scenes_prompt import PROMPT_SCENES
from tests.tui.scenes_sessions import SESSION_SCENES
from tests.tui.scenes_skills import SKILL_SCENES
from tests.tui.scenes_tasks import TASK_SCENES
from tests.tui.scenes_trust import TRUST_SCENES
from tests.tui.scenes_usage import USAGE_SCENES

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
    "why": "no rule covers all of it",
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
    await driver.until_screen("CommandEdit")
    await driver.press(*["backspace"] * 7, *"--sdist")


async def approval_always(driver: Driver) -> None:
    """Which rule is kept, and for where."""
    await command_approval(driver)
    await driver.press("a")
    await driver.until_screen("GrantChoice")
    await driver.press("down")


async def approval_why(driver: Driver) -> None:
    """Why it asks."""
    await command_approval(driver)
    await driver.press("question_mark")
    await driver.until_screen("Explanation")


async def approval_batch(driver: Driver) -> None:
    """Several agents wait."""
    await at_work(driver)
    session = driver.host.session
    session.ask("a1", COMMAND, **COMMAND_FIELDS)
    session.ask("a2", "edit", tool="edit", diff=DIFF, path="parser/lexer.py", sandbox=SANDBOX, agent="reviewer")
    session.ask("a3", "pypi.org:443", tool="network", why="pypi.org is not on the list of hosts", agent="tester")
    await live_approval(driver)
    await driver.press("b")
    await driver.until_screen("Batch")
    driver.host.clock.forward(1)
    await driver.press("end")
    await driver.until(lambda: getattr(driver.app.screen, "shows_live", False))


async def network_approval(driver: Driver) -> None:
    """A command wants to reach a host."""
    await at_work(driver)
    why = "the host is not on the list of this folder"
    driver.host.session.ask("a1", "pypi.org:443", tool="network", why=why, sandbox="docker, proxy: 3 hosts")
    await live_approval(driver)


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
    await driver.press("f2")
    await driver.until_screen("Switcher")
    await driver.until_shown("rename pass")


async def first_run(driver: Driver) -> None:
    """No model yet."""
    await driver.until_screen("FirstRun")
    await driver.until_shown("llama3.2")


async def help_screen(driver: Driver) -> None:
    """Every key."""
    await driver.press("f1")
    await driver.until_screen("Help")
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
    await driver.type("/undo")
    await driver.until_screen("RestoreQuestion")
    driver.host.clock.forward(1)
    await driver.press("y")
    await driver.press("f10")
    await driver.until_screen("ChangesScreen")
    await driver.press("down", "down", "down")


async def changes_by_file(driver: Driver) -> None:
    """What a session changed, file by file."""
    await with_steps(driver)
    await driver.press("f10")
    await driver.until_screen("ChangesScreen")
    await driver.press("f", "down")


async def undo(driver: Driver) -> None:
    """The question before steps are taken back."""
    changes = await with_steps(driver)
    changes.left_out = ("data/corpus.bin",)
    await driver.type("/undo 2")
    await driver.until_screen("RestoreQuestion")
    await driver.wake()


async def undo_conflict(driver: Driver) -> None:
    """An undo that is refused."""
    changes = await with_steps(driver)
    changes.conflicts = ("parser/lexer.py",)
    await driver.type("/undo 3")
    await driver.until_screen("RestoreQuestion")


async def undone(driver: Driver) -> None:
    """The conversation after an undo and a rewind."""
    await with_steps(driver)
    await driver.type("/undo 2")
    await driver.until_screen("RestoreQuestion")
    driver.host.clock.forward(1)
    await driver.press("y")
    await driver.type("/rewind")
    await driver.until_screen("Picker")
    await driver.press("enter")
    await driver.until_screen("RestoreQuestion")
    driver.host.clock.forward(1)
    await driver.press("c")
    await driver.until_screen("Workbench")


async def rules(driver: Driver) -> None:
    """Every rule."""
    await at_work(driver)
    driver.host.session.fake_rules = list(RULES)
    await driver.press("f12")
    await driver.until_screen("Rules")


async def no_rules(driver: Driver) -> None:
    """No rule yet."""
    await at_work(driver)
    await driver.press("f12")
    await driver.until_screen("Rules")


async def trust(driver: Driver) -> None:
    """A folder brings something of its own."""
    driver.host.trust.items = list(TRUST_ITEMS)
    await driver.type("/trust")
    await driver.until_screen("TrustQuestion")
    await driver.wake()


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

SCENES = (
    Scene("workbench", at_work),
    Scene("approval_command", command_approval),
    Scene("approval_edit", edit_approval),
    Scene("approval_effect", effect_approval),
    Scene("switcher", switcher),
    Scene("first_run", first_run, setup_note="No model server is chosen yet."),
    Scene("help", help_screen),
    Scene("approval_long", long_approval),
    Scene("approval_edited", approval_edited),
    Scene("approval_always", approval_always),
    Scene("approval_why", approval_why),
    Scene("approval_batch", approval_batch),
    Scene("approval_network", network_approval),
    Scene("changes", changes_by_step),
    Scene("changes_by_file", changes_by_file),
    Scene("undo", undo),
    Scene("undo_conflict", undo_conflict),
    Scene("undone", undone),
    Scene("rules", rules),
    Scene("rules_none", no_rules),
    Scene("trust", trust),
    Scene("completion", empty),
    Scene("settings", scenes_around.settings),
    Scene("window_use", scenes_window.window_use),
    Scene("window_changed", scenes_window.window_changed),
    Scene("calls_in_window", scenes_calls.calls_in_window),
    Scene("calls_changed", scenes_calls.calls_changed),
    Scene("cache", scenes_window.cache),
    Scene("cache_none", scenes_window.cache_none),
    Scene("zoomed", scenes_around.zoomed),
    Scene("without_sides", scenes_around.without_sides),
    *(Scene(name, steps) for name, steps in PLAN_SCENES),
    *(Scene(name, steps) for name, steps in FILE_SCENES),
    *(Scene(name, steps) for name, steps in DIFF_SCENES),
    *(Scene(name, steps) for name, steps in PROMPT_SCENES),
    *(Scene(name, steps) for name, steps in SESSION_SCENES),
    *(Scene(name, steps) for name, steps in MODEL_SCENES),
    *(Scene(name, steps) for name, steps in JOB_SCENES),
    *(Scene(name, steps) for name, steps in (*MCP_SCENES, *TRUST_SCENES)),
    *(Scene(name, steps) for name, steps in HOOK_SCENES),
    *(Scene(name, steps) for name, steps in SKILL_SCENES),
    *(Scene(name, steps) for name, steps in TASK_SCENES),
    Scene("chat_search", scenes_chat.chat_search),
    Scene("chat_search_line", scenes_chat.chat_search_line),
    Scene("chat_copy_mode", scenes_chat.chat_copy_mode),
    Scene("chat_call", scenes_chat.chat_call),
    Scene("chat_below", scenes_chat.chat_below),
    *(Scene(name, steps) for name, steps in CHECK_SCENES),
    *(Scene(name, steps) for name, steps in ATTEMPT_SCENES),
    *(Scene(name, steps) for name, steps in EFFECT_SCENES),
    *(Scene(name, steps) for name, steps in PIPELINE_SCENES),
    *(Scene(name, steps) for name, steps in PROJECT_SCENES),
    *(Scene(name, steps) for name, steps in BATCH_SCENES),
    Scene("pipeline_plans", pipeline_plans),
    *(Scene(name, steps) for name, steps in USAGE_SCENES),
    *(Scene(name, steps) for name, steps in MEMORY_SCENES),
    *(Scene(name, steps) for name, steps in AGENT_SCENES),
    *(Scene(name, steps) for name, steps in POOL_SCENES),  # new ones come last: the theme of each follows from its place
)
