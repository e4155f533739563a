from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from lmtui.core.events import MessageAdded, Outcome, TurnEnded
from lmtui.core.messages import Role
from lmtui.core.sessions import Answer
from lmtui.models.demo_scripts import FaultKind, ScriptedFault, ScriptedTurn
from tests.host.conftest import DONE, TOKEN, WRITE, Host, Start
from tests.host.test_api import PNG
from tests.host.test_contract import PAGE, check
from tests.sets import Late
from tests.waiting import until

openai: Any = Late("openai")
CHAT = "/v1/chat/completions"

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def sdk(host: Host) -> Any:
    return openai.AsyncOpenAI(base_url=f"{host.url}/v1", api_key=TOKEN, max_retries=0)


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


@pytest.mark.full
async def test_the_openai_sdk_gets_models_a_whole_answer_and_one_in_pieces_with_usage_and_no_tools(start: Start) -> None:
    host = await start(WRITE, DONE, mode="auto")
    asks: Any = {"stream": True, "stream_options": {"include_usage": True}}
    async with sdk(host) as client:
        assert [model.id async for model in client.models.list()][:2] == ["lmtui", "lmtui@work"]
        stream = await client.chat.completions.create(model="lmtui", messages=[user("write a file")], **asks)
        chunks = [chunk async for chunk in stream]
        answer = await client.chat.completions.create(model="lmtui@work", messages=[user("write a file")])
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert "".join(each.delta.content or "" for each in choices) == "Writing.\n\nAll is done."
    assert not any(each.delta.tool_calls for each in choices)
    assert (choices[-1].finish_reason, len({chunk.id for chunk in chunks})) == ("stop", 1)
    assert (host.folder / "a.txt").exists()
    assert answer.choices[0].message.content == "Writing.\n\nAll is done."
    for usage in (chunks[-1].usage, answer.usage):
        assert usage is not None
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens > 0


async def test_a_conversation_stays_in_its_session_and_an_edited_message_makes_a_branch(start: Start) -> None:
    host = await start(ScriptedTurn("One."), ScriptedTurn("Two."), ScriptedTurn("Three."), mode="auto")
    said = [user("first")]
    async with sdk(host) as client:
        for text in ("One.", "Two.", "Three."):
            answer = await client.chat.completions.create(model="lmtui", messages=said)
            assert answer.choices[0].message.content == text
            said += [assistant(text), user(f"behind {text}")]
        (listed,) = (await host.call("GET", "/v1/sessions"))["sessions"]
        session = await host.hub.session(listed["id"])
        events = [each.event for each in session.history() if isinstance(each.event, MessageAdded)]
        assert [each.text for each in events if each.role is Role.USER] == ["first", "behind One.", "behind Two."]
        answer = await client.chat.completions.create(model="lmtui", messages=[*said[:2], user("another")])
    assert answer.choices[0].message.content == "Two."
    assert len((await host.call("GET", "/v1/sessions"))["sessions"]) == 2
    sent = [str(each["content"]) for each in host.model.requests[-1].body["messages"]]
    assert (sent[-1].endswith("another"), any("behind" in each for each in sent)) == (True, False)


async def test_a_past_that_is_not_known_is_told_to_a_new_session(start: Start) -> None:
    host = await start(DONE, mode="auto")
    messages = [user("My name is Ada."), assistant("Hello Ada."), user("What is my name?")]
    body = {"model": "lmtui", "messages": [{"role": "system", "content": "Be short."}, *messages]}
    for given in (body, {"surely": "unknown"}):
        check(PAGE["paths"][CHAT]["post"], await host.client.post(CHAT, json=given))
    sent = str(host.model.requests[-1].body["messages"][-1]["content"])
    assert all(part in sent for part in ("What is my name?", "My name is Ada.", "Hello Ada.", "Be short."))


async def test_a_folder_is_named_by_the_model(start: Start, tmp_path: Path) -> None:
    host = await start(DONE, mode="auto")
    (tmp_path / "other").mkdir()
    host.hub.allow(tmp_path / "other")
    async with sdk(host) as client:
        _ = await client.chat.completions.create(model="lmtui@other", messages=[user("go")])
    assert len((await host.call("GET", f"/v1/sessions?folder={tmp_path / 'other'}"))["sessions"]) == 1


async def test_a_question_is_said_and_waits_for_its_answer(start: Start) -> None:
    host = await start(WRITE, DONE, mode="manual")
    async with sdk(host) as client:
        asking = asyncio.ensure_future(client.chat.completions.create(model="lmtui", messages=[user("write")]))
        await until(lambda: host.hub.sessions)
        asked = await host.approval(host.hub.sessions[0].id)
        assert not asking.done()
        host.hub.sessions[0].answer(asked["approval_id"], Answer(Outcome.NO))
        text = (await asking).choices[0].message.content or ""
    assert ("[lmtui asks: write" in text, text.endswith("All is done.")) == (True, True)
    assert not (host.folder / "a.txt").exists()


async def test_a_client_that_goes_stops_its_turn(start: Start) -> None:
    host = await start(ScriptedTurn("word " * 500, rate=50), mode="auto")
    async with sdk(host) as client:
        stream = await client.chat.completions.create(model="lmtui", messages=[user("go")], stream=True)
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                break
        await stream.close()
    (listed,) = (await host.call("GET", "/v1/sessions"))["sessions"]
    await host.idle(listed["id"])
    session = await host.hub.session(listed["id"])
    ended = [each.event for each in session.history() if isinstance(each.event, TurnEnded)]
    assert ended[-1].reason == "interrupted"


async def test_errors_have_openais_form(start: Start) -> None:
    host = await start(ScriptedTurn("word " * 100, rate=20), mode="auto")
    async with sdk(host) as client:
        with pytest.raises(openai.NotFoundError) as caught:
            _ = await client.chat.completions.create(model="gpt-4", messages=[user("go")])
        body: Any = caught.value.body
        assert (body["code"], body["param"], body["type"]) == ("model_not_found", None, "not_found")
        for messages in (
            [assistant("x")],
            [user(" ")],
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}]}],
        ):
            wrong: Any = messages
            with pytest.raises((openai.UnprocessableEntityError, openai.BadRequestError)):
                _ = await client.chat.completions.create(model="lmtui", messages=wrong)
        stream = await client.chat.completions.with_raw_response.create(model="lmtui", messages=[user("go")], stream=True)
        with pytest.raises(openai.ConflictError):
            _ = await client.chat.completions.create(
                model="lmtui", messages=[user("x")], extra_headers={"X-Session-Id": stream.headers["x-session-id"]}
            )
        await stream.http_response.aclose()


async def test_a_model_server_that_fails_is_told(start: Start) -> None:
    fault = ScriptedFault(FaultKind.STATUS, status=500, body="broken")
    host = await start(ScriptedTurn("x", fault=fault), mode="auto")
    answer = await host.client.post(CHAT, json={"model": "lmtui", "messages": [user("go")]})
    assert answer.status_code == 502
    assert answer.json()["error"]["message"]
    async with sdk(host) as client:
        stream = await client.chat.completions.create(model="lmtui", messages=[user("go")], stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text.startswith("[")


async def test_pictures_in_the_request_reach_the_model(start: Start) -> None:
    host = await start(DONE, mode="auto", vision="true")
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    content: Any = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": url}}]
    async with sdk(host) as client:
        _ = await client.chat.completions.create(model="lmtui", messages=[{"role": "user", "content": content}])
    assert "image_url" in str(host.model.requests[-1].body["messages"][-1])
