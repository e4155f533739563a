from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from lmtui.core.errors import ToolError
from lmtui.core.hosts import Page, read_address
from lmtui.features.web_tools.fetcher import MAX_BYTES, HttpAnswer, WebClient, to_markdown
from tests.sets import depth, for_each

PAGE = (
    "<html><head><title>Ports</title><script>steal()</script></head>"
    "<body><nav>menu</nav><h2>List</h2><p>ssh is <b>22</b></p></body></html>"
)


class Gate:
    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed
        self.asked: list[tuple[str, bool]] = []
        self.told: list[tuple[str, str]] = []
        self.whats: list[str] = []

    async def may_reach(self, host: str, *, is_listed: bool = False, what: str = "") -> bool:
        self.asked.append((host, is_listed))
        self.whats.append(what)
        return is_listed or host in self.allowed

    def reached(self, host: str, sent_bytes: int, received_bytes: int, why_not: str) -> None:
        assert sent_bytes > 0
        assert received_bytes >= 0
        self.told.append((host, why_not))


class Internet:
    """Hosts with their addresses, and what they answer by address."""

    def __init__(self, **answers: HttpAnswer) -> None:
        self.ips = {"a.example.com": "93.184.216.34", "b.example.com": "93.184.216.35", "evil.example.com": "10.0.0.5"}
        self.pages: dict[str, HttpAnswer] = {}
        self.sent: list[tuple[str, str]] = []

    async def resolve(self, host: str, port: int) -> list[str]:
        assert port > 0
        if host not in self.ips:
            raise OSError("no such host")
        return [self.ips[host]]

    async def send(self, url: str, ip: str, extra: Mapping[str, str]) -> HttpAnswer:
        self.sent.append((url, ip))
        self.extra = extra
        return self.pages[url]

    def client(self, network: str = "proxy") -> WebClient:
        return WebClient(network, resolve=self.resolve, send=self.send)


def answer(body: str = "hello", media_type: str = "text/plain", status: int = 200, location: str = "") -> HttpAnswer:
    return HttpAnswer(status, media_type, location, body.encode(), is_cut=False, encoding="utf-8")


async def test_a_public_host_is_asked_about_and_the_address_that_was_looked_up_is_used() -> None:
    internet, gate = Internet(), Gate("a.example.com")
    internet.pages["https://a.example.com/x"] = answer()
    page = await internet.client().get(read_address("https://A.example.com/x#part"), gate)
    assert (page.text, page.url) == ("hello", "https://a.example.com/x")
    assert internet.sent == [("https://a.example.com/x", "93.184.216.34")]
    assert (gate.asked, gate.told) == ([("a.example.com", False)], [("a.example.com", "")])


@for_each(("network", "is_listed"), [("proxy", False), ("on", True), ("off", False)])
async def test_the_settings_say_which_hosts_are_asked_about_with_the_whole_address(network: str, is_listed: bool) -> None:
    internet, gate = Internet(), Gate("a.example.com")
    internet.pages["https://a.example.com/x?y=z"] = answer()
    await internet.client(network).get(read_address("https://a.example.com/x?y=z"), gate)
    assert (gate.asked, gate.whats) == ([("a.example.com", is_listed)], ["GET https://a.example.com/x?y=z"])


async def test_nothing_is_sent_where_the_web_is_off_or_the_host_refused() -> None:
    internet = Internet()
    off = WebClient("on", is_on=False, resolve=internet.resolve, send=internet.send)
    with pytest.raises(ToolError, match="the web is off"):
        await off.get(read_address("https://a.example.com/"), Gate("a.example.com"))
    with pytest.raises(ToolError, match=r"a\.example\.com may not be reached"):
        await internet.client().get(read_address("https://a.example.com/"), Gate())
    with pytest.raises(ToolError, match="may not be reached"):
        await internet.client("on").get(read_address("https://a.example.com/"), None)
    assert internet.sent == []


