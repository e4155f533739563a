from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.e2e.conftest import Program, Serve

SDK = "opentelemetry.sdk.trace"
WRITE = ScriptedCall("write", {"path": "secret-name.txt", "content": "secret content\n"})
SCRIPT = (
    ScriptedTurn("secret answer", calls=(WRITE, ScriptedCall("read", {"path": "nothing-here"}))),
    ScriptedTurn("All is done."),
)
FLAGS = ("--sandbox", "process", "--mode", "auto")
RUN = """
import sys
if "block" in sys.argv[1]:
    sys.modules["opentelemetry.sdk"] = None
from lmtui.cli import run
code = run(sys.argv[2:])
own = ("opentelemetry.sdk", "opentelemetry.exporter", "lmtui.features.otel.spans")
print(sorted(name for name in sys.modules if name.startswith(own)))
sys.exit(code)
"""


class Collector:
    """Receives OTLP over HTTP on loopback."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str, bytes]] = []
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        self.received.append((request.path, request.content_type, await request.read()))
        return web.Response()

    def spans(self) -> list[Any]:
        """Return every span that arrived."""
        trace = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
        found = [trace.ExportTraceServiceRequest.FromString(body) for _, _, body in self.received]
        groups = [group for each in found for resource in each.resource_spans for group in resource.scope_spans]
        assert {group.schema_url for group in groups} == {"https://opentelemetry.io/schemas/1.44.0"}
        return [span for group in groups for span in group.spans]


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    found, app = Collector(), web.Application()
    app.router.add_post("/{path:.*}", found.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.url = "http://{}:{}".format(*runner.addresses[0][:2])
    yield found
    await runner.cleanup()


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


async def test_a_turn_its_requests_and_its_calls_arrive_without_a_word_of_them(
    program: Program, serve: Serve, collector: Collector
) -> None:
    pytest.importorskip(SDK, reason="the extra otel is not installed")
    server = await serve(*SCRIPT)
    result = await program.run("run", "--url", server.url, *FLAGS, "-c", f"otel_endpoint={collector.url}", "secret task")
    assert (result.code, result.out) == (0, "All is done.\n"), result.err
    assert {(path, kind) for path, kind, _ in collector.received} == {("/v1/traces", "application/x-protobuf")}
    spans = collector.spans()
    model = next(attributes(span)["gen_ai.request.model"] for span in spans if span.name.startswith("chat"))
    assert Counter(span.name for span in spans) == {
        "invoke_agent lmtui": 1, f"chat {model}".strip(): 2, "execute_tool write": 1, "execute_tool read": 1,
    }  # fmt: skip
    (turn,) = (span for span in spans if span.name == "invoke_agent lmtui")
    assert {span.parent_span_id for span in spans if span is not turn} == {turn.span_id}
    assert all(turn.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano for span in spans)
    by_tool = {attributes(span)["gen_ai.tool.name"]: span for span in spans if span.name.startswith("execute_tool")}
    assert {name: (span.status.code, attributes(span).get("error.type")) for name, span in by_tool.items()} == {
        "write": (0, None),
        "read": (2, "tool_error"),
    }
    assert all(attributes(span)["gen_ai.usage.input_tokens"] > 0 for span in spans if span.name.startswith("chat"))
    assert not any(word in body for _, _, body in collector.received for word in (b"secret", b"nothing-here", b"All is done"))


def test_every_attribute_is_in_the_conventions_that_are_named() -> None:
    known = pytest.importorskip("opentelemetry.semconv._incubating.attributes.gen_ai_attributes", reason="the extra otel")
    spans = pytest.importorskip("lmtui.features.otel.spans")
    schemas = pytest.importorskip("opentelemetry.semconv.schemas")
    text = Path(spans.__file__).read_text()
    used = set(re.findall(r'"(gen_ai\.[\w.]+)"', text))
    assert len(used) >= 8
    assert used <= {value for name, value in vars(known).items() if name.startswith("GEN_AI") and isinstance(value, str)}
    assert spans.SCHEMA_URL in {each.value for each in schemas.Schemas}


async def lines_of(program: Program, *arguments: str) -> tuple[int, str, str]:
    process = await program.start_python("-c", RUN, *arguments)
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode().splitlines()[-1], err.decode()


async def test_nothing_is_imported_while_it_is_off_and_a_collector_that_does_not_answer_stops_nothing(
    program: Program, serve: Serve
) -> None:
    pytest.importorskip(SDK, reason="the extra otel is not installed")
    server = await serve(*SCRIPT, *SCRIPT)
    code, loaded, _ = await lines_of(program, "", "run", "--url", server.url, *FLAGS, "do it")
    assert (code, loaded) == (0, "[]")
    on = ("-c", "otel_endpoint=http://127.0.0.1:9")  # where no collector answers
    code, loaded, err = await lines_of(program, "", "run", "--url", server.url, *FLAGS, *on, "do it")
    assert (code, "lmtui.features.otel.spans" in loaded) == (0, True), "else this test could not fail"
    assert "opentelemetry" not in err
    assert "127.0.0.1" in (program.home / "state" / "lmtui.log").read_text()


async def test_without_the_extra_or_with_a_wrong_address_it_says_what_to_do(program: Program, serve: Serve) -> None:
    server = await serve(*SCRIPT, *SCRIPT, *SCRIPT, *SCRIPT)
    flags = ("run", "--url", server.url, *FLAGS, "-c")
    code, _, err = await lines_of(program, "block", *flags, "otel_endpoint=http://127.0.0.1:9", "do it")
    assert (code, "pip install 'lmtui[otel]'" in err) == (0, True), err
    pytest.importorskip(SDK, reason="the extra otel is not installed")
    for address in ("localhost", "http://[::1", "http://localhost:x"):
        code, _, err = await lines_of(program, "", *flags, f"otel_endpoint={address}", "do it")
        assert (code, f"otel_endpoint is not an address: {address}" in err) == (0, True), err
