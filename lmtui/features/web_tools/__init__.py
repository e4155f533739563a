"""Fetching web pages as text."""
