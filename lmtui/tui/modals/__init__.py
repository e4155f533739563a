"""Boxes that ask for one answer."""
