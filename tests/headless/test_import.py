from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

import pytest

from lmtui.app.archive import archive_of, session_events
from lmtui.config import load_config
from lmtui.core.errors import UsageError
from lmtui.core.events import MessageAdded
from lmtui.features.memory.memory_files import MemoryFiles
from lmtui.headless.listings import REPORTS

TOLD = [("system", "s"), ("user", "Fix it"), ("assistant", None), ("tool", "out"), ("assistant", "Done.")]
FILES = {
    "cron.json": '[{"id": "a", "name": "Nightly", "schedule": "0 9 * * *", "prompt": "run the tests"}]',
    "LAO_MEMORY.md": "# Memory\n- The car is red\n",
    ".lao/skills/tidy/SKILL.md": "---\nname: tidy\ndescription: Tidy up\n---\nTidy.\n",
    ".lao/skills/dust.md": "---\nname: dust\ndescription: Dust off\n---\nDust.\n",
    ".lmagent/sessions/20260101_abc.json": json.dumps({
        "metadata": {"task": "Fix the parser", "created": "2026-01-01T10:00:00"},
        "messages": [{"role": role, "content": text} for role, text in TOLD],
    }),
}  # fmt: skip


def imported(folder: Path, *, yes: bool = True) -> int:
    words = argparse.Namespace(yes=yes)
    return asyncio.run(REPORTS["import"](folder, load_config(folder, {}, {"sandbox": "process"}), words))


def test_what_earlier_programs_left_is_listed_and_taken_over_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert imported(tmp_path) == 0
    assert "No cron.json" in capsys.readouterr().out
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert (imported(tmp_path, yes=False), archive_of(tmp_path).sessions()) == (3, [])
    assert imported(tmp_path) == 0
    (found,) = archive_of(tmp_path).sessions()
    told = found.title, found.id[:15], MemoryFiles(tmp_path).notes()[0].text
    assert told == ("Fix the parser", "20260101_100000", "The car is red")
    said = (each.event for each in session_events(tmp_path, found.id))
    assert [each.text for each in said if isinstance(each, MessageAdded)] == ["Fix it", "Done."]
    kept = [(tmp_path / f".lmagent/skills/{name}/SKILL.md").read_text() for name in ("tidy", "dust")]
    assert kept == [FILES[".lao/skills/tidy/SKILL.md"], FILES[".lao/skills/dust.md"]]
    capsys.readouterr()
    assert imported(tmp_path) == 1
    out = capsys.readouterr().out
    assert (out.count("it already exists"), "not imported: skill from .lao/skills/dust.md" in out) == (3, True)


@pytest.mark.parametrize("text", ["{", '{"jobs": []}', '[{"schedule": 1}]'])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "cron.json").write_text(text)
    with pytest.raises(UsageError, match=r"cron\.json"):
        imported(tmp_path)
    (tmp_path / "cron.json").unlink()
    (tmp_path / "cron.json").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="a link"):
        imported(tmp_path)
