from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby

import pytest
from textual.actions import ActionParseResult
from textual.dom import DOMNode

from lmtui.tui.app import LmtuiApp
from lmtui.tui.commands import COMMANDS, Scope, command
from lmtui.tui.controllers.command_controller import HAS_PALETTE
from lmtui.tui.modals.consent import ConsentDialog
from lmtui.tui.options import StartOptions
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
            is_there = is_there and (not isinstance(node, ConsentDialog) or parameters[0] in node.question.handlers())
        self.recorded.append((action, is_there))
        return True


PLACES: dict[str, tuple[str, ...]] = {  # the scene, and the keys that lead there from it
    Scope.APP: ("workbench", "f9"),
    Scope.WORKBENCH: ("workbench",),
    Scope.PROMPT: ("workbench",),
    Scope.MOVING: ("workbench", "f8"),
    Scope.LINES: ("workbench", "f9"),
    Scope.TEXT: ("workbench", "f9"),
    Scope.DIFF: ("approval_hunks",),
    Scope.CHAT: ("workbench", "f9"),
    Scope.FILES: ("workbench", "f6"),
    Scope.FINDING: ("chat_search",),
    Scope.COPYING: ("undone", "f9", "v"),
    Scope.REQUEST: ("approval_command",),
    Scope.APPROVAL: ("approval_command",),
    Scope.EDIT: ("approval_edited",),
    Scope.QUESTION: ("approval_command",),
    Scope.REVOKE: ("rules",),
    Scope.SIDE: ("workbench", "f8", "end", "enter"),
    Scope.AGENT: ("agent_chat",),
    Scope.CHANGES: ("changes",),
    Scope.RESTORE: ("undo",),
    Scope.TRUST: ("trust",),
    Scope.EFFECTS: ("approval_effect",),
    Scope.SETTINGS: ("settings",),
    Scope.READING: ("mcp_tools",),
    Scope.PICKER: ("models",),
    Scope.CONFIRM: ("workbench", "ctrl+q"),
    Scope.HELP: ("help",),
    Scope.HUNKS: ("approval_hunks",),
    Scope.EFFECT: ("approval_effect",),
    Scope.PLAN: ("plan_read",),
    Scope.LOG: ("workbench", "f8"),
    Scope.VIEWER: ("viewer", "escape"),
    Scope.ASKING: ("checks_red", "f9", "slash"),
}

GUARDS = (Scope.REQUEST, Scope.APPROVAL, Scope.QUESTION, Scope.HUNKS, Scope.EFFECT, Scope.PLAN, Scope.RESTORE)
SCENE_KEYS = Counter(name for name, *_ in PLACES.values())
OFTEN = [scope for scope, (name, *_) in PLACES.items() if scope in GUARDS or SCENE_KEYS[name] > 1]  # several in one app


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
            in_order = sorted(group, key=lambda scope: (scope in LEAVING, len(PLACES[scope])))
            for number, scope in enumerate(in_order):
                if number and app.screen is app.workbench and not app.workbench.prompt.has_focus:
                    await driver.press("escape")  # leaves what a key of the scope before had begun
                await driver.press(*PLACES[scope][1:])
                await driver.settle()
                wrong += await wrong_keys_here(scope, driver, app)
    return wrong


async def wrong_keys_here(scope: str, driver: Driver, app: RecordingApp) -> list[str]:
    wrong = []
    app.is_recording = True
    for each in [way for row in COMMANDS if row.scope == scope for way in row.ways]:
        for key in each.keys:
            app.recorded.clear()
            app.wanted = each.action
            await driver.pilot.press(key)
            await driver.let_letter_count()
            await driver.settle()
            if app.recorded[:1] != [(each.action, True)]:
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
    scopes = (Scope.APP, *HAS_PALETTE)
    assert [each.id for each in COMMANDS if not each.keys and each.scope not in scopes] == ["hunks.done"]
