"""The pool of servers as each kind of work uses it: sub-agents, attempts, plans and jobs, on two real scripted servers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lmtui.app.host import Runtime
from lmtui.app.model_servers import Servers
from lmtui.config import Config
from lmtui.core.connection_profiles import PoolEntry, parse_pool
from lmtui.core.errors import ConfigError
from lmtui.core.events import RetryScheduled
from lmtui.features.jobs.values import Jobs, NewJob
from lmtui.models.demo_scripts import FaultKind, ScriptedFault, ScriptedTurn
from tests.app.conftest import DONE, Open, Serve, jobs_of, run

# A look at the server that is cancelled while it connects may leave its socket to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


async def attempts(runtime: Runtime, _: Path) -> None:
    await runtime.attempts.run("Make it so.", 4, (), lambda session: session.submit("Make it so."))


async def jobs(runtime: Runtime, _: Path) -> None:
    for number in range(4):
        await runtime.extensions[Jobs].add(NewJob(text=f"say hello {number}"))
    await jobs_of(runtime).serve(until_empty=True)


async def test_a_failover_is_told_as_a_retry_that_names_both_servers(open_one: Open, serve: Serve) -> None:
    cut = ScriptedTurn("half of it", fault=ScriptedFault(FaultKind.CUT, after_pieces=1))
    servers = [await serve(cut), await serve(DONE)]
    runtime = open_one(servers=(servers[0].url, servers[1].url))
    found = await run(await runtime.new_session())
    retries = [each for each in found if isinstance(each, RetryScheduled)]
    assert len(retries) == 1
    assert retries[0].wait_s == 0
    assert servers[0].url in retries[0].reason
    assert f"trying {servers[1].url}" in retries[0].reason


async def test_each_server_gets_its_own_key_and_a_host_gets_none(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("profile-key-0123456789")
    file.chmod(0o600)
    config = Config(
        servers=("gpu", "http://10.0.0.8:8080", "127.0.0.1"),
        profiles=(f"gpu: url=http://10.0.0.7:8080 api_key=file:{file}",),
        api_key="user-key-0123456789",
    )
    servers = Servers(config)
    urls = ("http://10.0.0.7:8080", "http://10.0.0.8:8080", "127.0.0.1", "http://127.0.0.1:11434/v1")
    keys = [servers.key_for(url) for url in urls]
    assert keys == ["profile-key-0123456789", "user-key-0123456789", "", ""]
    assert servers.is_pooled(urls[3])  # a session that is opened again asks the pool, though nobody has looked yet
    by_address = Servers(replace(config, servers=urls[:2]))
    assert by_address.key_for(urls[0]) == "profile-key-0123456789"
    assert servers.key_for("http://10.0.0.9:8080") == ""
    provider = servers.provider()
    assert servers.provider_at("http://10.0.0.7:8080") is not servers.provider_at("http://10.0.0.8:8080")
    assert servers.redactor.text("profile-key-0123456789 user-key-0123456789") == " ".join(["[key redacted]"] * 2)
    await provider.close()


async def test_the_list_of_models_shows_how_each_server_of_the_pool_does(open_one: Open, serve: Serve) -> None:
    server = await serve(DONE)
    runtime = open_one(servers=(server.url, "http://127.0.0.1:9"), slots=3)
    found = {each.url: each.pool for each in await runtime.servers.find() if each.pool is not None}
    up, down = (found[url] for url in (server.url.removesuffix("/v1"), "http://127.0.0.1:9"))
    assert (up.is_up, up.model, up.slots) == (True, "scripted", 3)
    assert (down.is_up, "no answer" in down.problem) == (False, True)


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("gpu3", PoolEntry("gpu3", is_host=True)),
        ("gpu3.lan", PoolEntry("gpu3.lan", is_host=True)),
        ("10.0.0.7", PoolEntry("10.0.0.7", is_host=True)),
        ("gpu3:8080", PoolEntry("gpu3:8080")),
        ("http://gpu3", PoolEntry("http://gpu3")),
        ("mine", PoolEntry("http://gpu4:1")),
    ],
)
def test_an_entry_is_a_profile_before_it_is_a_host(text: str, entry: PoolEntry) -> None:
    assert parse_pool([text], ["mine: url=http://gpu4:1"]) == (entry,)


def test_a_server_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ConfigError, match="not an address, a host name or a profile"):
        parse_pool(["ftp://x"], [])
