from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lmtui.core.errors import UsageError
from lmtui.core.events import ApprovalRequested, Envelope, SessionOpened, TurnStarted
from lmtui.core.folders import project_lines
from lmtui.features.pipeline.plan_queue import PipelineFile
from lmtui.features.pipeline.values import OpenQuestion, PipelinePlan, PipelineState, PipelineTask, TaskSpec
from lmtui.paths import workspace_state_dir
from lmtui.store import projects
from lmtui.store.projects import ProjectStore, find_project, look_at, scan
from lmtui.store.session_logs import SessionStore, new_session_id
from tests.sets import for_each

NOW = datetime(2026, 3, 14, 14, 2, tzinfo=UTC)


def some_plan() -> PipelinePlan:
    states = (PipelineState.DONE, PipelineState.FAILED, PipelineState.READY)
    tasks = tuple(PipelineTask(at, TaskSpec(f"task {at}"), state) for at, state in enumerate(states, 1))
    return PipelinePlan(
        "a" * 16, "plan", "plans/a.md", NOW, tasks, questions=(OpenQuestion("Which?"), OpenQuestion("Who?", "Ada"))
    )


def test_a_folder_is_kept_once_with_all_of_its_tags_and_its_last_use(tmp_path: Path) -> None:
    store = ProjectStore()
    store.put(tmp_path / "one", used=NOW)
    store.put(tmp_path / "two", used=NOW + timedelta(hours=1), tags=("work",))
    store.put(tmp_path / "two", tags=("work", "rust"))
    found, told = ProjectStore().read()
    assert ([(each.name, each.last_used, each.tags) for each in found], told) == (
        [("two", NOW + timedelta(hours=1), ("work", "rust")), ("one", NOW, ())], [],
    )  # fmt: skip
    store.remove(found[0])
    assert [each.name for each in ProjectStore().read()[0]] == ["one"]


def test_entries_that_cannot_be_read_are_said_and_stay_in_the_file(tmp_path: Path) -> None:
    store = ProjectStore()
    foreign: list[object] = [
        7, {"path": "relative", "name": "x", "tags": []}, {"path": "/x\0", "name": "x", "tags": []},
        {"path": "/x", "name": "x", "tags": [3]},
        {"path": "/x", "name": "x", "tags": [], "last_used": "0001-01-01T00:00:00+00:00"},
        {"path": "/x", "name": "x", "tags": [], "last_used": "2026-01-01T00:00:00"},
    ]  # fmt: skip
    store.file.parent.mkdir(parents=True)
    store.file.write_text(json.dumps(foreign))
    store.put(tmp_path, used=NOW)
    found, told = store.read()
    assert ([each.path for each in found], len(told)) == ([str(tmp_path)], len(foreign))
    assert "entry 1 is not a project" in told[0]
    assert json.loads(store.file.read_text())[: len(foreign)] == foreign


@for_each("text", ["", "{", "{}", "[" * 50_000, "\x00"])
def test_a_broken_file_is_said_and_put_aside_when_the_next_one_is_written(tmp_path: Path, text: str) -> None:
    store = ProjectStore()
    store.file.parent.mkdir(parents=True)
    store.file.write_text(text)
    found, told = store.read()
    assert (found, "cannot be read" in told[0], store.file.read_text()) == ([], True, text)
    store.put(tmp_path)
    assert store.file.with_suffix(".broken").read_text() == text
    assert [each.path for each in store.read()[0]] == [str(tmp_path)]


def test_a_project_is_found_by_name_or_path_and_two_of_one_name_by_path_alone(tmp_path: Path) -> None:
    store = ProjectStore()
    known = [store.put(tmp_path / folder) for folder in ("a/app", "b/app", "c/lib")]
    assert find_project(known, "lib") is find_project(known, str(tmp_path / "c/lib")) is known[2]
    assert find_project(known, str(tmp_path / "b/app")) is known[1]
    with pytest.raises(UsageError, match="2 projects are called 'app'"):
        find_project(known, "app")
    with pytest.raises(UsageError, match="no project is called 'nothing'"):
        find_project(known, "nothing")


def test_plans_and_waiting_sessions_are_told_and_the_folder_stays_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    project = ProjectStore().put(folder, used=NOW)
    assert (look_at(project), list(folder.iterdir())) == (project, [])
    file = PipelineFile(folder)
    file.add(some_plan())
    file.close()
    session_id, sessions = new_session_id(NOW), SessionStore(folder)
    log = sessions.create(session_id)
    events = (
        SessionOpened(workspace=str(folder), version="1"), TurnStarted(turn_id="t"),
        ApprovalRequested(approval_id="a", call_id="c", tool="shell", text="rm x"),
    )  # fmt: skip
    for seq, event in enumerate(events, 1):
        log.append(Envelope(seq, NOW, session_id, event))
    before = sorted(each.name for each in (folder / ".lmagent").iterdir())
    found = look_at(project)
    assert (found.plans, found.done, found.tasks, found.failed) == (1, 1, 3, 1)
    assert found.needs == ("1 failed task", "1 open question", "1 session waits for approval")
    assert sorted(each.name for each in (folder / ".lmagent").iterdir()) == before
    log.close()
    (tmp_path / "elsewhere").mkdir()
    folder.rename(tmp_path / "elsewhere" / "work")
    moved = look_at(ProjectStore().put(tmp_path / "elsewhere" / "work"))
    assert (moved.plans, moved.needs) == (0, ()), "neither its plans nor its sessions are this user's, in that folder"
    assert look_at(project).problem == "the folder is gone"


def test_an_index_that_cannot_be_read_is_said_and_not_moved(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    index = workspace_state_dir(tmp_path / "work") / "index.db"
    index.parent.mkdir(parents=True)
    index.write_bytes(b"x" * 5_000)
    assert look_at(ProjectStore().put(tmp_path / "work")).problem
    assert [each.name for each in index.parent.iterdir()] == ["index.db"]


def test_a_scan_finds_each_kind_follows_no_link_and_stops_where_there_is_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "src"
    for path in (
        "a/.lmagent",
        "b/plans",
        "c/plans",
        "x/y/z/.lmagent",
        "x/y/z/w/.lmagent",
        ".hidden/.lmagent",
        "node_modules/m/.lmagent",
    ):
        (root / path).mkdir(parents=True)
    (tmp_path / "outside" / ".lmagent").mkdir(parents=True)
    (root / "b/plans/first.md").touch()
    (root / "c/plans/README.md").touch()
    (root / "d").mkdir()
    (root / "d/factory.yaml").touch()
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "e").mkdir()
    (root / "e/.lmagent").symlink_to(tmp_path / "outside")
    found, is_cut = scan(root)
    assert (sorted(str(each.relative_to(root)) for each in found), is_cut) == (["a", "b", "d", "x/y/z"], False)
    assert scan(root / "nothing") == ([], False)
    monkeypatch.setattr(projects, "MOST_ENTRIES", 30)
    for number in range(40):
        (tmp_path / f"{number:02}" / ".lmagent").mkdir(parents=True)
    found, is_cut = scan(tmp_path)
    assert (len(found) <= 1, is_cut) == (True, True)


def test_lines_show_no_control_characters_of_names_and_tags(tmp_path: Path) -> None:
    project = ProjectStore().put(tmp_path / "a\x1b[2Jb\n\u202ec\udc80", tags=("t\x07",))
    assert ProjectStore().read()[0][0] == project
    text = "".join(project_lines([look_at(project)], NOW))
    assert "the folder is gone" in text
    assert not {"\x1b", "\n", "\u202e", "\x07"} & {*text}
