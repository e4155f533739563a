from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from lmtui.core.events import MessageAdded, TurnEnded
from lmtui.core.hosts import is_same_server
from lmtui.host.hub import GivenSettings
from lmtui.models.demo_scripts import Scenario, ScriptedTurn
from lmtui.models.discovery import read_choices
from lmtui.models.scripted_server import ScriptedServer
from tests.host.conftest import DONE, WRITE, Start, is_end, read_blocks

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")


async def test_a_task_runs_and_its_session_can_be_looked_at_from_every_side(start: Start) -> None:
    host = await start(WRITE, DONE, mode="auto")
    session_id = await host.new_session(message="write a file", title="My task")
    _ = await read_blocks(host, f"/v1/sessions/{session_id}/events", until=is_end)
    await host.idle(session_id)
    one = f"/v1/sessions/{session_id}"
    detail = await host.call("GET", one)
    assert (detail["title"], detail["mode"], detail["is_running"]) == ("My task", "auto", False)
    assert detail["folder"] == str(host.folder)
    (listed,) = (await host.call("GET", "/v1/sessions"))["sessions"]
    assert (listed["id"], listed["state"], listed["is_open"]) == (session_id, "done", True)
    assert (await host.call("GET", f"{one}/files"))["files"][0]["path"] == "a.txt"
    assert (await host.call("GET", f"{one}/usage"))["turns"] == 1
    assert (await host.call("GET", f"{one}/tasks")) == {"todos": [], "steps": []}
    history = await host.call("GET", f"{one}/history")
    assert history["events"][0]["kind"] == "session_opened"
    assert history["next_after"] == 0
    status = await host.call("GET", "/v1/status")
    assert (status["sessions"], status["folders"]) == (1, [str(host.folder)])


async def test_a_message_waits_for_its_answer_is_taken_once_and_history_comes_in_parts(start: Start) -> None:
    host = await start(DONE, DONE, mode="auto")
    session_id = await host.new_session()
    one = f"/v1/sessions/{session_id}"
    answer = await host.client.post(f"{one}/messages", json={"text": "go", "wait": True})
    turn, is_running = answer.json()["turn"], answer.json()["is_running"]
    assert (answer.status_code, turn["text"], turn["reason"], is_running) == (200, "All is done.", "done", False)
    for text, status in (("go", 202), ("go", 202), ("/none", 422), ("/none", 422)):
        answer = await host.client.post(f"{one}/messages", json={"text": text}, headers={"Idempotency-Key": text})
        assert answer.status_code == status
    await host.idle(session_id)
    session = await host.hub.session(session_id)
    assert sum(isinstance(each.event, TurnEnded) for each in session.history()) == 2
    whole = (await host.call("GET", f"{one}/history"))["events"]
    parts, after = list[object](), 0
    while not parts or after:
        found = await host.call("GET", f"{one}/history?after={after}&limit=3")
        parts, after = [*parts, *found["events"]], found["next_after"]
    assert parts[: len(whole)] == whole


async def test_a_question_is_answered_while_the_turn_goes_on(start: Start) -> None:
    host = await start(WRITE, DONE, mode="manual")
    await host.hub.runtime(host.folder, GivenSettings({"seed": 7}))  # a terminal's, with its own flags
    session_id = await host.new_session(message="write a file")
    asked = await host.approval(session_id)
    assert (asked["tool"], "a.txt" in asked["path"] + asked["text"]) == ("write", True)
    (listed,) = (await host.call("GET", "/v1/sessions"))["sessions"]
    assert [listed[name] for name in ("needs_answer", "is_open", "is_running", "is_elsewhere")] == [True, True, True, False]
    path = f"/v1/sessions/{session_id}/approvals/{asked['approval_id']}"
    done = await host.call("POST", path, json={"outcome": "once", "by": "phone"})
    assert done == {"approval_id": asked["approval_id"], "outcome": "once", "by": "phone"}
    await host.idle(session_id)
    assert (host.folder / "a.txt").exists()
    late = await host.client.post(path, json={"outcome": "once", "by": "desk"})
    assert late.status_code == 409
    assert late.json()["error"] | {"message": ""} == {
        "type": "conflict", "message": "", "hint": "No answer is needed.", "outcome": "once", "by": "phone",
    }  # fmt: skip
    assert "phone has already answered" in late.json()["error"]["message"]


