"""Commands that run in overlays, and what they did."""
