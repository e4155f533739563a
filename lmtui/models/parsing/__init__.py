"""Reads tool calls out of what models write: native, tagged, JSON, Harmony and other forms."""
