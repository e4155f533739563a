"""A value in the text of a model, and what it means as a call: the names that models give to the tool and its arguments.

JSON is read with the slips that have one meaning only repaired: raw line breaks and tabs in strings, trailing commas, comments,
single and typographic quotes, names without quotes, Python's True, False and None, doubled braces, escapes that JSON does not
know, closing brackets missing at the end, and quotes inside a string that open behind a space, a bracket or `=` and close
before the string continues.  Nothing else is: a string behind a string, two values for one key, an expression.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from lmtui.core.messages import ToolSpec

_PREFIXES = ("functions.", "function.", "tools.", "tool.", "default_api.", "functions::")
_SENT_TO = re.compile(r"\bto=([\w.\-]+)")
_NUMBERED_NAME = re.compile(r":\d+$")


class ToolNames:
    """Finds tools: exact and own names first; case, `-`, `_` and prefixes as `functions.` do not matter."""

    def __init__(self, specs: Iterable[ToolSpec]) -> None:
        specs = tuple(specs)
        self.specs = tuple(spec for spec in specs if not spec.is_hidden)
        self._hidden = {_plain(name): each for each in specs if each.is_hidden for name in (*each.aliases, each.name)}
        first = self.specs[::-1]  # of two of one name the first is found
        self._found = {_plain(alias): spec for spec in first for alias in spec.aliases}
        self._found |= {_plain(spec.name): spec for spec in first} | {spec.name: spec for spec in first}

    def find(self, name: object) -> ToolSpec | None:
        """Return the tool that a name means, None where there is none."""
        if not isinstance(name, str) or not 0 < len(name) <= 100:
            return None
        sent = _SENT_TO.search(name)
        name = sent[1] if sent else name.strip().partition("<|")[0]
        bare = name
        for prefix in _PREFIXES:
            bare = bare.removeprefix(prefix)
        bare = _NUMBERED_NAME.sub("", bare.removesuffix(".call"))
        found = map(self._found.get, (name, _plain(name), bare, _plain(bare)))
        return next(filter(None, found), None)

    def hidden(self, name: object, arguments: dict[str, object]) -> ToolSpec | None:
        """Return the hidden tool of a name where these are its arguments and no others."""
        spec = self._hidden.get(_plain(name)) if isinstance(name, str) else None
        if spec is None or not has_required(spec, arguments) or not all(own_parameter(spec, each) for each in arguments):
            return None
        return spec


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


def parameters(spec: ToolSpec) -> dict[str, dict[str, object]]:
    """Return a tool's parameters by name, each with its schema."""
    properties = spec.parameters.get("properties")
    if not isinstance(properties, dict):
        return {}
    return {str(name): schema if isinstance(schema, dict) else {} for name, schema in properties.items()}


def required(spec: ToolSpec) -> tuple[str, ...]:
    """Return the names of the parameters that a call must have."""
    names = spec.parameters.get("required")
    return tuple(str(name) for name in names) if isinstance(names, list | tuple) else ()


def own_parameter(spec: ToolSpec, name: str) -> str:
    """Return the own name of a parameter that goes by several, empty where there is none of that name."""
    if name in parameters(spec) or name in spec.argument_aliases:
        return name
    return next((own for own, others in spec.argument_aliases.items() if name in others), "")


def has_required(spec: ToolSpec, names: Iterable[str]) -> bool:
    """Tell whether all that a call must have is among these names, aliases included."""
    given = {own_parameter(spec, name) for name in names}
    return all(name in given for name in required(spec))


def type_of(spec: ToolSpec, name: str) -> str:
    """Return the JSON type of a parameter, empty where unknown."""
    kind = parameters(spec).get(own_parameter(spec, name), {}).get("type")
    return kind if isinstance(kind, str) else ""


MAX_DEPTH = 48

_SPACE = re.compile(r"(?:\s|//[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_QUOTES = "\"'“”"
_STRINGS = {quote: re.compile(rf"{quote}([^{quote}\\]*(?:\\.[^{quote}\\]*)*){quote}", re.DOTALL) for quote in "\"'"}
_STRINGS |= {quote: re.compile(r"[“”]([^”\\]*(?:\\.[^”\\]*)*)”", re.DOTALL) for quote in "“”"}
_WITH_QUOTES = re.compile(
    r'"((?:[^"\\]|\\.'
    r'|(?<=[\s(=\[{,>:])"(?=[\w./<@#$%*~-])[^"\\\n]{0,200}(?<=\S)"(?=[).;!?>/|&<]|[ \t]+[^\s,:}\]"])'
    r')*)"(?=\s*[,}\]])',
    re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z_]\w{0,60}(?=\s*:)")
_DRIVE_PATH = re.compile(r"[A-Za-z]:(?:\\[^\\/:*?\"<>|\r\n]+)+\\?")
_UNKNOWN_ESCAPE = re.compile(r"\\([A-Za-z0-9])")
_LETTER_ESCAPE = re.compile(r"\\[bfnrtu]")
_TRIPLES = {quote * 3: re.compile(rf"{quote * 3}((?:[^\\]|\\.)*?){quote * 3}", re.DOTALL) for quote in "\"'"}
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,300})(?:\.\d{1,300})?(?:[eE][+-]?\d{1,3})?(?![\w.])")
_WORD = re.compile(r"(?:true|false|null|True|False|None)(?!\w)")
_PLAIN_VALUES: dict[str, object] = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": "", "`": "`"}
_KEPT = frozenset("dDwWsSB.()[]{}+*?^$|- #&;<>=@%~!")
_PLAIN = frozenset("\"'\\/")


