"""The ports of `core.sessions` as messages: what a client may call, and how arguments and results are written.  No I/O.

What may be called is read from the protocols themselves: through the local socket all but what is kept back, over TCP only what
is marked as open there (`core.remote_marks`).  A message is a JSON object; a frame holds a list of them.  Bytes are written as
`{"$bytes": BASE64}`, an event as its line of the log.

From the client: `{"id": 7, "on": "session:ID", "port": "waiting", "call": "drop", "with": {"index": 0}}`, answered with
`{"re": 7, "ok": …}` or `{"re": 7, "error": {…}}`.  A function among the arguments is a number, which the host calls with
`{"fn": 3, "args": […]}`; one that returns something gets an `id` and answers as the host does.  `{"set": [ON, PORT, NAME],
"value": …}` is a value that the client has read once and that is another now.
"""

from __future__ import annotations

import asyncio
import base64
import collections.abc
import concurrent.futures
import dataclasses
import functools
import hashlib
import inspect
import json
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum, StrEnum
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from lmtui.core import errors
from lmtui.core.errors import ClosedToNetwork, LmtuiError, UsageError
from lmtui.core.events import Envelope, Outcome
from lmtui.core.remote_marks import marks_of
from lmtui.core.sanitize import sanitize_line
from lmtui.core.sessions import Answer, Extensions, Session, SessionHost

PROTOCOL = 2
"""The version of the messages; a host and a client with different ones do not understand each other."""

HOST = "host"
SESSION = "session:"
REVIEW = "review:"


@dataclasses.dataclass(frozen=True, slots=True)
class Hello:
    """The first message of a client: who it is, where it goes, and the settings that it brings."""

    protocol: int
    version: str = ""
    name: str = ""
    folder: str = ""
    session: str = ""
    flags: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class RemoteCall:
    """What is called: on which object, at which port of it, by which name, and with which arguments."""

    on: str
    path: str
    name: str
    given: Mapping[str, Any]


class Kind(StrEnum):
    """How a member of a port is used."""

    PORT = "port"
    VALUE = "value"
    CALL = "call"
    ASYNC = "async"


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """A member of a port, with the types of what it takes and returns.

    A `VALUE` is mirrored by a client.  `required` are the parameters without a default.  `returns` is the port of a returned
    object, None where it returns a value.  `marks` are those of `core.remote_marks`.
    """

    port: type
    name: str
    kind: Kind
    is_property: bool
    parameters: Mapping[str, Any]
    required: Sequence[str]
    result: Any
    returns: type | None
    marks: frozenset[str]

    @property
    def full_name(self) -> str:
        """Return the name with that of the port."""
        return f"{self.port.__name__}.{self.name}"

    def may_be_called(self, *, is_local: bool) -> bool:
        """Tell whether a client may call it, through the local socket or from the network."""
        return self.kind is not Kind.PORT and "kept_back" not in self.marks and (is_local or "open_to_network" in self.marks)


@functools.cache
def members(port: type) -> Mapping[str, Member]:
    """Return what a port has, by name."""
    found = {}
    for name in dir(port):
        attribute = inspect.getattr_static(port, name)
        if not name.startswith("_") and isinstance(attribute, property | types.FunctionType):
            found[name] = _member(port, name, attribute)
    return found


def _member(port: type, name: str, attribute: property | types.FunctionType) -> Member:
    is_property = isinstance(attribute, property)
    function: Any = getattr(attribute, "fget", attribute)
    hints, marks = typing.get_type_hints(function), marks_of(function)
    result = hints.pop("return", type(None))
    returns = _port_in(result)
    origin = typing.get_origin(result)
    if inspect.iscoroutinefunction(function):
        kind = Kind.ASYNC
    elif is_property:
        kind = Kind.PORT if returns else Kind.VALUE
    else:
        kind = Kind.VALUE if "mirrored" in marks else Kind.CALL
    if origin is collections.abc.Iterator:
        result = types.GenericAlias(Sequence, typing.get_args(result)[:1])
    _, *taken = inspect.signature(function).parameters.values()  # without self
    required = [each.name for each in taken if each.default is each.empty]
    return Member(port, name, kind, is_property, hints, required, result, returns, marks)


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)


def _port_in(hint: Any) -> type | None:
    """Return the protocol that a type is, or may be instead of None."""
    return next((each for each in _alternatives(hint) if isinstance(each, type) and getattr(each, "_is_protocol", False)), None)


_OFFERED: dict[str, type] = {}


def learn_ports(ports: Iterable[type]) -> None:
    """Take note of the ports of features, which are called by their names."""
    _OFFERED.update({port.__name__: port for port in ports})


def resolve(root: type, path: str) -> type:
    """Return the port at a path such as `extensions[McpServers]` below a root port; a feature's is named as its type.

    Raises:
        UsageError: there is none.
    """
    port = root
    for name in path.split(".") if path else ():
        member = members(port).get(name)
        found = member.returns if member and member.kind is Kind.PORT else _OFFERED.get(name) if port is Extensions else None
        if found is None:
            raise UsageError(f"no {sanitize_line(path)[:60]} in {root.__name__}")
        port = found
    return port


