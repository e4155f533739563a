"""What must come before what: which ids are not known, which wait for themselves, and which are still waited for."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from lmtui.core.errors import ToolError
from lmtui.core.plan import Todo

Id = TypeVar("Id", bound=Hashable)


def needs(todos: Sequence[Todo]) -> dict[int, tuple[int, ...]]:
    """Return what must be completed before each todo can be: what it depends on, and its parts."""
    found = {todo.id: list(todo.depends_on) for todo in todos}
    for todo in todos:
        if todo.parent in found:
            found[todo.parent].append(todo.id)
    return {each: tuple(dict.fromkeys(wanted)) for each, wanted in found.items()}


def check_order(todos: Sequence[Todo], kind: str = "todo") -> None:
    """Check that all that is referred to is there and that nothing waits for itself.

    Raises:
        ToolError: an id is there twice, not known, or part of a cycle; the text names it.
    """
    ids = [todo.id for todo in todos]
    twice = sorted({each for each in ids if ids.count(each) > 1})
    if twice:
        raise ToolError(f"{kind} {named(twice)} is there twice")
    known = set(ids)
    for todo in todos:
        unknown = [each for each in (todo.parent, *todo.depends_on) if each and each not in known]
        if unknown:
            raise ToolError(f"{kind} {todo.id} refers to {named(unknown)}, which there is not (there are: {named(ids)})")
    cycle = cycle_of(needs(todos))
    if cycle:
        raise ToolError(f"these {kind}s would wait for one another for ever: {' → '.join(map(str, cycle))}")


def cycle_of(wanted: Mapping[Id, Sequence[Id]]) -> list[Id]:
    """Return the ids of one cycle, the first of them again at the end; empty where there is none."""
    done: set[Id] = set()
    for start in wanted:
        path: list[Id] = []
        on_path: dict[Id, int] = {}
        stack: list[tuple[Id, bool]] = [(start, False)]
        while stack:
            node, is_left = stack.pop()
            if is_left:
                path.pop()
                del on_path[node]
                done.add(node)
            elif node in on_path:
                return [*path[on_path[node] :], node]
            elif node not in done:
                on_path[node] = len(path)
                path.append(node)
                stack.append((node, True))
                stack += [(each, False) for each in reversed(wanted.get(node, ()))]
    return []


def waits_for(todo: Todo, todos: Sequence[Todo]) -> list[int]:
    """Return the open todos that a todo depends on."""
    done = {each.id for each in todos if not each.is_open}
    return [each for each in todo.depends_on if each not in done]


def named(ids: Sequence[int]) -> str:
    """Return ids as a text reads them."""
    return ", ".join(map(str, ids)) or "none yet"