class UnreadableLiteral(ValueError):
    """The text is not one value with one meaning; `str(error)` says why in a few words."""


class LiteralReader:
    """Reads values out of a text from `at` on.

    Args:
        text: what to read.
        at: where to begin.
        may_close: brackets missing at the end of the text are taken as closed there.
        is_python: the text is a Python call, so strings in triple quotes are strings.
    """

    def __init__(self, text: str, at: int = 0, *, may_close: bool = False, is_python: bool = False) -> None:
        self.text = text
        self.at = at
        self._may_close = may_close
        self._is_python = is_python

    def value(self, depth: int = 0) -> object:
        """Read one value.

        Raises:
            Unreadable: there is none here.
        """
        if depth > MAX_DEPTH:
            raise UnreadableLiteral("it is nested too deep")
        mark = self.peek()
        if mark == "{":
            return self._object(depth)
        if mark == "[":
            return self._list(depth)
        if mark and mark in _QUOTES:
            return self.string()
        for pattern in (_WORD, _NUMBER):
            found = pattern.match(self.text, self.at)
            if found is not None:
                self.at = found.end()
                return _PLAIN_VALUES[found[0]] if pattern is _WORD else json.loads(found[0])
        raise UnreadableLiteral("it ends too early" if not mark else "it holds something that is not a plain value")

    def peek(self) -> str:
        """Skip white space and return the character that follows, empty at the end."""
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.text[self.at : self.at + 1]

    def string(self) -> str:
        """Read one string in quotes."""
        quote = self.text[self.at]
        pattern = _STRINGS[quote]
        if self._is_python and self.text.startswith(quote * 3, self.at):
            pattern = _TRIPLES[quote * 3]
        found = pattern.match(self.text, self.at)
        if found is None:
            raise UnreadableLiteral("a text in it has no closing quote")
        start, self.at = self.at, found.end()
        if self.peek() not in ("", ",", ":", "}", "]", ")"):
            found = None if self._is_python else _WITH_QUOTES.match(self.text, start)
            if found is None:
                raise UnreadableLiteral("a quote inside a text is not escaped")
            self.at = found.end()
        return unescaped(found[1])

    def _object(self, depth: int) -> dict[str, object]:
        self.at += 1
        if self.peek() == "{":
            inner = self._object(depth + 1)
            if self.peek() == "}":
                self.at += 1
            return inner
        found: dict[str, object] = {}
        while (mark := self.peek()) != "}":
            if not mark and self._may_close:
                return found
            key = self._name(mark)
            if self.peek() != ":":
                raise UnreadableLiteral("a name in it has no value")
            self.at += 1
            value = self.value(depth + 1)
            if key in found and found[key] != value:
                raise UnreadableLiteral(f"it gives {key[:40]} twice")
            found[key] = value
            self._comma("}")
        self.at += 1
        return found

    def _name(self, mark: str) -> str:
        """Read the name of a value; the quotes around a word may be missing."""
        if mark and mark in _QUOTES:
            return self.string()
        word = _NAME.match(self.text, self.at)
        if word is None:
            raise UnreadableLiteral("it ends too early" if not mark else "a name in it has no quotes")
        self.at = word.end()
        return word[0]

    def _list(self, depth: int) -> list[object]:
        self.at += 1
        found: list[object] = []
        while (mark := self.peek()) != "]":
            if not mark and self._may_close:
                return found
            found.append(self.value(depth + 1))
            self._comma("]")
        self.at += 1
        return found

    def _comma(self, closer: str) -> None:
        mark = self.peek()
        if mark == ",":
            self.at += 1
        elif mark != closer and not (not mark and self._may_close):
            raise UnreadableLiteral("it ends too early" if not mark else "its commas or brackets do not fit")


