"""Spans of a session, by OpenTelemetry's semantic conventions for generative AI, version 1.44.0.

A turn and a sub-agent are `invoke_agent`, a request to the model `chat`, a tool call `execute_tool`.  No text of the
conversation, no argument and no result is in a span.  Imported only where an address is set: it loads the SDK.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from lmtui import __version__
from lmtui.core import events
from lmtui.core.agent_events import AgentFinished, AgentStarted
from lmtui.core.errors import UsageError
from lmtui.core.sanitize import sanitize_line
from lmtui.engine.session import EngineSession

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
_TIMEOUT_S = 3.0
_MAX_NAME_CHARS = 100


def span_provider(endpoint: str) -> TracerProvider:
    """Return what sends spans to a collector (OTLP over HTTP, protobuf) from its own thread, until it is shut down.

    Args:
        endpoint: an http or https address; without a path, `/v1/traces` is added.

    Raises:
        UsageError: it is not such an address.
    """
    try:
        address = urlsplit(endpoint)
        if address.scheme not in ("http", "https") or not address.hostname or address.port == 0:
            raise ValueError
    except ValueError as error:
        shown = sanitize_line(endpoint.rpartition("@")[2])
        raise UsageError(f"otel_endpoint is not an address: {shown}", "Use http://localhost:4318, for example.") from error
    logger = logging.getLogger("opentelemetry")  # what the SDK says of failures goes where lmtui's own log goes
    logger.propagate = False
    logger.handlers = logging.getLogger("lmtui").handlers or [logging.NullHandler()]
    url = endpoint if address.path.strip("/") else f"{endpoint.rstrip('/')}/v1/traces"
    resource = Resource.create({"service.name": "lmtui", "service.version": __version__})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(url, timeout=_TIMEOUT_S)))
    return provider


def follow(session: EngineSession, provider: TracerProvider) -> None:
    """Make the spans of a session from now on."""
    spans = SessionSpans(provider.get_tracer("lmtui", __version__, schema_url=SCHEMA_URL), session.id)
    for envelope in session.history():
        if isinstance(envelope.event, events.ModelChanged):
            spans.take(envelope)
    session.subscribe(spans.take)


class SessionSpans:
    """Makes the spans of one session.  A request that was interrupted has none."""

    def __init__(self, tracer: Tracer, session_id: str) -> None:
        self._tracer, self._session_id = tracer, session_id
        self._model = ""
        self._open: dict[str, tuple[str, Span]] = {}  # by agent or call, with the agent whose it is

    def take(self, envelope: events.Envelope) -> None:
        """Take an event."""
        time, event = int(envelope.time.timestamp() * 1_000_000) * 1_000, envelope.event
        match event:
            case events.ModelChanged(model=model, default_model=default_model):
                self._model = _name(model or default_model)
            case events.TurnStarted(agent=events.ROOT):
                self._begin(events.ROOT, "", "invoke_agent lmtui", time, {"gen_ai.agent.name": "lmtui"})
            case AgentStarted(agent=agent, parent=parent):
                self._begin(agent, parent, "invoke_agent sub-agent", time, {"gen_ai.agent.name": "sub-agent"})
            case events.TurnEnded(agent=events.ROOT, reason=reason, fault=fault):
                self._end(events.ROOT, time, (fault or "error") if reason is events.TurnReason.ERROR else "")
            case AgentFinished(agent=agent, outcome=outcome):
                self._end(agent, time, outcome if outcome == "failed" else "")
            case events.UsageUpdated(agent=agent, usage=usage):
                facts: dict[str, str | float] = {"gen_ai.request.model": self._model}
                if not event.is_estimate:
                    facts["gen_ai.usage.input_tokens"] = usage.prompt_tokens
                    facts["gen_ai.usage.output_tokens"] = usage.completion_tokens
                if event.first_token_s:
                    facts["gen_ai.response.time_to_first_chunk"] = event.first_token_s
                self._begin("chat", agent, f"chat {self._model}", time - int(event.elapsed_s * 1e9), facts)
                self._end("chat", time)
            case events.ToolCallStarted(call_id=call_id, tool=tool, agent=agent):
                facts = {"gen_ai.tool.name": _name(tool), "gen_ai.tool.call.id": _name(call_id)}
                self._begin(call_id, agent, f"execute_tool {_name(tool)}", time, facts)
            case events.ToolCallFinished(call_id=call_id, ok=ok):
                self._end(call_id, time, "" if ok else "tool_error")

    def _begin(self, key: str, owner: str, name: str, time: int, facts: Mapping[str, Any]) -> None:
        above = self._open.get(owner) or (self._open.get(events.ROOT) if owner else None)
        context = set_span_in_context(above[1]) if above is not None else None
        operation = name.partition(" ")[0]
        facts = {"gen_ai.operation.name": operation, "gen_ai.conversation.id": self._session_id, **facts}
        facts |= {"gen_ai.provider.name": "openai"} if operation != "execute_tool" else {}
        kind = SpanKind.CLIENT if operation == "chat" else SpanKind.INTERNAL
        self._open[key] = owner, self._tracer.start_span(name.strip(), context, kind, facts, start_time=time)

    def _end(self, key: str, time: int, error: str = "") -> None:
        """End a span, and what its agent did not end itself."""
        if key not in self._open:
            return
        _, span = self._open.pop(key)
        for inner in [inner for inner, (owner, _) in self._open.items() if owner == key]:
            self._end(inner, time, "interrupted")
        if error:
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR))
        span.end(time)


def _name(text: str) -> str:
    return sanitize_line(text)[:_MAX_NAME_CHARS]
