"""Marks on the members of the ports: what the clients of a host may call, and how.  A host reads them by reflection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])
_MARKS = "remote_marks"


def marks_of(function: object) -> frozenset[str]:
    """Return the names of a member's marks."""
    marks: frozenset[str] = getattr(function, _MARKS, frozenset())
    return marks


def open_to_network(function: _Function) -> _Function:
    """Let clients on the network call it, too: it writes nothing of the user's own and stays in the folder and its sandbox."""
    return _marked(function, "open_to_network")


def mirrored(function: _Function) -> _Function:
    """Let a client keep a copy of what this returns, as of every property: it is read whenever something is drawn."""
    return _marked(function, "mirrored")


def in_thread(function: _Function) -> _Function:
    """Run it in a thread of the host: it reads or writes files."""
    return _marked(function, "in_thread")


def kept_back(function: _Function) -> _Function:
    """Let no client call it: only the process with the sessions can do it, or it is a separate message."""
    return _marked(function, "kept_back")


def _marked(function: _Function, mark: str) -> _Function:
    setattr(function, _MARKS, marks_of(function) | {mark})
    return function
