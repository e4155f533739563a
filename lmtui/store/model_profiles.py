"""What was learned of models, kept at user level: one JSON file, written whole and in one step."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from lmtui.core.messages import ToolCallFormat
from lmtui.core.servers import ModelKey, ModelProfile
from lmtui.paths import state_dir

_log = logging.getLogger(__name__)
_MAX_FILE_BYTES = 4_000_000
_MAX_PROFILES = 2_000
_MAX_NUMBER = 1e9
_KINDS = {each.name: str(each.type) for each in fields(ModelProfile)}


class ProfileStore:
    """Implements `core.profiles.Profiles`; the file is read when it is first asked.

    A file that cannot be read counts as empty and is kept next to the new one, for nobody should lose an exam to a slip.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.file = file or state_dir() / "models.json"
        self._found: dict[str, dict[str, Any]] | None = None

    def get(self, key: ModelKey) -> ModelProfile:
        """Return what is known of a model; what it says of a value that cannot be is left out."""
        return _profile(self._profiles().get(_name(key), {}))

    def put(self, key: ModelKey, profile: ModelProfile) -> None:
        found = self._profiles()
        found.update(_read(self.file))  # what other processes learned meanwhile stays
        found.pop(_name(key), None)
        found[_name(key)] = {name: value for name, value in asdict(profile).items() if value not in (None, "", 0)}
        while len(found) > _MAX_PROFILES:
            del found[next(iter(found))]
        try:
            write_whole(self.file, json.dumps(found, indent=1, ensure_ascii=False))
        except OSError as error:
            _log.warning("%s cannot be written: %s", self.file, error)

    def _profiles(self) -> dict[str, dict[str, Any]]:
        if self._found is None:
            self._found = _read(self.file)
        return self._found


def _name(key: ModelKey) -> str:
    return "|".join((key.url, key.model, key.quantisation, key.template))


def _read(file: Path) -> dict[str, dict[str, Any]]:
    try:
        if file.stat().st_size > _MAX_FILE_BYTES:
            raise ValueError("it is too large")
        found = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise TypeError("it holds no object")
        return {name: each for name, each in found.items() if isinstance(each, dict)}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, RecursionError) as error:
        _log.warning("%s cannot be read and is put aside: %s", file, error)
        try:
            file.replace(file.with_suffix(".broken"))
        except OSError:
            _log.warning("%s cannot be put aside", file)
        return {}


def write_whole(file: Path, text: str) -> None:
    """Put a text in the place of a file's, in one step.  Blocks.

    Raises:
        OSError: it cannot be written; the file is as it was.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=file.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as target:  # as JSON's escape
            target.write(text)
        Path(name).replace(file)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def _profile(found: dict[str, Any]) -> ModelProfile:
    return ModelProfile(**{name: _VALUES[_KINDS[name]](value) for name, value in found.items() if _fits(name, value)})


_VALUES: Mapping[str, Callable[[Any], Any]] = {
    "str": str, "int": int, "float": float, "ToolCallFormat | None": ToolCallFormat,
}  # fmt: skip


def _fits(name: str, value: object) -> bool:
    """Tell whether a value of the file can be what it is read for."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _MAX_NUMBER
    match _KINDS.get(name):
        case "str":
            return isinstance(value, str)
        case "int":
            return is_number and isinstance(value, int)
        case "float":
            return is_number
        case "ToolCallFormat | None":
            return value in tuple(ToolCallFormat)
        case _:
            return False
