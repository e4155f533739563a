from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from lmtui.app.session_models import PromptCacheRecord, PromptCaches, SessionPromptCache
from lmtui.core.events import Notice
from lmtui.core.messages import Completion, Message, ModelRequest, Role, ToolSpec
from lmtui.core.sessions import Session
from lmtui.models.openai_client import OpenAICompatible
from tests.app.conftest import Open, run
from tests.models.fake_server import listening
from tests.models.llama_server import BYTES_PER_TOKEN, LlamaServer

TOOL = ToolSpec("read", "reads", {"type": "object", "properties": {}})
ASK = ModelRequest((Message(Role.SYSTEM, "be brief"), Message(Role.USER, "hello")), (TOOL,), "qwen")
MORE = replace(ASK, messages=(*ASK.messages, Message(Role.ASSISTANT, "ok"), Message(Role.USER, "and now?")))


@pytest.fixture
async def llama() -> AsyncIterator[LlamaServer]:
    async with listening(LlamaServer()) as fake:
        yield fake


class Life:
    """One start of lmtui: a provider, and the cache of one session."""

    def __init__(self, url: str, session: str = "one", **options: Any) -> None:
        self.provider = OpenAICompatible(url)
        self.caches = PromptCaches(**options)
        self.cache = SessionPromptCache(self.caches, session)
        self.told: list[str] = []
        self.cache.tell = lambda notice: self.told.append(notice.text)

    async def ask(self, request: ModelRequest = ASK) -> Completion:
        if self.provider.saves_prompts is False:
            await self.provider.served("")
        found: list[Completion] = []
        async for piece in self.provider.stream(request, lambda: self.cache.wake(self.provider, request)):
            if isinstance(piece, Completion):
                found.append(piece)
                self.cache.answered(self.provider, request, piece)
        return found[0]

    async def end(self) -> None:
        await self.cache.sleep()
        await self.provider.close()


def notices(session: Session, word: str) -> list[str]:
    found = [each.event for each in session.history() if isinstance(each.event, Notice)]
    return [notice.text for notice in found if word in notice.text]


async def lived(url: str, **options: Any) -> Life:
    """Ask once, and end."""
    life = Life(url, **options)
    await life.ask()
    await life.end()
    return life


async def test_a_session_that_is_opened_again_after_a_restart_of_the_server_reads_nothing_again(
    open_one: Open, llama: LlamaServer
) -> None:
    first = open_one(llama.url)
    session = await first.new_session()
    await run(session)
    assert llama.acts("save") == []
    await first.close()
    assert len(llama.acts("save")) == 1
    llama.restart()
    again = await open_one(llama.url).open_session(session.id)
    await run(again, "go on")
    assert llama.acts("restore") == llama.acts("save")[:1]
    assert llama.chats[-1]["id_slot"] == 0
    assert llama.chats[0].get("id_slot") is None
    usage = again.history()[-1]
    assert notices(again, "prompt cache") == [], usage
    await run(again, "and on")
    assert "id_slot" not in llama.chats[-1]


async def test_a_session_is_saved_before_its_model_is_switched_or_unloaded(open_one: Open, llama: LlamaServer) -> None:
    runtime = open_one(llama.url)
    session = await runtime.new_session()
    await run(session)
    await runtime.servers.before_unload(llama.url)
    assert len(llama.acts("save")) == 1
    await run(session)
    await runtime.switch_model(session.id, llama.url, "other")
    assert len(llama.acts("save")) == 2


@pytest.mark.parametrize(
    ("change", "request_now"),
    [
        ({"chat_template": "another"}, MORE),
        ({"model_path": "other.gguf"}, MORE),
        ({"model_ftype": "Q8_0"}, MORE),
        ({"build_info": "b2"}, MORE),
        ({"default_generation_settings": {"params": {}, "n_ctx": 4096}}, MORE),
        ({"default_generation_settings": {"params": {"lora": [{"id": 0}]}, "n_ctx": 8192}}, MORE),
        ({}, replace(MORE, messages=(Message(Role.SYSTEM, "be long"), *MORE.messages[1:]))),
        ({}, replace(MORE, tools=(replace(TOOL, description="writes"),))),
        ({}, replace(ASK, messages=ASK.messages[:1])),
    ],
)
async def test_a_cache_of_another_model_template_window_or_beginning_is_refused(
    llama: LlamaServer, change: dict[str, Any], request_now: ModelRequest
) -> None:
    await lived(llama.url)
    llama.restart()
    llama.props |= change
    after = Life(llama.url)
    await after.ask(request_now)
    await after.end()
    assert (llama.acts("restore"), len(after.told)) == ([], 1)
    assert ("another model" if change else "beginning") in after.told[0]


