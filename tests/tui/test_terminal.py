from __future__ import annotations

import os

from textual import events
from textual._xterm_parser import XTermParser

from lmtui.tui.terminal_app import LastingOutput


def test_what_is_written_after_the_terminal_went_is_dropped() -> None:
    ours, terminals = os.pipe()
    with os.fdopen(terminals, "w", buffering=1) as file:
        output = LastingOutput(file)
        output.write("before\n")
        assert os.read(ours, 100) == b"before\n"
        os.close(ours)
        assert output.write("after\n") == 6
        output.flush()
        assert output.fileno() == terminals
        os.dup2(os.open(os.devnull, os.O_WRONLY), terminals)


def test_alt_with_a_digit_or_a_sign_is_that_key_in_a_plain_terminal() -> None:
    arrived = {sign: list(XTermParser().feed(f"\x1b{sign}x")) for sign in "123.,=-"}
    keys = [event.key for sign in arrived for event in arrived[sign][:1] if isinstance(event, events.Key)]
    assert keys == ["alt+1", "alt+2", "alt+3", "alt+full_stop", "alt+comma", "alt+equals_sign", "alt+minus"]