async def test_of_two_answers_at_once_one_wins_and_the_other_is_told(start: Start) -> None:
    host = await start(WRITE, DONE, mode="manual")
    session_id = await host.new_session(message="write a file")
    asked = await host.approval(session_id)
    path = f"/v1/sessions/{session_id}/approvals/{asked['approval_id']}"
    bodies = [{"outcome": "once" if number % 2 else "no", "by": f"client {number}"} for number in range(8)]
    answers = await asyncio.gather(*(host.client.post(path, json=body) for body in bodies))
    won = [answer for answer in answers if answer.status_code == 200]
    lost = [answer for answer in answers if answer.status_code == 409]
    assert (len(won), len(lost)) == (1, 7)
    assert {answer.json()["error"]["by"] for answer in lost} == {won[0].json()["by"]}
    await host.idle(session_id)
    assert (host.folder / "a.txt").exists() == (won[0].json()["outcome"] == "once")


async def test_answers_that_cannot_be_leave_the_question_open(start: Start) -> None:
    host = await start(WRITE, DONE, mode="manual")
    session_id = await host.new_session(message="write a file")
    asked = await host.approval(session_id)
    path = f"/v1/sessions/{session_id}/approvals/"
    for body in (
        {}, {"outcome": "maybe"}, {"outcome": "once", "by": "<b>x</b>"}, {"outcome": "try"}, {"outcome": "once", "hunks": [-1]},
        *({"outcome": "always", "rule": 0, **more} for more in ({}, {"scope": "user"}, {"scope": "workspace"})),
        *({"outcome": "session", "rule": rule} for rule in ("*", "Write(a.txt)", "0x", 99, -1, 1.5, None, [0])),
        {"outcome": "session", "scope": "user"}, {"outcome": "once", "edited": "id"}, {"outcome": "once", "hunks": [7]},
    ):  # fmt: skip
        assert (await host.client.post(path + asked["approval_id"], json=body)).status_code == 422, body
    assert (await host.client.post(path + "ask_none_1", json={"outcome": "no"})).status_code == 404
    assert (await host.approval(session_id))["approval_id"] == asked["approval_id"]


async def test_slash_commands_and_budgets_act_on_the_session(start: Start) -> None:
    host = await start(DONE, DONE, mode="auto")
    for body in ({"mode": "deep_work"}, {"budget": "some"}, {"message": "/undo"}, {"message": "/nothing"}):
        assert (await host.client.post("/v1/sessions", json=body)).status_code == 422
    assert not host.hub.sessions
    session_id = await host.new_session(mode="deep_work", budget="3h 200 steps")
    one = f"/v1/sessions/{session_id}"
    answer = await host.client.post(f"{one}/messages", json={"text": "/budget"})
    assert (answer.status_code, "200 steps" in answer.json()["output"][0]) == (200, True)
    assert any("plan" in line for line in (await host.call("POST", f"{one}/messages", json={"text": "/status"}))["output"])
    assert (await host.call("POST", f"{one}/messages", json={"text": "/mode auto"}))["output"] == ["done"]
    assert (await host.call("POST", f"{one}/mode", json={"budget": "off"})) == {"mode": "auto", "budget": "off"}
    answer = await host.client.post(f"{one}/messages", json={"text": "/deep 1h tidy up"})
    assert (answer.status_code, (await host.call("GET", one))["mode"]) == (202, "plan")
    await host.idle(session_id)
    _ = await host.call("POST", f"{one}/messages", json={"text": " /budget 1h", "wait": True})
    session = await host.hub.session(session_id)
    said = [each.event.text for each in session.history() if isinstance(each.event, MessageAdded)]
    assert [each.strip() for each in said][-2:] == ["/budget 1h", "All is done."]


