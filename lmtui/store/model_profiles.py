"""What was learned of models, kept at user level: one JSON file, written whole and in one step."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from lmtui.core.servers import ModelKey, ModelProfile
from lmtui.paths import state_dir
from lmtui.store.state_files import write_whole

_log = logging.getLogger(__name__)
_MAX_PROFILES = 2_000
_NUMBER = Field(strict=True, gt=0, lt=1e9)


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
        found = json.loads(file.read_text(encoding="utf-8"))
        return {name: each for name, each in found.items() if isinstance(each, dict)}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        _log.warning("%s cannot be read and is put aside: %s", file, error)
        try:
            file.replace(file.with_suffix(".broken"))
        except OSError:
            _log.warning("%s cannot be put aside", file)
        return {}


def _profile(found: Mapping[str, Any]) -> ModelProfile:
    known: dict[str, Any] = {}
    for name in found.keys() & _fields().keys():
        with contextlib.suppress(ValidationError):
            known[name] = _fields()[name].validate_python(found[name])
    return ModelProfile(**known)


@functools.cache
def _fields() -> Mapping[str, TypeAdapter[Any]]:
    """Return what reads each field of a profile."""
    hints = get_type_hints(ModelProfile)
    return {name: TypeAdapter(Annotated[hint, _NUMBER] if hint in (int, float) else hint) for name, hint in hints.items()}
