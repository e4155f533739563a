from __future__ import annotations

from pathlib import Path

from lmtui.tui.keymap import Keymap, read_keymap
from lmtui.tui.lines.table import Table
from lmtui.tui.options import StartOptions
from tests.sets import for_each
from tests.tui.driving import running


def read(folder: Path, text: str) -> Keymap:
    file = folder / "keys.toml"
    file.write_text(text)
    return read_keymap(file)


@for_each(
    ("text", "keys"),
    [
        ('[session]\nnew = "ctrl+n"', {"session.new": ("ctrl+n",)}),
        ('"session.new" = "ctrl+n"', {"session.new": ("ctrl+n",)}),
        ('session.new = ["ctrl+n", "alt+n"]', {"session.new": ("ctrl+n", "alt+n")}),
        ("session.new = []", {"session.new": ()}),
        ('session.new = "Shift+F4"', {"session.new": ("shift+f4",)}),
        ('finding.match = [">", "<"]', {"finding.match": (">", "<")}),
        ('layout.files = "alt+,"', {"layout.files": ("alt+comma",)}),
        ("", {}),
    ],
)
def test_a_keymap_is_read(tmp_path: Path, text: str, keys: dict[str, tuple[str, ...]]) -> None:
    assert read(tmp_path, text) == Keymap(keys)


@for_each(
    ("line", "words"),
    [
        ('session.nwe = "ctrl+n"', "session.nwe: no such command; did you mean session.new?"),
        ('app.leave = "ctrl+n"', "app.leave: keeps its keys"),
        ("session.new = 3", "session.new: must be a key such as"),
        ('session.new = "hyper+n"', "is not a key"),
        ('session.new = "ctrl+i"', "terminals send tab"),
        ('session.new = "ctrl+shift+n"', "most terminals cannot tell"),
        ('list.test = "home"', "home is already the key of lines.edge"),
        ('list.load = "pageup"', "pageup is already the key of"),
        ('session.new = "f2"', "f2 is already the key of session.list"),
        ('session.new = "ctrl+q"', "ctrl+q is already the key of app.leave"),
    ],
)
def test_what_cannot_be_is_named_and_the_rest_holds(tmp_path: Path, line: str, words: str) -> None:
    found = read(tmp_path, f'# mine\nmode.choose = "alt+9"\n{line}\n')
    assert dict(found.keys) == {"mode.choose": ("alt+9",)}
    (problem,) = found.problems
    assert words in problem


def test_two_commands_may_change_places(tmp_path: Path) -> None:
    found = read(tmp_path, 'session.new = "f2"\nsession.list = "f4"\n')
    assert found == Keymap({"session.new": ("f2",), "session.list": ("f4",)})


@for_each("text", ["session.new = ", "\0", "[" * 5000])
def test_a_broken_file_leaves_the_usual_keys(tmp_path: Path, text: str) -> None:
    found = read(tmp_path, text)
    assert not found.keys
    assert "the default keys apply" in found.problems[0]
    assert read_keymap(tmp_path / "none.toml") == Keymap()


async def test_own_keys_work_and_are_shown_on_every_screen_and_the_old_ones_do_not() -> None:
    keys = {"session.list": ("alt+s",), "prompt.send": ("alt+enter",), "picker.row": ("ctrl+p", "ctrl+n")}
    problems = ("keys.toml: x: no such command",)
    async with running(options=StartOptions(workspace="/w", keys=keys, problems=problems)) as driver:
        assert "keys.toml: x" in driver.text("#say")
        assert "Alt+S sessions" in driver.text("#hints")
        await driver.press("f2")
        assert type(driver.app.screen).__name__ == "Workbench"
        await driver.press("alt+s", to="Switcher")
        await driver.press("escape", "f5", to="Picker")
        cursor = driver.app.screen.query_one(Table).cursor
        first = cursor.row
        await driver.press("down")
        assert cursor.row == first
        await driver.press("ctrl+n")
        assert cursor.row == first + 1
        await driver.press("escape")
        driver.app.workbench.prompt.replace_text("do it")
        await driver.press("alt+enter")
        assert driver.host.session.submitted == ["do it"]
