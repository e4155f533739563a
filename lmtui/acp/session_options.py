"""The mode and the model of a session as the editor's selectors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Literal

from acp import schema

from lmtui.commands.session_commands import MODE_NOTES, set_mode
from lmtui.core.errors import UsageError
from lmtui.core.events import ROOT, Envelope, ModelChanged
from lmtui.core.sanitize import sanitize_line
from lmtui.core.servers import ServerFound, short_details
from lmtui.core.sessions import Session, SessionHost

MODE, MODEL = "mode", "model"
_LOOK_S = 1.5
_OWN_MODEL = "(default)"  # which one that is, the server says with its first answer
_Value = tuple[str, str, str | None]
_MODES: list[_Value] = [(str(mode), str(mode).capitalize(), note) for mode, note in MODE_NOTES.items()]
Category = Literal["mode", "model"]
ConfigOption = schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean


def mode_state(session: Session) -> schema.SessionModeState:
    """Return the modes and the one in force."""
    modes = [schema.SessionMode(id=mode, name=name, description=note) for mode, name, note in _MODES]
    return schema.SessionModeState(current_mode_id=str(session.mode), available_modes=modes)


class SessionOptions:
    """The selectors of one session.

    Args:
        host: the host of the session.
        session: the session.
    """

    def __init__(self, host: SessionHost, session: Session) -> None:
        self._host, self._session = host, session
        self._found: Sequence[ServerFound] = ()
        self._url = self._model = ""
        for envelope in session.history():
            self.take(envelope)

    def take(self, envelope: Envelope) -> bool:
        """Take up an event; tell whether the selectors are others now."""
        event = envelope.event
        if not isinstance(event, ModelChanged) or event.role or event.agent != ROOT:
            return event.kind == "mode_changed"
        self._url, self._model = event.url, event.model or event.default_model
        return True

    async def look(self) -> None:
        """Look which models there are, for a short time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S):
                self._found = await self._host.servers.find()

    def listed(self) -> list[ConfigOption]:
        """Return the selectors with their values."""
        about = "When lmtui asks before a tool runs"
        mode = _select((MODE, "Mode", about), "mode", str(self._session.mode), _MODES)
        return [mode, self._models()]

    async def choose(self, option_id: str, value: str | bool) -> None:
        """Set a selector.

        Raises:
            UsageError: the selector or value is unknown, or not possible now.
            ProviderError: the server of the model does not answer.
        """
        option = next((each for each in self.listed() if each.id == option_id), None)
        if not isinstance(option, schema.SessionConfigOptionSelect):
            raise UsageError(f"unknown option {sanitize_line(option_id)!r}; use {MODE} or {MODEL}")
        if value not in {each.value for each in option.options if isinstance(each, schema.SessionConfigSelectOption)}:
            raise UsageError(f"unknown value {sanitize_line(str(value))!r} for option {option_id}")
        if value == option.current_value:
            return
        if option_id == MODE:
            await set_mode(self._session, str(value))
        else:
            url, _, model = str(value).partition(" ")
            await self._host.switch_model(self._session.id, url, model)

    def _models(self) -> ConfigOption:
        current = f"{_root(self._url)} {self._model or _OWN_MODEL}"
        values: dict[str, _Value] = {current: (current, self._model or "The server's own", None)}
        for server in self._found:
            for model in server.chat_models:
                value = f"{_root(server.url)} {model.name}"
                note = f"{sanitize_line(server.kind)}: {sanitize_line(short_details(model))}"
                values[value] = (value, sanitize_line(model.name), note)
        about = "Which model answers from the next request on"
        return _select((MODEL, "Model", about), "model", current, values.values())


def _root(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1")


def _select(own: tuple[str, str, str], category: Category, current: str, values: Iterable[_Value]) -> ConfigOption:
    """Return a selector; `own` are its id, name and description."""
    options = [schema.SessionConfigSelectOption(value=value, name=name, description=note) for value, name, note in values]
    own_id, name, about = own
    return schema.SessionConfigOptionSelect(
        id=own_id, name=name, description=about, category=category, type="select", current_value=current, options=options
    )
