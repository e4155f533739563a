from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lmtui.core.agent_events import AgentFinished, AgentStarted
from lmtui.core.events import Envelope, Event, ModelChanged, SessionOpened, SessionRenamed, TurnEnded, TurnReason, UsageUpdated
from lmtui.core.messages import Usage
from lmtui.features.usage.service import UsageLogs
from lmtui.features.usage.values import UsageRange, UsageSum, slot_name, usage_report
from lmtui.store.projects import ProjectStore
from lmtui.store.session_logs import SessionStore, encode
from tests.sets import for_each

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OPENED = SessionOpened(workspace="/w", version="1")
USED = UsageUpdated(usage=Usage(1000, 24, 600), model="m", elapsed_s=2.5)
RECORDED = Path(__file__).parents[1] / "store" / "recorded"


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("LMTUI_HOME", str(made))
    return made


def write(folder: Path, number: int, *events: Event, opened: Event = OPENED) -> Path:
    session_id = f"20260102_{number:06}_abcdef"
    folder.mkdir(exist_ok=True)
    log = SessionStore(folder).create(session_id)
    for seq, event in enumerate((opened, *events), 1):
        log.append(Envelope(seq, NOW + timedelta(seconds=seq), session_id, event))
    log.close()
    return log.path


def add(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def line(seq: int, event: Event) -> str:
    return encode(Envelope(seq, NOW, "s", event)) + "\n"


def total(logs: UsageLogs | None = None) -> UsageSum:
    return usage_report((logs or UsageLogs()).read()[0], UsageRange.ALL, NOW, UTC).total


def models() -> dict[str, UsageSum]:
    return {each.name: each.sum for each in usage_report(UsageLogs().read()[0], UsageRange.ALL, NOW, UTC).tables["model"]}


def test_requests_and_turns_of_all_folders_are_counted_by_model(tmp_path: Path) -> None:
    ended = TurnEnded(turn_id="t", reason=TurnReason.DONE, elapsed_s=7.0, usage=Usage(9, 9, 9))
    write(tmp_path / "a", 1, SessionRenamed(title="first\nline"), ModelChanged(model="m", url="u"), USED, USED, ended)
    write(tmp_path / "b", 2, ModelChanged(model="", default_model="d", url="u"), UsageUpdated(usage=Usage(10, 1, 0)))
    found, problems = UsageLogs().read()
    assert (problems, [(each.folder, each.title) for each in found]) == (
        [], [(str(tmp_path / "a"), "first⏎line"), (str(tmp_path / "b"), "")],
    )  # fmt: skip
    assert models() == {"m": UsageSum(2, 2000, 48, 1200, 1, 5.0, 7.0), "d": UsageSum(1, 10, 1, 0)}
    assert {slot.partition(" ")[0] for each in found for slot in each.slots} == {slot_name(NOW, "")[:-1]}


def test_a_sub_agents_requests_count_once_and_with_their_own_model(tmp_path: Path) -> None:
    child = UsageUpdated(agent="agent_1", usage=Usage(500, 5, 0), model="small")
    done = AgentFinished(agent="agent_1", outcome="done", steps=1, usage=Usage(500, 5, 0), elapsed_s=9.0)
    turn = TurnEnded(agent="agent_1", turn_id="t", reason=TurnReason.DONE, elapsed_s=9.0)
    write(tmp_path, 1, ModelChanged(model="m", url="u"), AgentStarted(agent="agent_1"), child, turn, done, USED)
    assert models() == {"m": UsageSum(1, 1000, 24, 600, 0, 2.5), "small": UsageSum(1, 500, 5, 0)}


def test_what_a_fork_copied_counts_only_in_the_original(tmp_path: Path) -> None:
    ended = TurnEnded(turn_id="t", reason=TurnReason.DONE, elapsed_s=7.0)
    write(tmp_path, 1, USED, ended)
    write(tmp_path, 2, USED, ended, USED, opened=SessionOpened(workspace="/w", version="1", parent="x", parent_seq=3))
    assert total() == UsageSum(2, 2000, 48, 1200, 1, 5.0, 7.0)


def test_a_log_is_read_on_from_where_it_ended_and_a_torn_line_only_once_it_is_whole(tmp_path: Path) -> None:
    path = write(tmp_path, 1, USED)
    logs = UsageLogs()
    assert total(logs).requests == 1
    text = line(9, USED)
    add(path, text[:40])
    assert total(logs).requests == 1
    add(path, text[40:])
    assert (total(logs).requests, total().requests) == (2, 2)


def test_what_was_read_is_kept_for_the_next_start_and_only_new_lines_are_read(tmp_path: Path, home: Path) -> None:
    path = write(tmp_path / "not UTF-8: \udcff", 1, USED)
    assert total().requests == 1
    (kept,) = home.rglob("usage.json")
    text = path.read_text()
    path.write_text(text.replace('"prompt_tokens":1000', '"prompt_tokens":1111'))  # the same file, and as long as before
    assert total().prompt_tokens == 1000
    add(path, line(9, USED))
    assert total().prompt_tokens == 2000
    for broken in ("", "[", '{"version":1,"logs":{"x":[1]}}', '{"x":{"offset":9}}', '{"x":[]}'):
        kept.write_text(broken)
        assert total().prompt_tokens == 2111


def test_a_log_that_was_replaced_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = write(tmp_path, 1, USED)
    logs = UsageLogs()
    assert total(logs).requests == 1
    new = path.with_suffix(".new")
    new.write_text(path.read_text().replace('"prompt_tokens":1000', '"prompt_tokens":1111') + line(3, USED) * 2)
    new.replace(path)
    assert total(logs).prompt_tokens == 3111
    path.write_text(line(1, SessionOpened(workspace="/w", version="1")))
    assert total(logs) == UsageSum()
    path.unlink()
    assert total(logs) == UsageSum()


@for_each("fields", [
    '"usage":{"prompt_tokens":-1}', '"usage":{"prompt_tokens":1e999}', '"usage":{"prompt_tokens":"5"}', '"usage":null',
    '"usage":{"prompt_tokens":99999999999999}', '"x":1', '"usage":{"completion_tokens":true,"prompt_tokens":[]}',
    '"usage":' + "[" * 5000,
])  # fmt: skip
def test_a_line_that_cannot_be_is_passed_over(tmp_path: Path, fields: str) -> None:
    path = write(tmp_path, 1, USED)
    head = '{"seq":3,"time":"2026-01-02T03:04:05Z","session":"s","kind":"usage_updated",'
    add(path, head + fields + "}\n" + head.replace("2026-01", "9999-13") + '"usage":{}}\n' + "\x00\xff\n" + line(4, USED))
    assert total() == UsageSum(2, 2000, 48, 1200, 0, 5.0)


def test_recorded_logs_of_older_versions_are_counted_as_their_events_say(tmp_path: Path) -> None:
    expected = 0
    for number, recorded in enumerate(sorted(RECORDED.glob("*.jsonl"))):
        add(write(tmp_path, number), recorded.read_text())
        events = [json.loads(each) for each in recorded.read_text().splitlines()]
        expected += sum(each["kind"] == "usage_updated" for each in events)
    assert total().requests == expected > 50


def test_only_sessions_made_here_count_and_each_in_one_folder(tmp_path: Path) -> None:
    path = write(tmp_path / "a", 1, USED)
    foreign = path.with_name("20260102_000009_ffffff.jsonl")
    foreign.write_text(path.read_text())
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    write(tmp_path / "b", 2, USED)
    found, _ = UsageLogs().read()
    assert sorted((Path(each.folder).name, each.session) for each in found) == [
        ("a", "20260102_000001_abcdef"), ("b", "20260102_000002_abcdef"),
    ]  # fmt: skip
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "a").rename(tmp_path / "c")
    assert total() == UsageSum()
    ProjectStore().put(tmp_path / "c")
    assert [each.folder for each in UsageLogs().read()[0]] == [str(tmp_path / "c")]


def test_what_is_not_a_session_does_not_count(tmp_path: Path) -> None:
    path = write(tmp_path, 1, USED)
    path.write_text(line(1, USED))
    assert UsageLogs().read()[0] == []
    linked = write(tmp_path, 3, USED)
    linked.unlink()
    linked.symlink_to(path)
    assert UsageLogs().read()[0] == []
