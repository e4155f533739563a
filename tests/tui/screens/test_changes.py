from __future__ import annotations

from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.tui.screens.changes_screen import ChangesScreen
from tests.tui.driving import MEDIUM, SMALL, WIDE, Driver
from tests.tui.fake_changes import FakeChanges
from tests.tui.fakes import play_work
from tests.tui.one_app import Cases
from tests.tui.scenes import with_steps

cases = Cases()


async def at_changes(driver: Driver) -> FakeChanges:
    changes = await with_steps(driver)
    await driver.type("/changes", "ChangesScreen")
    await by_step(driver)
    await driver.until(lambda: "−" in driver.text("#changes-head"))
    return changes


async def by_step(driver: Driver) -> None:
    """Fill the screen, which has a list then."""
    if driver.app.screen.has_class("-docked"):
        await driver.press("alt+z")
    await look_by(driver, "steps")


async def look_by(driver: Driver, name: str) -> None:
    screen = driver.app.screen
    assert isinstance(screen, ChangesScreen)
    while screen._view.name.lower() != name:
        await driver.press("right")


@cases.at(WIDE)
async def steps_turns_files_and_what_differs_from_the_last_commit_are_listed_and_searched(driver: Driver) -> None:
    driver.host.files.differences = [
        FileChange("gone.py", FileChangeKind.DELETED, 0, 1, "@@ -1 +0,0 @@\n-old\n"),
        FileChange("new.py", FileChangeKind.ADDED, 1, 0, "@@ -0,0 +1 @@\n+new\n"),
    ]
    changes = await at_changes(driver)
    shown = driver.text("#changes-list")
    assert shown.index("parser-0.2.0") < shown.index("python tools") < shown.index("README.md") < shown.index("parser/lexer.py")
    assert "4 files  +9 −3" in driver.text("#changes-head")
    await driver.press("end", "slash", *"depth")
    await driver.until(lambda: "1 of 3" in driver.text("#changes-diff"))
    await driver.press("enter", "n")
    assert "2 of 3" in driver.text("#changes-diff")
    await driver.press("N", "N")
    assert "3 of 3" in driver.text("#changes-diff")
    await driver.press("escape")
    assert "of 3" not in driver.text("#changes-diff")
    await look_by(driver, "turns")
    await driver.until(lambda: "by turn" in driver.text("#changes-head"))
    shown = driver.text("#changes-list")
    assert shown.index("Make the tokenizer") < shown.index("README.md") < shown.index("lexer.py parser/")
    await driver.press("home", "f")
    assert "this turn changed several files" in driver.text("#changes-note")
    await look_by(driver, "session")
    await driver.press("home")
    await driver.until(lambda: "the whole session" in driver.text("#changes-head"))
    assert "14:0" not in driver.text("#changes-list")
    assert "Comments nest." in driver.text("#changes-diff")
    await driver.press("tab", "tab")
    assert "depth = 1" in driver.text("#changes-diff")
    await driver.press("shift+tab")
    assert "depth = 1" not in driver.text("#changes-diff")
    await look_by(driver, "git")
    await driver.until(lambda: "the last commit" in driver.text("#changes-head"))
    assert "D gone.py" in driver.text("#changes-list")
    assert "2 files  +1 −1" in driver.text("#changes-head")
    await driver.press("f")
    assert "git restore -- gone.py" in driver.text("#changes-note")
    await driver.press("tab", "r")
    await look_by(driver, "session")
    await driver.until(lambda: "the whole session" in driver.text("#changes-head"))
    assert changes.restored == []


@cases
async def a_file_or_a_hunk_is_put_back_after_asking_through_the_first_step_that_changed_it(driver: Driver) -> None:
    changes = await at_changes(driver)
    await driver.press("down", "f")
    assert "go to one of them first" in driver.text("#changes-note")
    step = changes.steps()[0].id
    for key, answer, hunk in (("f", "n", None), ("f", "y", None), ("r", "y", 0)):
        await driver.press("end", key, to="RestoreQuestion")
        driver.host.clock.forward(1)
        await driver.press(answer, to="ChangesScreen")
        assert changes.restored[-1] == (step, "parser/lexer.py", hunk)
    assert [plan.action for plan, _ in changes.applied] == ["restore", "restore"]
    changes.restored.clear()
    changes.add("s4", "edit", "README.md", FileChange("README.md", FileChangeKind.MODIFIED, 1, 1, ""))
    for view, keys, wanted in (
        ("turns", ("end", "up", "r"), (step, "parser/lexer.py", 0)),
        ("session", ("end", "up", "r"), (step, "parser/lexer.py", 0)),
        ("session", ("home", "f"), (changes.steps()[1].id, "README.md", None)),
    ):
        await look_by(driver, view)
        await driver.press(*keys, to="RestoreQuestion")
        assert changes.restored.pop() == wanted
        driver.host.clock.forward(1)
        await driver.press("n", to="ChangesScreen")


