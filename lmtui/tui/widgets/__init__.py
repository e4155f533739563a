"""Widgets of the workbench that have a bounded size."""
