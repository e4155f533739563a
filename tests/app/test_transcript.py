from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser

from hypothesis import example, given
from hypothesis import strategies as st

from lmtui.app.archive import as_html, as_json, as_markdown, as_text
from lmtui.core.events import (
    ApprovalResolved,
    Envelope,
    Event,
    Level,
    MessageAdded,
    Notice,
    Outcome,
    SessionOpened,
    SessionRenamed,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnReason,
)
from lmtui.core.messages import Role
from tests.sets import for_each

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ATTACK = "</pre><script>alert(1)</script>\x1b]0;owned\x07\x1b[2J\x9b31m\u202egpj.exe<img src=x onerror=alert(1)>\"'&`"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def envelopes(*events: Event, session: str = "20260102_030405_abcdef") -> list[Envelope]:
    return [Envelope(number, NOW, session, event) for number, event in enumerate(events, 1)]


def finished(result: str, **fields: object) -> ToolCallFinished:
    values: dict[str, object] = {"call_id": "c1", "tool": "shell", "ok": True, "elapsed_ms": 7} | fields
    return ToolCallFinished(result=result, **values)  # type: ignore[arg-type]  # the fields are those of the event


def everywhere(text: str) -> list[Envelope]:
    """Return a session in which every foreign text is this one."""
    return envelopes(
        SessionOpened(workspace=text, version=text),
        SessionRenamed(title=text),
        MessageAdded(role=Role.USER, text=text),
        MessageAdded(role=Role.ASSISTANT, text=text),
        ToolCallStarted(call_id="c1", tool=text, arguments={text: text}, title=text),
        ApprovalResolved(approval_id="a1", outcome=Outcome.NO, by=text, feedback=text),
        finished(text, tool=text, summary=text),
        Notice(level=Level.WARNING, text=text),
        TurnEnded(turn_id="t", reason=TurnReason.ERROR, error=text, elapsed_s=1.0),
        session=text,
    )


class _Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


OUR_TAGS = {"html", "meta", "title", "style", "h1", "h2", "h3", "section", "pre", "code", "details", "summary", "p", "em"}


@example(ATTACK)
@given(st.text(alphabet="<>&\"'`/!-ab \n\x1b[]\x9b") | st.text())
def test_no_text_makes_an_element_of_the_page_and_it_loads_nothing(text: str) -> None:
    page = _Page(as_html(everywhere(text)))
    assert page.tags <= OUR_TAGS
    assert page.attributes <= {"lang", "charset", "class"}
    assert text != ATTACK or "<script>alert(1)</script>" in page.text
    assert not re.search(r"(?:src|href)\s*=|url\(|@import", as_html(everywhere("x")))


def test_no_control_sequence_and_no_reordering_comes_through() -> None:
    for write in (as_text, as_markdown, as_html):
        shown = write(everywhere(ATTACK))
        assert CONTROLS.search(shown) is None
        assert "<U+202E>" in shown or "&lt;U+202E&gt;" in shown


@for_each(
    "result",
    ["```\n# owned\n```", "`````\n# owned", "``\x1b[0m`\n# owned", "`\u200b``\n# owned", "\x1b[31m```\x1b[0m\n# owned"],
)
def test_a_tool_result_cannot_leave_its_fence(result: str) -> None:
    lines = as_markdown(envelopes(SessionOpened(workspace="/w", version="1"), finished(result))).splitlines()
    fence = next(line for line in lines if line.startswith("```"))
    inside = lines[lines.index(fence) + 1 : len(lines) - 1 - lines[::-1].index(fence)]
    assert "# owned" in inside
    assert not any(line.strip().startswith(fence) for line in inside)


@for_each("title", ["a`b", "``<img src=x>``", "`", "```"])
def test_a_file_name_cannot_leave_its_code_span(title: str) -> None:
    call = ToolCallStarted(call_id="c", tool="read", arguments={}, title=title)
    line = next(line for line in as_markdown(envelopes(call)).splitlines() if line.startswith("**"))
    marks = re.findall("`+", line)
    assert line.endswith(marks[-1])
    span = line[line.index("** ") + 3 :]
    opening = re.match("`+", span)
    assert opening
    assert opening[0] not in span[len(opening[0]) : -len(opening[0])]


def test_an_export_is_whole() -> None:
    long = "\n".join(f"row {number}" for number in range(400))
    assert "row 399" in as_markdown(envelopes(finished(long)))
    assert "row 399" in as_html(envelopes(finished(long)))


def test_json_keeps_every_event_as_it_was() -> None:
    told = json.loads(as_json(everywhere(ATTACK)))
    assert [each["kind"] for each in told][:2] == ["session_opened", "session_renamed"]
    assert told[1]["title"] == ATTACK
