"""What is known of the model in use: what its server tells, what was learned of it before, and how it is told to call tools."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Any

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.events import ModelChanged
from lmtui.core.messages import Completion, ModelRequest, ToolCallFormat, ToolChoice
from lmtui.core.servers import BY_HAND, EXAM, LEARNED, ModelKey, ModelProfile, Profiles, ServedModel

_ENOUGH = 2
_TINY_BYTES = 1_250_000_000  # about 1.5 billion parameters at four bits
_OFTEN, _LEAST_SEEN = 3, 6  # one in so many, of at least so many
_SHARE_OF_TOOLS = 0.35
# 400 and 422; some servers fail inside, before the answer or in it
_OF_THE_SCHEMA = frozenset((Fault.REJECTED, Fault.SERVER_ERROR, Fault.STREAM_ERROR))
_LEAST_COUNT = 128  # a server that counts less counts only what it read anew


def _lacks_tools(counted: int, request: ModelRequest) -> bool:
    """Tell whether a prompt was as long as its messages alone, with four characters to a token."""
    messages = sum(len(each.text) for each in request.messages) / 4
    tools = sum(len(each.name) + len(each.description) + len(json.dumps(each.parameters)) for each in request.tools) / 4
    is_telling = counted >= _LEAST_COUNT and tools > messages
    return is_telling and messages / 2 < counted < messages + tools * _SHARE_OF_TOOLS


@dataclass(frozen=True, slots=True)
class FormChange:
    """Another form from the next request on, and why, in words.  `is_proven`: it may be kept for the next time at once."""

    form: ToolCallFormat
    why: str
    is_by_hand: bool = False
    is_proven: bool = False


class ToolCallPolicy:
    """One agent's form of calls.  Native where that works, else text, else text held to a schema; set manually it stays.

    `why` says in words why it is what it is, empty where nothing spoke against calling natively.

    Args:
        by_hand: the form that the settings name for all models.
    """

    def __init__(self, by_hand: ToolCallFormat | None = None) -> None:
        self._setting = by_hand
        self.begin_anew()

    def begin_anew(self) -> None:
        """Start over, for another model is used: as the settings say, else natively."""
        self.form = self._setting or ToolCallFormat.NATIVE
        self.is_by_hand = self._setting is not None
        self.why = "the settings say so" if self._setting else ""
        self.is_known = False
        self._structured = self._recovered = self._malformed = 0
        self._takes_schema = True
        self._next = ToolChoice.AUTO

    def another(self) -> ToolCallPolicy:
        """Return the same for another agent: its form is in use there too, and what was seen of it counts."""
        other = ToolCallPolicy(self._setting)
        other.form, other.why, other.is_by_hand, other.is_known = self.form, self.why, self.is_by_hand, self.is_known
        other._structured, other._recovered, other._takes_schema = self._structured, self._recovered, self._takes_schema
        return other

    def let_go(self, served: ServedModel | None) -> FormChange:
        """Choose by what is known again, whatever was set manually or by the settings; return what that is."""
        self._setting = None
        self.begin_anew()
        return self.begin(ModelProfile(), served) or FormChange(ToolCallFormat.NATIVE, "")

    def take(self, form: ToolCallFormat, why: str = "", *, is_by_hand: bool = False, lets_go: bool = False) -> None:
        """Use a form from now on; what was counted of another does not count for it, and `lets_go` of the settings' one."""
        if lets_go:
            self._setting = None
        if form is not self.form:
            self._structured = self._recovered = self._malformed = 0
        self.form, self.why, self.is_by_hand = form, why, is_by_hand

    def begin(self, profile: ModelProfile, served: ServedModel | None) -> FormChange | None:
        """Start from what is known of the model that is used from now on."""
        self.is_known = profile.call_form is not None
        if self.is_by_hand:
            return None
        if profile.call_form is not None and profile.source == BY_HAND:
            return FormChange(profile.call_form, profile.note, is_by_hand=True)
        if profile.call_form is not None:
            return self._to(profile.call_form, profile.note or "it worked with this model before")
        if served is not None and served.drops_tools:
            return self._to(ToolCallFormat.TEXT, "its chat template has no place for tools")
        if served is not None and 0 < served.size_bytes < _TINY_BYTES:
            return self._to(ToolCallFormat.TEXT, "so small a model does more by a worked example than natively")
        return None

    def see(self, request: ModelRequest, completion: Completion) -> FormChange | None:
        """Take note of an answer; return the change that it asks for."""
        calls = completion.message.tool_calls
        self._structured += any(not call.form for call in calls)
        self._recovered += bool(calls) and all(call.form for call in calls) and not request.hold
        if completion.problem and not calls and not completion.is_unknown_tool:
            self._malformed += 1
            if not request.hold:
                self.hold_next(ToolChoice.REQUIRED)
        if self.is_by_hand:
            return None
        if request.hold:
            return self._see_held(request, completion)
        if self.form is ToolCallFormat.NATIVE:
            return self._see_native(request, completion)
        is_mostly = self._malformed > max(_ENOUGH + self.is_known, self._recovered)
        if self.form is ToolCallFormat.TEXT and is_mostly and self._takes_schema:
            return FormChange(ToolCallFormat.SCHEMA, "most of its calls in the text could not be read")
        return None

    def _see_held(self, request: ModelRequest, completion: Completion) -> FormChange | None:
        """Hold every answer to a schema once that brought a call which the model could not write by itself, too often."""
        worked = request.hold is not ToolChoice.NONE and bool(completion.message.tool_calls)
        written, factor = self._recovered + self._malformed, 1 + self.is_known  # what worked before takes more to be dropped
        is_often = (
            self._malformed >= _ENOUGH * factor and written >= _LEAST_SEEN * factor and self._malformed * _OFTEN >= written
        )
        if worked and is_often and self.form is ToolCallFormat.TEXT:
            return FormChange(ToolCallFormat.SCHEMA, "it could write a call only when it was held to a schema", is_proven=True)
        return None

    def _see_native(self, request: ModelRequest, completion: Completion) -> FormChange | None:
        if self._structured:
            return None
        if self._recovered + self._malformed >= (_ENOUGH if self.is_known else 1):
            why = "it writes its calls as text" if self._recovered else "its calls cannot be read"
            return FormChange(ToolCallFormat.TEXT, why, is_proven=bool(self._recovered))
        if completion.usage and _lacks_tools(completion.usage.prompt_tokens, request):
            return FormChange(ToolCallFormat.TEXT, "the server left the tools out of the prompt")
        return None

    def refused(self, error: ProviderError, request: ModelRequest) -> FormChange | None:
        """Return the way out where a server refuses the form itself, None where the error is about something else."""
        is_schema = request.hold or request.call_form is ToolCallFormat.SCHEMA
        if error.fault in _OF_THE_SCHEMA and is_schema:
            self._takes_schema, self._next = False, ToolChoice.AUTO
            form = ToolCallFormat.TEXT if request.call_form is ToolCallFormat.SCHEMA else request.call_form
            return FormChange(form, "the server takes no JSON schema")
        if error.fault is Fault.NO_TOOLS and request.call_form is ToolCallFormat.NATIVE:
            return FormChange(ToolCallFormat.TEXT, "the server takes no tools for this model", is_proven=True)
        return None

    def hold_next(self, hold: ToolChoice) -> None:
        """Let the server hold the next answer to a schema, if it can."""
        self._next = hold if self._takes_schema else ToolChoice.AUTO

    def take_hold(self) -> ToolChoice:
        """Return what the request that is made now is held to; asked once a request."""
        hold, self._next = self._next, ToolChoice.AUTO
        return hold

    @property
    def worked(self) -> bool:
        """Tell whether the form in use has been seen to work, so that it may be kept for the next time."""
        return bool(self._structured if self.form is ToolCallFormat.NATIVE else self._structured + self._recovered)

    @property
    def is_unsure(self) -> bool:
        """Tell whether an answer without a call may be one that it could not make: nothing is known yet of how it calls."""
        has_called = self._structured or self._recovered
        return not has_called and (self.form is not ToolCallFormat.NATIVE or not self.is_known)

    def _to(self, form: ToolCallFormat, why: str) -> FormChange | None:
        return FormChange(form, why) if form is not self.form else None