async def test_a_restore_that_fails_is_told_and_the_prompt_is_read(llama: LlamaServer) -> None:
    await lived(llama.url)
    llama.restart()
    llama.files.clear()
    after = Life(llama.url)
    assert (await after.ask(MORE)).message.text == "ok"
    await after.end()
    assert "could not be restored (HTTP 400" in after.told[0]


async def test_a_server_without_the_flag_is_asked_nothing_more(open_one: Open, llama: LlamaServer) -> None:
    llama.can_save = False
    runtime = open_one(llama.url)
    session = await runtime.new_session()
    await run(session)
    await runtime.close()
    assert [body for path, body in llama.posted if path.startswith("/slots")] == [{"filename": "/"}]
    assert notices(session, "cache") == []


async def test_a_slow_server_holds_up_no_close_and_no_other_session(llama: LlamaServer) -> None:
    llama.save = None
    one = Life(llama.url, close_limit_s=0.3)
    await one.ask()
    async with asyncio.timeout(2):
        await one.end()
    assert one.told == ["The prompt cache could not be saved (it took more than 0.3 s)."]
    assert one.provider.slots.before(0, ASK.urgency) == 0


async def test_a_session_that_does_nothing_is_saved_once_and_restored_after_the_server_was_restarted(
    llama: LlamaServer,
) -> None:
    one = Life(llama.url, idle_s=0.05)
    await one.ask()
    assert one.cache._idle is not None
    await one.cache._idle
    await one.cache.sleep()
    assert len(llama.acts("save")) == 1
    llama.restart()
    answer = await one.ask(MORE)
    await one.end()
    assert llama.acts("restore") == llama.acts("save")[:1]
    assert answer.usage is not None
    assert answer.usage.cached_tokens > 2_000
    assert one.told == []


async def test_what_another_session_left_in_the_slot_is_not_saved_as_ours(llama: LlamaServer) -> None:
    one = Life(llama.url)
    await one.ask()
    llama.held = "x" * 4_000
    await one.end()
    assert llama.acts("save") == []


def record(session: str, size_bytes: int = 400) -> PromptCacheRecord:
    return PromptCacheRecord("p", "", session, "f", "x", 2, size_bytes // BYTES_PER_TOKEN, size_bytes)


def kept(caches: PromptCaches, new: PromptCacheRecord) -> PromptCacheRecord:
    """Reserve a name, and keep the record."""
    found = caches.reserve(new)
    caches.put(replace(found, size_bytes=new.size_bytes))
    return found


@pytest.fixture
def caches() -> PromptCaches:
    ticks = iter(range(1_000))
    return PromptCaches(now=lambda: float(next(ticks)))


def test_the_oldest_name_is_written_over_and_a_session_keeps_its_own(caches: PromptCaches) -> None:
    names = [kept(caches, record(f"s{number}")).name for number in range(12)]
    assert sorted(each.session for each in caches.read().files) == sorted(f"s{number}" for number in range(4, 12))
    assert kept(caches, record("s5")).name == names[5] in names[:8]
    caches.file.unlink()
    assert len({kept(caches, record(f"s{number}", 1_900_000_000)).name for number in range(5)}) == 3


def test_until_it_is_written_a_file_is_nobodys(caches: PromptCaches) -> None:
    kept(caches, record("s"))
    caches.reserve(record("s"))
    assert caches.find("p", "s") is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"files": 3}', '{"owner": "../x", "files": [{"name": "/etc/passwd"}, 3]}'])
def test_records_that_cannot_be_read_count_as_none(caches: PromptCaches, text: str) -> None:
    caches.file.parent.mkdir(parents=True, exist_ok=True)
    caches.file.write_text(text)
    assert caches.read().files == []
    assert "/" not in caches.reserve(record("s")).name


def test_a_record_that_names_a_foreign_file_is_none(caches: PromptCaches) -> None:
    found = kept(caches, record("s"))
    text = caches.file.read_text()
    for name in ("../lmtui-x.bin", "lmtui-/../x", "other.bin"):
        caches.file.write_text(text.replace(found.name, name))
        assert caches.read().files == []
