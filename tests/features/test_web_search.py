from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from lmtui.app.extensions import IdleWorkspace, WorkspaceFeatures
from lmtui.app.key_protection import key_redactor
from lmtui.app.sandboxes import tools_of
from lmtui.config import Config, load_config
from lmtui.core.errors import ConfigError, ToolError, UsageError
from lmtui.core.hosts import WebResult, parse_search_backend
from lmtui.core.messages import ToolSet
from lmtui.features.web_tools.fetcher import WebClient, plain_query, run_program
from tests.features.test_web_client import Gate, Internet, answer, plain, serving
from tests.sets import for_each

HIT = {"title": "A <strong>title</strong>", "url": "https://a.example/1", "content": "x &amp; y\x1b[31m\nz"}


def results(*hits: object) -> bytes:
    return plain(json.dumps({"results": hits}).encode(), "content-type: application/json")


def client(setting: str, key: str = "", time_s: float = 30.0) -> WebClient:
    return WebClient("off", search=parse_search_backend(setting), key=key, time_s=time_s)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def workspace(tmp_path: Path, home: Path) -> Path:
    (tmp_path / "work").mkdir()
    return home.parent / "work"


async def searched(setting: str, query: str = "x", most: int = 5, key: str = "") -> Sequence[WebResult]:
    return (await client(setting, key).search(query, most, None))[1]


async def test_searxng_is_asked_for_json_and_its_marks_are_taken_out() -> None:
    second = {"title": "", "url": "https://a.example/2", "content": "s" * 900}
    third = {"url": "https://a.example/3"}
    async with serving(
        results({"url": "javascript:x"}, {"url": "http://" + "x" * 900}, {"url": 3}, "no", HIT, HIT, second, third)
    ) as (url, heads):
        hits = await searched(f"searxng: {url}/", "naïve & odd", 2)
    assert heads[0].startswith(b"GET /search?q=na%C3%AFve+%26+odd&format=json HTTP/1.1\r\n")
    assert b"x-subscription-token" not in heads[0].lower()
    assert hits[0] == WebResult("A title", "https://a.example/1", "x & y z")
    assert (hits[1].title, len(hits[1].snippet), len(hits)) == ("https://a.example/2", 300, 2)


async def test_brave_gets_the_key_in_its_header_and_its_results_are_read() -> None:
    body = json.dumps({"web": {"results": [{**HIT, "description": "d", "content": None}]}}).encode()
    async with serving(plain(body)) as (url, heads):
        hits = await searched(f"brave: {url}/res", "x", 3, "brave-key-123")
    assert heads[0].startswith(b"GET /res?q=x&count=3 HTTP/1.1\r\n")
    assert b"x-subscription-token: brave-key-123\r\n" in heads[0].replace(b"X-Subscription-Token", b"x-subscription-token")
    assert hits == [WebResult("A title", "https://a.example/1", "d")]
    async with serving(plain(b'{"type": "search"}')) as (url, _):
        assert await searched(f"brave: {url}/res", key="brave-key-123") == []


