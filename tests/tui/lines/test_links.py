from __future__ import annotations

from datetime import UTC

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lmtui.core.events import MessageAdded
from lmtui.core.messages import Role
from lmtui.tui.lines.styled_text import link_role, link_target
from lmtui.tui.lines.transcript import Transcript
from tests.sets import for_each
from tests.tui.lines.stage import Stage, envelopes, settled


@for_each(("target", "is_link"), [
    *((each, True) for each in ("https://example.com", "http://127.0.0.1:8080/a?b=c#d", "https://[::1]/x")),
    *((each, True) for each in ("https://e.org/ä b", "https://e.org/\ud800")),
    *((each, False) for each in ("", "file:///etc/passwd", "javascript:alert(1)", "ssh://host", "https://", "//example.com")),
    ("@https://a", False),
])  # fmt: skip
def test_addresses_on_the_web_are_links_and_anything_else_is_text(target: str, is_link: bool) -> None:
    role = link_role(target)
    assert (bool(role), len(role.split())) == (is_link, int(is_link))
    assert not is_link or link_target(role)


@given(st.text())
def test_a_role_never_holds_what_could_end_a_sequence(tail: str) -> None:
    role = link_role(f"https://example.com/{tail}")
    assert role.isprintable()
    assert role.isascii()
    assert " " not in role


async def test_the_terminal_gets_the_address_and_the_reader_sees_it() -> None:
    transcript = Transcript(zone=UTC)
    async with Stage(transcript).run_test(size=(70, 8)) as pilot:
        text = "See [the manual](https://example.com/a) and [this](file:///etc/passwd)."
        for each in envelopes([MessageAdded(role=Role.ASSISTANT, text=text)]):
            transcript.apply(each)
        await settled(pilot)
        console = Console(force_terminal=True, color_system="truecolor")
        drawn = "".join(transcript.render_line(y).render(console) for y in range(8))
        assert ";https://example.com/a\x1b\\" in drawn
        assert "(https://example.com/a)" in drawn
        assert "file:///etc/passwd\x1b\\" not in drawn
