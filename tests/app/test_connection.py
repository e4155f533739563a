from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lmtui.app.host import Runtime
from lmtui.app.session_models import last_model
from lmtui.config import Config
from lmtui.core.errors import ConfigError, ProviderError
from lmtui.core.events import ModelChanged, Notice
from lmtui.core.hosts import root_url
from lmtui.core.servers import lack_text
from lmtui.core.sessions import Session
from lmtui.models.demo_scripts import Scenario
from lmtui.models.discovery import find_servers, read_choices
from lmtui.models.scripted_server import ScriptedServer
from lmtui.paths import state_dir
from tests.app.conftest import DONE, Open, Serve, run, window_known

# A look at the server that is cancelled while it connects may leave its socket to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
async def usual(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> ScriptedServer:
    """A server that is found without being named."""
    if await find_servers():
        pytest.skip("a model server runs on this machine's usual ports")
    server = await serve(DONE, DONE)
    monkeypatch.setenv("OLLAMA_HOST", server.url.removesuffix("/v1"))
    return server


async def test_the_server_that_is_found_is_used_and_said(open_one: Open, usual: ScriptedServer) -> None:
    runtime = open_one(api_key="sk-canary")
    note = await runtime.choose_server()
    assert usual.url.removesuffix("/v1") in note
    assert "scripted" in note
    assert runtime.setup_note == ""
    await run(await runtime.new_session())
    assert "canary" not in usual.requests[0].authorization
    assert await runtime.choose_server() == ""
    assert open_one().setup_note, "it is not kept for the next start"
    assert "model mine" in await open_one(model="mine").choose_server()
    assert await open_one("http://127.0.0.1:9").choose_server() == "", "a named server is not replaced"


async def test_nothing_found_says_what_to_do(open_one: Open) -> None:
    if await find_servers():
        pytest.skip("a model server runs on this machine's usual ports")
    with pytest.raises(ProviderError, match="no model server answers") as caught:
        await open_one().choose_server()
    assert "--url" in caught.value.hint


async def test_a_chosen_server_is_kept_and_never_gets_the_key_of_another(home: Path, open_one: Open, serve: Serve) -> None:
    named, chosen = await serve(DONE, DONE), await serve(DONE, DONE, DONE, DONE)
    first = open_one(named.url, api_key="sk-canary")
    session = await first.new_session()
    await run(session)
    assert named.requests[0].authorization == "Bearer sk-canary"
    await first.switch_model(session.id, chosen.url, "scripted")
    await run(session)
    await first.close()
    resumed = open_one(named.url, api_key="sk-canary")
    await run(await resumed.open_session(session.id))
    second = open_one(api_key="sk-canary")
    assert second.setup_note == ""
    await run(await second.new_session())
    assert [each.body["model"] for each in chosen.requests] == ["scripted"] * 3
    assert not any("canary" in each.authorization for each in chosen.requests)
    assert not any(b"canary" in path.read_bytes() for path in home.rglob("*") if path.is_file())


async def test_a_session_is_taken_up_with_its_own_model_not_with_one_of_a_turn(open_one: Open, serve: Serve) -> None:
    server = await serve(DONE)
    first = open_one(server.url, model="scripted")
    session = await first.new_session()
    session.emit(ModelChanged(model="borrowed", url=server.url, is_for_turn=True))
    await first.close()
    second = open_one()
    second.take_server_of(session.id)
    again = await second.open_session(session.id)
    changes = [each.event for each in again.history() if isinstance(each.event, ModelChanged)]
    assert (changes[-1].model, [change.model for change in changes if change.is_for_turn]) == ("scripted", ["borrowed"])


async def test_a_choice_that_cannot_be_read_is_none(open_one: Open) -> None:
    state_dir().mkdir(parents=True)
    for text in ("", "[]", "null", "{", '{"url": 3, "model": ""}', '{"url": "ftp://x", "model": ""}', '{"url": null}'):
        (state_dir() / "server.json").write_text(text)
        assert open_one().setup_note, text


async def test_an_address_at_which_no_model_server_answers_is_said_and_not_kept(open_one: Open, serve: Serve) -> None:
    runtime = open_one()
    with pytest.raises(ProviderError, match=r"No server at http://127\.0\.0\.1:9/v1"):
        await runtime.servers.use("127.0.0.1:9", "")
    with pytest.raises(ProviderError, match="is not a model server"):
        await runtime.servers.use((await serve(DONE)).url.removesuffix("/v1") + "/nowhere", "")
    assert runtime.setup_note
    assert open_one().setup_note


async def test_an_address_that_is_named_again_has_the_model_and_the_key_that_were_chosen_there(
    open_one: Open, serve: Serve, workspace: Path
) -> None:
    server, other = await serve(DONE, models=("big", "small")), await serve(DONE)
    await open_one().servers.use(server.url, "small", "sk-9")
    await open_one().servers.use(other.url, "scripted")
    runtime = open_one(server.url)
    assert await runtime.choose_server() == ""
    await run(await runtime.new_session())
    assert (server.requests[0].body["model"], server.requests[0].authorization) == ("small", "Bearer sk-9")
    await runtime.servers.use(other.url, "scripted")
    runtime._use_config(Config(sandbox="process", url=server.url))
    await run(await runtime.new_session())
    assert len(other.requests) == 1, "settings that name the same server leave the choice of now alone"


async def test_what_an_address_that_is_named_lacks_is_told_until_its_key_and_model_are_there(open_one: Open) -> None:
    async with ScriptedServer(Scenario((DONE,), models=("big", "small")), key="sk-9") as server:
        for settings, lacks in (
            ({}, "API key required"), ({"api_key": "sk-8"}, "wrong API key"), ({"api_key": "sk-9"}, "several models"),
            ({"api_key": "sk-9", "model": "small"}, ""),
        ):  # fmt: skip
            servers = open_one(server.url, **settings).servers
            problem = await servers.choice_problem()
            assert (lacks in lack_text(problem)) if problem is not None else not lacks
        named = open_one(server.url, model="small")
        await named.servers.use(server.url, "", "sk-9")
        assert (await named.servers.choice_problem(), read_choices()[0].model) == (None, "small")


async def test_servers_that_were_used_are_kept_the_newest_first_and_said_when_they_are_silent(
    open_one: Open, serve: Serve
) -> None:
    old, new = await serve(DONE), await serve(DONE)
    await open_one().servers.use(old.url, "scripted")
    await open_one().servers.use(new.url, "scripted")
    new_url = root_url(new.url)
    await new.__aexit__(None, None, None)
    found = {server.url: server for server in await open_one().servers.find()}
    assert found[root_url(old.url)].chat_models
    assert found[new_url].note == "no answer"
    assert [each.url for each in read_choices()] == [new_url, root_url(old.url)]


def last_used(session: Session) -> tuple[str, str]:
    used = last_model(session.history())
    assert used is not None
    return used.model, root_url(used.url)


def warnings(session: Session) -> list[str]:
    notices = [each.event for each in session.history() if isinstance(each.event, Notice)]
    return [each.text for each in notices if "used last" in each.text]


async def switched(open_one: Open, one: ScriptedServer, other: ScriptedServer) -> str:
    """Let a session begin on one server and go on with another, and return its id; the choice is the first again."""
    runtime = open_one(one.url, model="scripted")
    session = await runtime.new_session()
    await runtime.switch_model(session.id, other.url, "big")
    await window_known(session)
    await runtime.close()
    await open_one().servers.use(one.url, "scripted")
    return session.id


async def test_a_session_whose_server_is_gone_goes_on_with_the_one_in_use_and_says_so(open_one: Open, serve: Serve) -> None:
    one, other = await serve(DONE), await serve(DONE, models=("big",))
    session_id, url = await switched(open_one, one, other), other.url
    await other.__aexit__(None, None, None)
    session = await open_one().open_session(session_id)
    await run(session)
    assert one.requests
    assert warnings(session) == [f"No server at {url}, which this session used last. It continues with scripted at {one.url}."]


async def test_a_session_whose_model_is_gone_says_so(open_one: Open, serve: Serve) -> None:
    server = await serve(DONE, models=("scripted", "big"))
    session_id = await switched(open_one, server, server)
    server._scenarios = [replace(each, models=("scripted",)) for each in server._scenarios]
    session = await open_one().open_session(session_id)
    await window_known(session)
    assert last_used(session)[0] == "scripted"
    assert "no longer has the model big" in warnings(session)[0]


async def test_the_command_line_and_a_choice_of_now_come_before_what_a_session_used(
    open_one: Open, serve: Serve, workspace: Path
) -> None:
    one, other = await serve(DONE, DONE), await serve(DONE, models=("big",))
    session_id = await switched(open_one, one, other)
    config = Config(sandbox="process", url=one.url, model="scripted")
    forced = Runtime(workspace, config, is_attended=False, is_model_forced=True)
    session = await forced.open_session(session_id)
    await window_known(session)
    assert last_used(session) == ("scripted", root_url(one.url))
    await forced.close()
    session_id = await switched(open_one, one, other)
    runtime = open_one()
    await runtime.servers.use(one.url, "scripted")
    session = await runtime.open_session(session_id)
    await window_known(session)
    assert last_used(session) == ("scripted", root_url(one.url))


async def test_a_profile_switches_server_model_and_key_of_a_running_session(
    open_one: Open, serve: Serve, tmp_path: Path
) -> None:
    first, gpu = await serve(DONE), await serve(DONE, DONE)
    key = tmp_path / "key"
    key.write_text("sk-gpu\n")
    key.chmod(0o600)
    profiles = (f"gpu: url={gpu.url} model=scripted api_key=file:{key}", "lost: url=http://127.0.0.1:9")
    runtime = open_one(first.url, api_key="sk-own", profiles=profiles)
    session = await runtime.new_session()
    await run(session)
    listed = (await runtime.servers.find())[0]
    assert (listed.kind, [each.name for each in listed.models]) == ("profiles", ["gpu", "lost"])
    await runtime.switch_model(session.id, "profile:", "gpu")
    await run(session)
    assert [each.authorization for each in first.requests] == ["Bearer sk-own"]
    assert [each.authorization for each in gpu.requests] == ["Bearer sk-gpu"]
    with pytest.raises(ConfigError, match="no profile 'gqu'"):
        await runtime.switch_model(session.id, "profile:", "gqu")
    with pytest.raises(ProviderError, match="No server at"):
        await runtime.switch_model(session.id, "profile:", "lost")
    await run(session)
    assert len(gpu.requests) == 2
    assert all(each.url != root_url(gpu.url) for each in read_choices())
    assert "sk-gpu" not in str(session.history())


async def test_the_key_of_a_profile_goes_to_no_other_server(open_one: Open, serve: Serve, tmp_path: Path) -> None:
    gpu, other = await serve(DONE), await serve(DONE)
    key = tmp_path / "key"
    key.write_text("sk-gpu")
    key.chmod(0o600)
    profile = f"gpu: url={gpu.url} api_key=file:{key}"
    runtime = open_one(gpu.url, api_key=f"file:{key}", profiles=(profile,), profile="gpu")
    session = await runtime.new_session()
    await run(session)
    await runtime.switch_model(session.id, other.url, "scripted")
    await run(session)
    assert gpu.requests[0].authorization == "Bearer sk-gpu"
    assert "sk-gpu" not in other.requests[0].authorization
    await runtime.switch_model(session.id, "profile:", "gpu")
    await run(session)
    await runtime.close()
    again = await open_one(other.url, profiles=(profile,)).open_session(session.id)
    await run(again)
    assert [each.authorization for each in gpu.requests] == ["Bearer sk-gpu"] * 3