ROOTS: Mapping[str, type] = {HOST: SessionHost, SESSION: Session}


def check_network(member: Member, given: Mapping[str, Any]) -> None:
    """Refuse what a client on the network may not do: it may give answers, but it is not the user.

    Raises:
        ClosedToNetwork: the member is not open, or these arguments write a rule of the user's or bring a command or plan.
    """
    answer, what = given.get("answer"), ""
    if not member.may_be_called(is_local=False):
        what = member.full_name
    elif isinstance(answer, Answer) and (answer.outcome is Outcome.ALWAYS or answer.edited):
        what = "a rule for always, or another command,"
    elif given.get("edited") is not None:
        what = "another plan"
    if what:
        raise ClosedToNetwork(f"{what} is closed to clients on the network", "Run `lmtui attach` on the host's machine.")


# -- values ------------------------------------------------------------------------------------------------------------


def is_function(hint: Any) -> bool:
    """Tell whether a type is one of functions (or None)."""
    return _function_in(hint) is not None


def _function_in(hint: Any) -> Any:
    return next((each for each in _alternatives(hint) if typing.get_origin(each) is collections.abc.Callable), None)


def function_types(hint: Any) -> tuple[Sequence[Any], Any]:
    """Return the types of what a function takes, and what it returns: of an awaitable its result, None for nothing."""
    takes, returns = typing.get_args(_function_in(hint))
    awaited = typing.get_origin(returns) is collections.abc.Awaitable
    return takes, typing.get_args(returns)[0] if awaited else None


@functools.cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(hint)


def encode(value: Any) -> Any:
    """Return a value as JSON has it."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return {"$bytes": base64.b64encode(value).decode("ascii")}
        case datetime():
            return value.isoformat()
        case Envelope():
            raise TypeError("an event is written by its own encoder")
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {each.name: encode(getattr(value, each.name)) for each in dataclasses.fields(value) if each.init}
        case Mapping():
            return {str(encode(key)): encode(each) for key, each in value.items()}
        case collections.abc.Iterable():
            return [encode(each) for each in value]
        case _:
            return to_jsonable_python(value, timedelta_mode="float")


def decode(hint: Any, value: Any) -> Any:
    """Return a value of a type from what `encode` made of it.

    Raises:
        UsageError: it is not of this type.
    """
    if hint is type(None):
        return None
    try:
        return _adapter(hint).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"{sanitize_line(place)[:80] or 'a value'}: {first['msg']}") from error


def dumps(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return messages as the text of a frame."""
    return json.dumps(messages, separators=(",", ":"))


def digest(value: object) -> bytes:
    """Return what tells a value from others, in the same few bytes whatever its size."""
    return hashlib.sha256(json.dumps(encode(value)).encode()).digest()


def loads(frame: str | bytes) -> list[dict[str, Any]]:
    """Return the messages of a frame.

    Raises:
        UsageError: it is not a list of objects.
    """
    try:
        found = json.loads(frame, object_hook=_bytes_or_dict)
    except (ValueError, RecursionError) as error:
        raise UsageError("a frame is not JSON") from error
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise UsageError("a frame is not a list of objects")
    return found


def _bytes_or_dict(value: dict[str, Any]) -> Any:
    if len(value) == 1 and isinstance(text := value.get("$bytes"), str):
        return base64.b64decode(text)
    return value


# -- errors ------------------------------------------------------------------------------------------------------------

_ERRORS = {each.__name__: each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, LmtuiError)}


def encode_error(error: LmtuiError) -> dict[str, Any]:
    """Return an error as it is sent."""
    plain = (bool, int, float, str, Enum, tuple, type(None))
    own = {key: encode(value) for key, value in vars(error).items() if key != "hint" and isinstance(value, plain)}
    return {"class": type(error).__name__, "message": str(error), "hint": error.hint, "own": own}


def settle(future: asyncio.Future[Any] | concurrent.futures.Future[Any] | None, message: Mapping[str, Any]) -> None:
    """Give a future the result or the error that a message has, unless nobody waits for it any more."""
    if future is None or future.done():
        return
    if "error" in message:
        future.set_exception(decode_error(message["error"]))
    else:
        future.set_result(message.get("ok"))


def decode_error(sent: object) -> LmtuiError:
    """Return the error that was sent, of the same class where this version has it.

    Raises:
        UsageError: it is not an error.
    """
    if not isinstance(sent, Mapping):
        raise UsageError("an error is not an object")
    found = _ERRORS.get(str(sent.get("class")), LmtuiError)
    error = found.__new__(found)
    LmtuiError.__init__(error, str(sent.get("message", "")), str(sent.get("hint", "")))
    own = sent.get("own")
    for key, value in own.items() if isinstance(own, dict) else ():
        if key.startswith("_") or hasattr(Exception, key):
            continue
        hint = typing.get_type_hints(found.__init__).get(key) if found.__init__ is not LmtuiError.__init__ else None
        setattr(error, key, decode(hint, value) if hint is not None else value)
    return error