async def test_a_public_name_with_a_private_address_is_not_fetched() -> None:
    internet = Internet()
    with pytest.raises(ToolError, match=r"its address 10\.0\.0\.5 is not on the public internet"):
        await internet.client("on").get(read_address("https://evil.example.com/"), Gate())
    assert internet.sent == []


async def test_a_redirect_is_a_new_address() -> None:
    internet, gate = Internet(), Gate("a.example.com")
    internet.pages["https://a.example.com/"] = answer(status=302, location="//b.example.com/y")
    with pytest.raises(ToolError, match=r"b\.example\.com may not be reached"):
        await internet.client().get(read_address("https://a.example.com/"), gate)
    internet.pages["https://b.example.com/y"] = answer("there")
    page = await internet.client().get(read_address("https://a.example.com/"), Gate("a.example.com", "b.example.com"))
    assert (page.text, page.url) == ("there", "https://b.example.com/y")
    for host in ("127.0.0.1", "localhost:8080", "[::1]", "169.254.169.254", "box"):
        internet.pages["https://a.example.com/"] = answer(status=301, location=f"http://{host}/x")
        with pytest.raises(ToolError, match="not on the public internet"):
            await internet.client("on").get(read_address("https://a.example.com/"), gate)
    internet.pages["https://a.example.com/"] = answer(status=301, location="file:///etc/passwd")
    with pytest.raises(ToolError, match="only http and https"):
        await internet.client("on").get(read_address("https://a.example.com/"), gate)
    internet.pages["https://a.example.com/"] = answer(status=302, location="http://[half")
    with pytest.raises(ToolError, match="which is not an address"):
        await internet.client("on").get(read_address("https://a.example.com/"), gate)
    internet.pages["https://a.example.com/"] = answer(status=307, location="/")
    with pytest.raises(ToolError, match="more than 5 redirects"):
        await internet.client("on").get(read_address("https://a.example.com/"), gate)


async def test_html_becomes_markdown_and_other_things_stay() -> None:
    internet, gate = Internet(), Gate("a.example.com")
    url = "https://a.example.com/"
    internet.pages[url] = answer(PAGE, "text/html")
    page = await internet.client().get(read_address(url), gate)
    assert page.text == "# Ports\n\n## List\n\nssh is **22**"
    internet.pages[url] = answer('{"a": 1}', "application/vnd.api+json")
    assert (await internet.client().get(read_address(url), gate)).text == '{"a": 1}'
    internet.pages[url] = HttpAnswer(200, "image/png", "", b"\x89PNG", is_cut=True, encoding="utf-8")
    assert await internet.client().get(read_address(url), gate) == Page(
        url, "image/png", data=b"\x89PNG", total_bytes=4, is_cut=True
    )
    internet.pages[url] = HttpAnswer(200, "", "", "é".encode("latin-1"), is_cut=False, encoding="latin-1")
    assert (await internet.client().get(read_address(url), gate)).text == "é"
    internet.pages[url] = answer(status=404)
    with pytest.raises(ToolError, match="answered 404"):
        await internet.client().get(read_address(url), gate)


@for_each(
    ("text", "place", "is_public"),
    [
        ("https://Docs.Python.org/3/", "docs.python.org", True), ("docs.python.org/3", "docs.python.org", True),
        ("http://example.com:8080/", "example.com:8080", True), ("http://localhost:8000", "localhost:8000", False),
        ("http://127.0.0.1", "127.0.0.1", False), ("http://10.1.2.3/", "10.1.2.3", False), ("http://box/", "box", False),
        ("http://[::1]:9/", "::1:9", False), ("http://printer.local/", "printer.local", False),
        ("http://8.8.8.8/", "8.8.8.8", True), ("http://2130706433/", "2130706433", False),
        ("http://0x7f.1/", "0x7f.1", False), ("http://example.com./", "example.com", True),
    ],
)  # fmt: skip
def test_what_is_public_is_told_by_the_name(text: str, place: str, *, is_public: bool) -> None:
    address = read_address(text)
    assert (address.place, address.is_public) == (place, is_public)


