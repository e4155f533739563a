from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import groupby

import pytest
from textual.actions import ActionParseResult
from textual.dom import DOMNode

from lmtui.tui.app import LmtuiApp
from lmtui.tui.commands import COMMANDS, Scope, command
from lmtui.tui.controllers.command_controller import PALETTE_SCOPES
from lmtui.tui.modals.approval import Approval
from lmtui.tui.modals.consent import ConsentDialog, question_of
from lmtui.tui.options import StartOptions
from lmtui.tui.widgets.bars import ChoiceRows
from tests.tui.driving import WIDE, Driver
from tests.tui.scenes import SCENES, Scene

LEAVING = (Scope.PICKER, Scope.CONFIRM)  # these open a screen of their own
IN_ITS_MODE = ("copying(", "finding(", "screen.copy_text")  # outside of their mode these let the next binding have the key
SCENE = {scene.name: scene for scene in SCENES}


class RecordingApp(LmtuiApp):
    """Once it records, it takes down what each key would do, and whether something is there to do it, and does nothing."""

    is_recording = False
    wanted = ""

    def __init__(self, scene: Scene) -> None:
        self.host = scene.host()
        self.recorded: list[tuple[str, bool]] = []
        super().__init__(lambda: self.host, StartOptions(workspace=str(self.host.workspace)), now=self.host.clock)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        if not self.is_recording or not isinstance(action, str):
            return await super().run_action(action, default_namespace, namespaces)
        if action != self.wanted and action.startswith(IN_ITS_MODE):
            return await super().run_action(action, default_namespace, namespaces)
        node, name, parameters = self._parse_action(action, default_namespace or self, namespaces)
        is_there = callable(getattr(node, f"action_{name}", None))
        if name == "run_command":
            command_id = str(parameters[0])
            is_there = is_there and (
                command_id in self.workbench.ready.commands.actions or command(command_id).handler is not None
            )
        if name == "answer":
            is_there = is_there and isinstance(node, ConsentDialog) and parameters[0] in node.question.handlers()
        self.recorded.append((action, is_there))
        return True


Steps = Callable[[Driver], Awaitable[None]]


async def nothing(_: Driver) -> None:
    pass


def keys(*pressed: str) -> Steps:
    async def press(driver: Driver) -> None:
        await driver.press(*pressed)

    return press


PLACES: dict[str, tuple[str, Steps]] = {
    Scope.APP: ("workbench", keys("f9")),
    Scope.WORKBENCH: ("workbench", nothing),
    Scope.PROMPT: ("workbench", nothing),
    Scope.MOVING: ("workbench", keys("f8")),
    Scope.LINES: ("workbench", keys("f9")),
    Scope.CHAT: ("workbench", keys("f9")),
    Scope.FILES: ("workbench", keys("f6")),
    Scope.FINDING: ("chat_search", nothing),
    Scope.COPYING: ("chat_copy_mode", nothing),
    Scope.APPROVAL: ("approval_command", nothing),
    Scope.GRANT: ("approval_always", nothing),
    Scope.EDIT: ("approval_edited", nothing),
    Scope.QUESTION: ("approval_command", nothing),
    Scope.BATCH: ("approval_batch", nothing),
    Scope.AGENTS: ("agents", nothing),
    Scope.RULES: ("rules", nothing),
    Scope.SIDE: ("log_whole", nothing),
    Scope.AGENT: ("agent_chat", nothing),
    Scope.CHANGES: ("changes", nothing),
    Scope.REVIEW: ("effect_review", nothing),
    Scope.RESTORE: ("undo", nothing),
    Scope.TRUST: ("trust", nothing),
    Scope.TRUSTED: ("trusted", nothing),
    Scope.SETTINGS: ("settings", nothing),
    Scope.READING: ("approval_why", nothing),
    Scope.PICKER: ("workbench", keys("f5")),
    Scope.CONFIRM: ("workbench", keys("ctrl+q")),
    Scope.SWITCHER: ("switcher", nothing),
    Scope.MODELS: ("models", nothing),
    "jobs": ("jobs", nothing),
    "attempts": ("attempts", nothing),
    "pipeline": ("pipeline", nothing),
    "projects": ("projects", nothing),
    "usage": ("usage", nothing),
    "memory": ("memory_inbox", nothing),
    "search results": ("memory_find", nothing),
    "batch": ("batch_tasks", nothing),
    "MCP servers": ("mcp", nothing),
    "skills": ("skills", nothing),
    Scope.CONTEXT: ("window_use", nothing),
    Scope.CACHE: ("cache", nothing),
    Scope.FIRST_RUN: ("first_run", nothing),
    Scope.HUNKS: ("approval_hunks", nothing),
    Scope.EFFECT: ("approval_effect", nothing),
    Scope.PLAN: ("plan_read", nothing),
    Scope.PLAN_GRANTS: ("plan_grants", nothing),
    Scope.LOG: ("workbench", keys("f8")),
    Scope.VIEWER: ("viewer", keys("escape")),
    Scope.ASKING: ("files_found", nothing),
}