async def test_paths_and_words_of_the_earlier_program_lead_there_too(start: Start) -> None:
    host = await start(DONE, mode="plan")
    session_id = str((await host.call("POST", "/api/sessions", json={}))["id"])
    _ = await host.call("POST", f"/api/chat/{session_id}", json={"message": "go", "mode": "auto", "wait": True})
    own = [f"sessions/{session_id}/{part}" for part in ("history", "tasks")]
    for path in ("status", "sessions", *own, "usage", "models", "cron"):
        await host.call("GET", f"/api/{path}")
    assert (await host.call("GET", f"/v1/sessions/{session_id}"))["mode"] == "auto"
    await host.call("DELETE", f"/api/sessions/{session_id}")


async def test_a_turn_can_be_interrupted_and_what_waits_taken_back(start: Start) -> None:
    host = await start(ScriptedTurn("word " * 200, rate=20), DONE, mode="auto")
    session_id = await host.new_session(message="write long")
    one = f"/v1/sessions/{session_id}"
    for text in ("second", "third"):
        _ = await host.call("POST", f"{one}/messages", json={"text": text})
    assert (await host.call("GET", f"{one}/queue"))["queued"] == ["second", "third"]
    assert (await host.client.delete(f"{one}/queue/7")).status_code == 404
    assert (await host.call("DELETE", f"{one}/queue/0"))["queued"] == ["third"]
    _ = await host.call("POST", f"{one}/interrupt")
    await host.idle(session_id)
    assert await host.call("GET", f"{one}/queue") == {"queued": ["third"], "is_paused": True}
    _ = await host.call("POST", f"{one}/queue/resume")
    await host.idle(session_id)
    assert (await host.call("GET", f"{one}/queue"))["queued"] == []


async def test_mode_title_fork_and_deletion(start: Start) -> None:
    host = await start(DONE, mode="auto")
    session_id = await host.new_session(message="go")
    await host.idle(session_id)
    one = f"/v1/sessions/{session_id}"
    assert await host.call("POST", f"{one}/mode", json={"mode": "plan"}) == {"mode": "plan", "budget": ""}
    refused = await host.client.post(f"{one}/mode", json={"mode": "root"})
    assert (refused.status_code, "mode: Input should be 'deep_work'" in refused.text) == (422, True)
    assert (await host.call("PATCH", one, json={"title": "Other"}))["title"] == "Other"
    copy = (await host.call("POST", f"{one}/fork", json={}))["id"]
    await host.call("DELETE", one)
    assert (await host.client.get(one)).status_code == 404
    assert [each["id"] for each in (await host.call("GET", "/v1/sessions"))["sessions"]] == [copy]


async def test_what_is_not_there_is_said_with_the_way_out(start: Start) -> None:
    host = await start(mode="plan")
    session_id = await host.new_session()
    for action in ("approve", "revise", "reject"):
        assert (await host.client.post(f"/v1/sessions/{session_id}/plan", json={"action": action})).status_code == 409
    answer = await host.client.post("/v1/sessions", json={"folder": "/nowhere"})
    assert (answer.status_code, "host_folders" in answer.json()["error"]["hint"]) == (422, True)
    for data, status in ((b"", 422), (b"\xff\xfe\x00", 415), (b"x" * 300_000, 413), (b"x" * 5_000_001, 413)):
        assert (await host.client.post("/v1/uploads", content=data)).status_code == status


async def test_uploads_go_with_one_message(start: Start) -> None:
    host = await start(DONE, DONE, mode="auto")
    session_id = await host.new_session()
    picture = await host.call("POST", "/v1/uploads?name=../../a.png", content=PNG)
    text = await host.call("POST", "/v1/uploads?name=notes.txt", content=b"a ``` fence")
    assert (picture["name"], picture["media_type"], text["media_type"]) == ("a.png", "image/png", "text/plain")
    body = {"text": "look", "attach": [picture["id"], text["id"]], "wait": True}
    _ = await host.call("POST", f"/v1/sessions/{session_id}/messages", json=body)
    session = await host.hub.session(session_id)
    said = next(each.event for each in session.history() if isinstance(each.event, MessageAdded))
    assert "notes.txt:\n````\na ``` fence\n````" in said.text
    assert said.images[0].name == "a.png"
    assert (await host.client.post(f"/v1/sessions/{session_id}/messages", json=body)).status_code == 404


