from __future__ import annotations

import os
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lmtui.core.errors import SessionFileError
from lmtui.core.events import Envelope, MessageAdded, SessionOpened, SessionRenamed, TurnEnded, TurnReason, TurnStarted
from lmtui.core.messages import Role, ToolCall, Usage
from lmtui.store.session_logs import EVENT_TYPES, SessionStore, decode, encode, load, new_session_id
from lmtui.store.summaries import Summaries

NOW = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
ID = "20260102_030405_abcdef"


def story() -> list[Envelope]:
    call = ToolCall("c1", "read", '{"path": "ä\\ud800"}')
    events = [
        SessionOpened(workspace="/w", version="0.1.0"), SessionRenamed(title="Fix the bug"),
        TurnStarted(turn_id="turn_1"), MessageAdded(role=Role.USER, text="fix\nit ☃ \ud800"),
        MessageAdded(role=Role.ASSISTANT, text="looking at it", thinking="hm", tool_calls=(call,)),
        TurnEnded(turn_id="turn_1", reason=TurnReason.DONE, status="done", usage=Usage(1, 2, 3), files_changed=("a",)),
    ]  # fmt: skip
    return [Envelope(number, NOW, ID, event) for number, event in enumerate(events, 1)]


def written(store: SessionStore, session_id: str = ID) -> Path:
    log = store.create(session_id)
    for envelope in story():
        log.append(envelope)
    log.sync()
    log.close()
    return log.path


def test_every_kind_of_event_has_its_own_name_and_documented_fields() -> None:
    kinds = [event_type.kind for event_type in EVENT_TYPES]
    assert len(set(kinds)) == len(kinds)
    assert all(event_type.__doc__ and fields(event_type) for event_type in EVENT_TYPES)


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_a_torn_last_line_is_left_out_and_said(tmp_path: Path, cut: int) -> None:
    store = SessionStore(tmp_path)
    path = written(store)
    os.truncate(path, path.stat().st_size - cut)
    loaded = load(path)
    assert list(loaded.events) == story()[:5]
    assert "torn" in loaded.problems[0]
    log = store.open(ID)
    log.append(story()[5])
    log.close()
    assert list(load(path).events)[-1] == story()[5]


def test_a_line_that_cannot_be_read_is_left_out_and_said(tmp_path: Path) -> None:
    path = written(SessionStore(tmp_path))
    lines = path.read_text().splitlines(keepends=True)
    lines[3] = "garbage\n"
    lines.insert(5, '{"seq":9,"time":"2026-01-02T03:04:05Z","session":"x","kind":"from_the_future","x":1}\n')
    path.write_text("".join(lines))
    loaded = load(path)
    assert len(loaded.events) == 5
    assert "line 4" in loaded.problems[0]
    assert "newer lmtui" in loaded.problems[1]


@pytest.mark.parametrize("text", ["hello\n", '{"kind": "session_opened"}\n', "\x00\x01\n", encode(story()[2]) + "\n"])
def test_a_foreign_file_is_refused(tmp_path: Path, text: str) -> None:
    path = written(SessionStore(tmp_path))
    path.write_text(text)
    with pytest.raises(SessionFileError, match="is not a session of lmtui"):
        load(path)


def test_a_session_open_elsewhere_is_refused_and_a_closed_log_takes_nothing(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    log = store.create(ID)
    with pytest.raises(SessionFileError, match="open in another lmtui"):
        store.open(ID)
    log.close()
    store.open(ID).close()
    log = SessionStore(tmp_path).create(ID)
    log.append(story()[0])
    log.close()
    with pytest.raises(SessionFileError, match="cannot write"):
        log.append(story()[1])
    assert [envelope.seq for envelope in load(log.path).events] == [1]


def test_a_full_disk_leaves_no_half_line() -> None:
    store = SessionStore(Path("/dev/shm"))
    log = store.create(ID)
    try:
        log.append(story()[0])
        full = os.open("/dev/full", os.O_WRONLY)
        kept, log._fd = log._fd, full
        with pytest.raises((SessionFileError, OSError)):
            log.append(story()[1])
        log._fd = kept
        os.close(full)
        log.append(story()[2])
        assert [envelope.seq for envelope in load(log.path).events] == [1, 3]
    finally:
        log.close()
        store.delete(ID)


def test_a_session_that_came_with_the_folder_is_not_ours_and_a_linked_state_folder_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / ".lmagent").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SessionFileError, match="is behind a link"):
        SessionStore(tmp_path / "w").create(ID)
    store = SessionStore(tmp_path)
    path = written(store)
    assert store.is_ours(ID)
    (path.parent / "20260103_030405_123def.jsonl").write_bytes(path.read_bytes())
    assert not store.is_ours("20260103_030405_123def")
    elsewhere = tmp_path / "a clone"
    (elsewhere / ".lmagent" / "sessions").mkdir(parents=True)
    (elsewhere / ".lmagent" / "sessions" / path.name).write_bytes(path.read_bytes())
    assert not SessionStore(elsewhere).is_ours(ID)


def test_lists_are_newest_first_and_searchable_and_ids_are_found_by_their_end(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    written(store)
    written(store, "20260103_030405_123def")
    assert store.path("abcdef").stem == ID
    with pytest.raises(SessionFileError, match="several sessions end"):
        store.path("def")
    for wrong in ("nosuch", "", "../../etc/passwd"):
        with pytest.raises(SessionFileError, match="no session"):
            store.path(wrong)
    newest = new_session_id(datetime(2027, 1, 1, tzinfo=UTC))
    written(store, newest)
    found = [*Summaries(store).find()]
    assert ([summary.id for summary in found][::2], found[0].title, found[0].state) == ([newest, ID], "Fix the bug", "done")
    assert (found[0].last_line, len([*Summaries(store).find("LOOKING bug")])) == ("looking at it", 3)
    assert ([*Summaries(store).find("looking elsewhere")], len([*Summaries(store).find(limit=1)])) == ([], 1)


def test_what_was_written_is_read_back_and_what_is_no_event_refused(tmp_path: Path) -> None:
    assert list(load(written(SessionStore(tmp_path))).events) == story()
    for line in ("", "[]", "{}", '{"kind": 3}', encode(story()[2]).replace('"turn_1"', "[]")):
        with pytest.raises(SessionFileError):
            decode(line)
