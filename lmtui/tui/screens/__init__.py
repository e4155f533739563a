"""Whole screens: the workbench, first run, sessions, help."""
