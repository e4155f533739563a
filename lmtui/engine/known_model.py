"""What is known of the model in use: what its server tells, what was learned of it before, and how it is told to call tools."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from lmtui.core.events import ModelChanged
from lmtui.core.messages import CallForm
from lmtui.core.profiles import BY_HAND, ModelKey, ModelProfile, Profiles
from lmtui.core.servers import ServedModel
from lmtui.engine.calling import Calling, FormChange

_PATIENCE_S = 3.0


class KnownModel:
    """One agent's model.

    Args:
        profiles: where what is learned is kept, None to keep nothing.
        by_hand: the form of calls that the user set, None to choose by what is known.
    """

    def __init__(self, profiles: Profiles | None = None, by_hand: CallForm | None = None) -> None:
        self._profiles = profiles
        self._key = ModelKey("", "")
        self._is_told = asyncio.Event()
        self._is_told.set()
        self.calling = Calling(by_hand)
        self.profile = ModelProfile()
        self.served: ServedModel | None = None

    def another(self) -> KnownModel:
        """Return the same for another agent that uses the same model now, in the same form of calls."""
        other = KnownModel(self._profiles)
        other.served, other.profile, other._key = self.served, self.profile, self._key
        other.calling = self.calling.another()
        return other

    def forget(self) -> None:
        """Know nothing: another model is used, and its server is being asked."""
        self._is_told.clear()
        self.served, self.profile, self._key = None, ModelProfile(), ModelKey("", "")

    def learn(self, url: str, model: str, served: ServedModel | None) -> FormChange | None:
        """Take up what the server told (None: nothing), and what was kept of just this model."""
        self.served = served
        if served is not None:
            self._key = ModelKey(url, model or served.name, served.quantisation, served.template)
        else:
            self._key = ModelKey(url, model)
        if self._profiles is not None:
            self.profile = self._profiles.get(self._key)
        self._is_told.set()
        return self.calling.begin(self.profile, served)

    async def ready(self) -> None:
        """Wait until the server was asked about the model; not for long, and not for one that was never asked about."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._is_told.wait()
        except TimeoutError:
            self._is_told.set()

    def keep(self, **changes: Any) -> None:
        """Take up what was learned now, and keep it for the next time.

        A form of calls that the user set for this model is not overwritten, and one from the settings was not learned.
        """
        is_by_hand = self.calling.is_by_hand or self.profile.source == BY_HAND
        if is_by_hand and "source" not in changes:
            changes = {name: value for name, value in changes.items() if name not in ("call_form", "note")}
        elif changes.get("call_form", self.profile.call_form) is not self.profile.call_form:
            changes = {"source": ModelProfile().source, **changes}
        profile = replace(self.profile, **changes)
        if profile != self.profile:
            self.profile = profile
            if self._profiles is not None and self._key.url:
                self._profiles.put(self._key, profile)


@dataclass(frozen=True, slots=True)
class Borrowed:
    """What the session goes back to, and the model that is asked meanwhile."""

    back: ModelChanged
    known: KnownModel
    model: str
