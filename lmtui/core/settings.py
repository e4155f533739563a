"""The settings as a front end shows and changes them.  Values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting: its value as a person reads it (a secret as dots), where that came from, and a line of help.

    `text` is the value as it may be edited, empty for a secret; `choices` are all it may be, empty where anything may;
    `variables` are its names in the environment.
    """

    name: str
    value: str
    source: str
    doc: str
    text: str = ""
    choices: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    is_list: bool = False


class Settings(Protocol):
    """The settings in force, and the user's own file of them."""

    def rows(self) -> Sequence[SettingRow]:
        """Return every setting, in the order in which they are documented."""

    def change(self, name: str, text: str | None) -> SettingRow:
        """Write a value into the user's own file (None takes it out) and return what is in force then.  Blocks (disk).

        Something stronger, such as a flag, may still win: the row's source says so.  It holds for sessions opened from now on.

        Raises:
            ConfigError: it cannot be that, or it cannot be written; nothing is changed then.
        """
