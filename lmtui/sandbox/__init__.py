"""Sandboxes: a supervisor inside (`inside/`), backends that start it, and the client that the tools talk to."""
