"""Commands that run in overlays, and their effects."""
