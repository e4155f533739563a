"""Traces of sessions for OpenTelemetry: off unless an address is set, and an extra."""

from __future__ import annotations

from lmtui.registry import Feature

FEATURE = Feature(service="service:TelemetryService")
