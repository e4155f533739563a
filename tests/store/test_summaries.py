from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lmtui.core.events import (
    ApprovalRequested,
    Envelope,
    Event,
    FilesChanged,
    MessageAdded,
    ModelChanged,
    SessionOpened,
    SessionRenamed,
    ToolCallFinished,
    TurnEnded,
    TurnReason,
    TurnStarted,
    UsageUpdated,
)
from lmtui.core.messages import Role, Usage
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.store.session_logs import SessionStore
from lmtui.store.summaries import Summaries, last_used

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OPENED = SessionOpened(workspace="/w", version="1")


def write(store: SessionStore, number: int, *events: Event) -> Path:
    session_id = f"20260102_0304{number:02}_abcdef"
    log = store.create(session_id)
    for seq, event in enumerate((OPENED, *events), 1):
        log.append(Envelope(seq, NOW + timedelta(seconds=seq), session_id, event))
    log.close()
    return log.path


def test_a_row_says_what_the_log_said_last(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    change = FileChange("a]b.py", FileChangeKind.ADDED, 1, 0, '+"files":["x"]')
    write(
        store,
        1,
        ModelChanged(model="old", url="u"),
        SessionRenamed(title="first"),
        TurnStarted(turn_id="t"),
        ModelChanged(model="new", url="u"),
        FilesChanged(call_id='","files":[1]', files=("a]b.py", "c.py"), changes=(change,)),
        FilesChanged(call_id="2", files=("c.py",)),
        UsageUpdated(usage=Usage(1000, 24, 0)),
        UsageUpdated(agent="title", usage=Usage(70, 9, 0)),
        UsageUpdated(agent="reflection", usage=Usage(700, 90, 0)),
        MessageAdded(role=Role.ASSISTANT, text="one\ntwo ☃\n"),
        MessageAdded(role=Role.ASSISTANT, text=" "),
        MessageAdded(role=Role.USER, text="thanks"),
        TurnEnded(turn_id="t", reason=TurnReason.LIMIT),
        SessionRenamed(title="second"),
    )
    (found,) = Summaries(store).find()
    assert (found.title, found.model, found.state, found.last_line) == ("second", "new", "limit", "two ☃")
    assert (found.changed_files, found.tokens) == (2, 1024)
    assert (found.created, found.updated) == (NOW + timedelta(seconds=1), NOW + timedelta(seconds=15))


def test_a_search_finds_all_words_wherever_they_are_and_shows_the_line_with_most(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    said = MessageAdded(role=Role.USER, text='look\nat the "Größe" of it\nplease')
    result = ToolCallFinished(call_id="c", tool="read", ok=True, result="a\nGRÖSSE and look at once", elapsed_ms=1)
    write(store, 1, said, result)
    write(store, 2, MessageAdded(role=Role.USER, text="nothing of the kind"))
    summaries = Summaries(store)
    assert [each.match for each in summaries.find("größe look")] == ["GRÖSSE and look at once"]
    assert [each.match for each in summaries.find('"größe"')] == ['at the "Größe" of it']
    assert [each.match for each in summaries.find("PLEASE nothing")] == []
    assert [each.match for each in summaries.find("message_added")] == []
    assert [each.id[13:15] for each in summaries.find("kind", 5)] == ["02"]


def test_what_nobody_works_on_was_interrupted_unless_it_waits_and_a_log_that_is_gone_left_out(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    first = write(store, 1, TurnStarted(turn_id="t"))
    second = write(store, 2, TurnStarted(turn_id="t"), ApprovalRequested(approval_id="a", call_id="c", tool="shell", text="ls"))
    held, summaries = store.open(write(store, 3, TurnStarted(turn_id="t")).stem), Summaries(store)
    states = {each.id[13:15]: (each.state, each.is_elsewhere) for each in summaries.find()}
    held.close()
    assert states == {"01": ("interrupted", False), "02": ("waits", False), "03": ("writing", True)}
    second.unlink()
    log = store.open(first.stem)
    log.append(Envelope(3, NOW, first.stem, SessionRenamed(title="other")))
    log.close()
    assert [each.title for each in summaries.find()] == ["", "other"]
    assert [each.id for each in summaries.look_up([second.stem, first.stem])] == [first.stem]


def test_no_more_than_asked_for_and_no_foreign_file_time_or_state(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    paths = [write(store, number, TurnStarted(turn_id="t")) for number in range(4)]
    (write(store, 9)).write_text('{"kind": "other"}\nnonsense\n')
    with paths[0].open("a") as file:
        file.write('{"seq":9,"time":"2026-01-02T03:04:05+00:00","session":"x","kind":"turn_ended","reason":"\\u001b]0;x"}\n')
    paths[3].write_text(paths[3].read_text().replace("+00:00", "").replace('Z"', '"'))
    assert [each.id[13:15] for each in Summaries(store).find(limit=2)] == ["03", "02"]
    found = list(Summaries(store).find())
    assert len(found) == 4
    assert found[0].updated == NOW + timedelta(seconds=2), "a time without a zone is universal time"
    assert found[-1].state == "done"


@pytest.mark.parametrize("line", [
    '"kind":"turn_ended","reason":' + "[" * 100_000 + "]" * 100_000,
    '"kind":"usage_updated","usage":{"prompt_tokens":Infinity}',
    '"kind":"message_added","role":"assistant","text":' + "[" * 100_000 + '"say"' + "]" * 100_000,
], ids=["reason", "tokens", "answer"])  # fmt: skip
def test_a_line_made_to_break_the_list_does_not(tmp_path: Path, line: str) -> None:
    store = SessionStore(tmp_path)
    path = write(store, 1, SessionRenamed(title="say it"))
    with path.open("a") as file:
        file.write('{"seq":9,"time":"2026-01-02T03:04:05+00:00","session":"x",' + line + "}\n")
    write(store, 2, SessionRenamed(title="say that"))
    for search in ("", "say"):
        assert "say that" in [summary.title for summary in Summaries(store).find(search)]


def test_the_session_used_last_is_the_one_written_last_whenever_it_was_created(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    assert last_used(store) == ""
    older, newer, broken = write(store, 1), write(store, 2), write(store, 3)
    broken.write_text("no log")
    for path, time_s in ((older, 2_000), (newer, 1_000), (broken, 3_000)):
        os.utime(path, (time_s, time_s))
    assert last_used(store) == older.stem
