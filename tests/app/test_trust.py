from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lmtui.app.settings_trust import FolderTrust
from lmtui.config import Loaded, load_config
from lmtui.core.errors import ConfigError
from tests.trusting import say


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    settings = tmp_path / "work" / ".lmagent" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('mode = "auto"\n')
    return tmp_path / "work"


def looked_at(folder: Path) -> FolderTrust:
    def load() -> Loaded:
        return load_config(folder, {}, {})

    return FolderTrust(folder, load(), load, lambda _: None)


def test_what_was_refused_no_longer_waits_until_it_changes_or_is_answered_again(folder: Path) -> None:
    assert not looked_at(folder).refused()
    say(looked_at(folder), is_trusted=False)
    trust = looked_at(folder)
    assert not trust.waiting()
    assert [item.text for item in trust.refused()] == ["mode = auto"]
    settings = folder / ".lmagent" / "config.toml"
    settings.write_text('mode = "auto"\nallow = ["Shell(*)"]\n')
    changed = looked_at(folder)
    assert (len(changed.waiting()), [*changed.refused()]) == (2, [])
    settings.write_text('mode = "auto"\n')
    say(trust, is_trusted=True)
    assert not trust.refused()
    assert trust.trusted()


@pytest.mark.parametrize("answer", [True, False])
def test_an_answer_that_another_lmtui_kept_is_taken_up(folder: Path, answer: bool) -> None:
    used: list[str] = []
    loaded = load_config(folder, {}, {})
    trusted = replace(loaded, config=replace(loaded.config, mode="auto"))
    trust = FolderTrust(folder, loaded, lambda: trusted, lambda config: used.append(config.mode))
    assert trust.answered_elsewhere() is None
    say(looked_at(folder), is_trusted=answer)
    assert trust.answered_elsewhere() is answer
    assert used == (["auto"] if answer else [])


def test_a_yes_to_other_settings_than_those_shown_is_refused(folder: Path) -> None:
    trust = looked_at(folder)
    with pytest.raises(ConfigError, match="changed meanwhile"):
        trust.answer((), is_trusted=True)
    assert [item.text for item in looked_at(folder).waiting()] == ["mode = auto"]


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_rules_of_claude_code_hold_after_a_yes_and_what_is_not_used_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / ".claude").mkdir()
    file = tmp_path / ".claude" / name
    file.write_text('{"permissions": {"deny": ["Read(./secrets/**)"], "ask": ["Bash(git push:*)"]}, "env": {}}')
    before = load_config(tmp_path, {}, {})
    assert (before.config.deny, before.not_used) == ((), (f".claude/{name}: not used: env",))
    texts = ["ask = Shell(git push), Shell(git push *)", "deny = Read(secrets/**)", "not used: env"]
    assert [item.text for item in before.waiting] == texts
    assert load_config(tmp_path, {}, {}, trusted=before.digest).config.deny == ("Read(secrets/**)",)
    for broken in ("{", "[1]", "[" * 9_000, " " * 1_100_000):
        file.write_text(broken)
        assert load_config(tmp_path, {}, {}).not_used == (f".claude/{name}: not used: all of it: it cannot be read",)
