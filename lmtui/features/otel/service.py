"""Follows sessions with spans where the setting `otel_endpoint` names an address; else nothing of OpenTelemetry is imported."""

from __future__ import annotations

import asyncio
from typing import Any

from lmtui.core.errors import UsageError
from lmtui.core.events import Level, Notice
from lmtui.core.offers import Offers
from lmtui.engine.session import EngineSession
from lmtui.features.service import FeatureHost, WorkspaceFeature
from lmtui.paths import install_hint
from lmtui.registry import load

_MISSING = "no traces are sent: otel_endpoint is set, but OpenTelemetry is not installed"


class TelemetryService(WorkspaceFeature):
    """Sends the spans of sessions; an address that is changed in the settings holds for sessions opened later."""

    def __init__(self, host: FeatureHost, extensions: Offers) -> None:
        super().__init__(host, extensions)
        self._providers: dict[str, Any] = {}  # of the SDK, by address

    def follow(self, session: EngineSession, *, is_ours: bool) -> None:
        """Follow a session; why that is not possible is said in it."""
        del is_ours
        endpoint = self.host.config.otel_endpoint
        if not endpoint:
            return
        try:
            spans = load("lmtui.features.otel.spans")  # it loads the SDK
            if endpoint not in self._providers:
                self._providers[endpoint] = spans.span_provider(endpoint)
            spans.follow(session, self._providers[endpoint])
        except ImportError:
            session.emit(Notice(level=Level.WARNING, text=f"{_MISSING}. {install_hint('otel')}"))
        except UsageError as error:
            session.emit(Notice(level=Level.WARNING, text=error.full_text()))

    async def close(self) -> None:
        while self._providers:
            await asyncio.to_thread(self._providers.popitem()[1].shutdown)
