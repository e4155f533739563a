"""Sandboxes: a supervisor inside (`guest/`), backends that start it, and the client that the tools talk to."""
