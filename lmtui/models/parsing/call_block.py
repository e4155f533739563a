"""A run of calls: their marks, fences and separators, one after another, until something else is there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from lmtui.core.messages import ToolSpec
from lmtui.models.parsing.call_items import GLM_END, OPENING, Found, GemmaItem, Item, JsonItem, PythonItem, TagItem
from lmtui.models.parsing.call_shapes import NO_SUCH_TOOL, ParsedCall, RejectedCall, ToolNames, own_parameter, required
from lmtui.models.parsing.text_formats import (
    FENCE,
    FENCE_MAY_COME,
    FENCES,
    JSON_FENCES,
    WORD,
    TagKind,
    mark_at,
    may_be_mark,
)

_SPACE = re.compile(r"\s*")
_TAG_MAY_COME = re.compile(r"</?(?:(?:[A-Za-z｜|][\w｜|:\-]{0,60}|\|open\|>\w*)(?:[=\s][^<>\n]{0,230})?)?(?:<\|?s?e?p?\|?)?\Z")
_NESTED = re.compile(r"<([A-Za-z_][\w\-]{0,60})>")
_CALL_ID = re.compile(r"\[CALL_ID\]\s*[\w\-]{1,64}\s*")
_CALL_ID_MAY_COME = re.compile(r"\[(?:C(?:A(?:L(?:L(?:_(?:I(?:D(?:\]\s*[\w\-]{0,64}\s*)?)?)?)?)?)?)?)?\Z")
_NUMBER_MAY_COME = re.compile(r":\d{0,4}\Z")
_GEMMA = re.compile(r"call:\s*(?:default_api[:.])?([A-Za-z_][\w.\-]{0,80})(?::[A-Za-z_][\w.\-]{0,80}){0,3}\s*(?=[({])")
_GEMMA_MAY_COME = re.compile(r"call:\s*[\w.\-:]{0,200}\s*\Z")
_GLM_KEY = re.compile(r"<arg_key>|[\w.\-]{1,100}</arg_key>")
_GLM_KEY_MAY_COME = re.compile(r"(?:[\w.\-]{0,100}</?|<)?[a-z_]{0,8}\Z")
_TICKS = re.compile(r"`+")
_WINDOW = 8192
_UNKNOWN = ToolSpec("", "", {})
_MAX_STRAYS = 4


@dataclass(frozen=True, slots=True)
class ParsedEntry:
    """What one item gave: its text as it came, the name of its shape, and the calls in it."""

    raw: str
    form: str
    found: Found


@dataclass(slots=True)
class Fence:
    """The fence around calls: its backticks while it is open; `was_opened` stays.

    In one that `prints`, calls are printed in Python; in one that `is_json_only`, everything else is code.  `is_spoilt`: it
    holds something else too, so it is code.
    """

    ticks: str = ""
    was_opened: bool = False
    prints: bool = False
    is_json_only: bool = False
    is_spoilt: bool = False


class CallBlockParser:
    """Takes text from a place where a call may be.

    Attributes:
        entries: what was found so far.
        is_marked: marks say that these are calls; else it is for the reader to judge.
        is_done: what is at the place where `feed` stopped belongs to it no more.
        thinks: thinking begins there, inside the zone.
        rejected: what an item took that is not a call, None where all are; it is to be read again as text.
        fence: the fence around the calls.
        returned: what an item took to look ahead and does not need.
        item: the call that is being written.
    """

    def __init__(self, tools: ToolNames, *, is_marked: bool = False, form: str = "") -> None:
        self.entries: list[ParsedEntry] = []
        self.is_marked = is_marked
        self.is_done = False
        self.thinks = False
        self.rejected: str | None = None
        self.fence = Fence()
        self.returned = ""
        self.item: Item | None = None
        self._tools = tools
        self._hint: ToolSpec | None = None
        self._form = form
        self._raw: list[str] = []
        self._strays = 0

    @property
    def raw(self) -> str:
        """Return the text as it came, without what was rejected."""
        return "".join(self._raw)

    def expect(self, spec: ToolSpec | None) -> None:
        """Take the next object as the arguments of a tool; None: of one that there is not."""
        self._hint = spec or _UNKNOWN

    def feed(self, text: str, at: int, *, is_final: bool = False, is_cut: bool = False) -> int:
        """Take text from a place on; return where it stopped: at the end if more is needed, behind a call, or when done."""
        count = len(self.entries)
        while not self.is_done and not self.thinks and len(self.entries) == count:
            if (item := self.item) is not None:
                at = self._feed_item(item, text, at, is_final=is_final, is_cut=is_cut)
                if self.item is not None or self.returned:
                    return at
                continue
            space = _SPACE.match(text, at)
            start = space.end() if space else at
            end = start if start >= len(text) else self._step(text, start, is_final=is_final)
            if end < 0:
                return at
            self._raw.append(text[at:end])
            at = end
            if start >= len(text):
                self.is_done = is_final
                return at
        return at

    def _feed_item(self, item: Item, text: str, at: int, *, is_final: bool, is_cut: bool) -> int:
        while at < len(text):
            at += item.feed(text[at : at + _WINDOW])
            if item.is_hopeless or item.is_done:
                self._take_item(item, is_cut=False)
                return at
        if is_final:
            item.finish()
            if item.is_hopeless and is_cut and self.entries and item.raw.startswith("{"):
                self.item = None
            else:
                self._take_item(item, is_cut=is_cut)
            self.is_done = True
        return at

    def _take_item(self, item: Item, *, is_cut: bool) -> None:
        self.item = None
        raw, self.returned = item.raw, item.left
        found = [] if item.is_hopeless else item.found(is_cut=is_cut)
        if self._hint is _UNKNOWN and found:
            found = [RejectedCall(NO_SUCH_TOOL)]
        self._hint = None
        if not found:
            self.rejected, self.is_done = raw, True
            return
        self._raw.append(raw)
        form = "fence" if self.fence.was_opened and item.form == "json" else self._form or item.form
        self.entries.append(ParsedEntry(raw, "tag" if self.is_marked and form == "json" else form, found))
        self._strays = 0

    def _step(self, text: str, at: int, *, is_final: bool) -> int:
        """Take the next token; return where it ends, -1 where more must come first."""
        if self.fence.ticks and self.fence.is_json_only and text[at] not in "{[`":
            self._end()
            return at
        mark = mark_at(text, at)
        if mark is not None:
            return self._take_mark(mark.kind, at, at + mark.size)
        first = text[at]
        if not is_final and may_be_mark(text, at):
            return -1
        if first == "{":
            self.item = self._json()
        elif first == "`":
            return self._take_fence(text, at, is_final=is_final)
        elif first == "<":
            return self._take_tag(text, at, is_final=is_final)
        elif first == "[":
            return self._take_list(text, at, is_final=is_final)
        elif first in "}]),;>" and self.entries and self._strays < _MAX_STRAYS:
            self._strays += 1
            return at + 1
        elif first.isalpha() or first == "_":
            return self._take_word(text, at, is_final=is_final)
        else:
            self._end()
        return at

    def _json(self) -> JsonItem:
        return JsonItem(self._tools, hint=self._hint, is_marked=self.is_marked or self._hint is _UNKNOWN)

    def _take_mark(self, kind: TagKind, at: int, end: int) -> int:
        match kind:
            case TagKind.OPEN | TagKind.SOFT | TagKind.CLOSE | TagKind.SEP:
                self.is_marked = self.is_marked or kind is TagKind.OPEN
                return end
            case TagKind.THINK:
                self.thinks = True
                return at
            case _:
                self._end()
                return at

    def _end(self) -> None:
        """Say that something else is here; inside a fence it is code, and so is all of the fence."""
        self.is_done = True
        self.fence.is_spoilt = bool(self.fence.ticks)

    def _take_fence(self, text: str, at: int, *, is_final: bool) -> int:
        if self.fence.ticks:
            return self._close_fence(text, at, is_final=is_final)
        found = FENCE.match(text, at)
        if not is_final and (found is None or found.end() == len(text)) and FENCE_MAY_COME.match(text, at):
            return -1
        if found is None or found[2].lower() not in FENCES | JSON_FENCES or (self.entries and self._hint is None):
            self._end()
            return at
        language = found[2].lower()
        self.fence = Fence(found[1], was_opened=True, prints=language == "tool_code", is_json_only=language in JSON_FENCES)
        return found.end()

    def _close_fence(self, text: str, at: int, *, is_final: bool) -> int:
        ticks = _TICKS.match(text, at)
        end = ticks.end() if ticks else at
        if end == len(text) and not is_final:
            return -1
        if end - at < len(self.fence.ticks) or text[end : end + 1] not in ("", "\n", "\r", " ", "<"):
            self._end()
            return at
        self.fence.ticks = ""
        return end

    def _take_tag(self, text: str, at: int, *, is_final: bool) -> int:
        found = OPENING.match(text, at)
        if found is not None:
            if found[1] in ("function", "invoke", "tool_call", "function_call", "call") or self._tools.find(
                found[2] or found[3]
            ):
                self.is_marked = True
            self.item = TagItem(self._tools.find(next(group for group in found.groups()[1:] if group)), found[0])
            return at
        nested = _NESTED.match(text, at)
        spec = self._tools.find(nested[1]) if nested else None
        if nested is not None and spec is not None:
            self.item = TagItem(spec, nested[0], rf"</{re.escape(nested[1])}>", is_nested=True)
            return at
        if text[at + 1 : at + 2] == "{":
            return at + 1
        if not is_final and _TAG_MAY_COME.match(text, at):
            return -1
        self._end()
        return at

    def _take_list(self, text: str, at: int, *, is_final: bool) -> int:
        if not is_final and self._hint is not None and _CALL_ID_MAY_COME.match(text, at):
            return -1
        call_id = _CALL_ID.match(text, at)
        if call_id is not None and self._hint is not None:
            return call_id.end()
        inner = text[at + 1 : at + 40].lstrip()
        if not inner and not is_final and len(text) - at < 40:
            return -1
        if inner[:1] == "{":
            self.item = self._json()
        elif (inner[:1].isalpha() or inner[:1] == "_") and not self.fence.is_json_only:
            self.item = PythonItem(self._tools)
        elif inner[:1] == "]" and self.is_marked:
            return at + 1
        else:
            self._end()
        return at

    def _take_family(self, text: str, at: int, end: int, *, is_final: bool) -> int | None:
        """Take a name in the ways of Gemma and GLM; None where it is not one."""
        gemma = _GEMMA.match(text, at)
        if gemma is None and not is_final and _GEMMA_MAY_COME.match(text, at):
            return -1
        spec = self._tools.find(gemma[1] if gemma else text[at:end])
        if spec is None and not self.is_marked:
            return None
        item = GemmaItem(self._tools, spec, is_known=True) if gemma else _glm_at(text, at, end, self._tools, is_final=is_final)
        if item is None or isinstance(item, str):
            return None if item is None else -1
        self.is_marked, self.item = True, item
        return at

    def _take_word(self, text: str, at: int, *, is_final: bool) -> int:
        word = WORD.match(text, at)
        end = word.end() if word else at
        space = _SPACE.match(text, end)
        behind = space.end() if space else end
        if not is_final and (end == len(text) or (behind == len(text) and self.is_marked)):
            return -1
        if not is_final and (_NUMBER_MAY_COME.match(text, end) or _CALL_ID_MAY_COME.match(text, behind)):
            return -1
        spec = self._tools.find(word[0]) if word else None
        next_mark = mark_at(text, behind)
        if not is_final and next_mark is None and behind < len(text) and may_be_mark(text, behind):
            return -1
        if word and word[0] == "functools" and text[end : end + 1] == "[":
            self.is_marked = True
            return end
        if self.fence.prints and word and word[0] == "print" and text[end : end + 1] == "(":
            return end + 1
        if self.is_marked and text.startswith("<|tool_call:name|>", behind):
            return end  # Solar's id of the call
        if (taken := self._take_family(text, at, end, is_final=is_final)) is not None:
            return taken
        is_args = text[behind : behind + 1] in ("{", "`") or bool(_CALL_ID.match(text, behind))
        is_args = is_args or (next_mark is not None and next_mark.kind is TagKind.SEP)
        if text[end : end + 1] == "(" and spec is not None:
            self.item = PythonItem(self._tools)
            return at
        if self._hint is None and is_args and (self.is_marked or (spec is not None and end == behind)):
            name = word[0] if word else ""
            if name.lower() in ("function", "json", "call"):
                return end
            self.expect(spec)
            return end
        if (
            self.is_marked
            and spec is not None
            and not required(spec)
            and next_mark is not None
            and next_mark.kind is TagKind.CLOSE
        ):
            self.entries.append(ParsedEntry(text[at:end], "tag", [ParsedCall(spec, {})]))
            return end
        self._end()
        return at


def _glm_at(text: str, at: int, end: int, tools: ToolNames, *, is_final: bool) -> TagItem | Literal["more"] | None:
    """Return the call of GLM's that a name begins, also where one of its marks is missing; "more" must come to tell.

    Args:
        text: what is read.
        at: where the name is.
        end: where the name ends; a key may be glued to it.
        tools: what may be called.
        is_final: no more comes.
    """
    name = text[at:end]
    if text.startswith("</arg_key>", end):
        glued = [
            TagItem(spec, each, GLM_END)
            for spec in tools.specs
            for each in {spec.name, *spec.aliases}
            if name.startswith(each) and own_parameter(spec, name[len(each) :])
        ]
        return glued[0] if len(glued) == 1 else None
    mark = mark_at(text, end)
    keys = end + (mark.size if mark and mark.kind is TagKind.SEP else 0)
    keys = len(text) - len(text[keys:].lstrip())
    if _GLM_KEY.match(text, keys):
        return TagItem(tools.find(name), text[at:keys], GLM_END)
    return "more" if not is_final and _GLM_KEY_MAY_COME.match(text, keys) else None