async def test_files_tools_models_and_jobs(start: Start) -> None:
    host = await start(DONE, mode="auto")
    (host.folder / "a.py").write_text("print('é')\n")
    (host.folder / "b.bin").write_bytes(b"\xff\x00")
    listed = await host.call("GET", "/v1/files")
    assert {"a.py", "b.bin"} <= {each["path"] for each in listed["entries"]}
    assert (await host.call("GET", "/v1/files/content?path=a.py"))["content"] == "print('é')\n"
    assert (await host.call("GET", "/v1/files/content?path=b.bin"))["encoding"] == "base64"
    assert (await host.client.get("/v1/files/content?path=nothing")).status_code == 404
    page = await host.client.get("/v1/serve?path=a.py")
    assert (page.text, page.headers["content-type"]) == ("print('é')\n", "text/x-python; charset=utf-8")
    assert page.headers["content-security-policy"].startswith("sandbox allow-scripts; default-src 'none';")
    names = {each["name"] for each in (await host.call("GET", "/v1/tools"))["tools"]}
    assert {"read", "write", "shell"} <= names
    models = (await host.call("GET", "/v1/models"))["data"]
    assert [each["id"] for each in models][:2] == ["lmtui", "lmtui@work"]
    assert any(each["url"] for each in models)
    added = (await host.call("POST", "/v1/jobs", json={"text": "check", "schedule": "every 1d"}))["id"]
    path = f"/v1/jobs/{added}"
    for change, state in (("pause", "paused"), ("toggle", "waiting"), ("toggle", "paused"), ("resume", "waiting")):
        assert (await host.call("POST", f"{path}/{change}"))["state"] == state
    assert [each["id"] for each in (await host.call("GET", "/v1/jobs"))["jobs"]] == [added]
    assert (await host.client.post("/v1/jobs/nothing/run")).status_code == 404
    await host.call("DELETE", path)
    assert (await host.call("GET", "/v1/jobs"))["jobs"] == []
    assert (await host.client.post("/v1/jobs", json={"text": "x", "schedule": "whenever"})).status_code in (409, 422)


async def test_usage_names_only_the_folders_that_clients_may_use(start: Start, tmp_path: Path) -> None:
    host = await start(DONE, mode="auto")
    assert (await host.hub.runtime(tmp_path / "work")).workspace == host.folder
    (tmp_path / "private").mkdir()
    hidden = await (await host.hub.runtime(tmp_path / "private")).new_session()
    session_id = await host.new_session(message="go")
    hidden.submit("go")
    await host.idle(session_id)
    await hidden.wait_idle()
    found = await host.call("GET", "/v1/usage?range=today")
    assert [row["session"] for row in found["sessions"]] == [session_id]
    assert [row["folder"] for row in found["folders"]] == [str(host.folder)]
    assert found["total"]["turns"] == 2
    assert (await host.client.get("/v1/usage?range=year")).status_code == 422


async def test_another_model_is_selected_for_a_session(start: Start) -> None:
    host = await start(DONE, mode="auto", scenario={"models": ("scripted", "other")})
    session_id = await host.new_session()
    for model, body in (("other", {"url": host.model.url}), ("scripted", {})):
        _ = await host.call("POST", "/v1/models/select", json={**body, "model": model, "session": session_id})
        assert (await host.call("GET", f"/v1/sessions/{session_id}"))["model"] == model
    for wrong in ({"url": "http://127.0.0.1:9", "model": "x"}, {"url": host.model.url, "model": "nope"}, {"model": "nope"}, {}):
        assert (await host.client.post("/v1/models/select", json=wrong)).status_code == 404
    assert (await host.client.post("/v1/sessions", json={"model": "nope"})).status_code == 404
    assert read_choices() == ()
    async with ScriptedServer(Scenario((DONE,), models=("far",))) as far:
        servers = (await host.hub.runtime(host.folder)).servers
        for url, model in ((far.url, "far"), (host.model.url, "scripted")):
            await servers.use(url, model)
        session_id = await host.new_session(model="far")
        last = (await host.call("GET", f"/v1/sessions/{session_id}/history"))["events"][-1]
        assert (last["model"], is_same_server(last["url"], far.url), servers.model) == ("far", True, "scripted")
