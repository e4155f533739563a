"""The user's own keys: `keys.toml` in the folder of the settings, read leniently, and put in place of the table's keys.

    [session]
    new = "ctrl+n"            # the id of a command, cut at its dot, and its key
    list = ["f2", "alt+l"]    # or several; an empty list takes the keys away

What cannot be is named and left out; the rest holds.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from textual.binding import Binding, BindingsMap
from textual.keys import Keys, key_to_character

from lmtui.tui.commands import COMMANDS, Scope, command

MAX_BYTES = 65_536
_MODIFIERS = ("ctrl", "alt", "shift", "super")
_NAMES = {str(each.value) for each in Keys} | {f"f{number}" for number in range(1, 25)}
_SAME_AS = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+h": "backspace", "ctrl+[": "escape"}
_CHARACTERS = {",": "comma", "?": "question_mark", "/": "slash", ".": "full_stop", "+": "plus", "-": "minus", " ": "space"}
_WORKBENCH = frozenset({Scope.APP, Scope.WORKBENCH, Scope.PROMPT, Scope.MOVING, Scope.LINES, Scope.FILES})
_LISTS = frozenset({Scope.SETTINGS, Scope.PICKER, Scope.MOVING})


@dataclass(frozen=True, slots=True)
class Keymap:
    """Keys by command id, in Textual's names, and what was wrong with the file, a line each."""

    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def read_keymap(file: Path) -> Keymap:
    """Read a keymap; a file that is not there is an empty one."""
    try:
        if not file.exists():
            return Keymap()
        if not file.is_file() or file.stat().st_size > MAX_BYTES:
            return Keymap(problems=(f"{file}: not a regular file, or too large; the default keys apply",))
        data = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        return Keymap(problems=(f"{file}: {error}; the default keys apply",))
    problems: list[str] = []
    keys: dict[str, tuple[str, ...]] = {}
    for command_id, value in _flat(data):
        try:
            keys[command_id] = _read(command_id, value)
        except ValueError as error:
            problems.append(f"{file}: {command_id}: {error}")
    for command_id, problem in _collisions(keys):
        del keys[command_id]
        problems.append(f"{file}: {command_id}: {problem}")
    return Keymap(keys, tuple(problems))


def rebind(bindings: BindingsMap, keys: Mapping[str, tuple[str, ...]]) -> None:
    """Put the keymap in use in force on one widget's, screen's or app's own bindings; what it does not name stays as it is."""
    found = bindings.key_to_bindings
    ids = {binding.id for each in found.values() for binding in each}
    scopes = {each.scope for each in COMMANDS if each.id in ids}
    own = [each for each in COMMANDS if each.id in keys and each.scope in scopes]
    for key in list(found):
        found[key] = [binding for binding in found[key] if binding.id not in keys]
        if not found[key]:
            del found[key]
    for each in own:
        for way in each.ways:
            for key in way.bound_keys:
                binding = Binding(key, way.action, way.title, show=False, priority=way.is_first, id=each.id)
                found.setdefault(key, []).insert(0, binding)


def _flat(data: Mapping[str, object], prefix: str = "") -> Iterable[tuple[str, object]]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _read(command_id: str, value: object) -> tuple[str, ...]:
    known = {each.id: each for each in COMMANDS}
    if command_id not in known:
        close = difflib.get_close_matches(command_id, known, n=1)
        raise ValueError("no such command" + (f"; did you mean {close[0]}?" if close else ""))
    if known[command_id].is_fixed:
        raise ValueError(f"keeps its keys ({', '.join(known[command_id].keys)})")
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise ValueError('must be a key such as "ctrl+n", or a list of them')
    return tuple(_key(each) for each in texts if each)


def _key(text: str) -> str:
    lowered = text.lower() if len(text) > 1 else text
    *modifiers, name = lowered.removesuffix("++").split("+") if lowered != "+" else ["+"]
    if lowered.endswith("++"):
        modifiers, name = [*modifiers, name], "+"
    if any(each not in _MODIFIERS for each in modifiers):
        raise ValueError(f"{text!r} is not a key; they are written like f4, ctrl+n, alt+x, shift+f4")
    name = _CHARACTERS.get(name, name)
    key = "+".join((*modifiers, name))
    if key in _SAME_AS:
        raise ValueError(f"terminals send {_SAME_AS[key]} for {text}; choose another key")
    if {"ctrl", "shift"} <= set(modifiers) and len(name) == 1:
        raise ValueError(f"most terminals cannot tell {text} from ctrl+{name}; choose another key")
    if len(name) != 1 and name not in _NAMES and key_to_character(name) is None:
        raise ValueError(f"{text!r} is not a key; they are written like f4, ctrl+n, alt+x, shift+f4")
    return key


def _collisions(keys: Mapping[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    """Return the commands of a keymap whose keys another command of the same place has, and which it is."""
    found: list[tuple[str, str]] = []
    refused: set[str] = set()
    for command_id, own in keys.items():
        one = command(command_id)
        for each in COMMANDS:
            if each.id == command_id or each.id in refused or not _meet(one.scope, each.scope):
                continue
            clash = next((key for key in own if key and key in keys.get(each.id, each.keys)), "")
            if clash:
                found.append((command_id, f"{clash} is already the key of {each.id} ({each.title})"))
                refused.add(command_id)
                break
    return found


def _meet(one: str, other: str) -> bool:
    return one == other or Scope.APP in (one, other) or any({one, other} <= place for place in (_WORKBENCH, _LISTS))
