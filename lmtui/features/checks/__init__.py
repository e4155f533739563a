"""Checks: the commands that decide whether a change is right."""
