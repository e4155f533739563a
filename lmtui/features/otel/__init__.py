"""Traces of sessions for OpenTelemetry: off unless an address is set, and an extra."""
