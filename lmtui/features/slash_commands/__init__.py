"""Slash commands that are Markdown files."""
