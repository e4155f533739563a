from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lmtui.tui.prompt_store import MAX_DRAFTS, MAX_ENTRIES, PromptStore, Typed

PASTED = Typed("see [pasted 30 lines #1]", {"[pasted 30 lines #1]": "a\nb"})


def test_history_comes_back_in_its_order_with_newlines_pastes_and_odd_characters_in_its_workspace(tmp_path: Path) -> None:
    store = PromptStore(tmp_path / "history", Path("/w"))
    entries = [Typed("one"), Typed("two\nlines"), Typed("\udcff broken"), PASTED, Typed("ünï ✓")]
    for entry in entries:
        store.add(entry)
    assert PromptStore(tmp_path / "history", Path("/w")).history() == entries
    assert PromptStore(tmp_path / "history", Path("/b")).history() == []


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    store = PromptStore(tmp_path, Path("/w"))
    store.add(Typed("one"))
    file = next(tmp_path.glob("*.jsonl"))
    file.write_text(file.read_text() + '{"text": 3}\n{"text": "two", "pastes": [1]}\n[]\n"half a li')
    assert [entry.text for entry in store.history()] == ["one", "two"]


def test_only_the_newest_entries_are_read(tmp_path: Path) -> None:
    store = PromptStore(tmp_path, Path("/w"))
    store.add(Typed("0"))
    file = next(tmp_path.glob("*.jsonl"))
    file.write_text("".join(f'"{number}"\n' for number in range(MAX_ENTRIES + 5)))
    assert store.history()[0].text == "5"


def test_each_session_has_its_own_draft_and_an_empty_one_leaves_no_file(tmp_path: Path) -> None:
    store = PromptStore(tmp_path, Path("/w"))
    store.save_draft("s1", PASTED)
    store.save_draft("s2", Typed("other"))
    assert (store.draft("s1"), store.draft("s2"), store.draft("s3")) == (PASTED, Typed("other"), Typed(""))
    file = next(tmp_path.rglob("s1.json"))
    assert file.stat().st_mode & 0o777 == 0o600
    for name in ("s1", "s2"):
        store.save_draft(name, Typed(""))
    assert list(tmp_path.rglob("*.json")) == []


def test_drafts_are_bounded(tmp_path: Path) -> None:
    store = PromptStore(tmp_path, Path("/w"))
    for number in range(MAX_DRAFTS + 3):
        store.save_draft(f"s{number}", Typed("x"))
    assert len(list(tmp_path.rglob("*.json"))) == MAX_DRAFTS


OTHER = """
import sys; from pathlib import Path
from lmtui.tui.prompt_store import PromptStore, Typed
PromptStore(Path(sys.argv[1]), Path('/w')).save_draft('other', Typed('half a thought'))
print('saved', flush=True)
sys.stdin.read()
"""


def test_the_newest_draft_moves_to_the_new_session_once_its_process_is_dead(tmp_path: Path) -> None:
    store = PromptStore(tmp_path, Path("/w"))
    with subprocess.Popen([sys.executable, "-c", OTHER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"saved\n"
        assert store.take_newest_draft("new").text == "", "its process runs"
        other.kill()
    assert store.take_newest_draft("new", {"other"}).text == "", "that session is open again and keeps its own"
    assert store.take_newest_draft("new").text == "half a thought"
    assert (store.draft("other").text, store.draft("new").text) == ("", "half a thought")
