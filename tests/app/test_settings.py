from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from lmtui import paths
from lmtui.app.host import UserSettings
from lmtui.config import SETTINGS, Config, Loaded, load_config
from lmtui.core.errors import ConfigError
from lmtui.core.roles import ModelRole
from tests.sets import for_each


class Book:
    def __init__(self, workspace: Path, **flags: Any) -> None:
        self.used: list[Config] = []

        def reload() -> Loaded:
            return load_config(workspace, {"LLM_MODEL": "from-env"}, flags)

        self.settings = UserSettings(reload(), reload, self.used.append)

    def row(self, name: str) -> tuple[str, str]:
        found = next(row for row in self.settings.rows() if row.name == name)
        return found.value, found.source


def file() -> Path:
    return paths.config_dir() / "config.toml"


def write(text: str) -> None:
    file().parent.mkdir(parents=True, exist_ok=True)
    file().write_text(text)


def test_every_setting_is_shown_with_its_value_source_and_help(tmp_path: Path) -> None:
    write('api_key = "secret"\nallow = ["Shell(ls)"]\n')
    book = Book(tmp_path, temperature=0.1)
    assert [row.name for row in book.settings.rows()] == list(SETTINGS)
    assert all(row.doc for row in book.settings.rows())
    rows = {row.name: (row.group, row.label) for row in book.settings.rows()}
    assert rows["command_memory_mb"] == ("Sandbox", "Command memory (MB)")
    assert not any("_" in label for _, label in rows.values())
    assert book.row("model") == ("from-env", "environment")
    assert book.row("temperature") == ("0.1", "flag")
    assert book.row("api_key") == ("•" * 8, str(file()))
    assert not any("secret" in (row.value, row.text) for row in book.settings.rows())
    assert book.row("seed") == ("-1", "default")


def test_a_change_is_written_and_holds_and_the_rest_of_the_file_stays(tmp_path: Path) -> None:
    write("# mine\nseed = 7   # lucky\n\nmode = 'auto'\n")
    book = Book(tmp_path)
    row = book.settings.change("mode", "plan")
    assert (row.value, row.source) == ("plan", str(file()))
    assert file().read_text() == '# mine\nseed = 7   # lucky\n\nmode = "plan"\n'
    assert [each.mode for each in book.used] == ["plan"]
    book.settings.change("theme", "paper")
    book.settings.change("notify", "off")
    assert len(book.used) == 1, "what only the screen looks at renews nothing"
    assert book.settings.change("seed", None).source == "default"
    assert "seed" not in file().read_text()
    assert book.settings.change("network", None).value == "off"


@for_each(
    "name, text, value",
    [
        ("temperature", "0.3", 0.3),
        ("seed", " 12 ", 12),
        ("allow", "Shell(ls), Shell(git status*)", ("Shell(ls)", "Shell(git status*)")),
        ("allow", "", ()),
        ("theme", "", ""),
        ("url", "http://127.0.0.1:1234", "http://127.0.0.1:1234"),
    ],
)
def test_what_is_typed_becomes_the_settings_own_type(tmp_path: Path, name: str, text: str, value: object) -> None:
    Book(tmp_path).settings.change(name, text)
    assert getattr(load_config(tmp_path, {}, {}).config, name) == value


@for_each("name, text", [("temperature", "hot"), ("mode", "yolo"), ("seed", "1.5"), ("max_retries", "-1")])
def test_what_cannot_be_is_refused_and_nothing_is_written(tmp_path: Path, name: str, text: str) -> None:
    write("seed = 7\n")
    with pytest.raises(ConfigError, match=name):
        Book(tmp_path).settings.change(name, text)
    assert file().read_text() == "seed = 7\n"


def test_a_new_file_is_for_the_user_alone_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    settings = Book(tmp_path).settings
    settings.change("seed", "3")
    assert stat.S_IMODE(file().stat().st_mode) == 0o600
    file().chmod(0o644)
    settings.change("seed", "4")
    assert stat.S_IMODE(file().stat().st_mode) == 0o644


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    book = Book(tmp_path)
    write("seed = \n")
    with pytest.raises(ConfigError, match=r"config\.toml cannot be changed"):
        book.settings.change("seed", "3")
    assert file().read_text() == "seed = \n"


def test_a_link_to_the_file_stays_one(tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.toml"
    kept.write_text("seed = 7\n")
    file().parent.mkdir(parents=True, exist_ok=True)
    file().symlink_to(kept)
    _ = Book(tmp_path).settings.change("seed", "8")
    assert file().is_symlink()
    assert kept.read_text() == "seed = 8\n"


def test_a_role_is_written_among_the_users_own_entries_only(tmp_path: Path) -> None:
    write('# mine\nroles = ["planner: a temperature=0.2"]\n')
    book = Book(tmp_path, roles=("title: t",))
    book.settings.set_role(ModelRole.PLANNER, "big")
    assert file().read_text() == '# mine\nroles = ["planner: big temperature=0.2"]\n'
    assert {role: own.model for role, own in book.settings.roles().items()} == {ModelRole.PLANNER: "big", ModelRole.TITLE: "t"}
    assert book.used[-1].roles == ("planner: big temperature=0.2", "title: t")
    with pytest.raises(ConfigError, match="names two models"):
        book.settings.set_role(ModelRole.TITLE, "a b")
    book.settings.change("roles", None)
    book.settings.set_role(ModelRole.PILOT, "p")
    book.settings.set_role(ModelRole.PILOT, "")
    assert "roles" not in file().read_text()