# the list has the key and tells the screen what was chosen
SAME_THING = {"first.start enter": [("select", True)]}
GUARDS = (Scope.APPROVAL, Scope.QUESTION, Scope.GRANT, Scope.BATCH, Scope.HUNKS, Scope.EFFECT, Scope.PLAN, Scope.RESTORE)
SCENE_KEYS = Counter(name for name, _ in PLACES.values())
OFTEN = [scope for scope, (name, _) in PLACES.items() if scope in GUARDS or SCENE_KEYS[name] > 1]  # several in one app


async def wrong_keys(scopes: Iterable[str]) -> list[str]:
    """Press every key of some scopes where they apply, and return those that do not do what the table says."""
    wrong = []
    by_scene = sorted(scopes, key=lambda scope: PLACES[scope][0])
    for name, group in groupby(by_scene, lambda scope: PLACES[scope][0]):
        scene, app = SCENE[name], RecordingApp(SCENE[name])
        async with app.run_test(size=WIDE) as pilot:
            driver = Driver(app, pilot, app.host)
            if not scene.setup_note:
                await driver.until(lambda app=app: app.workbench.active is not None)  # type: ignore[misc]  # of this scene
                await driver.settle()
            await scene.steps(driver)
            await driver.settle()
            in_order = sorted(group, key=lambda scope: (scope in LEAVING, PLACES[scope][1] is not nothing))
            for number, scope in enumerate(in_order):
                if number and app.screen is app.workbench and not app.workbench.prompt.has_focus:
                    await driver.press("escape")  # leaves what a key of the scope before had begun
                await PLACES[scope][1](driver)
                await driver.settle()
                wrong += await wrong_keys_here(scope, driver, app)
    return wrong


async def wrong_keys_here(scope: str, driver: Driver, app: RecordingApp) -> list[str]:
    wrong = []
    app.is_recording = True
    for each in [each for each in COMMANDS if each.scope == scope]:
        for key in each.keys:
            app.recorded.clear()
            app.wanted = each.action
            await driver.pilot.press(key)
            await driver.let_letter_count()
            await driver.settle()
            wanted = SAME_THING.get(f"{each.id} {key}", [(each.action, True)])
            if app.recorded[:1] != wanted:
                wrong.append(f"{scope}: {each.id} {key} does {app.recorded}")
    app.is_recording = False
    return wrong


def test_every_scope_with_keys_has_a_place_where_they_are_pressed() -> None:
    assert {each.scope for each in COMMANDS if each.keys} == set(PLACES)


async def test_the_keys_of_the_workbench_and_of_questions_do_what_the_table_says() -> None:
    assert await wrong_keys(OFTEN) == []


@pytest.mark.full
async def test_every_other_key_of_the_table_does_what_the_table_says() -> None:
    assert await wrong_keys(scope for scope in PLACES if scope not in OFTEN) == []


def test_every_command_without_a_key_is_found_in_a_palette() -> None:
    scopes = (Scope.APP, *PALETTE_SCOPES)
    assert [each.id for each in COMMANDS if not each.keys and each.scope not in scopes] == ["hunks.done"]


async def test_every_verb_of_a_dialog_can_be_clicked() -> None:
    app = RecordingApp(SCENE["approval_command"])
    async with app.run_test(size=WIDE) as pilot:
        driver = Driver(app, pilot, app.host)
        await driver.until(lambda: app.workbench.active is not None)
        await SCENE["approval_command"].steps(driver)
        verbs = app.screen.query_one(ChoiceRows)
        app.is_recording = True
        lines = driver.text().splitlines()
        region = verbs.region
        clicked = set[str]()
        for y in range(region.height):
            row = lines[region.y + y][region.x : region.right]
            for x in (index for index, char in enumerate(row) if char != " " and row[index - 1 : index] in ("", " ")):
                await pilot.click(verbs, offset=(x, y))
                clicked |= {action for action, _ in app.recorded}
        app.is_recording = False
        question = question_of(app.screen, Approval)
        assert question is not None
        assert clicked >= {each.action for each in question.choices()}
