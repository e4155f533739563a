"""Spans of a session, by OpenTelemetry's semantic conventions for generative AI, version 1.44.0.

A turn and a sub-agent are `invoke_agent`, a request to the model `chat`, a tool call `execute_tool`.  No text of the
conversation, no argument and no result is in a span.  Imported only where an address is set: it loads the SDK.
"""

from __future__ import annotations

import logging
from datetime import datetime
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


class SpanExport:
    """Sends spans to a collector (OTLP over HTTP, protobuf) from its own thread.

    Args:
        endpoint: an http or https address; without a path, `/v1/traces` is added.

    Raises:
        UsageError: it is not such an address.
    """

    def __init__(self, endpoint: str) -> None:
        try:
            parts = urlsplit(endpoint)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
                raise ValueError
        except ValueError as error:  # also of half an IPv6 address, or a port that is not a number
            raise UsageError(
                f"otel_endpoint is not an address: {sanitize_line(endpoint.rpartition('@')[2])}",
                "Use http://localhost:4318, for example.",
            ) from error
        self._log_failures()
        address = endpoint if parts.path.strip("/") else f"{endpoint.rstrip('/')}/v1/traces"
        resource = Resource.create({"service.name": "lmtui", "service.version": __version__})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(address, timeout=_TIMEOUT_S)))
        self._tracer = self._provider.get_tracer("lmtui", __version__, schema_url=SCHEMA_URL)

    def follow(self, session: EngineSession) -> None:
        spans = SessionSpans(self._tracer, session.id)
        for envelope in session.history():
            if isinstance(envelope.event, events.ModelChanged):
                spans.take(envelope)
        session.subscribe(spans.take)

    def close(self) -> None:
        """Send what is left, then end the thread."""
        self._provider.shutdown()

    @staticmethod
    def _log_failures() -> None:
        """Keep what the SDK says of failures out of the terminal: it goes where lmtui's own log goes."""
        logger = logging.getLogger("opentelemetry")
        logger.propagate = False
        logger.handlers = logging.getLogger("lmtui").handlers or [logging.NullHandler()]


class SessionSpans:
    """Makes the spans of one session.  A request begins with the first sign of it, because sending it is not an event."""

    def __init__(self, tracer: Tracer, session_id: str) -> None:
        self._tracer, self._session_id = tracer, session_id
        self._model = ""
        self._server: dict[str, str | int] = {}
        self._agents: dict[str, Span] = {}
        self._chats: dict[str, Span] = {}
        self._tools: dict[str, tuple[str, Span]] = {}

    def take(self, envelope: events.Envelope) -> None:
        """Take an event."""
        time, event = envelope.time, envelope.event
        match event:
            case events.ModelChanged(model=model, url=url, default_model=default_model):
                parts = urlsplit(url)
                self._model = _name(model or default_model)
                self._server = {"server.address": parts.hostname or ""} | ({"server.port": parts.port} if parts.port else {})
            case events.TurnStarted(agent=events.ROOT):
                self._agents[events.ROOT] = self._begin("invoke_agent", "lmtui", time)
            case AgentStarted(agent=agent, parent=parent):
                self._agents[agent] = self._begin("invoke_agent", "sub-agent", time, parent)
            case events.TurnEnded(agent=events.ROOT, reason=reason, fault=fault):
                self._end_agent(events.ROOT, time, str(reason), (fault or "error") if reason is events.TurnReason.ERROR else "")
            case AgentFinished(agent=agent, outcome=outcome):
                self._end_agent(agent, time, outcome, outcome if outcome == "failed" else "")
            case events.PrefillProgress() | events.TextDelta() | events.ThinkingDelta() | events.CallProgress():
                self._chat(event.agent, time)
            case events.UsageUpdated():
                self._end_chat(event, time)
            case events.ToolCallStarted(call_id=call_id, tool=tool, agent=agent):
                span = self._begin("execute_tool", _name(tool), time, agent)
                span.set_attributes({"gen_ai.tool.name": _name(tool), "gen_ai.tool.call.id": _name(call_id)})
                self._tools[call_id] = agent, span
            case events.ToolCallFinished(call_id=call_id, ok=ok) if call_id in self._tools:
                _end(self._tools.pop(call_id)[1], time, "" if ok else "tool_error")

    def _begin(self, operation: str, name: str, time: datetime, parent: str = "", kind: SpanKind = SpanKind.INTERNAL) -> Span:
        above = self._agents.get(parent) or (self._agents.get(events.ROOT) if parent else None)
        context = set_span_in_context(above) if above is not None else None
        span = self._tracer.start_span(f"{operation} {name}".strip(), context, kind, start_time=_ns(time))
        span.set_attributes({"gen_ai.operation.name": operation, "gen_ai.conversation.id": self._session_id})
        if operation == "invoke_agent":
            span.set_attributes({"gen_ai.agent.name": name, "gen_ai.provider.name": "openai"})
        return span

    def _chat(self, agent: str, time: datetime) -> Span:
        """Return the span of the request that an agent waits for."""
        if agent not in self._chats:
            span = self._chats[agent] = self._begin("chat", self._model, time, agent, SpanKind.CLIENT)
            span.set_attributes({"gen_ai.provider.name": "openai", "gen_ai.request.model": self._model, **self._server})
        return self._chats[agent]

    def _end_chat(self, event: events.UsageUpdated, time: datetime) -> None:
        """End a request; one outside the conversation, such as for a title, has no sign of its beginning."""
        span = self._chat(event.agent, time)
        if not event.is_estimate:
            span.set_attribute("gen_ai.usage.input_tokens", event.usage.prompt_tokens)
            span.set_attribute("gen_ai.usage.output_tokens", event.usage.completion_tokens)
        if event.first_token_s:
            span.set_attribute("gen_ai.response.time_to_first_chunk", event.first_token_s)
        _end(self._chats.pop(event.agent), time)

    def _end_agent(self, agent: str, time: datetime, outcome: str, error: str) -> None:
        """End an agent, with what it did not end itself."""
        for call_id in [call_id for call_id, (whose, _) in self._tools.items() if whose == agent]:
            _end(self._tools.pop(call_id)[1], time, "interrupted")
        if (chat := self._chats.pop(agent, None)) is not None:
            _end(chat, time, error or outcome)
        if (span := self._agents.pop(agent, None)) is not None:
            span.set_attribute("lmtui.outcome", outcome)
            _end(span, time, error)


def _end(span: Span, time: datetime, error: str = "") -> None:
    if error:
        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR))
    span.end(_ns(time))


def _name(text: str) -> str:
    return sanitize_line(text)[:_MAX_NAME_CHARS]


def _ns(time: datetime) -> int:
    return int(time.timestamp() * 1_000_000) * 1_000
