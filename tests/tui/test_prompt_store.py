from __future__ import annotations

from pathlib import Path

from lmtui.tui.prompt_store import MAX_ENTRIES, PromptStore


def test_history_comes_back_in_its_order_with_newlines_and_odd_characters(tmp_path: Path) -> None:
    store = PromptStore(tmp_path / "history", Path("/w"))
    texts = ["one", "two\nlines", "\udcff broken", "ünï ✓"]
    for text in texts:
        store.add(text)
    assert PromptStore(tmp_path / "history", Path("/w")).history() == texts


def test_workspaces_have_their_own_history(tmp_path: Path) -> None:
    PromptStore(tmp_path, Path("/a")).add("one")
    assert PromptStore(tmp_path, Path("/b")).history() == []


def test_a_torn_line_is_left_out(tmp_path: Path) -> None:
    store = PromptStore(tmp_path, Path("/w"))
    store.add("one")
    file = next(tmp_path.glob("*.jsonl"))
    file.write_text(file.read_text() + '"half a li')
    assert store.history() == ["one"]


def test_only_the_newest_entries_are_read(tmp_path: Path) -> None:
    store = PromptStore(tmp_path, Path("/w"))
    store.add("0")
    file = next(tmp_path.glob("*.jsonl"))
    file.write_text("".join(f'"{number}"\n' for number in range(MAX_ENTRIES + 5)))
    assert store.history()[0] == "5"


def test_an_empty_draft_leaves_no_file(tmp_path: Path) -> None:
    store = PromptStore(tmp_path, Path("/w"))
    store.save_draft("half a thought")
    assert store.draft() == "half a thought"
    store.save_draft("")
    assert store.draft() == ""
    assert list(tmp_path.iterdir()) == []
