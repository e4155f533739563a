"""What a terminal sends, as events.  Nothing in a paste is a key, and no sequence becomes keys, wherever reads cut it.

Textual's parser gets only text without escapes and sequences of known form: it types what it does not know as keys.
Sequences are those of ECMA-48, https://sw.kovidgoyal.net/kitty/keyboard-protocol/ and xterm's ctlseqs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

from textual import constants, events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._keyboard_protocol import FUNCTIONAL_KEYS
from textual._time import get_time
from textual._xterm_parser import XTermParser
from textual.keys import _character_to_key
from textual.message import Message

from lmtui.core.sanitize import show_controls

ESC, START, END = "\x1b", "\x1b[200~", "\x1b[201~"
QUIET_S = 0.1  # a paste ends with the last end mark before such a pause: what it holds may look like one
IDLE_S = 2.0  # without an end mark, keys count again after such a pause
REPLY_S = 5.0  # how long a reply may take

_STRINGS = "]PX^_"  # OSC, DCS, SOS, PM, APC
_PLAIN = re.compile(r"[^\x1b]+")
_SEQUENCE = re.compile(
    r"\x1b(?:\[\[[ -~]|\[M[^\x00-\x1f]{3}|\[[0-9]{1,2}\$|\[<[-0-9;]*[Mm]"  # of the Linux console, X10, rxvt, and a mouse
    r"|\[(?![M[])[0-?]*[ -/]*[@-~]|O[ -~]|[]PX^_][^\x00-\x1f\x9c]*(?:\x07|\x9c|\x1b\\)|[^][\x1bOPX^_])",
    re.DOTALL,
)
_BEGINNING = re.compile(r"\x1b(?:\[(?:\[|M[^\x00-\x1f]{0,2}|<[-0-9;]*|[0-?]*[ -/]*)|O|[]PX^_][^\x00-\x1f]*\x1b?)?")
_LONGEST_BEGINNING = 64
_KEY = re.compile(r"\x1b\[([0-9]{0,7})(?::[0-9:]*)?(?:;([0-9]{0,3})(?::([0-9]))?)?(?:;([0-9:]*))?([u~A-HPQS])")
_SIZE, _PIXELS = r"([1-9][0-9]{0,2})(?::[0-9:]*)?", r"([0-9]{1,5})(?::[0-9:]*)?"
_RESIZED = re.compile(rf"\x1b\[48;{_SIZE};{_SIZE};{_PIXELS};{_PIXELS}t")
_REPORT = re.compile(r"\x1b\[(?:[IO]|<[0-9]{1,4};-?[0-9]{1,5};-?[0-9]{1,5}[Mm]|[0-9]{1,5};[0-9]{1,5}R|\?[0-9]{1,5};[0-9]\$y)")
_REPORTS = re.compile(f"(?:{_REPORT.pattern})+")
_SHIFTED = re.compile(r"\x1b\[27;[12];([0-9]{1,7})~")
_MODIFIED = re.compile(r"\x1b\[27;([0-9]{1,3});([0-9]{1,7})~")  # xterm's modifyOtherKeys
_DROPPED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[]PX^_][^\x00-\x1f]{0,4096}(?:\x07|\x1b\\))")
_C1 = {code: f"\x1b{chr(code - 0x40)}" for code in b"\x90\x98\x9b\x9d\x9e\x9f"}
_SURROGATE = re.compile("[\ud800-\udfff]")
_RELEASED, _CTRL, _ENTERS = "3", 4, (13, 57414)
_WITH_ALT = "0123456789!\"#$%&'()*+,-./:;<=>?@`{|}~"  # what begins no longer sequence


class _AltKey(NamedTuple):
    value: str


for _sign in _WITH_ALT:
    cast("dict[str, tuple[_AltKey, ...]]", ANSI_SEQUENCES_KEYS)[f"\x1b{_sign}"] = (_AltKey(f"alt+{_character_to_key(_sign)}"),)


class TerminalInput:
    """Reads what a terminal sends, in pieces of any size.  Call `tick` after `wait_s` seconds without input."""

    def __init__(self, clock: Callable[[], float] = get_time) -> None:
        self._clock = clock
        self._parser = XTermParser()
        self._begun = ""  # the beginning of a sequence
        self._late, self._late_until = "", 0.0  # one that took too long: its rest may still come
        self._paste: list[str] | None = None
        self._has_end = False
        self._due: float | None = None

    @property
    def wait_s(self) -> float | None:
        """Return after how long `tick` has something to do, None for never."""
        return None if self._due is None else max(0.0, self._due - self._clock())

    def feed(self, text: str) -> list[Message]:
        """Return the events of what was read."""
        text = _SURROGATE.sub("\ufffd", text)
        if self._paste is not None and _REPORTS.fullmatch(text):
            return []
        if self._paste is not None and (self._due is not None or self._is_pasted(text)):
            self._add_pasted(text)
            return []
        due, was_string, self._paste, self._due = self._due, _is_string(self._begun), None, None
        found = list(self._keys(self._begun + self._with_late(text)))
        if was_string and _is_string(self._begun):
            self._due = due
        return found

    def tick(self) -> list[Message]:
        """Return the events that a pause makes: a key that begins no sequence, or the end of a paste."""
        if self._due is None or self._clock() < self._due:
            return []
        self._due = None
        if self._paste is not None:
            return list(self._end_paste())
        self._late, self._begun, self._late_until = self._begun, "", self._clock() + REPLY_S
        return list(self._alone(self._late))

    # -- pastes ---------------------------------------------------------------------------------------------------------

    def _add_pasted(self, text: str) -> None:
        assert self._paste is not None
        is_end = END in f"{''.join(self._paste[-len(END) :])[-len(END) + 1 :]}{text}"
        self._paste.append(text)
        self._has_end = self._has_end or is_end
        if is_end or self._due is None or not _is_one_key(text):
            self._due = self._clock() + (QUIET_S if self._has_end else IDLE_S)

    def _end_paste(self) -> Iterator[Message]:
        whole = "".join(self._paste or ())
        pasted, end, rest = whole.rpartition(END) if self._has_end else (whole, "", "")
        self._paste = None
        if not end:  # its rest may still come
            cut = next((size for size in range(len(END) - 1, 0, -1) if whole.endswith(END[:size])), 0)
            pasted, self._paste = whole[: len(whole) - cut], [END[:cut]]
        if text := paste_text(pasted):
            yield events.Paste(text)
        if rest:
            yield from self._keys(rest)

    def _is_pasted(self, text: str) -> bool:
        """Tell whether input is the rest of a paste that stopped without its end: more than the one key of a user."""
        return any(self._paste or ()) or text.startswith(END) or not _is_one_key(text)

    # -- sequences ------------------------------------------------------------------------------------------------------

    def _with_late(self, text: str) -> str:
        """Put the beginning that took too long before its rest; a single character counts as typed."""
        whole, self._late = self._late + text, ""
        is_expected = whole[1:2] in tuple(_STRINGS) or whole.startswith(START) or START.startswith(whole)
        if whole == text or not (is_expected or (whole[1] == "[" and self._clock() < self._late_until)):
            return text
        is_begun = _BEGINNING.fullmatch(whole) is not None
        is_rest = _SEQUENCE.match(whole) is not None or (is_begun and whole[1] == "[")
        if whole == START or (is_rest and (len(text) > 1 or whole[1] in _STRINGS)):
            return whole
        self._late = whole if is_begun and len(text) == 1 else ""
        return text

    def _keys(self, text: str) -> Iterator[Message]:
        head, start, rest = text.replace("\x9b200~", START).partition(START)
        head, at, self._begun = head.translate(_C1), 0, ""
        while at < len(head):
            if found := _PLAIN.match(head, at):
                yield from self._parser.feed(found[0])
                at = found.end()
            elif found := _SEQUENCE.match(head, at):
                yield from self._sequence(found[0])
                at = found.end()
            elif found := _BEGINNING.match(head, at):
                at = found.end()
                if at == len(head) and not start:
                    self._begin(found[0])
                    return
                at -= len(found[0]) > 1 and found[0].endswith(ESC)  # of the next sequence
                if found[0] in (ESC, f"{ESC}O"):
                    yield from self._alone(found[0])
        if start:
            self._paste, self._has_end = [], False
            self._add_pasted(rest)

    def _begin(self, text: str) -> None:
        """Keep the beginning of a sequence, of a string no more than that it is one; one of `[` ends at any letter."""
        self._begun = text[:3] + ESC * text[3:].endswith(ESC) if _is_string(text) else text[:_LONGEST_BEGINNING]
        if text[1:2] != "[":
            self._due = self._clock() + (REPLY_S if _is_string(text) else constants.ESCAPE_DELAY)

    def _alone(self, text: str) -> Iterator[Message]:
        """Yield the key of a beginning that nothing followed."""
        if text == ESC:
            yield events.Key("escape", ESC)
        elif text == f"{ESC}\r":
            yield events.Key("alt+enter", None)
        elif len(text) == 2 and text[1] not in f"[\\{_STRINGS}":
            yield from self._parser._sequence_to_key_events(text[1], alt=True)

    def _sequence(self, text: str) -> Iterator[Message]:
        text = _MODIFIED.sub("\x1b[\\2;\\1u", _SHIFTED.sub("\x1b[\\1;2;\\1u", text))
        if found := _KEY.fullmatch(text):
            yield from self._key(*found.groups(""))
        elif text in ANSI_SEQUENCES_KEYS or _REPORT.fullmatch(text):
            yield from self._parser.feed(text)
        elif found := _RESIZED.fullmatch(text):
            rows, columns, height, width = map(int, found.groups())
            yield from self._parser.feed(f"\x1b[48;{rows};{columns};{max(rows, height)};{max(columns, width)}t")
        else:
            yield from self._alone(text)

    def _key(self, code: str, modifiers: str, kind: str, text: str, end: str) -> Iterator[Message]:
        texts = [each for each in text.split(":") if _is_character(each) and chr(int(each)).isprintable()]
        plain, is_known = f"{ESC}[{code}{end}", f"{code or 1}{end}" in FUNCTIONAL_KEYS
        if kind == _RELEASED:
            return
        if plain in ANSI_SEQUENCES_KEYS and not modifiers:
            yield from self._parser.feed(plain)
        elif is_known or (end == "u" and (texts or _is_character(code))):
            number = code if is_known or _is_character(code) else "0"
            for each in texts or [""]:
                yield from self._parser.feed(f"{ESC}[{number};{modifiers}{';' * bool(each)}{each}{end}")


def _is_string(text: str) -> bool:
    return len(text) > 2 and text[1] in _STRINGS


def _is_one_key(text: str) -> bool:
    return len(text) == 1 or _SEQUENCE.fullmatch(text) is not None


def _is_character(code: str) -> bool:
    return 0 < int(code[:8] or 0) < 0x110000 and not 0xD800 <= int(code[:8]) < 0xE000


def paste_text(text: str) -> str:
    """Return a paste as text: keys in it (tmux sends line ends so) are what they type, other sequences are dropped."""
    text = _DROPPED.sub("", _KEY.sub(_typed, _MODIFIED.sub("\x1b[\\2;\\1u", text)))
    return show_controls(text.replace("\r\n", "\n").replace("\r", "\n"))


def _typed(key: re.Match[str]) -> str:
    code, modifiers, _, text, end = key.groups("")
    if end != "u" or not _is_character(code):
        return ""
    number, has_ctrl = int(code), int(modifiers or "1") - 1 & _CTRL
    number = 0x0A if number in _ENTERS else number & 0x1F if has_ctrl and number < 0x80 else number
    typed = "".join(chr(int(each)) for each in text.split(":") if _is_character(each)) or chr(number)
    return "".join(each for each in typed if each in "\r\n\t" or each.isprintable())


def through_tmux(sequence: str) -> str:
    """Return a control sequence as tmux passes it on to the terminal that it is in."""
    return f"{ESC}Ptmux;{sequence.replace(ESC, ESC + ESC)}{ESC}\\"