@for_each(
    ("kind", "raw", "why"),
    [
        ("brave", b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n", r"refused the key \(401\).*web_search_key"),
        ("brave", b"HTTP/1.1 422 No\r\ncontent-length: 0\r\n\r\n", r"refused the key \(422\)"),
        ("searxng", b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n", r"in JSON \(403\).*settings\.yml"),
        ("searxng", b"HTTP/1.1 429 No\r\ncontent-length: 0\r\n\r\n", "too many searches"),
        ("brave", b"HTTP/1.1 302 Go\r\nlocation: http://evil.example/\r\ncontent-length: 0\r\n\r\n", "redirects searches to http://evil"),
        ("searxng", plain(b"<html>hello</html>", "content-type: text/html"), "is not JSON"),
        ("searxng", plain(b"[" * 200_000), "is not JSON"),
        ("brave", plain(b'{"web": []}'), "did not answer like a search engine"),
        ("searxng", plain(b'{"results": [' + b"1," * 3_000_000), "too long"),
        ("searxng", b"this is not http\r\n\r\n", "cannot be fetched"),
    ],
)  # fmt: skip
async def test_an_engine_that_refuses_or_breaks_is_named_with_the_reason(kind: str, raw: bytes, why: str) -> None:
    async with serving(raw) as (url, _):
        with pytest.raises(ToolError) as raised:
            await searched(f"{kind}: {url}/x", key="brave-key-123")
    assert re.search(why, raised.value.full_text()), raised.value.full_text()
    assert "brave-key-123" not in raised.value.full_text()


async def test_an_engine_that_says_nothing_ends_with_the_time_and_a_program_that_is_not_there_is_named() -> None:
    async with serving(b"") as (url, _):
        pass
    with pytest.raises(ToolError, match="cannot be fetched"):
        await searched(f"searxng: {url}")
    with pytest.raises(ToolError, match=r"did not answer within 0 s"):
        await client(f"searxng: {url}", time_s=0.0).search("x", 5, None)
    with pytest.raises(ToolError, match="no-such-program of web_search could not be started"):
        await searched("command: /no-such-program")


async def test_a_public_engine_is_asked_about_like_a_page_and_one_of_this_machine_is_not() -> None:
    internet, gate = Internet(), Gate("a.example.com")
    internet.pages["https://a.example.com/search?q=x&format=json"] = answer('{"results": []}')
    web = WebClient(
        "off", search=parse_search_backend("searxng: https://a.example.com"), resolve=internet.resolve,
        send=internet.send,
    )  # fmt: skip
    assert await web.search("x", 5, gate) == ("a.example.com", [])
    assert (gate.asked, gate.whats, gate.told) == ([("a.example.com", False)], ["search for: x"], [("a.example.com", "")])
    with pytest.raises(ToolError, match="may not be reached"):
        await web.search("x", 5, Gate())
    assert len(internet.sent) == 1
    local = Gate()
    async with serving(results()) as (url, _):
        await client(f"searxng: {url}").search("x", 5, local)
    assert local.asked == []


async def test_without_a_backend_or_a_key_or_with_the_web_off_the_message_names_the_setting() -> None:
    with pytest.raises(ToolError) as raised:
        await searched("")
    assert "the setting web_search is empty" in raised.value.full_text()
    assert 'set web_search to "searxng: URL", "brave" or "command: PROGRAM"' in raised.value.full_text()
    assert "fetch pages whose address you know" in raised.value.full_text()
    with pytest.raises(ToolError, match="needs a key"):
        await searched("brave")
    with pytest.raises(ToolError, match="web_search_key: the key file /none"):
        await searched("brave", key="file:/none")
    off = WebClient("on", is_on=False, search=parse_search_backend("command: echo"))
    with pytest.raises(ToolError, match="the web is off"):
        await off.search("x", 5, Gate())


def script(folder: Path, body: str) -> str:
    path = folder / "search me"
    path.write_text(f"#!{sys.executable}\nimport sys, os, time\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"command: '{path}' --site 'a b'"


async def test_a_program_gets_the_query_as_one_argument_without_a_shell_and_prints_json_or_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-secret-key")
    where = "snippet=os.getcwd() + str('LLM_API_KEY' in os.environ)"
    said = f"import json; print(json.dumps([dict(title=repr(sys.argv[1:]), url='http://a/', {where})]))"
    hits = await searched(script(tmp_path, said), "--all '; touch /tmp/x' $(id)")
    assert hits == [WebResult("['--site', 'a b', \"all '; touch /tmp/x' $(id)\"]", "http://a/", f"{Path.home()}False")]
    lines = "print('http://a/\\tOne\\tfirst\\twith a tab\\n\\nhttp://b/\\tTwo\\nno address')"
    assert await searched(script(tmp_path, lines)) == [
        WebResult("One", "http://a/", "first with a tab"), WebResult("Two", "http://b/"),
    ]  # fmt: skip
    assert await searched(script(tmp_path, "pass")) == ()


@for_each(("body", "why"), [
    ("print('a'); print('first', file=sys.stderr); sys.exit('the last\\x1b[31m line')", "exit code 1: the last line"),
    ("while True: print('x' * 1000)", "more than 1,048,576 bytes"),
    ("while True: print('x' * 1000, file=sys.stderr)", "too much output|did not end"),
    ("print('hello')", "printed neither"), ("print('[1, 2')", "is not JSON"),
    ("time.sleep(60)", "did not end within 0.6 s"),
])  # fmt: skip
async def test_a_program_that_fails_floods_or_hangs_is_ended_and_named(tmp_path: Path, body: str, why: str) -> None:
    backend = parse_search_backend(script(tmp_path, f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n{body}"))
    assert backend is not None
    with pytest.raises(ToolError, match=why):
        await run_program(backend.command, "x", 5, limit_s=0.6 if "0.6" in why else 20.0)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_query_is_one_line_that_no_program_takes_for_an_option_and_neither_empty_nor_too_long() -> None:
    typed = (" a\n b ", "--help", "-x y", "a\x00b")
    assert [plain_query(text) for text in typed] == ["a b", "help", "x y", "a␀b"]
    for text in ("", " - ", "x" * 401):
        with pytest.raises(ToolError):
            plain_query(text)


@for_each(
    "text",
    ["google", "searxng", "searxng: ", "searxng: ftp://x", "searxng: http://me:pw@x", "searxng: http://x/?a=b", "command:",
     "command: 'x", "brave: http://a.example.com/", ": x"],
)  # fmt: skip
def test_a_setting_that_names_nothing_is_an_error_with_the_form(text: str, workspace: Path) -> None:
    with pytest.raises(UsageError):
        parse_search_backend(text)
    with pytest.raises(ConfigError, match="web_search") as raised:
        load_config(workspace, {"LMTUI_WEB_SEARCH": text}, {})
    assert "searxng: http://127.0.0.1:8888" in raised.value.hint


def test_a_folder_needs_trust_to_choose_what_answers_searches_and_may_turn_the_web_off_and_not_on(
    home: Path, workspace: Path
) -> None:
    (workspace / ".lmagent").mkdir()
    own = workspace / ".lmagent" / "config.toml"
    for line in ('web_search = "command: rm"', 'web_search = "brave"', 'web_search_key = "k"'):
        own.write_text(f"{line}\n")
        loaded = load_config(workspace, {}, {})
        assert (loaded.config.web_search, loaded.config.web_search_key) == ("", ""), line
        assert [item.text.partition(" ")[0] for item in loaded.waiting] == [line.partition(" ")[0]]
    own.write_text('web = "off"\n')
    assert load_config(workspace, {}, {}).config.web == "off"
    own.write_text('web = "ask"\n')
    (home / "config").mkdir(parents=True, exist_ok=True)
    (home / "config" / "config.toml").write_text('web = "off"\n')
    assert load_config(workspace, {}, {}).config.web == "off"


def test_the_key_is_taken_out_of_all_that_is_kept() -> None:
    key = "BSA-0123456789abcdef"
    assert key not in key_redactor(Config(web_search_key=key), {}).text(f"it is {key}")
    assert key not in key_redactor(Config(), {"LMTUI_WEB_SEARCH_KEY": key}).text(f"it is {key}")


@for_each(
    ("tools", "web", "search", "names"),
    [
        (ToolSet.FULL, "ask", "", ["fetch"]), (ToolSet.FULL, "ask", "brave", ["fetch", "web_search"]),
        (ToolSet.ALL, "ask", "", ["fetch"]), (ToolSet.ALL, "ask", "brave", ["fetch", "web_search"]),
        (ToolSet.FULL, "off", "brave", []), (ToolSet.LEAN, "ask", "brave", []), (ToolSet.LONG, "ask", "brave", []),
        (ToolSet.HIDDEN, "off", "", ["fetch", "web_search"]),
    ],
)  # fmt: skip
def test_the_model_is_told_what_works(tools: ToolSet, web: str, search: str, names: list[str], tmp_path: Path) -> None:
    config = Config(web=web, web_search=search)
    told = WorkspaceFeatures(IdleWorkspace(tmp_path, config)).told()
    specs = tools_of(config, tmp_path, told).specs(tools)
    assert [spec.name for spec in specs if spec.name in ("fetch", "web_search")] == names
