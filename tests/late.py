"""Modules that few tests need, and that take each worker a second and 50 MB: loaded by their first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Late:
    """A module by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # pytest looks whether it is a fixture
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)
