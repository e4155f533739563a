"""Random and structured input of a terminal, cut at every place.

No input may raise, nothing in a paste may be a key, and no reply of the terminal may be one.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from textual import events
from textual.message import Message

from lmtui.tui.terminal_input import END, IDLE_S, REPLY_S, START, TerminalInput, paste_text

ESC = "\x1b"
PAUSES_S = (0.0, 0.15, IDLE_S + 1, REPLY_S + 5)
PIECES = (
    *(ESC, START, END, "\x1b[", "\x1b]", "\x1bP", "\x1b_", "\x1bO", "\x1b[<", "\x1b[?", "\x1b[27;"),
    *("\x07", "\x1b\\", "\x9b", "\x9d", "\x9c", ";", ":", "~", "u", "R", "M", "m", "$y", "t", "[A", "OP"),
    *("0", "1", "13", "72", "104", "200", "201", "55296", "1114112", "99999999999999999999"),
    *("\r", "\n", "\t", "\x00", "\x03", "\x11", "\x15", "\x7f", "!touch x", "y", "é", "\U0001f600", "\ud800", "\ufffd"),
)
REPLIES = (
    *("\x1b]11;rgb:1e1e/1e1e/2e2e\x07", "\x1b]10;rgb:ffff/ffff/ffff\x1b\\", "\x1b]4;1;rgb:cd/00/00\x1b\\"),
    *("\x1b]52;c;IXRvdWNo\x07", "\x1bP>|kitty(0.35.2)\x1b\\", "\x1bP1+r544e=787465\x1b\\", "\x1bP!|00000000\x1b\\"),
    *("\x1b[?62;22c", "\x1b[>1;4000;29c", "\x1b[=0c", "\x1b[?2026;2$y", "\x1b[?2048;0$y", "\x1b[4;1$y", "\x1b[?1u"),
    *("\x1b[?31u", "\x1b[12;40R", "\x1b[0n", "\x1b[I", "\x1b[O", "\x1b[<0;10;10M", "\x1b[<35;999;999m", "\x1b[<64;1;1M"),
    *("\x1b[32;10;10M", "\x1b[M !!", "\x1b[M\x80\x81\x82", "\x1b[<0;-5;-5M", "\x1b_Gi=31;OK\x1b\\", "\x1b^private\x1b\\"),
    *("\x1bXstart\x1b\\", "\x1b[48;40;120;800;1200t", "\x1b[48;0;0;0;0t", "\x1b[48;99999;99999;1;1t", "\x1b[8;40;120t"),
    *("\x1b[104;1:3u", "\x1b[57441;2:3u", "\x9b?62c", "\x9d11;rgb:0/0/0\x9c"),
)


class Terminal:
    """A reader with a clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.reader = TerminalInput(lambda: self.now_s)
        self.events: list[Message] = []

    def send(self, text: str, pause_s: float = 0.0) -> None:
        """Send a piece and wait, as the driver does."""
        self.events += self.reader.feed(text) if text else []
        until = self.now_s + pause_s
        while (wait_s := self.reader.wait_s) is not None and self.now_s + wait_s <= until:
            self.now_s += wait_s
            self.events += self.reader.tick()
        self.now_s = until
        assert self.reader._parser._awaiting.timeout is None, "Textual's parser waits for the rest of a sequence"

    @property
    def keys(self) -> list[str]:
        """Return the keys that came out."""
        return [each.key for each in self.events if isinstance(each, events.Key)]

    @property
    def pasted(self) -> str:
        """Return all pasted text."""
        return "".join(each.text for each in self.events if isinstance(each, events.Paste))


def sent(pieces: Iterable[str], pause_s: float) -> Terminal:
    """Send pieces with pauses, and wait until nothing more can come."""
    terminal = Terminal()
    for piece in pieces:
        terminal.send(piece, pause_s)
    terminal.send("", 60)
    return terminal


def cuts(text: str) -> list[tuple[str, str]]:
    """Return a text cut in two at every place."""
    return [(text[:at], text[at:]) for at in range(len(text))]


def check_random(random: Random) -> None:
    """Send random input cut at every place."""
    text = "".join(
        random.choice(PIECES) if random.random() < 0.7 else chr(random.randrange(256)) for _ in range(random.randint(1, 9))
    )
    pause_s = random.choice(PAUSES_S)
    for pieces in cuts(text):
        terminal = sent(pieces, pause_s)
        terminal.send("\x1b\r", 60)  # whatever was begun is over at a key, and the keyboard still works
        terminal.send("k", 60)
        assert terminal.keys[-1:] == ["k"], (text, pieces, pause_s)


def check_paste(random: Random) -> None:
    """Send a paste cut at every place: it is one text without a key, and keys behind it count."""
    content = "".join(random.choice(PIECES) for _ in range(random.randint(1, 12)))
    whole, has_mark = f"{START}{content}{END}", END in content
    pause_s = 0.0 if has_mark else random.choice(PAUSES_S)
    for pieces in cuts(whole):
        terminal = sent(pieces, pause_s)
        expected = ["escape"] if len(pieces[0]) == 1 and pause_s else []
        assert terminal.keys == expected, (content, pieces, pause_s, terminal.keys)
        if pause_s < IDLE_S:
            found = sum(isinstance(each, events.Paste) for each in terminal.events)
            text = paste_text(content.replace("\ud800", "\ufffd"))
            assert (terminal.pasted, found) == (text, bool(text)), (content, pieces, pause_s, terminal.pasted)
        terminal.send("k", 60)
        assert terminal.keys[-1:] == ["k"], (content, pieces, pause_s)


def check_replies(random: Random) -> None:
    """Send replies between typed text, cut at every place: only what was typed is a key."""
    reply = random.choice(REPLIES)
    for pieces in cuts(reply):
        pause_s = random.choice(PAUSES_S)
        terminal = sent(("a", *pieces, "b"), pause_s)
        expected = ["a", *(["escape"] if pieces[0] == ESC and pause_s else []), "b"]
        if pieces[0] == ESC and pieces[1][0] == "[" and pause_s > REPLY_S:
            continue  # it may be what a user types
        assert terminal.keys == expected, (reply, pieces, pause_s, terminal.keys)
