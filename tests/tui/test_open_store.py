from __future__ import annotations

from pathlib import Path

from lmtui.tui.open_sessions import MOST_OPEN, OpenStore, SavedSessions
from tests.sets import for_each


def test_what_was_open_is_read_back_for_its_own_workspace_only(tmp_path: Path) -> None:
    opened = SavedSessions(("1", "2"), "2")
    OpenStore(tmp_path / "open", Path("/w")).write(opened)
    assert OpenStore(tmp_path / "open", Path("/w")).read() == opened
    assert OpenStore(tmp_path / "open", Path("/other")).read() == SavedSessions()


def test_the_file_is_the_users_alone_and_bounded(tmp_path: Path) -> None:
    store = OpenStore(tmp_path, Path("/w"))
    store.write(SavedSessions(tuple(f"{at:03}" for at in range(100)), "000"))
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    found = store.read()
    assert len(found.ids) == MOST_OPEN
    assert found.active == found.ids[0] == "000"
    assert found.ids[-1] == "099"


@for_each("text", ["", "[]", "{", '{"open": 3, "active": []}', '{"open": [1, null]}', "\x00"])
def test_a_file_that_cannot_be_read_is_as_if_there_were_none(tmp_path: Path, text: str) -> None:
    store = OpenStore(tmp_path, Path("/w"))
    store.write(SavedSessions(("1",), "1"))
    (path,) = tmp_path.iterdir()
    path.write_text(text)
    assert store.read() == SavedSessions()
