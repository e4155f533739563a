from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.app.host import Runtime
from lmtui.app.settings_trust import load_trusted
from lmtui.config import load_config
from tests.trusting import say


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    settings = tmp_path / "work" / ".lmagent" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('mode = "auto"\n')
    return tmp_path / "work"


def opened(folder: Path) -> Runtime:
    loaded = load_trusted(folder, {}, {})
    runtime = Runtime(folder, loaded.config)
    runtime.ask_trust(loaded, lambda: load_trusted(folder, {}, {}))
    return runtime


@pytest.mark.parametrize("answer", [True, False])
async def test_an_answer_that_another_lmtui_kept_is_taken_up_until_the_settings_change(folder: Path, answer: bool) -> None:
    runtime, before = opened(folder), opened(folder).config.mode
    assert runtime.trust.answered_elsewhere() is None
    say((other := opened(folder)).trust, is_trusted=answer)
    found = other.trust.trusted() if answer else other.trust.refused()
    assert ([item.text for item in found], runtime.config.mode) == (["mode = auto"], before)
    assert (runtime.trust.answered_elsewhere(), runtime.config.mode) == (answer, "auto" if answer else before)
    (folder / ".lmagent" / "config.toml").write_text('mode = "auto"\nallow = ["Shell(*)"]\n')
    changed = opened(folder)
    assert (len(changed.trust.waiting()), [*changed.trust.refused()], changed.config.mode) == (2, [], before)
    runtime.trust.revoke()
    assert runtime.config.mode == before


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