@for_each("text", [
    "ftp://a.example.com", "file:///etc/passwd", "https://", "https://me:pw@a.example.com",
    "http://a b/", "http://x:99999/", "", "http://exämple.com/",
])  # fmt: skip
def test_what_is_no_address_is_said(text: str) -> None:
    with pytest.raises(ToolError):
        read_address(text)


@contextlib.asynccontextmanager
async def serving(raw: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    heads: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        with contextlib.suppress(ConnectionError):
            writer.write(raw)
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://localhost:{server.sockets[0].getsockname()[1]}", heads


def plain(body: bytes, head: str = "content-type: text/plain") -> bytes:
    return f"HTTP/1.1 200 OK\r\n{head}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


async def test_over_a_real_connection_to_an_address_that_is_not_public() -> None:
    async with serving(plain(b"hello")) as (url, heads):
        page = await WebClient("proxy").get(read_address(f"{url}/a?b=1"), None)
    assert page.text == "hello"
    head = heads[0].decode().lower()
    assert head.startswith("get /a?b=1 http/1.1\r\n")
    assert f"host: {url.removeprefix('http://')}\r\n" in head
    assert "cookie" not in head
    assert "authorization" not in head


async def test_a_page_without_end_is_cut_and_a_broken_server_named() -> None:
    async with serving(plain(b"x" * (MAX_BYTES + 10))) as (url, _):
        page = await WebClient("on").get(read_address(url), None)
    assert (page.total_bytes, page.is_cut) == (MAX_BYTES, True)
    async with serving(b"this is not http\r\n\r\n") as (url, _):
        with pytest.raises(ToolError, match="localhost cannot be fetched"):
            await WebClient("on").get(read_address(url), None)
    with pytest.raises(ToolError, match="localhost cannot be fetched"):
        await WebClient("on").get(read_address(url), None)


async def test_the_folder_one_stands_in_brings_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("bs4.py", "markdownify.py", "re.py", "resource.py", "lmtui/__init__.py", "sitecustomize.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)  # as `python -m` does
    assert await to_markdown("<p>hi</p>") == "hi"
    assert not (tmp_path / "ran").exists()


@pytest.mark.full
@for_each("html", ["<" * 50_000, "<div>" * 5_000 + "deep", "\x00<p>a</p>"])
async def test_any_html_gives_text_or_a_clear_error(html: str) -> None:
    said = ""
    try:
        assert isinstance(await to_markdown(html), str)
    except ToolError as error:
        said = str(error)
    assert said in ("", "the page is too large to be read as text")


@for_each("encoding", ["punycode", "hex", "rot13", "undefined", "\0", "no-such", "unicode_escape"])
async def test_what_is_no_charset_of_pages_is_read_as_utf_8(encoding: str) -> None:
    net = Internet()
    net.pages["https://a.example.com/"] = HttpAnswer(
        200, "text/plain", "", "a–b".encode() + b"c" * 60_000, is_cut=False, encoding=encoding
    )
    page = await net.client("on").get(read_address("https://a.example.com/"), Gate())
    assert page.text.startswith("a–bccc")


async def test_a_selector_gives_what_it_matches_in_a_page_or_says_why_it_gives_nothing() -> None:
    internet = Internet()
    internet.pages["https://a.example.com/"] = answer(PAGE, "text/html")
    matching = [("p, h2", "## List\n\nssh is **22**"), ("p b", "**22**"), ("body, p", "## List\n\nssh is **22**")]
    for selector, text in depth(matching[:1], matching):
        page = await internet.client().get(read_address("https://a.example.com/"), Gate("a.example.com"), selector=selector)
        assert page.text == text
    wrong = [("table", "matches nothing"), ("p[", "is not a CSS")]
    for selector, why in depth(wrong[:1], wrong):
        with pytest.raises(ToolError, match=why):
            await to_markdown(PAGE, selector)