def unescaped(text: str) -> str:
    """Return a string's content with its escapes resolved.

    A path that begins with a drive is taken as it is where its backslashes are single; so are escapes that JSON does not know
    where there is none that it knows.

    Raises:
        Unreadable: an escape has no plain meaning.
    """
    if "\\" not in text:
        return text
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        pass
    if _DRIVE_PATH.fullmatch(text):
        return text
    if _LETTER_ESCAPE.search(text) is None:
        text = _UNKNOWN_ESCAPE.sub(r"\\\\\1", text)
    return _ESCAPE.sub(_escape, text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _escape(found: re.Match[str]) -> str:
    code = found[1]
    if len(code) == 5:
        return chr(int(code[1:], 16))
    if code in _SIMPLE:
        return _SIMPLE[code]
    if code in _PLAIN:
        return code
    if code in _KEPT:
        return f"\\{code}"
    raise UnreadableLiteral("it holds an escape that has no meaning")


def read_json(text: str, *, may_close: bool = False) -> object:
    """Return the value of a text: strictly where it is JSON, else with the slips repaired; stray closing brackets are dropped.

    Raises:
        Unreadable: it has no reading, or two.
    """
    try:
        return json.loads(text, strict=False, object_pairs_hook=_pairs)
    except UnreadableLiteral:
        raise
    except (ValueError, RecursionError):
        pass
    reader = LiteralReader(text, may_close=may_close)
    value = reader.value()
    if text[reader.at :].strip("}]) \t\r\n;,>"):
        raise UnreadableLiteral("something follows it")
    return value


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        for key, value in pairs:
            if found[key] != value:
                raise UnreadableLiteral(f"it gives {key[:40]} twice")
    return found


_JSON_TYPES = {"integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,), "object": (dict,)}
_PATHS = frozenset(("path", "file", "cwd"))
_PLACEHOLDER = re.compile(r"<[^<>\n]{1,80}>|\{\{[^{}\n]{1,80}\}\}")
_DRIVE = re.compile(r"[A-Za-z]:[\\\t\r\b\f\n]")
_BACKSLASHED = str.maketrans({"\t": r"\t", "\r": r"\r", "\b": r"\b", "\f": r"\f", "\n": r"\n"})


NO_SUCH_TOOL = "no such tool"


def _typed(value: object, kind: str) -> object:
    """Return a value in the type that a schema asks for, where it has one reading in it; else as it is."""
    if isinstance(value, str) and kind in _JSON_TYPES:
        with contextlib.suppress(UnreadableLiteral):
            found = read_json(value.lower() if kind == "boolean" else value)
            is_sendable = not isinstance(found, float) or math.isfinite(found)
            return found if type(found) in _JSON_TYPES[kind] and is_sendable else value
    return value


NAME_KEYS = ("name", "tool", "tool_name", "function", "function_name", "toolName", "action", "recipient_name")
ARGUMENT_KEYS = ("arguments", "args", "parameters", "params", "input", "tool_input", "action_input", "toolInput", "kwargs")
_BESIDE = frozenset(
    {"type", "id", "call_id", "tool_call_id", "index", "thought", "thoughts", "reasoning", "thinking", "comment"}
)
_SEVERAL = ("tool_calls", "calls", "function_call", "tool_call", "tool_uses")
_TYPES = frozenset(("string", "integer", "number", "boolean", "array", "object"))
_SCHEMA_WORDS = frozenset(("required", "properties", "strict", "description"))
FIRST_KEYS = frozenset((*NAME_KEYS, *ARGUMENT_KEYS, *_BESIDE, *_SEVERAL, "role"))


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A call that was found: a known tool and its arguments."""

    spec: ToolSpec
    arguments: dict[str, object]


@dataclass(frozen=True, slots=True)
class RejectedCall:
    """Something that was meant as a call and is none: why, in a clause, and the tool that it names if that is known."""

    why: str
    spec: ToolSpec | None = None


def meant(spec: ToolSpec, arguments: dict[str, object]) -> ParsedCall | RejectedCall:
    """Return the call of a tool with arguments under their own names, or why that is none.

    What the tool does not know stays, for the tool to say so.
    """
    if not parameters(spec) and not required(spec):
        return ParsedCall(spec, arguments)
    fit: dict[str, object] = {}
    for name, value in arguments.items():
        own = own_parameter(spec, name) or name
        typed = _typed(value, type_of(spec, own))
        if own in _PATHS and isinstance(value, str):
            if _PLACEHOLDER.fullmatch(value):
                return RejectedCall(f"its {own} is a placeholder", spec)
            typed = value.translate(_BACKSLASHED) if _DRIVE.match(value) else value  # a drive's were read as escapes
        if own in fit and fit[own] != typed:
            return RejectedCall(f"it gives {own} twice", spec)
        fit[own] = typed
    missing = [name for name in required(spec) if fit.get(name) is None]
    if missing:
        return RejectedCall(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing", spec)
    return ParsedCall(spec, fit)


def calls_in(value: object, tools: ToolNames, *, is_marked: bool = False) -> list[ParsedCall | RejectedCall]:
    """Return what a value calls; empty where it is data that calls nothing.

    Args:
        value: an object, or a list of them.
        tools: what may be called.
        is_marked: it is between the marks of a call, so that a name alone is one too.
    """
    if isinstance(value, list):
        found = [calls_in(each, tools, is_marked=is_marked) if isinstance(each, dict) else [] for each in value]
        if not is_marked and not all(found):
            return []
        return [each for part in found for each in part]
    if not isinstance(value, dict):
        return []
    for key in _SEVERAL:
        if isinstance(value.get(key), list | dict):
            return calls_in(value[key], tools, is_marked=True)
    inner = value.get("function")
    if isinstance(inner, dict):
        return calls_in(inner, tools, is_marked=is_marked)
    one = _named(value, tools, is_marked=is_marked) or _keyed(value, tools)
    return [one] if one is not None else []


def _named(value: dict[str, object], tools: ToolNames, *, is_marked: bool) -> ParsedCall | RejectedCall | None:
    name_key = next((key for key in NAME_KEYS if isinstance(value.get(key), str)), "")
    if not name_key:
        return None
    argument_key = next((key for key in ARGUMENT_KEYS if key in value and key != name_key), "")
    spec = tools.find(value[name_key])
    if spec is None:
        given = value.get(argument_key)
        is_meant = isinstance(given, dict) and not is_definition(value, argument_key)
        if not isinstance(given, dict) or not is_meant or (name_key == "action" and not is_marked):
            return None
        hidden = tools.hidden(value[name_key], given)
        is_call = hidden is not None and (is_marked or not _is_data(hidden, value))
        return meant(hidden, given) if hidden is not None and is_call else RejectedCall(NO_SUCH_TOOL)
    if argument_key:
        if not is_marked and _is_data(spec, value):
            return None
        if is_definition(value, argument_key):
            return RejectedCall("it describes the tool and does not call it", spec)
        return with_arguments(spec, value[argument_key])
    rest = {key: each for key, each in value.items() if key != name_key and key not in _BESIDE}
    if not rest:
        return ParsedCall(spec, {}) if is_marked and not required(spec) else None
    if has_required(spec, rest) and all(own_parameter(spec, key) for key in rest):
        return meant(spec, rest)
    return None


def _is_data(spec: ToolSpec, value: dict[str, object]) -> bool:
    """Tell whether an object has two names or more that no call has: a package, a record of something."""
    known = {*NAME_KEYS, *ARGUMENT_KEYS, *_BESIDE, *_SCHEMA_WORDS}
    return sum(key not in known and not own_parameter(spec, key) for key in value) >= 2


def is_definition(value: dict[str, object], argument_key: str) -> bool:
    """Tell whether an object is a tool's definition: a schema, or nothing but names of types, is where arguments should."""
    schema = value[argument_key]
    if not isinstance(schema, dict):
        return False
    if schema and all(isinstance(each, str) and each in _TYPES for each in schema.values()):
        return True
    return isinstance(schema.get("properties"), dict) and schema.get("type") == "object"


def with_arguments(spec: ToolSpec, given: object) -> ParsedCall | RejectedCall:
    """Return the call of a tool: its arguments came as an object, as a text that holds one, or as the one text it needs."""
    if isinstance(given, str):
        try:
            inner = read_json(given) if given.lstrip()[:1] == "{" else None
        except UnreadableLiteral as error:
            return RejectedCall(str(error), spec)
        if isinstance(inner, dict):
            return meant(spec, inner)
        needed = required(spec)
        if len(needed) == 1 and type_of(spec, needed[0]) == "string" and given.strip():
            return ParsedCall(spec, {needed[0]: given})
        return meant(spec, {}) if not given.strip() else RejectedCall("its arguments have no names", spec)
    if given is None:
        return meant(spec, {})
    if not isinstance(given, dict):
        return RejectedCall("its arguments have no names", spec)
    return meant(spec, given)


def _keyed(value: dict[str, object], tools: ToolNames) -> ParsedCall | RejectedCall | None:
    """Return the call of an object whose one name is a tool's: `{"read": {"path": …}}`."""
    if len(value) != 1:
        return None
    ((name, arguments),) = value.items()
    spec = tools.find(name)
    if spec is None or not isinstance(arguments, dict) or not has_required(spec, arguments):
        return None
    return meant(spec, arguments) if all(own_parameter(spec, key) for key in arguments) else None
