from __future__ import annotations

import os

from lmtui.tui.terminal import LastingOutput


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
