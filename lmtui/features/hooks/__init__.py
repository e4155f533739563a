"""Hooks: programs of the user that are called when something happens."""