@cases.full(WIDE)
async def a_hunk_that_several_steps_made_says_where_it_can_go_back(driver: Driver) -> None:
    class Merged(FakeChanges):
        async def total(self) -> tuple[FileChange, ...]:
            return (FileChange("a.py", FileChangeKind.MODIFIED, 1, 1, "@@ -1 +1 @@\n-one\n+three\n"),)

    driver.host.session.begin_turn("go")
    changes = Merged(driver.host.session)
    changes.add("s1", "edit", "a.py", FileChange("a.py", FileChangeKind.MODIFIED, 1, 1, "@@ -1 +1 @@\n-one\n+two\n"))
    changes.add("s2", "edit", "a.py", FileChange("a.py", FileChangeKind.MODIFIED, 1, 1, "@@ -1 +1 @@\n-two\n+three\n"))
    await driver.press("f10", to="ChangesScreen")
    await by_step(driver)
    await look_by(driver, "session")
    await driver.until(lambda: "the whole session" in driver.text("#changes-head"))
    await driver.press("r")
    assert "Several steps made this change" in driver.text("#changes-note")
    assert changes.restored == []


@cases.full(MEDIUM)
async def files_of_a_step_are_gone_to_by_key_and_hostile_names_are_shown_as_they_are(driver: Driver) -> None:
    changes = await with_steps(driver)
    diff = "@@ -0,0 +1,50 @@\n" + "+[red]\x1b[31mx\n" * 50
    names = ("[red]a\x1b[2J\u202eb.py", "b.py")
    changes.add("s8", "[b]t", "[i]x", *(FileChange(name, FileChangeKind.ADDED, 50, 0, diff) for name in names))
    await driver.press("f10", to="ChangesScreen")
    await by_step(driver)
    await driver.until(lambda: "[red]a<U+202E>b.py  added" in driver.text("#changes-diff"))
    assert "+ [red]␛[31mx" in driver.text("#changes-diff")
    await driver.press("tab")
    assert "  b.py  added" in driver.text("#changes-diff")
    assert "a<U+202E>b.py  added" not in driver.text("#changes-diff")
    await driver.press("shift+tab")
    assert "a<U+202E>b.py  added" in driver.text("#changes-diff")


@cases.at(WIDE)
async def a_refused_undo_leads_to_the_changes_and_a_rewind_puts_what_was_said_into_the_prompt(driver: Driver) -> None:
    changes = await with_steps(driver)
    changes.conflicts = ("parser/lexer.py",)
    await driver.type("/undo 3", "RestoreQuestion")
    driver.host.clock.forward(1)
    await driver.press("d", to="ChangesScreen")
    await driver.until(lambda: "depth = 1" in driver.text("#changes-diff"))
    assert "the whole session" in driver.text("#changes-head")
    assert changes.applied == []
    changes.conflicts = ()
    await driver.press("escape", to="Workbench")
    await driver.press("alt+r", to="Picker")
    await driver.press("enter", to="RestoreQuestion")
    driver.host.clock.forward(1)
    await driver.press("c", to="Workbench")
    await driver.until(lambda: driver.app.workbench.prompt.text == "Make the tokenizer accept nested comments and add tests.")


@cases.full(SMALL)
async def without_checkpoints_the_changes_are_shown_and_it_is_said_why_nothing_goes_back(driver: Driver) -> None:
    play_work(driver.host.session)
    await driver.press("f10", to="ChangesScreen")
    await driver.until(lambda: "lexer.py" in driver.text("#changes-list"))
    assert "undo is not available here" in driver.text("#changes-note")
    assert "put file back" not in driver.text()
    await driver.press("f", "r")
    assert type(driver.app.screen).__name__ == "ChangesScreen"


@cases.full(WIDE)
async def a_comment_on_a_hunk_goes_into_the_prompt_with_its_lines(driver: Driver) -> None:
    await at_changes(driver)
    await driver.press("end", "c", *"use a stack", "enter")
    await driver.until(lambda: driver.app.workbench.prompt.text != "")
    assert driver.app.workbench.prompt.text == "@parser/lexer.py:42-45 use a stack\n"
    assert type(driver.app.screen).__name__ == "ChangesScreen"
    await driver.press("c", *"no", "escape")
    assert "no\n" not in driver.app.workbench.prompt.text
    assert driver.app.screen.query_one("#changes-diff").has_focus