_PATIENCE_S = 3.0


class KnownModel:
    """One agent's model.

    Args:
        profiles: where what is learned is kept, None to keep nothing.
        by_hand: the form of calls that the user set, None to choose by what is known.
    """

    def __init__(self, profiles: Profiles | None = None, by_hand: ToolCallFormat | None = None) -> None:
        self._profiles = profiles
        self._key = ModelKey("", "")
        self._seen_before: ToolCallFormat | None = None
        self._is_told = asyncio.Event()
        self._is_told.set()
        self.calling = ToolCallPolicy(by_hand)
        self.profile = ModelProfile()
        self.served: ServedModel | None = None

    def another(self) -> KnownModel:
        """Return the same for another agent that uses the same model now, in the same form of calls."""
        other = KnownModel(self._profiles)
        other.served, other.profile, other._key = self.served, self.profile, self._key
        other._seen_before = self._seen_before
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
        self._seen_before = self.profile.seen_form
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

        A form of calls that the user set for this model or an exam showed is not overwritten, and one from the settings was
        not learned.  Another one than is known, and the schema, is kept after two sessions.
        """
        known, form = self.profile.call_form, changes.get("call_form", self.profile.call_form)
        is_examined = self.profile.source == EXAM and known is not None
        is_protected = self.calling.is_by_hand or self.profile.source == BY_HAND or is_examined
        is_new = form is not known and (known is not None or form is ToolCallFormat.SCHEMA)
        if "source" not in changes and (is_protected or (is_new and form is not self._seen_before)):
            changes = {name: value for name, value in changes.items() if name not in ("call_form", "note")}
            changes |= {} if is_protected else {"seen_form": form}
        elif form is not known:
            changes = {"source": LEARNED, **changes, "seen_form": None}
        profile = replace(self.profile, **changes)
        if profile != self.profile:
            self.profile = profile
            if self._profiles is not None and self._key.url:
                self._profiles.put(self._key, profile)


@dataclass(frozen=True, slots=True)
class ModelOverride:
    """What the session goes back to, and the model that is asked meanwhile."""

    back: ModelChanged
    known: KnownModel
    model: str
