from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lmtui.core import events
from lmtui.core.agent_events import AgentFinished, AgentStarted
from lmtui.core.messages import Usage

START = datetime(2026, 3, 14, 14, 2, tzinfo=UTC)


def spans_of(*story: events.Event) -> dict[str, Any]:
    """Return the spans of a story with a second between its events, by name."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="the extra otel is not installed")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    from lmtui.features.otel.spans import SessionSpans

    provider, kept = sdk.TracerProvider(shutdown_on_exit=False), memory.InMemorySpanExporter()
    provider.add_span_processor(export.SimpleSpanProcessor(kept))
    spans = SessionSpans(provider.get_tracer("test"), "20260314_140200_abcdef")
    for seq, event in enumerate(story, 1):
        spans.take(events.Envelope(seq, START + timedelta(seconds=seq), "20260314_140200_abcdef", event))
    found = {span.name: span for span in kept.get_finished_spans()}
    provider.shutdown()
    return found


def seconds(span: Any) -> float:
    return float(span.end_time - span.start_time) / 1e9


def test_a_sub_agent_and_what_it_does_is_below_its_parent() -> None:
    found = spans_of(
        events.ModelChanged(model="a\x1b[2Jb", url="http://127.0.0.1:8080/v1"),
        events.TurnStarted(turn_id="t"),
        AgentStarted(agent="one", title="secret"),
        events.TextDelta(agent="one", text="secret"),
        events.UsageUpdated(agent="one", usage=Usage(10, 3), elapsed_s=2.0),
        events.ToolCallStarted(agent="one", call_id="c", tool="read", arguments={"path": "secret"}, title="secret"),
        events.ToolCallFinished(agent="one", call_id="c", tool="read", ok=True, result="secret", elapsed_ms=1),
        AgentFinished(agent="one", outcome="done", summary="secret"),
        events.UsageUpdated(agent="title", usage=Usage(1, 1), is_estimate=True),
        events.TurnEnded(turn_id="t", reason=events.TurnReason.DONE, text="secret"),
    )
    parents = {name: span.parent.span_id if span.parent else 0 for name, span in found.items()}
    ids = {name: span.context.span_id for name, span in found.items()}
    assert parents["invoke_agent lmtui"] == 0
    assert parents["invoke_agent sub-agent"] == ids["invoke_agent lmtui"]
    assert parents["execute_tool read"] == ids["invoke_agent sub-agent"]
    assert {name: seconds(span) for name, span in found.items()} == {
        "invoke_agent lmtui": 8.0, "invoke_agent sub-agent": 5.0, "execute_tool read": 1.0, "chat ab": 0.0,
    }  # fmt: skip
    assert "secret" not in "".join(span.to_json() for span in found.values())


def test_what_a_failed_turn_left_open_ends_with_it_as_an_error() -> None:
    found = spans_of(
        events.TurnStarted(turn_id="t"),
        events.ToolCallStarted(call_id="c", tool="run", arguments={}),
        events.TurnEnded(turn_id="t", reason=events.TurnReason.ERROR, fault="cut", error="secret"),
    )
    errors = {name: span.attributes.get("error.type") for name, span in found.items()}
    assert errors == {"execute_tool run": "interrupted", "invoke_agent lmtui": "cut"}
    assert {span.status.status_code.name for span in found.values()} == {"ERROR"}
